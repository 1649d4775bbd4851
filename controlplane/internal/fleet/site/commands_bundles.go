package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// BeginBundle opens the upload of a bundle, or finds the one that was interrupted.
func (s *Service) BeginBundle(ctx context.Context, site id.Site, n NewBundle) (blob.Upload, error) {
	if _, _, err := parseBundleRef(n.ref()); err != nil {
		return blob.Upload{}, err
	}
	var upload blob.Upload
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		if err := c.versionFree(ctx, owner, n.Name, n.Version); err != nil {
			return err
		}
		upload, err = blob.Begin(ctx, c.tx, blob.Announced{
			Purpose: purpose(site, n.ref()), Digest: n.Digest, Size: n.Size, Most: firstboot.MaxSiteBundle,
		})
		return err
	})
	return upload, err
}

// versionFree refuses a version that was given before: what ran on machines under
// its name must stay known.
func (c change) versionFree(ctx context.Context, owner Site, name, version string) error {
	row, err := c.BundleEver(ctx, sitedb.BundleEverParams{SiteID: owner.ID, Name: name, Version: version})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for version of bundle: %w", err)
	}
	state := "is there already, with the SHA-256 " + row.Digest
	if row.DeletedAt != nil {
		state = "was deleted, and a version is not given again"
	}
	return fault.New(fault.Conflict, "site_bundle_version_taken", "the bundle %s@%s of site %s %s", name, version,
		owner.Name, state).WithRemedy("upload it as another version")
}

// AddToBundle takes a part of an upload.
func (s *Service) AddToBundle(ctx context.Context, site id.Site, ref string, upload id.BlobUpload, offset int64,
	part []byte,
) (blob.Upload, error) {
	var after blob.Upload
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		after, err = blob.Append(ctx, tx, upload, purpose(site, ref), offset, part)
		return err
	})
	return after, err
}

// CompleteBundle makes a version of a bundle of an upload that is there whole.
func (s *Service) CompleteBundle(ctx context.Context, site id.Site, ref string, upload id.BlobUpload) (Bundle, error) {
	name, version, err := parseBundleRef(ref)
	if err != nil {
		return Bundle{}, err
	}
	var made Bundle
	var program bytes.Buffer
	err = blob.Store{DB: s.db}.Complete(ctx, upload, purpose(site, ref), &program,
		func(ctx context.Context, tx pgx.Tx, b blob.Blob) error {
			if err := checkProgram(program.Bytes(), version); err != nil {
				return err
			}
			c := change{tx: tx, Queries: sitedb.New(tx)}
			owner, err := c.lock(ctx, site)
			if err != nil {
				return err
			}
			if err := c.versionFree(ctx, owner, name, version); err != nil {
				return err
			}
			if made, err = c.insertBundle(ctx, owner, name, version, b); err != nil {
				return err
			}
			if err := blob.Refer(ctx, tx, b.Digest, made.owner()); err != nil {
				return err
			}
			return c.recordBundle(ctx, "site_bundle.upload", owner, made)
		})
	return made, err
}

func (c change) insertBundle(ctx context.Context, owner Site, name, version string, b blob.Blob) (Bundle, error) {
	row, err := c.InsertBundle(ctx, sitedb.InsertBundleParams{
		ID: id.New[id.SiteBundle](), SiteID: owner.ID, Name: name, Version: version, Digest: b.Digest, Size: b.Size,
		AddedBy: auth.From(ctx).ID,
	})
	if err != nil {
		return Bundle{}, fmt.Errorf("insert bundle: %w", err)
	}
	return bundleFrom(row), nil
}

func (c change) recordBundle(ctx context.Context, action string, owner Site, b Bundle) error {
	return c.record(ctx, eventwire.SiteUpdated, owner, partBundle, siteEntry(action, owner, map[string]any{
		"bundle": b.Ref(), "sha256": b.Digest, "size": b.Size,
	}))
}

