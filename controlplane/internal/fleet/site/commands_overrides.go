package site

import (
	"context"
	"fmt"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// CreatePowerOverride writes BMC credentials for one machine.
func (s *Service) CreatePowerOverride(ctx context.Context, site id.Site, n NewPowerOverride) (PowerOverride, error) {
	var p problems
	selector := n.Selector.checked(&p)
	n.Credentials.check(&p, "body.")
	if err := p.rejected(); err != nil {
		return PowerOverride{}, err
	}
	owner, err := s.Site(ctx, site)
	if err != nil {
		return PowerOverride{}, err
	}
	taken, err := s.reads.SelectorTaken(ctx,
		sitedb.SelectorTakenParams{SiteID: site, SelectorType: string(selector.Type), SelectorValue: selector.Value})
	if err != nil {
		return PowerOverride{}, fmt.Errorf("look for override: %w", err)
	}
	if taken {
		return PowerOverride{}, selectorTaken(selector)
	}
	// Until its row is there nothing leads to this path: what a crash leaves
	// behind is never used.
	override := id.New[id.PowerOverride]()
	if err := s.secrets.Put(ctx, overridePath(site, override), n.Credentials.fields()); err != nil {
		return PowerOverride{}, err
	}
	made, err := s.noteOverride(ctx, owner, override, selector, n.Credentials)
	if err != nil && fault.KindOf(err) != fault.Ambiguous {
		if gone := s.secrets.Delete(ctx, overridePath(site, override)); gone != nil {
			return PowerOverride{}, fmt.Errorf("%w (and its credentials stay in the secrets engine, unused: %w)", err, gone)
		}
	}
	return made, err
}

func (s *Service) noteOverride(ctx context.Context, owner Site, override id.PowerOverride, selector Selector,
	given PowerCredentials,
) (PowerOverride, error) {
	var made PowerOverride
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		now, err := c.lock(ctx, owner.ID)
		if err != nil {
			return err
		}
		row, err := c.InsertOverride(ctx, sitedb.InsertOverrideParams{
			ID: override, SiteID: now.ID, SelectorType: string(selector.Type), SelectorValue: selector.Value,
			Status:      string(Active),
			Fingerprint: s.fingerprint(now.salt, given.parts()...), RotatedAt: s.now().UTC(),
		})
		if postgres.Violates(err, "maas_power_override_selector") {
			return selectorTaken(selector)
		}
		if err != nil {
			return fmt.Errorf("insert override: %w", err)
		}
		made = overrideFrom(row)
		return c.recordOverride(ctx, "power_override.create", now, made)
	})
	return made, err
}

func (c change) recordOverride(ctx context.Context, action string, site Site, o PowerOverride) error {
	return c.record(ctx, eventwire.SiteUpdated, site, partOverride, siteEntry(action, site, map[string]any{
		"power_override_id": o.ID, "selector_type": o.Selector.Type, "selector_value": o.Selector.Value, "status": o.Status,
	}))
}

func selectorTaken(s Selector) error {
	return fault.New(fault.Conflict, "power_override_taken", "there is already an override by %s %s", s.Type, s.Value).
		WithRemedy("change that one instead")
}

// UpdatePowerOverride changes an override that is still at a version.
func (s *Service) UpdatePowerOverride(ctx context.Context, site id.Site, override id.PowerOverride, version int64,
	ch PowerOverrideChange,
) (PowerOverride, error) {
	before, err := s.PowerOverride(ctx, site, override)
	if err != nil {
		return PowerOverride{}, err
	}
	if err := atVersion(before.Version, version); err != nil {
		return PowerOverride{}, err
	}
	if ch.Credentials != nil {
		var p problems
		ch.Credentials.check(&p, "body.")
		if err := p.rejected(); err != nil {
			return PowerOverride{}, err
		}
		if err := s.secrets.Put(ctx, overridePath(site, override), ch.Credentials.fields()); err != nil {
			return PowerOverride{}, err
		}
	}
	var after PowerOverride
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		row, err := c.LockOverride(ctx, sitedb.LockOverrideParams{SiteID: site, ID: override})
		if err != nil {
			return orNotFound("override", err)
		}
		if err := atVersion(row.Version, version); err != nil {
			return err
		}
		return s.changeOverride(ctx, c, owner, row, ch, &after)
	})
	return after, err
}

