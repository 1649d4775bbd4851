package site

import (
	"context"
	"fmt"
	"strings"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// CreateProfile adds a profile to a site. What the change leaves out is as in
// the default policy.
func (s *Service) CreateProfile(ctx context.Context, site id.Site, ch ProfileChange) (Profile, error) {
	made, err := ch.applied(Profile{
		ID: id.New[id.Profile](), Site: site, Status: Active, Policy: DefaultPolicy(),
		Version: 1,
	})
	if err != nil {
		return Profile{}, err
	}
	if err := mayLower(ctx, DefaultPolicy(), made.Policy); err != nil {
		return Profile{}, err
	}
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		if err := c.repin(ctx, owner, Profile{}, &made); err != nil {
			return err
		}
		if made, err = c.insertProfile(ctx, made); err != nil {
			return err
		}
		return c.recordProfile(ctx, "site_profile.create", owner, made)
	})
	return made, err
}

func (c change) insertProfile(ctx context.Context, p Profile) (Profile, error) {
	err := c.InsertProfile(ctx, sitedb.InsertProfileParams{ID: p.ID, SiteID: p.Site, Name: p.Name})
	if postgres.Violates(err, "maas_site_profiles_name") {
		return Profile{}, nameTaken("profile", p.Name)
	}
	if err != nil {
		return Profile{}, fmt.Errorf("insert profile: %w", err)
	}
	return c.setProfile(ctx, p)
}

func (c change) setProfile(ctx context.Context, p Profile) (Profile, error) {
	row, err := c.SetProfile(ctx, profileColumns(p))
	if postgres.Violates(err, "maas_site_profiles_name") {
		return Profile{}, nameTaken("profile", p.Name)
	}
	if err != nil {
		return Profile{}, fmt.Errorf("write profile: %w", err)
	}
	return profileFrom(row), nil
}

func (c change) recordProfile(ctx context.Context, action string, site Site, p Profile) error {
	return c.record(ctx, eventwire.SiteUpdated, site, partProfile, siteEntry(action, site, map[string]any{
		"profile_id": p.ID, "profile": p.Name, "profile_version": p.Version, "policy": p.Policy,
		"bundle_sha256": p.BundleDigest,
	}))
}

// UpdateProfile changes a profile that is still at a version.
func (s *Service) UpdateProfile(ctx context.Context, site id.Site, profile id.Profile, version int64,
	ch ProfileChange,
) (Profile, error) {
	var after Profile
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, before, err := c.lockProfile(ctx, site, profile)
		if err != nil {
			return err
		}
		if err := atVersion(before.Version, version); err != nil {
			return err
		}
		if after, err = ch.applied(before); err != nil {
			return err
		}
		if err := mayLower(ctx, before.Policy, after.Policy); err != nil {
			return err
		}
		if before.Name == DefaultProfile && (after.Name != DefaultProfile || after.Status != Active) {
			return defaultStays()
		}
		if err := c.repin(ctx, owner, before, &after); err != nil {
			return err
		}
		after.Version++
		if after, err = c.setProfile(ctx, after); err != nil {
			return err
		}
		return c.recordProfile(ctx, "site_profile.update", owner, after)
	})
	return after, err
}

// mayLower refuses to change what binds operators themselves, to whoever may not
// manage sites: how machines are erased, and whose agent is believed.
func mayLower(ctx context.Context, before, after Policy) error {
	same := before.MinimumErase == after.MinimumErase && before.MinimumSanitization == after.MinimumSanitization &&
		before.ReleaseFallbackNoErase == after.ReleaseFallbackNoErase && before.GPUScrub == after.GPUScrub &&
		before.GPUScrubNVIDIA == after.GPUScrubNVIDIA && before.GPUScrubAMD == after.GPUScrubAMD &&
		before.RequireEnrollmentAddress == after.RequireEnrollmentAddress &&
		before.AutoClaimSingleNewMachine == after.AutoClaimSingleNewMachine &&
		before.DataDisks == after.DataDisks
	if same || auth.From(ctx).Decide(auth.SiteManage, auth.Target{}) == auth.Allowed {
		return nil
	}
	return fault.New(fault.Forbidden, "insufficient_permissions",
		"minimum_erase, minimum_sanitization, release_fallback_no_erase, gpu_scrub, gpu_scrub_nvidia, gpu_scrub_amd, "+
			"require_enrollment_address, auto_claim_single_new_machine and data_disks need the permission %s", auth.SiteManage).
		WithRemedy("ask an administrator of the platform to change them")
}