// Bundles lists the bundles of a site.
func (s *Service) Bundles(ctx context.Context, site id.Site, page postgres.Slice[id.SiteBundle]) ([]Bundle, error) {
	if _, err := s.Site(ctx, site); err != nil {
		return nil, err
	}
	rows, err := s.reads.ListBundles(ctx, sitedb.ListBundlesParams{
		SiteID: site, After: page.After.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list bundles: %w", err)
	}
	return converted(rows, func(r sitedb.ListBundlesRow) Bundle {
		b := bundleFrom(r.Bundle)
		b.UsedBy = r.UsedBy
		return b
	}), nil
}

// DeleteBundle removes a version that no profile uses. Profiles cannot be rolled
// back to it any more.
func (s *Service) DeleteBundle(ctx context.Context, site id.Site, bundle id.SiteBundle) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		row, err := c.Bundle(ctx, sitedb.BundleParams{SiteID: site, ID: bundle})
		if err != nil {
			return orNotFound("bundle", err)
		}
		gone := bundleFrom(row)
		users, err := c.BundleUsers(ctx, sitedb.BundleUsersParams{SiteID: site, Ref: gone.Ref()})
		if err != nil {
			return fmt.Errorf("list who uses bundle: %w", err)
		}
		if len(users) > 0 {
			return fault.New(fault.Conflict, "site_bundle_in_use", "the bundle %s of site %s is in use by the profile %s",
				gone.Ref(), owner.Name, strings.Join(users, ", ")).
				WithRemedy("let the profile use another one first: gpuaas site bundle use %s %s NAME@VERSION", owner.Name, users[0])
		}
		if err := c.ForgetPreviousBundle(ctx, sitedb.ForgetPreviousBundleParams{SiteID: site, Ref: gone.Ref()}); err != nil {
			return fmt.Errorf("forget bundle of before: %w", err)
		}
		if _, err := c.DeleteBundle(ctx, bundle); err != nil {
			return fmt.Errorf("delete bundle: %w", err)
		}
		if err := blob.Release(ctx, c.tx, gone.Digest, gone.owner()); err != nil {
			return err
		}
		return c.recordBundle(ctx, "site_bundle.delete", owner, gone)
	})
}

// UseBundle lets a profile use a bundle from now on. A digest, where one is given,
// must be that of the bundle.
func (s *Service) UseBundle(ctx context.Context, site id.Site, profile id.Profile, ref, digest string,
) (Profile, error) {
	return s.changeBundle(ctx, site, profile, "site_profile.bundle_use", func(p *Profile) error {
		if ref == "" {
			return fault.New(fault.Invalid, "site_bundle_ref_invalid", "no bundle is named").
				WithRemedy("name one; to use none, clear site_bootstrap_bundle_ref of the profile")
		}
		p.Policy.SiteBootstrapBundleRef, p.BundleDigest = ref, digest
		return nil
	})
}

// RollBackBundle lets a profile use the bundle that it used before. A second
// rollback is refused: the bundle that was bad is not the one to go back to.
func (s *Service) RollBackBundle(ctx context.Context, site id.Site, profile id.Profile) (Profile, error) {
	return s.changeBundle(ctx, site, profile, bundleRollback, func(p *Profile) error {
		if p.PreviousBundleRef == "" {
			return fault.New(fault.Conflict, "site_bundle_no_previous",
				"the profile %s used no other bundle before, or was rolled back to it already", p.Name).
				WithRemedy("name one: gpuaas site bundle use SITE %s NAME@VERSION; "+
					"to use none, clear site_bootstrap_bundle_ref of the profile", p.Name)
		}
		p.Policy.SiteBootstrapBundleRef, p.BundleDigest = p.PreviousBundleRef, p.PreviousBundleDigest
		return nil
	})
}

// bundleRollback is the action that the audit log shows for a rollback.
const bundleRollback = "site_profile.bundle_rollback"

