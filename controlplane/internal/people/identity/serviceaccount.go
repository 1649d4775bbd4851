package identity

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
)

// ServiceAccount is a program that acts in one project, with one role.
type ServiceAccount struct {
	ID                   id.ServiceAccount
	Project              id.Project
	Name                 string
	Role                 auth.Role
	Status               ServiceAccountStatus
	Version              int64
	CreatedAt, UpdatedAt time.Time
}

// NewServiceAccount describes a service account to add.
type NewServiceAccount struct {
	Name string
	Role auth.Role
}

func (n NewServiceAccount) check() error {
	if err := checkName(n.Name); err != nil {
		return err
	}
	return checkProjectRole(n.Role)
}

// ServiceAccountChange describes a change. Nil fields stay as they are.
type ServiceAccountChange struct {
	Role   *auth.Role
	Status *ServiceAccountStatus
}

func (c ServiceAccountChange) check() error {
	if c.Role != nil {
		if err := checkProjectRole(*c.Role); err != nil {
			return err
		}
	}
	if c.Status != nil && *c.Status != ServiceAccountActive && *c.Status != ServiceAccountDisabled {
		return rejected([]fault.Field{{Path: "body.status", Message: "must be active or disabled"}})
	}
	return nil
}

// applied returns the account after the change. Asking for the status that the
// account has already is allowed.
func (c ServiceAccountChange) applied(a ServiceAccount) (ServiceAccount, error) {
	if c.Role != nil {
		a.Role = *c.Role
	}
	if c.Status == nil || *c.Status == a.Status {
		return a, nil
	}
	event := ServiceAccountEnable
	if *c.Status == ServiceAccountDisabled {
		event = ServiceAccountDisable
	}
	next, err := ServiceAccountLifecycle.Next(a.Status, event)
	if err != nil {
		return a, err
	}
	a.Status = next
	return a, nil
}
