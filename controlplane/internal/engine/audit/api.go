package audit

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/postgres"
)

// LogEntry is one entry of the audit log.
type LogEntry struct {
	ID            string          `json:"id" format:"uuid"`
	OccurredAt    time.Time       `json:"occurred_at"`
	ActorKind     string          `json:"actor_kind" enum:"user,service_account,node,system,anonymous"`
	ActorID       string          `json:"actor_id"`
	ActorName     string          `json:"actor_name"`
	ActorRole     string          `json:"actor_role" doc:"strongest role the actor held on the target"`
	ActorAddress  string          `json:"actor_address,omitempty"`
	Action        string          `json:"action" example:"tenant.create"`
	TargetKind    string          `json:"target_kind"`
	TargetID      string          `json:"target_id"`
	TargetName    string          `json:"target_name,omitempty" doc:"What the target is called now; absent: it has no name, or the caller may not see it."`
	Sentence      string          `json:"sentence" doc:"Who did what to what." example:"Ada quarantined node c07u31."`
	OrgID         *id.Org         `json:"org_id,omitempty"`
	ProjectID     *id.Project     `json:"project_id,omitempty"`
	Result        string          `json:"result" enum:"success,failure,denied"`
	Reason        string          `json:"reason,omitempty"`
	CorrelationID string          `json:"correlation_id"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
}

type listInput struct {
	httpapi.Page
	Action        string    `query:"action" doc:"only this action, such as tenant.create"`
	ActorID       string    `query:"actor_id" doc:"only what this actor did"`
	Actor         string    `query:"actor" maxLength:"253" doc:"only what actors did whose name contains this, or whose id it is"`
	ActorKinds    []string  `query:"actor_kinds,explode" maxItems:"5" enum:"user,service_account,node,system,anonymous" doc:"only what actors of these kinds did; repeated"`
	TargetKind    string    `query:"target_kind" doc:"only targets of this kind"`
	TargetID      string    `query:"target_id" doc:"only this target"`
	Target        string    `query:"target" maxLength:"253" doc:"only targets that are called so, or have this id: a host name, the slug of a tenant or project, the name or e-mail address of a person, the name of a site"`
	Result        string    `query:"result" enum:"success,failure,denied" doc:"only attempts that ended so"`
	CorrelationID string    `query:"correlation_id" doc:"only what one request caused"`
	Since         time.Time `query:"since" doc:"at or after this time"`
	Until         time.Time `query:"until" doc:"before this time"`
}

type listOutput struct {
	Body httpapi.List[LogEntry]
}

type cursor struct {
	Before int64 `json:"b"`
}

// Register adds the operations of the audit log.
func Register(api *httpapi.API, db *postgres.DB) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-audit-logs", Method: http.MethodGet, Path: "/api/v1/admin/audit-logs", Tag: "Audit",
		Summary: "List the audit log, newest first",
		Description: "Holders of a role on the platform see everything; tenant admins see what concerns their tenants, and " +
			"of what people of the platform did neither who they are nor their words.",
		Access: httpapi.Anywhere(auth.AuditRead),
	}, func(ctx context.Context, in *listInput) (*listOutput, error) { return list(ctx, db, in) })
}

func list(ctx context.Context, db *postgres.DB, in *listInput) (*listOutput, error) {
	var c cursor
	if _, err := in.After(&c); err != nil {
		return nil, err
	}
	f := Filter{
		Action: given(in.Action), ActorID: given(in.ActorID), TargetKind: given(in.TargetKind), TargetID: given(in.TargetID),
		Actor: given(in.Actor), ActorKinds: in.ActorKinds, Target: given(in.Target),
		Result: given(in.Result), CorrelationID: given(in.CorrelationID), Since: given(in.Since), Until: given(in.Until),
	}
	if who := auth.From(ctx); !who.SeesAll(auth.AuditRead) {
		f.Orgs = append([]id.Org{}, who.OrgsWith(auth.AuditRead)...)
	}
	logs, err := List(ctx, db, f, c.Before, in.Limit())
	if err != nil {
		return nil, err
	}
	page := httpapi.NewList(in.Page, logs, func(l Log) any { return cursor{Before: l.Seq} })
	out := &listOutput{Body: httpapi.List[LogEntry]{NextCursor: page.NextCursor}}
	names, err := NamesOf(ctx, db, page.Items, f.Orgs)
	if err != nil {
		return nil, err
	}
	for _, l := range page.Items {
		if f.Orgs != nil {
			l = forTenants(l, names)
		}
		out.Body.Items = append(out.Body.Items, wire(l, names))
	}
	return out, nil
}

// forTenants is an entry as a tenant may read it. Operators write for each other: what
// they say may be about machines and other tenants, and who they are is the platform's
// own affair, also of one who acted as a member of the tenant.
func forTenants(l Log, names Names) Log {
	of := names.actor(l)
	if slices.Contains(auth.PlatformRoles, l.ActorRole) && l.ActorKind != auth.KindSystem {
		l.Reason, l.Metadata, of = "", nil, ThePlatform
	}
	if of == ThePlatform {
		l.ActorID, l.ActorName, l.ActorAddr = "", ThePlatform, ""
	}
	return l
}

func wire(l Log, names Names) LogEntry {
	target := names.target(l)
	return LogEntry{
		ID: l.ID, OccurredAt: l.OccurredAt, ActorKind: string(l.ActorKind), ActorID: l.ActorID, ActorName: l.ActorName,
		ActorRole: string(l.ActorRole), ActorAddress: l.ActorAddr, Action: l.Action, TargetKind: l.TargetKind,
		TargetID: l.TargetID, TargetName: target, Sentence: l.Sentence(names.actor(l), target),
		OrgID: given(l.Org), ProjectID: given(l.Project), Result: string(l.Result), Reason: l.Reason,
		CorrelationID: l.CorrelationID, Metadata: l.Metadata,
	}
}

// given returns nil for a zero value.
func given[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Denials records refused attempts, for httpapi.
type Denials struct{ DB *postgres.DB }

// RecordDenial writes a refused attempt in its own transaction: there is no
// change that it could belong to.
func (d Denials) RecordDenial(ctx context.Context, denial httpapi.Denial) error {
	return d.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return Record(ctx, tx, Entry{
			Action: "authz.deny", TargetKind: "operation", TargetID: denial.OperationID,
			Org: denial.Target.Org, Project: denial.Target.Project, Result: Denied, Reason: denial.Reason,
			Metadata: map[string]any{"method": denial.Method, "path": denial.Path, "permission": denial.Permission},
		})
	})
}
