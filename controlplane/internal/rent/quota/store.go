package quota

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/quota/internal/quotadb"
)

func from(r quotadb.Quota) Quota {
	return Quota{
		ID: r.ID, Owner: Owner{Org: r.OrgID, Project: r.ProjectID}, SKU: r.Sku, Limits: Limits{GPUs: r.Gpus, Nodes: r.Nodes},
		Version: r.Version, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
}

// OfTenant lists the quotas of a tenant and of those of its projects that the
// caller may see: all for whoever holds a role on the tenant itself.
func (s *Service) OfTenant(ctx context.Context, org id.Org, page postgres.Slice[id.Quota]) ([]Quota, error) {
	caller := auth.From(ctx)
	_, ofTenant := caller.Tenants[org]
	var visible []string
	for project, role := range caller.Projects {
		if role.Org == org {
			visible = append(visible, project.String())
		}
	}
	out, err := s.list(ctx, quotadb.ListParams{
		OrgID: org, Everything: ofTenant || caller.SeesAll(auth.QuotaRead), Projects: visible,
		After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil || len(out) > 0 {
		return out, err
	}
	exists, err := quotadb.New(s.db).TenantExists(ctx, org)
	if err == nil && !exists {
		err = noTenant()
	}
	return out, err
}

// OfProject lists the quotas that a project is held to: its own and those of its
// tenant.
func (s *Service) OfProject(ctx context.Context, project id.Project, page postgres.Slice[id.Quota]) ([]Quota, error) {
	org, err := s.orgOf(ctx, project)
	if err != nil {
		return nil, err
	}
	return s.list(ctx, quotadb.ListParams{
		OrgID: org, Projects: []string{project.String()}, After: page.After.String(), PageSize: page.Limit,
	})
}

func (s *Service) list(ctx context.Context, which quotadb.ListParams) ([]Quota, error) {
	rows, err := quotadb.New(s.db).List(ctx, which)
	if err != nil {
		return nil, fmt.Errorf("list quotas: %w", err)
	}
	out := make([]Quota, len(rows))
	return out, s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for i, r := range rows {
			var err error
			if out[i], err = s.measured(ctx, tx, from(r)); err != nil {
				return err
			}
		}
		return nil
	})
}

// measured is a quota with what is held of it.
func (s *Service) measured(ctx context.Context, tx pgx.Tx, q Quota) (Quota, error) {
	var err error
	q.Used.GPUs, q.Used.Nodes, err = s.usage.Held(ctx, tx, q.Org, q.Project, q.SKU)
	if err != nil {
		return q, fmt.Errorf("count what is held: %w", err)
	}
	return q, nil
}

// orgOf reads the tenant of a project, which the guard of the API has found to
// exist.
func (s *Service) orgOf(ctx context.Context, project id.Project) (id.Org, error) {
	org, err := quotadb.New(s.db).Org(ctx, project)
	if err != nil {
		return id.Org{}, fmt.Errorf("read tenant of project: %w", err)
	}
	return org, nil
}
