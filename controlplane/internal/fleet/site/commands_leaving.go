package site

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// leaving is who carries out what was asked for when nothing stands in the way any
// more.
const leaving = "site-leaving"

// Tend deletes the sites whose last node and job have left since somebody deleted
// them, and removes the bundles and secrets of deleted sites. Any number of replicas may run it.
func (s *Service) Tend(ctx context.Context) error {
	ctx = auth.With(ctx, auth.System(leaving))
	sites, err := s.reads.LeavingSites(ctx)
	if err != nil {
		return fmt.Errorf("list sites that leave: %w", err)
	}
	var failed []error
	for _, site := range sites {
		failed = append(failed, s.leave(ctx, site))
	}
	orphans, err := s.reads.BundlesOfDeletedSites(ctx)
	if err != nil {
		return errors.Join(append(failed, fmt.Errorf("list bundles of deleted sites: %w", err))...)
	}
	for _, row := range orphans {
		failed = append(failed, s.forgetBundle(ctx, bundleFrom(row)))
	}
	rows, err := s.reads.DeletedWithSecrets(ctx)
	if err != nil {
		return errors.Join(append(failed, fmt.Errorf("list secrets of deleted sites: %w", err))...)
	}
	for _, row := range rows {
		failed = append(failed, s.forgetSecrets(ctx, siteFrom(row)))
	}
	return errors.Join(failed...)
}

func (s *Service) leave(ctx context.Context, site id.Site) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		row, err := c.LockLeaving(ctx, site)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // somebody enabled it, or another replica was faster
		}
		if err != nil {
			return fmt.Errorf("lock site that leaves: %w", err)
		}
		_, err = c.deleteUnused(ctx, siteFrom(row))
		return err
	})
}

// forgetBundle removes a bundle of a site that is gone, whose machines are gone, too.
func (s *Service) forgetBundle(ctx context.Context, gone Bundle) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		if n, err := c.DeleteBundle(ctx, gone.ID); err != nil || n == 0 { // 0: another replica was faster
			return err
		}
		return blob.Release(ctx, c.tx, gone.Digest, gone.owner())
	})
}

// forgetSecrets removes the secrets first: what a crash leaves is found again by the
// rows.
func (s *Service) forgetSecrets(ctx context.Context, gone Site) error {
	overrides, err := s.reads.OverridesOf(ctx, gone.ID)
	if err != nil {
		return fmt.Errorf("list power overrides of deleted site: %w", err)
	}
	paths := []string{tokenPath(gone.ID), powerPath(gone.ID), deployPasswordPath(gone.ID)}
	for _, o := range overrides {
		paths = append(paths, overridePath(gone.ID, o))
	}
	for _, path := range paths {
		if err := s.secrets.Delete(ctx, path); err != nil {
			return fmt.Errorf("remove secret of deleted site %s: %w", gone.ID, err)
		}
	}
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c := change{tx: tx, Queries: sitedb.New(tx)}
		if err := c.DeleteOverrides(ctx, gone.ID); err != nil {
			return fmt.Errorf("delete power overrides of deleted site: %w", err)
		}
		if err := c.ForgetSecrets(ctx, gone.ID); err != nil {
			return fmt.Errorf("forget secrets of deleted site: %w", err)
		}
		return c.record(ctx, eventwire.SiteUpdated, gone, partSite, siteEntry("site.secrets_remove", gone,
			map[string]any{"power_overrides": len(overrides)}))
	})
}
