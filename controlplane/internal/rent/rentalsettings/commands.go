package rentalsettings

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/rentalsettings/internal/rentalsettingsdb"
)

// Service holds the commands and queries of the package.
type Service struct{ db *postgres.DB }

// New makes the service. It connects to nothing.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// Set replaces the settings of a tenant or a project; what is nil is not settled by
// it any more. It fails if they are no longer at this version.
func (s *Service) Set(ctx context.Context, of Owner, version int64, v Values) (Settings, Rules, error) {
	var now Settings
	var rules Rules
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := rentalsettingsdb.New(tx)
		if err := q.LockTenant(ctx, of.Org.String()); err != nil {
			return fmt.Errorf("lock rental settings of tenant: %w", err)
		}
		if err := exists(ctx, q, of.Org); err != nil {
			return err
		}
		tenant, before, err := read(ctx, tx, of)
		if err != nil {
			return err
		}
		var bounds Values
		if of.Project.IsZero() {
			before = tenant
		} else {
			bounds = tenant.Values
		}
		if before.Version != version {
			return fault.New(fault.Stale, "version_stale",
				"they were changed since they were read: the newest version is %d, the change is based on %d", before.Version,
				version).WithRemedy("read them again and repeat the change with the new ETag")
		}
		if err := v.check(bounds); err != nil {
			return err
		}
		row, err := q.Put(ctx, rentalsettingsdb.PutParams{
			OrgID: of.Org, ProjectID: of.Project, DefaultExpiry: seconds(v.DefaultExpiry), MaxExpiry: seconds(v.MaxExpiry),
			RootAccess: v.RootAccess, UpdatedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return fmt.Errorf("set rental settings: %w", err)
		}
		if now = from(row); of.Project.IsZero() {
			rules = inForce(now.Values, Values{})
		} else {
			rules = inForce(tenant.Values, now.Values)
		}
		return record(ctx, tx, now)
	})
	return now, rules, err
}

func record(ctx context.Context, tx pgx.Tx, s Settings) error {
	kind, target := "tenant", s.Org.String()
	if !s.Project.IsZero() {
		kind, target = "project", s.Project.String()
	}
	return audit.Record(ctx, tx, audit.Entry{
		Action: "rental_settings.set", TargetKind: kind, TargetID: target, Org: s.Org, Project: s.Project,
		Result: audit.Success,
		Metadata: map[string]any{
			"default_expiry_seconds": seconds(s.DefaultExpiry), "max_expiry_seconds": seconds(s.MaxExpiry),
			"root_access": s.RootAccess, "version": s.Version,
		},
	})
}
