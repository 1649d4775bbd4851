package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/operate/policy/internal/policydb"
)

func from(r policydb.OperationPolicyOverride) Override {
	return Override{
		Owner: Owner{Org: r.OrgID, Project: r.ProjectID}, Type: r.OperationType,
		Values: Values{
			Enabled: r.Enabled, MaxConcurrency: r.MaxConcurrency, TimeoutSeconds: r.TimeoutSeconds,
			ArtifactSources: list(r.AllowedArtifactSources), TargetKinds: list(r.AllowedTargetKinds),
			RequireSignature: r.RequireSignatureVerification, MaxArtifactSize: r.MaxArtifactSizeBytes, HardDeny: r.HardDeny,
		},
		Reason: r.Reason, Version: r.Version, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
}

// list tells a list that is empty from one that was never set.
func list(stored []string) *[]string {
	if stored == nil {
		return nil
	}
	return &stored
}

// Get puts together what counts for a type of operation, through a pool or a
// transaction: in a project, in a tenant (no project), or on the platform (neither).
func Get(ctx context.Context, db policydb.DBTX, of Owner, operation string) (Effective, error) {
	rows, err := policydb.New(db).Applying(ctx, policydb.ApplyingParams{
		OperationType: operation, OrgID: of.Org, ProjectID: of.Project,
	})
	if err != nil {
		return Effective{}, fmt.Errorf("read operation policies: %w", err)
	}
	levels := make([]Level, len(rows))
	for i, row := range rows {
		o := from(row)
		levels[i] = Level{Scope: o.Scope(), Type: o.Type, Values: o.Values, Reason: o.Reason}
	}
	return Resolve(operation, levels), nil
}

// level reads what one level has settled about a type; without a row its version is
// zero.
func level(ctx context.Context, db policydb.DBTX, of Owner, operation string) (Override, error) {
	row, err := policydb.New(db).GetLevel(ctx, policydb.GetLevelParams{
		OperationType: operation, OrgID: of.Org, ProjectID: of.Project,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Override{Owner: of, Type: operation}, nil
	}
	if err != nil {
		return Override{}, fmt.Errorf("read operation policy: %w", err)
	}
	return from(row), nil
}

// exists refuses what is about nothing.
func exists(ctx context.Context, q *policydb.Queries, of Owner, operation string) error {
	if !of.Org.IsZero() {
		there, err := q.TenantExists(ctx, of.Org)
		if err != nil {
			return fmt.Errorf("read tenant: %w", err)
		}
		if !there {
			return fault.New(fault.NotFound, "not_found", "there is no such tenant").
				WithRemedy("see which there are: gpuaas tenant list")
		}
	}
	if operation == AllTypes {
		return nil
	}
	there, err := q.TypeExists(ctx, operation)
	if err != nil {
		return fmt.Errorf("read type of operation: %w", err)
	}
	if !there {
		return fault.New(fault.NotFound, "not_found", "there is no operation %s", operation).
			WithRemedy("see which there are: gpuaas operation definition list; * stands for all of them")
	}
	return nil
}

// known refuses a tenant that does not exist.
func (s *Service) known(ctx context.Context, of Owner) error {
	return exists(ctx, policydb.New(s.db), of, AllTypes)
}

// Of reads what a level has settled about a type, and what counts there.
func (s *Service) Of(ctx context.Context, of Owner, operation string) (Override, Effective, error) {
	if err := exists(ctx, policydb.New(s.db), of, operation); err != nil {
		return Override{}, Effective{}, err
	}
	own, err := level(ctx, s.db, of, operation)
	if err != nil {
		return Override{}, Effective{}, err
	}
	effective, err := Get(ctx, s.db, of, operation)
	if err != nil {
		return own, effective, err
	}
	effective.Document, err = active(ctx, s.db)
	return own, effective, err
}

// position is where the next page begins.
type position struct {
	Type string `json:"type"`
}

// List lists what a level has settled, by type.
func (s *Service) List(ctx context.Context, of Owner, page postgres.Slice[position]) ([]Override, error) {
	rows, err := policydb.New(s.db).ListLevel(ctx, policydb.ListLevelParams{
		OrgID: of.Org, ProjectID: of.Project, After: page.After.Type, PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list operation policies: %w", err)
	}
	out := make([]Override, len(rows))
	for i, row := range rows {
		out[i] = from(row)
	}
	return out, nil
}

// ownerOf is the project with its tenant; the guard of the API has found it to exist.
func (s *Service) ownerOf(ctx context.Context, project id.Project) (Owner, error) {
	org, err := policydb.New(s.db).Org(ctx, project)
	if err != nil {
		return Owner{}, fmt.Errorf("read tenant of project: %w", err)
	}
	return Owner{Org: org, Project: project}, nil
}
