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

// NewServiceAccount is what a new one is made of.
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

// ServiceAccountChange is what may be changed; nil leaves a field as it is.
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

// applied is the account after the change. Asking for the status it already
// has is no event.
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
