package site

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// CreateSite makes a site with its profile "default".
func (s *Service) CreateSite(ctx context.Context, name string, given SettingsChange) (Site, error) {
	settings := DefaultSettings()
	apply(&settings, given)
	var p problems
	p.matches("body.name", name, nameForm, nameRule)
	settings = settings.checked(&p)
	p.notRoot(given.DeployUser)
	if err := p.rejected(); err != nil {
		return Site{}, err
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // crypto/rand never fails: the runtime aborts instead
	var made Site
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		n := settings
		row, err := c.InsertSite(ctx, sitedb.InsertSiteParams{
			ID: id.New[id.Site](), Name: name, RegionCode: n.RegionCode, APIBaseURL: n.APIBaseURL,
			CaCertificate:   n.CACertificate,
			AllowedNetworks: n.AllowedNetworks, PxeIface: n.PXEIface, PxeVlanVid: n.PXEVLANVID, NodePxeIface: n.NodePXEIface,
			DeployUser: n.DeployUser, DeploySshIface: n.DeploySSHIface, UpstreamDnsServers: n.UpstreamDNSServers,
			MaxParallel: n.MaxParallel, FingerprintSalt: salt, HwSyncHttp: string(n.HWSyncHTTP),
			RequiredScripts: n.RequiredScripts, BmcNetworks: n.BMCNetworks,
			RequiredCapabilities: converted(n.RequiredCapabilities, func(c Capability) string { return string(c) }),
		})
		if postgres.Violates(err, "maas_sites_name") {
			return nameTaken("site", name)
		}
		if err != nil {
			return fmt.Errorf("insert site: %w", err)
		}
		made = siteFrom(row)
		profile := Profile{
			ID: id.New[id.Profile](), Site: made.ID, Name: DefaultProfile, Status: Active,
			Policy: DefaultPolicy(), Version: 1,
		}
		if _, err := c.insertProfile(ctx, profile); err != nil {
			return err
		}
		return c.record(ctx, eventwire.SiteCreated, made, partSite,
			siteEntry("site.create", made, map[string]any{"api_base_url": n.APIBaseURL}))
	})
	return made, err
}

// UpdateSite changes a site that is still at a version. A token is good for the
// address it was checked against: with another one it counts as not there.
func (s *Service) UpdateSite(ctx context.Context, site id.Site, version int64, ch Change) (Site, error) {
	var after Site
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		if err := atVersion(before.Version, version); err != nil {
			return err
		}
		if after, err = ch.applied(before); err != nil {
			return err
		}
		row, err := c.UpdateSite(ctx, siteColumns(after))
		if postgres.Violates(err, "maas_sites_name") {
			return nameTaken("site", after.Name)
		}
		if err == nil && after.Settings.APIBaseURL != before.Settings.APIBaseURL {
			row, err = c.ForgetAPIToken(ctx, site)
		}
		if err != nil {
			return fmt.Errorf("update site: %w", err)
		}
		after = siteFrom(row)
		return c.record(ctx, eventwire.SiteUpdated, after, partSite,
			siteEntry("site.update", after, map[string]any{
				"status": after.Status, "api_base_url": after.Settings.APIBaseURL, "hw_sync_http": after.Settings.HWSyncHTTP,
			}))
	})
	return after, err
}

func (ch Change) applied(to Site) (Site, error) {
	apply(&to.Settings, ch.Settings)
	var p problems
	if ch.Name != nil {
		to.Name = *ch.Name
		p.matches("body.name", to.Name, nameForm, nameRule)
	}
	if ch.Status != nil {
		to.Status = *ch.Status
	}
	to.Settings = to.Settings.checked(&p)
	p.notRoot(ch.Settings.DeployUser)
	return to, p.rejected()
}

// DeleteSite takes a site out of use. While nodes or jobs belong to it, it is
// disabled, because they need it: it is still listed, reconciled and asked. Once
// nothing belongs to it, it is removed by itself, and its name can be used again.
func (s *Service) DeleteSite(ctx context.Context, site id.Site) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		if gone, err := c.deleteUnused(ctx, before); err != nil || gone {
			return err
		}
		asked, err := c.RequestDeletion(ctx, site)
		if err != nil {
			return fmt.Errorf("note that site is to be deleted: %w", err)
		}
		if asked == 0 && before.Status != Active {
			return nil // somebody asked before
		}
		return c.leaving(ctx, before)
	})
}

// deleteUnused removes a site that nothing belongs to, and says whether it did.
func (c change) deleteUnused(ctx context.Context, s Site) (bool, error) {
	used, err := c.SiteInUse(ctx, s.ID.String())
	if err != nil {
		return false, fmt.Errorf("look who uses site: %w", err)
	}
	if used {
		return false, nil
	}
	row, err := c.DeleteSite(ctx, s.ID)
	if err != nil {
		return false, fmt.Errorf("delete site: %w", err)
	}
	gone := siteFrom(row)
	return true, c.record(ctx, eventwire.SiteDeleted, gone, partSite, siteEntry("site.delete", gone, nil))
}

// leaving makes a site refuse new work, and records who wants it deleted.
func (c change) leaving(ctx context.Context, s Site) error {
	row, err := c.DisableSite(ctx, s.ID)
	if err != nil {
		return fmt.Errorf("disable site: %w", err)
	}
	after := siteFrom(row)
	return c.record(ctx, eventwire.SiteUpdated, after, partSite,
		siteEntry("site.delete", after, map[string]any{"status": after.Status, "leaves": "once nothing needs it"}))
}

func (c change) lock(ctx context.Context, site id.Site) (Site, error) {
	row, err := c.LockSite(ctx, site)
	return siteFrom(row), orNotFound("site", err)
}

// Site reads one site.
func (s *Service) Site(ctx context.Context, site id.Site) (Site, error) {
	row, err := s.reads.Site(ctx, site)
	return siteFrom(row), orNotFound("site", err)
}

// Sites lists the sites; a nil status lists all.
func (s *Service) Sites(ctx context.Context, status *Status, page postgres.Slice[id.Site]) ([]Site, error) {
	rows, err := s.reads.ListSites(ctx, sitedb.ListSitesParams{
		After: page.After.String(), Status: (*string)(status),
		PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list sites: %w", err)
	}
	return converted(rows, siteFrom), nil
}

// ForNewWork reads, within the transaction of a command that begins work, the
// site and the profile it is to be done by (zero: the default), and refuses
// what is disabled. Until that transaction ends the site cannot be disabled.
func ForNewWork(ctx context.Context, tx pgx.Tx, site id.Site, profile id.Profile) (Site, Profile, error) {
	q := sitedb.New(tx)
	row, err := q.ShareSite(ctx, site)
	if err != nil {
		return Site{}, Profile{}, orNotFound("site", err)
	}
	found := siteFrom(row)
	if err := RequireEnabled(found); err != nil {
		return Site{}, Profile{}, err
	}
	var p sitedb.Profile
	if profile.IsZero() {
		p, err = q.ProfileNamed(ctx, sitedb.ProfileNamedParams{SiteID: site, Name: DefaultProfile})
	} else {
		p, err = q.Profile(ctx, sitedb.ProfileParams{SiteID: site, ID: profile})
	}
	if err != nil {
		return Site{}, Profile{}, orNotFound("profile", err)
	}
	return found, profileFrom(p), RequireProfileEnabled(profileFrom(p))
}