func (s *Service) changeBundle(ctx context.Context, site id.Site, profile id.Profile, action string,
	choose func(*Profile) error,
) (Profile, error) {
	var after Profile
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, before, err := c.lockProfile(ctx, site, profile)
		if err != nil {
			return err
		}
		after = before
		if err := choose(&after); err != nil {
			return err
		}
		if err := c.pin(ctx, owner, before, &after); err != nil {
			return err
		}
		if action == bundleRollback { // the bundle that was bad is not the one to go back to
			after.PreviousBundleRef, after.PreviousBundleDigest = "", ""
		}
		after.Version++
		if after, err = c.setProfile(ctx, after); err != nil {
			return err
		}
		return c.recordProfile(ctx, action, owner, after)
	})
	return after, err
}

// pin gives a profile the digest of the bundle that it names, and keeps which one it
// named before. A digest that the profile has already must be the right one.
func (c change) pin(ctx context.Context, owner Site, before Profile, after *Profile) error {
	ref := after.Policy.SiteBootstrapBundleRef
	if ref != before.Policy.SiteBootstrapBundleRef && before.Policy.SiteBootstrapBundleRef != "" {
		after.PreviousBundleRef, after.PreviousBundleDigest = before.Policy.SiteBootstrapBundleRef, before.BundleDigest
	}
	if ref == "" {
		after.BundleDigest = ""
		return nil
	}
	found, err := findBundle(ctx, c.Queries, owner, ref)
	if err != nil {
		return err
	}
	if after.BundleDigest != "" {
		return after.matches(found, owner.Name)
	}
	after.BundleDigest = found.Digest
	return nil
}

// repin is pin for a profile whose policy may have changed: a bundle that was named
// before stays as it is.
func (c change) repin(ctx context.Context, owner Site, before Profile, after *Profile) error {
	if after.Policy.SiteBootstrapBundleRef == before.Policy.SiteBootstrapBundleRef {
		return nil
	}
	after.BundleDigest = ""
	return c.pin(ctx, owner, before, after)
}

func findBundle(ctx context.Context, q *sitedb.Queries, owner Site, ref string) (Bundle, error) {
	name, version, err := parseBundleRef(ref)
	if err != nil {
		return Bundle{}, err
	}
	row, err := q.BundleEver(ctx, sitedb.BundleEverParams{SiteID: owner.ID, Name: name, Version: version})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.DeletedAt != nil {
		return Bundle{}, bundleMissing(ref, owner.Name)
	}
	if err != nil {
		return Bundle{}, fmt.Errorf("read bundle: %w", err)
	}
	return bundleFrom(row), nil
}

// RequireBundle refuses a profile whose bundle is not there, or is another one than
// the profile was pinned to. It reads rows, not the program.
func (s *Service) RequireBundle(ctx context.Context, owner Site, p Profile) (Bundle, error) {
	if p.Policy.SiteBootstrapBundleRef == "" {
		return Bundle{}, nil
	}
	found, err := findBundle(ctx, s.reads, owner, p.Policy.SiteBootstrapBundleRef)
	if err != nil {
		return Bundle{}, err
	}
	return found, p.matches(found, owner.Name)
}

// BundleProgram reads the bundle that a profile names. The program has the digest
// that the profile was pinned to. A profile that names none has a nil program.
func (s *Service) BundleProgram(ctx context.Context, owner Site, p Profile) (program []byte, version string,
	err error,
) {
	b, err := s.RequireBundle(ctx, owner, p)
	if err != nil || b.ID.IsZero() {
		return nil, "", err
	}
	program, err = blob.Store{DB: s.db}.Read(ctx, b.Digest)
	switch fault.CodeOf(err) {
	case "blob_missing", "blob_corrupt":
		return nil, "", fault.Wrap(err, fault.Conflict, "site_bundle_unreadable",
			"the program of the bundle %s is lost", b.Ref()).
			WithRemedy("upload it as a new version, and let the profile use that: gpuaas site bundle use %s %s NAME@VERSION",
				owner.Name, p.Name)
	}
	return program, b.Version, err
}
