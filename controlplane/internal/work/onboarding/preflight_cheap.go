package onboarding

import (
	"context"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site"
)

// requireWorkable refuses a request that cannot work as things are, with a
// reason for each machine. It reads only rows: MAAS or a secrets engine that is
// unreachable now may be back when the work begins. The transaction of the
// request refuses sites and profiles that take no new work.
func (s *Service) requireWorkable(ctx context.Context, n NewOnboarding, at func(int) string) error {
	p := &preflight{Service: s, asked: n}
	var err error
	if p.site, err = s.sites.Site(ctx, n.Site); err != nil {
		return err
	}
	if p.profile, err = p.chosen(ctx); err != nil {
		return err
	}
	if site.RequireEnabled(p.site) != nil || site.RequireProfileEnabled(p.profile) != nil {
		return nil //nolint:nilerr // the transaction of the request refuses it
	}
	var bad []fault.Field
	if !p.site.APIToken.Present() {
		bad = append(bad, fault.Field{
			Path: "body.site_id",
			Message: "the site " + p.site.Name + " has no MAAS token: gpuaas site credentials set " + p.site.Name +
				" --maas-token-file FILE",
		})
	}
	if _, err := s.sites.RequireBundle(ctx, p.site, p.profile); err != nil {
		f, known := fault.As(err)
		if !known {
			return err
		}
		bad = append(bad, fault.Field{Path: "body.profile_id", Message: f.Code + ": " + f.Message + ": " + f.Remedy})
	}
	machines, err := p.unworkable(ctx, at)
	if err != nil {
		return err
	}
	if bad = append(bad, machines...); len(bad) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "onboarding_unworkable",
		"nothing was started: what was asked for cannot work as things stand").
		WithRemedy("put right what the fields name, then ask again; gpuaas onboard --dry-run shows everything that is in the way").
		WithFields(bad...)
}

// unworkable says what keeps each machine from being onboarded.
func (p *preflight) unworkable(ctx context.Context, at func(int) string) ([]fault.Field, error) {
	overrides, err := p.sites.PowerOverrides(ctx, p.asked.Site, postgres.Slice[id.PowerOverride]{Limit: everything})
	if err != nil {
		return nil, err
	}
	of := map[string][]site.AssignmentRow{}
	if p.profile.Policy.EnablePhase2RoCE {
		if of, err = p.assignments(ctx, p.asked); err != nil {
			return nil, err
		}
	}
	var bad []fault.Field
	for i, m := range p.asked.Machines {
		_, err := site.ChoosePower(p.site, overrides, site.Machine{Hostname: m.Hostname, IPMIIP: m.IPMIIP})
		if f, known := fault.As(err); known {
			bad = append(bad, fault.Field{Path: at(i) + "ipmi_ip", Message: m.Hostname + ": " + f.Message + ": " + f.Remedy})
		}
		if rows := malformed(m.Hostname, of[m.Hostname]); len(rows) > 0 {
			bad = append(bad, fault.Field{
				Path:    at(i) + "hostname",
				Message: strings.Join(rows, "; ") + ": gpuaas site roce import " + p.site.Name + " FILE",
			})
		}
	}
	return bad, nil
}
