package site

import (
	"context"
	"fmt"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// network says whether MAAS has the PXE network, and what else the site requires, as
// described.
func (p *probing) network(racks []Rack) {
	const pxe, capabilities = "pxe_network", "capabilities"
	var bad, warned []string
	var first, lacking *fault.Error
	for _, profile := range p.profiles {
		if f, is := fault.As(RequirePXE(p.site, profile.Policy, racks)); is {
			text := fmt.Sprintf("profile %s: %s", profile.Name, f.Message)
			if profile.Policy.StrictPXEPreflight {
				bad = append(bad, text)
				first = f
			} else {
				warned = append(warned, text)
			}
		}
		if f, is := fault.As(RequireCapabilities(p.site, profile.Policy, racks)); is {
			lacking = f
		}
	}
	switch {
	case first != nil:
		p.bad(pxe, first.Code, first.Remedy, "%s", strings.Join(bad, "; "))
	case len(warned) > 0:
		p.well(pxe, "WARNING, which the profile lets pass: %s", strings.Join(warned, "; "))
	default:
		p.well(pxe, "a rack controller is on it, and MAAS serves DHCP there")
	}
	if lacking != nil {
		p.fail(capabilities, lacking)
		return
	}
	p.well(capabilities, "required: %s", listed(converted(p.site.Settings.RequiredCapabilities,
		func(c Capability) string { return string(c) })))
}

// probeBundles reads the bundle of every profile, which proves that it is there and
// has the digest that the profile was pinned to.
func (s *Service) probeBundles(ctx context.Context, p *probing) error {
	const name = "bundle"
	var bad, named []string
	var first *fault.Error
	for _, profile := range p.profiles {
		ref := profile.Policy.SiteBootstrapBundleRef
		if ref == "" {
			continue
		}
		_, _, err := s.BundleProgram(ctx, p.site, profile)
		f, known := fault.As(err)
		switch {
		case err == nil:
			named = append(named, fmt.Sprintf("%s: %s, SHA-256 %.12s…", profile.Name, ref, profile.BundleDigest))
		case !known:
			return err
		default:
			bad = append(bad, fmt.Sprintf("profile %s: %s", profile.Name, f.Message))
			if first == nil {
				first = f
			}
		}
	}
	switch {
	case first != nil:
		p.bad(name, first.Code, first.Remedy, "%s", strings.Join(bad, "; "))
	case len(named) > 0:
		p.well(name, "%s", strings.Join(named, "; "))
	default:
		p.well(name, "no profile names one")
	}
	return nil
}

func (p *probing) scripts(ctx context.Context) {
	const name = "scripts"
	if len(p.site.Settings.RequiredScripts) == 0 {
		p.well(name, "the site requires none")
		return
	}
	have, err := p.region.Scripts(ctx)
	if err == nil {
		err = RequireScripts(p.site, have)
	}
	if err != nil {
		p.fail(name, err)
		return
	}
	p.well(name, "MAAS has %s", strings.Join(p.site.Settings.RequiredScripts, ", "))
}

// IntervalWish is how often one profile wants machines to report their hardware.
type IntervalWish struct {
	Site        id.Site
	Profile     id.Profile
	SiteName    string
	ProfileName string
	Interval    string
}

func (w IntervalWish) String() string {
	return fmt.Sprintf("profile %s of site %s wants %s", w.ProfileName, w.SiteName, w.Interval)
}

// agrees says whether two intervals are the same, however they are written.
func agrees(a, b string) bool {
	x, err := ParseInterval(a)
	y, err2 := ParseInterval(b)
	return err == nil && err2 == nil && x == y
}

// IntervalWishes are those of all profiles that share the MAAS of a site. MAAS has
// one interval for all machines: the first wish owns it, and nobody else sets it.
func (s *Service) IntervalWishes(ctx context.Context, site id.Site) ([]IntervalWish, error) {
	rows, err := s.reads.IntervalWishes(ctx, site.String())
	if err != nil {
		return nil, fmt.Errorf("list intervals of hardware sync: %w", err)
	}
	out := make([]IntervalWish, len(rows))
	for i, r := range rows {
		out[i] = IntervalWish{
			Site: r.SiteID, Profile: r.ProfileID, SiteName: r.Site, ProfileName: r.Profile, Interval: r.HardwareSyncInterval,
		}
	}
	return out, nil
}

// interval says whether MAAS has the interval of its owner, and who else wants
// another one.
func (p *probing) interval(ctx context.Context, wishes []IntervalWish) {
	const name, code = "hw_sync_interval", "maas_hw_sync_interval"
	text, err := p.region.Setting(ctx, "hardware_sync_interval")
	if err != nil {
		p.fail(name, err)
		return
	}
	if _, err := ParseInterval(text); err != nil {
		p.bad(name, code, "set hardware_sync_interval in MAAS", "MAAS has the interval %q, which cannot be read", text)
		return
	}
	if len(wishes) == 0 {
		p.well(name, "MAAS has %s; no profile asks for hardware sync", text)
		return
	}
	owner := wishes[0]
	var others, remedies []string
	for _, w := range wishes[1:] {
		if !agrees(w.Interval, owner.Interval) {
			others = append(others, w.String())
			remedies = append(remedies, fmt.Sprintf("gpuaas site profile set %s %s hardware_sync_interval=%s", w.SiteName,
				w.ProfileName, owner.Interval))
		}
	}
	switch {
	case len(others) > 0:
		p.bad(name, "maas_hw_sync_interval_conflict",
			"agree on one: "+strings.Join(remedies, "; ")+"; MAAS has one interval for all machines, and goes by the oldest site",
			"MAAS has %s; %s and owns the setting, but %s", text, owner, strings.Join(others, ", "))
	case !agrees(text, owner.Interval):
		p.bad(name, code,
			"set hardware_sync_interval in MAAS, or correct the profile; the next deployment by the profile that owns it sets it",
			"MAAS has %s, but %s", text, owner)
	default:
		p.well(name, "%s", text)
	}
}