func (c change) lockProfile(ctx context.Context, site id.Site, profile id.Profile) (Site, Profile, error) {
	owner, err := c.lock(ctx, site)
	if err != nil {
		return Site{}, Profile{}, err
	}
	row, err := c.LockProfile(ctx, sitedb.LockProfileParams{SiteID: site, ID: profile})
	return owner, profileFrom(row), orNotFound("profile", err)
}

func (ch ProfileChange) applied(to Profile) (Profile, error) {
	apply(&to.Policy, ch.Policy)
	ch.Policy.retiring(&to.Policy)
	if ch.Name != nil {
		to.Name = *ch.Name
	}
	if ch.Description != nil {
		to.Description = *ch.Description
	}
	if ch.Status != nil {
		to.Status = *ch.Status
	}
	return to.checked()
}

// DeleteProfile removes a profile that nobody uses: the nodes that it belongs
// to are cleaned and installed by it, and could not be without it.
func (s *Service) DeleteProfile(ctx context.Context, site id.Site, profile id.Profile) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, before, err := c.lockProfile(ctx, site, profile)
		if err != nil {
			return err
		}
		if before.Name == DefaultProfile {
			return defaultStays()
		}
		users, err := c.ProfileUsers(ctx, profile.String())
		if err != nil {
			return fmt.Errorf("list who uses profile: %w", err)
		}
		if len(users) > 0 {
			return profileInUse(owner, before, users)
		}
		if err := c.DeleteProfile(ctx, profile); err != nil {
			return fmt.Errorf("delete profile: %w", err)
		}
		return c.recordProfile(ctx, "site_profile.delete", owner, before)
	})
}

// mostUsersNamed is how many users of a profile a refusal names.
const mostUsersNamed = 5

func profileInUse(at Site, p Profile, users []sitedb.ProfileUsersRow) error {
	named := make([]string, 0, mostUsersNamed+1)
	for _, u := range users[:min(len(users), mostUsersNamed)] {
		named = append(named, u.Kind+" "+u.Hostname)
	}
	if more := len(users) - mostUsersNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return fault.New(fault.Conflict, "profile_in_use", "the profile %s of site %s is in use by %s", p.Name, at.Name,
		strings.Join(named, ", ")).
		WithRemedy("disable it, so that no new work goes by it: gpuaas site profile set %s %s status=disabled; "+
			"delete it once they have left", at.Name, p.Name)
}

func defaultStays() error {
	return fault.New(fault.Conflict, "profile_default_required",
		"the profile %q cannot be renamed, disabled or deleted: it is meant when a request names none", DefaultProfile).
		WithRemedy("change its policy instead, or disable the site")
}

// Profile reads one profile of a site.
func (s *Service) Profile(ctx context.Context, site id.Site, profile id.Profile) (Profile, error) {
	if _, err := s.Site(ctx, site); err != nil {
		return Profile{}, err
	}
	row, err := s.reads.Profile(ctx, sitedb.ProfileParams{SiteID: site, ID: profile})
	return profileFrom(row), orNotFound("profile", err)
}

// Profiles lists the profiles of a site.
func (s *Service) Profiles(ctx context.Context, site id.Site, page postgres.Slice[id.Profile]) ([]Profile, error) {
	if _, err := s.Site(ctx, site); err != nil {
		return nil, err
	}
	rows, err := s.reads.ListProfiles(ctx, sitedb.ListProfilesParams{
		SiteID: site, After: page.After.String(),
		PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list profiles: %w", err)
	}
	return converted(rows, profileFrom), nil
}
