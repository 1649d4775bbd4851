// Package audit records who did what: in the same transaction as the change
// itself, append-only, with the reason and the correlation id. Refused attempts
// are recorded too.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
	Actor                                                        *string  // part of the name, or the id
	Target                                                       *string  // the name as it is now, or the id
	ActorKinds                                                   []string // none filters nothing
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
		Actor: f.Actor, ActorKinds: append([]string{}, f.ActorKinds...), Targets: []string{},
		AllOrgs: f.Orgs == nil, OrgIds: texts(f.Orgs), PageSize: limit,
	}
	if f.Target != nil {
		named, err := auditdb.New(db).Named(ctx, auditdb.NamedParams{Name: *f.Target, AllOrgs: p.AllOrgs, OrgIds: p.OrgIds})
		if err != nil {
			return nil, fmt.Errorf("look for what is called %s: %w", *f.Target, err)
		}
		p.Targets = append(p.Targets, *f.Target)
		p.Targets = append(p.Targets, named...)
	}
	// Whoever may not read who somebody is cannot find out by asking for them.
	for _, role := range auth.PlatformRoles {
		p.Nameless = append(p.Nameless, string(role))
	}
	if before > 0 {
		p.Before = &before
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

func texts(orgs []id.Org) []string {
	out := make([]string, len(orgs))
	for i, org := range orgs {
		out[i] = org.String()
	}
	return out
}

// ThePlatform is what tenants read in place of the names of people of the platform.
const ThePlatform = "the platform"

// Names are what targets and actors are called now, by kind and id.
type Names map[[2]string]string

func (n Names) target(l Log) string { return n[[2]string{l.TargetKind, l.TargetID}] }

// actor is what the person or the node is called now that did something.
func (n Names) actor(l Log) string {
	return n[[2]string{string(l.ActorKind), strings.TrimPrefix(l.ActorID, "node:")}]
}

// NamesOf reads what the targets and the actors of entries are called now, as far as a reader of these tenants
// may know it; nil is a reader of everything.
func NamesOf(ctx context.Context, db *postgres.DB, logs []Log, orgs []id.Org) (Names, error) {
	var ids []string
	for _, l := range logs {
		ids = append(ids, l.TargetID, strings.TrimPrefix(l.ActorID, "node:"))
	}
	ids = slices.DeleteFunc(ids, func(of string) bool {
		_, err := id.Parse[id.Node](of) // of whatever; some targets have no such id
		return err != nil
	})
	names := Names{}
	if len(ids) == 0 {
		return names, nil
	}
	slices.Sort(ids)
	rows, err := auditdb.New(db).Names(ctx, auditdb.NamesParams{
		Ids: slices.Compact(ids), AllOrgs: orgs == nil, OrgIds: texts(orgs), ThePlatform: ThePlatform,
	})
	if err != nil {
		return nil, fmt.Errorf("read what targets of the audit log are called: %w", err)
	}
	for _, r := range rows {
		names[[2]string{r.Kind, r.ID}] = r.Name
	}
	return names, nil
}
