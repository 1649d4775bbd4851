package definition

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/definition/internal/definitiondb"
)

// Service holds the commands and queries of the package.
type Service struct{ db *postgres.DB }

// New makes the service. It connects to nothing.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// Register keeps a new version as a draft, or activates it at once.
func (s *Service) Register(ctx context.Context, source string, activate bool) (Version, error) {
	d, err := Parse(source)
	if err != nil {
		return Version{}, err
	}
	var made Version
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		made, err = insert(ctx, tx, d, Registered, activate)
		return err
	})
	return made, err
}

func insert(ctx context.Context, tx pgx.Tx, d Definition, origin Origin, activate bool) (Version, error) {
	q := definitiondb.New(tx)
	who := auth.From(ctx).ID
	if err := q.PutType(ctx, definitiondb.PutTypeParams{Type: d.Type, CreatedBy: who}); err != nil {
		return Version{}, fmt.Errorf("insert type of operation: %w", err)
	}
	document, err := d.Canonical()
	if err != nil {
		return Version{}, err
	}
	status := Draft
	if activate {
		if err := activatable(d); err != nil {
			return Version{}, err
		}
		status = Active
	}
	row, err := q.InsertVersion(ctx, definitiondb.InsertVersionParams{
		Type: d.Type, Version: d.Version, Number: number(d.Version), Status: string(status), Document: string(document),
		Digest: digest(document), Origin: string(origin), ByWhom: who,
	})
	if postgres.Violates(err, "operation_definition_versions_pkey") {
		return Version{}, fault.New(fault.Conflict, "operation_definition_exists", "there is a version %s already", d.Ref()).
			WithRemedy("give the document the next version; only a draft can be replaced: " +
				"gpuaas operation definition apply -f FILE")
	}
	if err != nil {
		return Version{}, fmt.Errorf("insert definition %s: %w", d.Ref(), err)
	}
	made, err := from(row)
	if err != nil {
		return Version{}, err
	}
	return made, record(ctx, tx, "operation_definition.register", made)
}

// activatable refuses what nothing can carry out yet.
func activatable(d Definition) error {
	if d.Backend != NodeAgent {
		return fault.New(fault.Conflict, "operation_backend_unavailable",
			"%s cannot be activated: nothing carries out operations of the backend %s yet", d.Ref(), d.Backend).
			WithRemedy("keep it as a draft, or write it for the backend %s", NodeAgent)
	}
	return nil
}

// Replace gives a draft another document. It fails if the version is no longer at
// this revision.
func (s *Service) Replace(ctx context.Context, name Ref, revision int64, source string) (Version, error) {
	var after Version
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, err := lock(ctx, tx, name)
		if err != nil {
			return err
		}
		if before.Revision != revision {
			return stale(before.Revision, revision)
		}
		d, err := Parse(source)
		if err != nil {
			return err
		}
		switch {
		case before.Status != Draft:
			return fault.New(fault.Conflict, "operation_definition_frozen", "%s is %s: its document never changes", name,
				before.Status).WithRemedy("give the document the next version and register that")
		case d.Ref() != name:
			return fault.New(fault.Invalid, "operation_definition_name", "the document is about %s, not about %s", d.Ref(),
				name).
				WithFields(fault.Field{Path: "body.source", Message: "has another type or version"}).
				WithRemedy("register it as a version of its own")
		}
		document, err := d.Canonical()
		if err != nil {
			return err
		}
		row, err := definitiondb.New(tx).ReplaceDraft(ctx, definitiondb.ReplaceDraftParams{
			Type: name.Type, Version: name.Version, Document: string(document), Digest: digest(document),
			ByWhom: auth.From(ctx).ID,
		})
		if after, err = read(name, row, err); err != nil {
			return err
		}
		return record(ctx, tx, "operation_definition.replace", after)
	})
	return after, err
}

func lock(ctx context.Context, tx pgx.Tx, name Ref) (Version, error) {
	row, err := definitiondb.New(tx).LockVersion(ctx,
		definitiondb.LockVersionParams{Type: name.Type, Version: name.Version})
	return read(name, row, err)
}

func stale(newest, based int64) error {
	return fault.New(fault.Stale, "version_stale",
		"it was changed since it was read: the newest revision is %d, the change is based on %d", newest, based).
		WithRemedy("read it again and repeat the change with the new ETag")
}

// Move takes a version to another state. A version is linted again before it becomes
// active: the kinds of steps may have changed since it was written.
func (s *Service) Move(ctx context.Context, name Ref, event Event, reason string) (Version, error) {
	var after Version
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, err := lock(ctx, tx, name)
		if err != nil {
			return err
		}
		to, err := Lifecycle.Next(before.Status, event)
		if err != nil {
			return err
		}
		if event == Activate {
			if err := activatable(before.Definition); err != nil {
				return err
			}
			if err := Lint(before.Definition).fault(); err != nil {
				return err
			}
		}
		row, err := definitiondb.New(tx).MoveVersion(ctx, definitiondb.MoveVersionParams{
			Type: name.Type, Version: name.Version, Status: string(to), Reason: reason, ByWhom: auth.From(ctx).ID,
		})
		if after, err = read(name, row, err); err != nil {
			return err
		}
		return record(ctx, tx, "operation_definition."+string(event), after)
	})
	return after, err
}

func record(ctx context.Context, tx pgx.Tx, action string, v Version) error {
	err := audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "operation_definition", TargetID: v.Ref().String(), Result: audit.Success,
		Metadata: map[string]any{
			"status": v.Status, "digest": v.Digest, "revision": v.Revision, "reason": v.StatusReason, "origin": v.Origin,
		},
	})
	if err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.OperationDefinitionChanged, AggregateKind: "operation_definition", AggregateID: v.Ref().String(),
		Payload: eventwire.OperationDefinition{
			OperationType: v.Type, Version: v.Version, Status: string(v.Status), Digest: v.Digest,
			Revision: v.Revision,
		},
	})
}

// position is where the next page begins.
type position struct {
	Type   string `json:"type"`
	Number int64  `json:"number"`
}

// filter narrows a list.
type filter struct {
	operation string
	status    Status
	runnable  bool
}

// List lists versions, by type and the newest first.
func (s *Service) List(ctx context.Context, f filter, page postgres.Slice[position]) ([]Version, error) {
	p := definitiondb.ListVersionsParams{
		OnlyRunnable: f.runnable, AfterType: page.After.Type, AfterNumber: page.After.Number, PageSize: page.Limit,
	}
	if f.operation != "" {
		p.Type = &f.operation
	}
	if f.status != "" {
		p.Status = (*string)(&f.status)
	}
	rows, err := definitiondb.New(s.db).ListVersions(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list definitions: %w", err)
	}
	out := make([]Version, len(rows))
	for i, r := range rows {
		if out[i], err = from(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Get reads one version.
func (s *Service) Get(ctx context.Context, name Ref) (Version, error) { return Get(ctx, s.db, name) }
