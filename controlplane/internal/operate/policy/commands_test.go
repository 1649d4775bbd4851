package policy_test

import (
	"context"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/operate/policy"
)

func TestTheChainIsReadFromAllLevelsAndGuardedByVersions(t *testing.T) {
	db := postgrestest.New(t)
	ctx := auth.With(t.Context(), &auth.Principal{Kind: auth.KindUser, ID: "ann", Platform: auth.PlatformAdmin})
	tenant := policy.Owner{Org: id.New[id.Org]()}
	project := policy.Owner{Org: tenant.Org, Project: id.New[id.Project]()}
	other := policy.Owner{Org: id.New[id.Org]()}
	if _, err := db.Exec(ctx, `WITH acme AS (INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme'), ($3, 'other', 'Other')),
		kind AS (INSERT INTO operation_definitions (type, created_by) VALUES ('web.prepare', 'ann'))
		INSERT INTO projects (id, org_id, slug, name) VALUES ($2, $1, 'training', 'Training')`,
		tenant.Org, project.Project, other.Org); err != nil {
		t.Fatal(err)
	}
	s := policy.New(db)
	set := func(ctx context.Context, of policy.Owner, kind string, version int64, v policy.Values) error {
		_, _, err := s.Set(ctx, of, kind, version, v, "because")
		return err
	}
	for name, err := range map[string]error{
		"the platform": set(ctx, policy.Owner{}, policy.AllTypes, 0, policy.Values{MaxConcurrency: new(int64(10))}),
		"the tenant": set(ctx, tenant, "web.prepare", 0, policy.Values{
			MaxConcurrency: new(int64(20)),
			TargetKinds:    &[]string{"node"},
		}),
		"the project": set(ctx, project, "web.prepare", 0, policy.Values{
			MaxConcurrency: new(int64(3)),
			TargetKinds:    &[]string{},
		}),
		"somebody else": set(ctx, other, "web.prepare", 0, policy.Values{MaxConcurrency: new(int64(1))}),
	} {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, row := range map[string]struct {
		of      policy.Owner
		most    int64
		by      policy.Scope
		targets int
	}{
		"the project":  {project, 3, policy.Project, 0},
		"the tenant":   {tenant, 10, policy.Global, 1},
		"the platform": {policy.Owner{}, 10, policy.Global, -1},
	} {
		e, err := policy.Get(ctx, db, row.of, "web.prepare")
		if err != nil || e.MaxConcurrency != row.most || decision(e, policy.MaxConcurrency).Scope != row.by {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if row.targets < 0 != (e.TargetKinds == nil) || row.targets >= 0 && len(e.TargetKinds) != row.targets {
			t.Errorf("%s: kinds %v", name, e.TargetKinds)
		}
	}
	for name, row := range map[string]struct {
		err  error
		kind fault.Kind
	}{
		"another version":   {set(ctx, tenant, "web.prepare", 7, policy.Values{}), fault.Stale},
		"no such operation": {set(ctx, tenant, "web.other", 0, policy.Values{}), fault.NotFound},
		"no such tenant":    {set(ctx, policy.Owner{Org: id.New[id.Org]()}, "*", 0, policy.Values{}), fault.NotFound},
		"a tenant denies":   {set(ctx, tenant, "web.prepare", 1, policy.Values{HardDeny: true}), fault.Invalid},
		"zero at a time": {
			set(ctx, tenant, "web.prepare", 1, policy.Values{MaxConcurrency: new(int64(0))}),
			fault.Invalid,
		},
		"unknown kind": {
			set(ctx, tenant, "web.prepare", 1, policy.Values{TargetKinds: &[]string{"rack"}}),
			fault.Invalid,
		},
		"source with a space": {
			set(ctx, tenant, "web.prepare", 1, policy.Values{ArtifactSources: &[]string{"a b"}}),
			fault.Invalid,
		},
		"nothing to take back": {s.Remove(ctx, other, policy.AllTypes), fault.NotFound},
	} {
		if row.err == nil || fault.KindOf(row.err) != row.kind {
			t.Errorf("%s: %v, want %s", name, row.err, row.kind)
		}
	}
	if err := s.Remove(ctx, project, "web.prepare"); err != nil {
		t.Fatal(err)
	}
	if e, err := policy.Get(ctx, db, project, "web.prepare"); err != nil || e.MaxConcurrency != 10 {
		t.Errorf("after the removal: %+v, %v", e, err)
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM audit_logs WHERE action = 'operation_policy.set'`:            4,
		`SELECT count(*) FROM audit_logs WHERE action = 'operation_policy.remove'`:         1,
		`SELECT count(*) FROM outbox_events WHERE event_type = 'operation_policy.changed'`: 5,
	} {
		var got int
		if err := db.QueryRow(ctx, query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v", query, got, err)
		}
	}
}

// The rights of roles, row by row: the platform manages definitions and its own
// policy, administrators of tenants manage policies, roles of projects only read.
func TestWhoManagesAndWhoReads(t *testing.T) {
	for _, row := range []struct {
		role                                          auth.Role
		readDefinition, define, readPolicy, setPolicy bool
	}{
		{auth.PlatformAdmin, true, true, true, true},
		{auth.Operator, true, false, true, false},
		{auth.Auditor, true, false, true, false},
		{auth.TenantAdmin, true, false, true, true},
		{auth.ProjectAdmin, true, false, true, false},
		{auth.ProjectMember, true, false, true, false},
		{auth.ProjectViewer, true, false, true, false},
	} {
		for p, want := range map[auth.Permission]bool{
			auth.OperationDefinitionRead: row.readDefinition, auth.OperationDefinitionManage: row.define,
			auth.OperationPolicyRead: row.readPolicy, auth.OperationPolicyManage: row.setPolicy,
		} {
			if auth.Grants(row.role, p) != want {
				t.Errorf("%s has %s: want %v", row.role, p, want)
			}
		}
	}
}
