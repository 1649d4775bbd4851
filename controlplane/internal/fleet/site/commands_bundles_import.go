package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// importer is who brings the bundles of a folder into the database.
const importer = "bundle-import"

// Imported says what became of the bundles of a folder.
type Imported struct {
	Sites   int
	Bundles []string // as NAME@VERSION
	Refused []error  // files that are no bundles
}

// ImportBundles gives the sites of before bundles were uploaded those of the folder
// that workers read them from then: the file NAME/VERSION is the bundle NAME@VERSION.
// Profiles that name one are pinned to it. It is repeated until every file of the
// folder was taken, for each site.
func (s *Service) ImportBundles(ctx context.Context, folder string) (Imported, error) {
	var done Imported
	if folder == "" {
		return done, nil
	}
	sites, err := s.reads.SitesWithoutImport(ctx)
	if err != nil || len(sites) == 0 {
		return done, err
	}
	programs, refused, err := readBundles(folder)
	if err != nil {
		return done, err
	}
	done.Refused = refused
	for ref := range programs {
		done.Bundles = append(done.Bundles, ref)
	}
	ctx = auth.With(ctx, auth.System(importer))
	for _, site := range sites {
		err := s.inChange(ctx, func(ctx context.Context, c change) error {
			return c.importBundles(ctx, site, programs, len(refused) == 0)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			continue // another worker has done it
		}
		if err != nil {
			return done, fmt.Errorf("import bundles of site %s: %w", site, err)
		}
		done.Sites++
	}
	return done, nil
}

func (c change) importBundles(ctx context.Context, site id.Site, programs map[string][]byte, whole bool) error {
	row, err := c.LockForImport(ctx, site)
	if err != nil {
		return err
	}
	owner := siteFrom(row)
	for ref, program := range programs {
		if err := c.importBundle(ctx, owner, ref, program); err != nil {
			return err
		}
	}
	if !whole { // the next start tries the rest again, and passes what is here already by
		return nil
	}
	if err := c.BundlesImported(ctx, site); err != nil {
		return fmt.Errorf("note import: %w", err)
	}
	return nil
}

func (c change) importBundle(ctx context.Context, owner Site, ref string, program []byte) error {
	name, version, err := parseBundleRef(ref)
	if err != nil {
		return err
	}
	_, err = c.BundleEver(ctx, sitedb.BundleEverParams{SiteID: owner.ID, Name: name, Version: version})
	if err == nil {
		return nil // somebody has uploaded it already
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("look for bundle: %w", err)
	}
	made, err := c.insertBundle(ctx, owner, name, version,
		blob.Blob{Digest: blob.DigestOf(program), Size: int64(len(program))})
	if err != nil {
		return err
	}
	if _, err := blob.Put(ctx, c.tx, program, made.owner()); err != nil {
		return err
	}
	if err := c.PinProfiles(ctx, sitedb.PinProfilesParams{SiteID: owner.ID, Ref: ref, Digest: made.Digest}); err != nil {
		return fmt.Errorf("pin profiles: %w", err)
	}
	return c.recordBundle(ctx, "site_bundle.import", owner, made)
}

// readBundles reads a folder of bundles. It follows no link out of the folder.
func readBundles(folder string) (programs map[string][]byte, refused []error, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("open folder of bundles: %w", err)
	}
	defer func() { _ = root.Close() }()
	names, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, nil, fmt.Errorf("read folder of bundles: %w", err)
	}
	programs = map[string][]byte{}
	for _, name := range names {
		if !name.IsDir() {
			continue
		}
		versions, err := fs.ReadDir(root.FS(), name.Name())
		if err != nil {
			refused = append(refused, fmt.Errorf("read folder of bundle %s: %w", name.Name(), err))
			continue
		}
		for _, version := range versions {
			ref := name.Name() + "@" + version.Name()
			program, err := readBundle(root, path.Join(name.Name(), version.Name()), ref)
			if err != nil {
				refused = append(refused, fmt.Errorf("bundle %s: %w", ref, err))
				continue
			}
			programs[ref] = program
		}
	}
	return programs, refused, nil
}

func readBundle(root *os.Root, file, ref string) ([]byte, error) {
	_, version, err := parseBundleRef(ref)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	f, err := root.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	program, err := io.ReadAll(io.LimitReader(f, firstboot.MaxSiteBundle+1))
	if err != nil {
		return nil, err
	}
	return program, checkProgram(program, version)
}
