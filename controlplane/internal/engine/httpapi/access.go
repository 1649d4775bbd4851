package httpapi

import (
	"errors"
	"fmt"
	"strings"

	"gpuaas/controlplane/internal/engine/auth"
)

// Scope says on what a caller must hold the permission of an operation.
type Scope string

// The scopes.
const (
	ScopePublic        Scope = "public"
	ScopeAuthenticated Scope = "authenticated"
	ScopeAnywhere      Scope = "anywhere"
	ScopePlatform      Scope = "platform"
	ScopeTenant        Scope = "tenant"
	ScopeProject       Scope = "project"
)

// The path parameters that name the target of a scoped operation.
const (
	tenantParam  = "org_id"
	projectParam = "project_id"
)

// Access says who may call an operation. Register refuses the zero value.
type Access struct {
	scope      Scope
	permission auth.Permission
}

// Public admits everybody, known or not.
func Public() Access { return Access{scope: ScopePublic} }

// Authenticated admits every known caller.
func Authenticated() Access { return Access{scope: ScopeAuthenticated} }

// Anywhere admits callers that hold the permission on any target. The handler
// limits its answer to what the caller may see.
func Anywhere(p auth.Permission) Access { return Access{scope: ScopeAnywhere, permission: p} }

// Platform admits callers that hold the permission on the platform.
func Platform(p auth.Permission) Access { return Access{scope: ScopePlatform, permission: p} }

// Tenant admits callers that hold the permission on the tenant of path
// parameter org_id.
func Tenant(p auth.Permission) Access { return Access{scope: ScopeTenant, permission: p} }

// Project admits callers that hold the permission on the project of path
// parameter project_id.
func Project(p auth.Permission) Access { return Access{scope: ScopeProject, permission: p} }

// Scope returns on what the permission must be held.
func (a Access) Scope() Scope { return a.scope }

// Permission returns the permission that is needed. It is empty if none is.
func (a Access) Permission() auth.Permission { return a.permission }

func (a Access) check(path string) error {
	switch a.scope {
	case ScopePublic, ScopeAuthenticated:
		return nil
	case ScopeAnywhere, ScopePlatform:
		return a.needsPermission()
	case ScopeTenant:
		return a.needsParam(path, tenantParam)
	case ScopeProject:
		return a.needsParam(path, projectParam)
	default:
		return errors.New("no access declared")
	}
}

func (a Access) needsPermission() error {
	if a.permission == "" {
		return fmt.Errorf("access %s without a permission", a.scope)
	}
	return nil
}

func (a Access) needsParam(path, param string) error {
	if !strings.Contains(path, "{"+param+"}") {
		return fmt.Errorf("access %s needs path parameter %s", a.scope, param)
	}
	return a.needsPermission()
}