func (s *Service) changeOverride(ctx context.Context, c change, owner Site, row sitedb.Override, ch PowerOverrideChange,
	after *PowerOverride,
) error {
	params := sitedb.UpdateOverrideParams{
		ID: row.ID, Status: row.Status, Fingerprint: row.Fingerprint,
		RotatedAt: row.RotatedAt,
	}
	if ch.Status != nil {
		params.Status = string(*ch.Status)
	}
	if ch.Credentials != nil {
		params.Fingerprint = s.fingerprint(owner.salt, ch.Credentials.parts()...)
		params.RotatedAt = s.now().UTC()
	}
	row, err := c.UpdateOverride(ctx, params)
	if err != nil {
		return fmt.Errorf("update override: %w", err)
	}
	*after = overrideFrom(row)
	if ch.Credentials == nil {
		return c.recordOverride(ctx, "power_override.update", owner, *after)
	}
	entry := siteEntry("power_override.credentials_write", owner,
		map[string]any{"power_override_id": row.ID, "status": row.Status})
	return c.recordWith(ctx, entry, rotated(owner.ID, row.ID, params.RotatedAt, "power_override"))
}

// DeletePowerOverride removes the credentials, then the override. Until both
// are gone, a machine it is for gets none rather than the wrong ones.
func (s *Service) DeletePowerOverride(ctx context.Context, site id.Site, override id.PowerOverride) error {
	before, err := s.PowerOverride(ctx, site, override)
	if err != nil {
		return err
	}
	if err := s.secrets.Delete(ctx, overridePath(site, override)); err != nil {
		return err
	}
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		n, err := c.DeleteOverride(ctx, sitedb.DeleteOverrideParams{SiteID: site, ID: override})
		if err != nil {
			return fmt.Errorf("delete override: %w", err)
		}
		if n == 0 {
			return notFound("override")
		}
		return c.recordOverride(ctx, "power_override.delete", owner, before)
	})
}

// ForgetMachine removes the overrides that are for a machine which leaves, disabled
// ones too, and returns how many there were: nobody would look for its credentials
// again. On a failure those that are left are removed by the next call.
func (s *Service) ForgetMachine(ctx context.Context, site id.Site, m Machine) (removed int, err error) {
	if m, err = m.checked(); err != nil {
		return 0, err
	}
	rows, err := s.reads.MatchingOverrides(ctx,
		sitedb.MatchingOverridesParams{SiteID: site, Hostname: m.Hostname, IpmiIp: m.IPMIIP, PxeMac: m.PXEMAC})
	if err != nil {
		return 0, fmt.Errorf("look for overrides: %w", err)
	}
	for _, row := range rows {
		if err := s.DeletePowerOverride(ctx, site, row.ID); err != nil && fault.KindOf(err) != fault.NotFound {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// PowerOverride reads one override of a site.
func (s *Service) PowerOverride(ctx context.Context, site id.Site, override id.PowerOverride) (PowerOverride, error) {
	if _, err := s.Site(ctx, site); err != nil {
		return PowerOverride{}, err
	}
	row, err := s.reads.Override(ctx, sitedb.OverrideParams{SiteID: site, ID: override})
	return overrideFrom(row), orNotFound("override", err)
}

// PowerOverrides lists the overrides of a site.
func (s *Service) PowerOverrides(ctx context.Context, site id.Site,
	page postgres.Slice[id.PowerOverride],
) ([]PowerOverride, error) {
	if _, err := s.Site(ctx, site); err != nil {
		return nil, err
	}
	rows, err := s.reads.ListOverrides(ctx, sitedb.ListOverridesParams{
		SiteID: site, After: page.After.String(),
		PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list overrides: %w", err)
	}
	return converted(rows, overrideFrom), nil
}

// ChoicePower says whose BMC credentials a machine would get, and why.
func (s *Service) ChoicePower(ctx context.Context, site id.Site, m Machine) (Choice, error) {
	_, choice, err := s.choosePower(ctx, site, m)
	return choice, err
}

func (s *Service) choosePower(ctx context.Context, site id.Site, m Machine) (Site, Choice, error) {
	m, err := m.checked()
	if err != nil {
		return Site{}, Choice{}, err
	}
	found, err := s.Site(ctx, site)
	if err != nil {
		return Site{}, Choice{}, err
	}
	rows, err := s.reads.MatchingOverrides(ctx,
		sitedb.MatchingOverridesParams{SiteID: site, Hostname: m.Hostname, IpmiIp: m.IPMIIP, PxeMac: m.PXEMAC})
	if err != nil {
		return Site{}, Choice{}, fmt.Errorf("look for overrides: %w", err)
	}
	choice, err := ChoosePower(found, converted(rows, overrideFrom), m)
	return found, choice, err
}
