// Package audit records who did what: in the same transaction as the change
// itself, append-only, with the reason and the correlation id. Refused attempts
// are recorded too.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit/internal/auditdb"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
)

// Result is how an audited attempt ended.
type Result string

// The results.
const (
	Success Result = "success"
	Failure Result = "failure"
	Denied  Result = "denied"
)

// Entry is what the caller knows. Record takes the actor, the client's address
// and the correlation id from the context.
type Entry struct {
	Action     string // noun.verb, for example tenant.create
	TargetKind string
	TargetID   string
	Org        id.Org
	Project    id.Project
	Result     Result
	Reason     string
	Metadata   map[string]any // never a secret
}

// Log is one recorded entry.
type Log struct {
	Seq           int64
	ID            string
	OccurredAt    time.Time
	ActorKind     auth.Kind
	ActorID       string
	ActorName     string
	ActorRole     auth.Role
	Action        string
	TargetKind    string
	TargetID      string
	Org           id.Org
	Project       id.Project
	Result        Result
	Reason        string
	CorrelationID string
	ActorAddr     string
	Metadata      json.RawMessage
}

// Record writes an entry as part of a transaction.
func Record(ctx context.Context, tx pgx.Tx, e Entry) error {
	who := auth.From(ctx)
	metadata, err := json.Marshal(e.Metadata)
	if err != nil {
		return fmt.Errorf("encode audit metadata of %s: %w", e.Action, err)
	}
	if e.Metadata == nil {
		metadata = []byte("{}")
	}
	err = auditdb.New(tx).Insert(ctx, auditdb.InsertParams{
		ID:        id.NewString(),
		ActorKind: string(who.Kind), ActorID: who.ID, ActorName: who.Name,
		ActorRole: who.ActsAs(auth.Target{Org: e.Org, Project: e.Project}),
		Action:    e.Action, TargetKind: e.TargetKind, TargetID: e.TargetID, OrgID: e.Org, ProjectID: e.Project,
		Result: string(e.Result), Reason: e.Reason, CorrelationID: telemetry.Correlation(ctx),
		ActorIp: telemetry.ClientAddr(ctx), Metadata: metadata,
	})
	if err != nil {
		return fmt.Errorf("record audit of %s: %w", e.Action, err)
	}
	return nil
}

// Filter filters a listing. A nil field filters nothing.
type Filter struct {
	Action, ActorID, TargetKind, TargetID, Result, CorrelationID *string
	Since, Until                                                 *time.Time
	// Orgs keeps only entries of these tenants. Nil means all, empty means
	// none.
	Orgs []id.Org
}

// List reads entries before a sequence number, newest first. 0 begins at the
// newest.
func List(ctx context.Context, db *postgres.DB, f Filter, before int64, limit int32) ([]Log, error) {
	p := auditdb.ListParams{
		Action: f.Action, ActorID: f.ActorID, TargetKind: f.TargetKind, TargetID: f.TargetID, Result: f.Result,
		CorrelationID: f.CorrelationID, Since: f.Since, Until: f.Until,
		AllOrgs: f.Orgs == nil, OrgIds: []string{}, PageSize: limit,
	}
	// Whoever may not read who somebody is cannot find out by asking for them.
	for _, role := range auth.PlatformRoles {
		p.Nameless = append(p.Nameless, string(role))
	}
	if before > 0 {
		p.Before = &before
	}
	for _, org := range f.Orgs {
		p.OrgIds = append(p.OrgIds, org.String())
	}
	rows, err := auditdb.New(db).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list audit logs: %w", err)
	}
	logs := make([]Log, len(rows))
	for i, r := range rows {
		logs[i] = Log{
			Seq: r.Seq, ID: r.ID, OccurredAt: r.OccurredAt, ActorKind: auth.Kind(r.ActorKind), ActorID: r.ActorID,
			ActorName: r.ActorName, ActorRole: auth.Role(r.ActorRole), Action: r.Action, TargetKind: r.TargetKind,
			TargetID: r.TargetID, Org: r.OrgID, Project: r.ProjectID, Result: Result(r.Result), Reason: r.Reason,
			CorrelationID: r.CorrelationID, ActorAddr: r.ActorIp, Metadata: r.Metadata,
		}
	}
	return logs, nil
}
