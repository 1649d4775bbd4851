package httpapitest

import (
	"context"
	"log/slog"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/postgres"
)

// The tokens that the doorman knows. The name of a caller is their token, and
// their id is IDOf(token).
const (
	Root     = "root"     // administrates the platform
	Operator = "operator" // runs machines
	Auditor  = "auditor"  // reads everything
	Member   = "member"   // belongs to a project
	Guest    = "guest"    // is known and has no role
)

// IDOf is the id of the caller with a token.
func IDOf(token string) string { return "user:" + token }

// Doorman lets the callers in whose tokens are the constants of this package. It
// answers everything that an API asks about callers, and keeps no denials.
type Doorman struct{}

// Authenticate says who a token belongs to.
func (Doorman) Authenticate(_ context.Context, token redact.Secret) (*auth.Principal, error) {
	name := token.Reveal()
	p := &auth.Principal{Kind: auth.KindUser, ID: IDOf(name), Name: name}
	switch name {
	case Root:
		p.Platform = auth.PlatformAdmin
	case Operator:
		p.Platform = auth.Operator
	case Auditor:
		p.Platform = auth.Auditor
	case Member:
		p.Projects = map[id.Project]auth.ProjectRole{
			id.New[id.Project](): {Org: id.New[id.Org](), Role: auth.ProjectMember},
		}
	case Guest:
	default:
		return nil, fault.New(fault.Unauthenticated, "token_invalid", "nobody has the token")
	}
	return p, nil
}

// TenantEnabled says that every tenant may ask for something new.
func (Doorman) TenantEnabled(context.Context, id.Org) error { return nil }

// ProjectOrg says that every project belongs to nobody.
func (Doorman) ProjectOrg(context.Context, id.Project) (id.Org, error) { return id.Org{}, nil }

// RecordDenial forgets the denial.
func (Doorman) RecordDenial(context.Context, httpapi.Denial) error { return nil }

// New is an API whose callers the doorman knows, and which limits nobody. The
// test registers the operations of its slice.
func New(db *postgres.DB, change ...func(*httpapi.Config)) *httpapi.API {
	cfg := httpapi.Config{
		Title: "test", Version: "1", Logger: slog.New(slog.DiscardHandler), DB: db,
		Auth: Doorman{}, Projects: Doorman{}, Denials: Doorman{},
		Limits: httpapi.Limits{RequestsPerSecond: 1e6, Burst: 1e6},
	}
	for _, c := range change {
		c(&cfg)
	}
	return httpapi.New(cfg)
}
