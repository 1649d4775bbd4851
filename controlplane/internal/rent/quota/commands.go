package quota

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/rent/quota/internal/quotadb"
)

// Service holds the commands and queries of the package.
type Service struct {
	db    *postgres.DB
	usage Usage
}

// New makes the service. It connects to nothing.
func New(db *postgres.DB, u Usage) *Service { return &Service{db: db, usage: u} }

// Usage counts what is held and what is waited for.
type Usage interface {
	// Held counts what a tenant (zero project) or a project holds, of a SKU or of
	// all ("").
	Held(ctx context.Context, tx pgx.Tx, org id.Org, project id.Project, sku string) (gpus, nodes int32, err error)
	// Awaited counts what they wait for, in the same way.
	Awaited(ctx context.Context, tx pgx.Tx, org id.Org, project id.Project, sku string) (gpus, nodes int32, err error)
}

// Admit refuses what would exceed a quota of the tenant or the project, of the
// SKU or of all SKUs. Call it in the transaction that makes what is asked for,
// before the insert: until that transaction ends, others who are held to the same
// quotas wait.
func (s *Service) Admit(ctx context.Context, tx pgx.Tx, a Ask) error {
	if a.GPUs < 0 || a.Nodes < 0 {
		return fmt.Errorf("admit: asked for %d GPUs and %d nodes", a.GPUs, a.Nodes)
	}
	q := quotadb.New(tx)
	if err := q.ShareTenant(ctx, a.Org.String()); err != nil {
		return fmt.Errorf("share quotas of tenant: %w", err)
	}
	rows, err := q.LockApplying(ctx, quotadb.LockApplyingParams{OrgID: a.Org, ProjectID: a.Project, Sku: a.SKU})
	if err != nil {
		return fmt.Errorf("lock quotas: %w", err)
	}
	var over []fault.Field
	for _, row := range rows {
		limit, err := s.measured(ctx, tx, from(row))
		if err != nil {
			return err
		}
		var awaited Holding
		if a.Waits {
			if awaited.GPUs, awaited.Nodes, err = s.usage.Awaited(ctx, tx, limit.Org, limit.Project, limit.SKU); err != nil {
				return fmt.Errorf("count what is waited for: %w", err)
			}
		}
		over = append(over, limit.exceeded(a, limit.Used, awaited)...)
	}
	if len(over) == 0 {
		return nil
	}
	return fault.New(fault.Forbidden, "quota_exceeded", "%s", over[0].Message).WithFields(over...).
		WithRemedy("release something, cancel a request that waits, or ask for more: an administrator of the tenant sets " +
			"the quotas of projects, the platform those of tenants (gpuaas quota list)")
}

// Set sets what a tenant or a project may hold, of a SKU or of all ("").
func (s *Service) Set(ctx context.Context, of Owner, skuID string, l Limits) (Quota, error) {
	if err := l.check(); err != nil {
		return Quota{}, err
	}
	var set Quota
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if skuID != "" {
			if _, err := sku.Get(ctx, tx, skuID); err != nil {
				return err
			}
		}
		q := quotadb.New(tx)
		if err := q.LockTenant(ctx, of.Org.String()); err != nil {
			return fmt.Errorf("lock quotas of tenant: %w", err)
		}
		if err := belowTenant(ctx, q, of, skuID, l); err != nil {
			return err
		}
		row, err := q.Put(ctx, quotadb.PutParams{
			ID: id.New[id.Quota](), OrgID: of.Org, ProjectID: of.Project, Sku: skuID, Gpus: l.GPUs, Nodes: l.Nodes,
			UpdatedBy: auth.From(ctx).ID,
		})
		if postgres.Violates(err, "quotas_org_id_fkey") {
			return noTenant()
		}
		if err != nil {
			return fmt.Errorf("set quota: %w", err)
		}
		if set, err = s.measured(ctx, tx, from(row)); err != nil {
			return err
		}
		return record(ctx, tx, "quota.set", set)
	})
	return set, err
}

// belowTenant refuses a project's quota above the tenant's own.
func belowTenant(ctx context.Context, q *quotadb.Queries, of Owner, skuID string, l Limits) error {
	if of.Project.IsZero() {
		return nil
	}
	rows, err := q.LockApplying(ctx, quotadb.LockApplyingParams{OrgID: of.Org, Sku: skuID})
	if err != nil {
		return fmt.Errorf("lock quotas of tenant: %w", err)
	}
	var over []fault.Field
	for _, row := range rows {
		over = append(over, l.above(from(row))...)
	}
	if len(over) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "quota_above_tenant", "a project may not hold more than its tenant: %s",
		over[0].Message).WithFields(over...).WithRemedy("set less, or ask the platform to raise the quota of the tenant")
}

// Remove removes a quota: from then on it limits nobody.
func (s *Service) Remove(ctx context.Context, of Owner, skuID string) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := quotadb.New(tx).Delete(ctx, quotadb.DeleteParams{OrgID: of.Org, ProjectID: of.Project, Sku: skuID})
		if errors.Is(err, pgx.ErrNoRows) {
			return notFound()
		}
		if err != nil {
			return fmt.Errorf("delete quota: %w", err)
		}
		return record(ctx, tx, "quota.remove", from(row))
	})
}

func record(ctx context.Context, tx pgx.Tx, action string, q Quota) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "quota", TargetID: q.ID.String(), Org: q.Org, Project: q.Project, Result: audit.Success,
		Metadata: map[string]any{"sku": q.SKU, "gpus": q.GPUs, "nodes": q.Nodes, "version": q.Version},
	})
}
