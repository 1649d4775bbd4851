package policy

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/policy/internal/policydb"
)

// Service holds the commands and queries of the package.
type Service struct {
	db             *postgres.DB
	evaluationTime time.Duration // of a document over one request
	last           compiled
}

// New makes the service. It connects to nothing.
func New(db *postgres.DB, options ...func(*Service)) *Service {
	s := &Service{db: db, evaluationTime: evaluationTime}
	for _, set := range options {
		set(s)
	}
	return s
}

// EvaluateWithin sets how long a policy document may take over one request.
func EvaluateWithin(most time.Duration) func(*Service) {
	return func(s *Service) { s.evaluationTime = most }
}

// Set replaces what a level has settled about a type of operation, or about all; what
// is nil is not settled by it any more. It fails if the level is no longer at this
// version.
func (s *Service) Set(
	ctx context.Context, of Owner, operation string, version int64, v Values, reason string,
) (Override, Effective, error) {
	var now Override
	var effective Effective
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, err := s.before(ctx, tx, of, operation, version)
		if err != nil {
			return err
		}
		if err := v.check(of.Scope()); err != nil {
			return err
		}
		row, err := policydb.New(tx).Put(ctx, policydb.PutParams{
			OperationType: operation, Scope: string(of.Scope()), OrgID: of.Org, ProjectID: of.Project, HardDeny: v.HardDeny,
			Enabled: v.Enabled, MaxConcurrency: v.MaxConcurrency, TimeoutSeconds: v.TimeoutSeconds,
			AllowedArtifactSources: stored(v.ArtifactSources), AllowedTargetKinds: stored(v.TargetKinds),
			RequireSignatureVerification: v.RequireSignature, MaxArtifactSizeBytes: v.MaxArtifactSize, Reason: reason,
			UpdatedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("set operation policy: %w", err)
		}
		now = from(row)
		if err := record(ctx, tx, "operation_policy.set", before, now); err != nil {
			return err
		}
		effective, err = Get(ctx, tx, of, operation)
		return err
	})
	return now, effective, err
}

// Remove takes back what a level has settled.
func (s *Service) Remove(ctx context.Context, of Owner, operation string) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := policydb.New(tx)
		if err := q.LockChain(ctx, of.Org.String()); err != nil {
			return fmt.Errorf("lock operation policies: %w", err)
		}
		before, err := level(ctx, tx, of, operation)
		if err != nil {
			return err
		}
		if before.Version == 0 {
			return fault.New(fault.NotFound, "not_found", "the %s has settled nothing about %s", of.Scope(), operation).
				WithRemedy("see what is settled: gpuaas operation policy show")
		}
		if _, err := q.Remove(ctx, policydb.RemoveParams{
			OperationType: operation, OrgID: of.Org, ProjectID: of.Project,
		}); err != nil {
			return fmt.Errorf("remove operation policy: %w", err)
		}
		return record(ctx, tx, "operation_policy.remove", before, Override{Owner: of, Type: operation})
	})
}

// before reads what a level has settled, for a command that changes it.
func (s *Service) before(ctx context.Context, tx pgx.Tx, of Owner, operation string, version int64) (Override, error) {
	q := policydb.New(tx)
	if err := q.LockChain(ctx, of.Org.String()); err != nil {
		return Override{}, fmt.Errorf("lock operation policies: %w", err)
	}
	if err := exists(ctx, q, of, operation); err != nil {
		return Override{}, err
	}
	before, err := level(ctx, tx, of, operation)
	if err != nil {
		return Override{}, err
	}
	if before.Version != version {
		return Override{}, fault.New(fault.Stale, "version_stale",
			"it was changed since it was read: the newest version is %d, the change is based on %d", before.Version, version).
			WithRemedy("read it again and repeat the change with the new ETag")
	}
	return before, nil
}

func record(ctx context.Context, tx pgx.Tx, action string, before, now Override) error {
	kind, target := "operation_policy", now.Type
	err := audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: kind, TargetID: target, Org: now.Org, Project: now.Project, Result: audit.Success,
		Metadata: map[string]any{
			"scope": now.Scope(), "before": before.described(), "after": now.described(), "version": now.Version,
			"reason": now.Reason,
		},
	})
	if err != nil {
		return err
	}
	return outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.OperationPolicyChanged, AggregateKind: kind, AggregateID: target, Org: now.Org, Project: now.Project,
		Payload: eventwire.OperationPolicy{OperationType: now.Type, Scope: string(now.Scope()), Version: now.Version},
	})
}
