package onboarding

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/sku"
)

// Check is one result of a preflight.
type Check struct {
	Name   string `json:"name" doc:"What was looked at." example:"power_credentials"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail" doc:"What was found."`
	Remedy string `json:"remedy,omitempty" doc:"What to do about it; absent when nothing is wrong."`
	Code   string `json:"code,omitempty" doc:"What is wrong, for programs; not_checked when an earlier check is in the way. Absent when nothing is wrong."`
}

// preflight collects what was found.
type preflight struct {
	*Service
	asked   NewOnboarding
	site    site.Site
	profile site.Profile
	found   Preflighted
}

// Preflighted is what one part of a preflight found.
type Preflighted struct {
	Checks []Check
	// LookedAt is how many machines of the request, counted from the first,
	// this part and the earlier ones have asked MAAS about.
	LookedAt int
	// Next is the machine that the next part begins with; 0 if this was the
	// last part.
	Next int
}

// Preflight checks everything that an onboarding needs before anything starts,
// and changes nothing. It fails only if the site cannot be read; the checks
// report everything else that is wrong.
//
// MAAS needs up to a tenth of a second for each machine, so the machines are
// checked in parts. The first part, from 0, also checks everything that does
// not depend on single machines. Each further part begins with the Next of the
// part before.
func (s *Service) Preflight(ctx context.Context, asked NewOnboarding, from int) (Preflighted, error) {
	switch {
	case len(asked.Machines) == 0:
		return Preflighted{}, fault.New(fault.Invalid, "batch_empty", "a batch needs at least one machine")
	case len(asked.Machines) > MaxBatch:
		return Preflighted{}, fault.New(fault.Invalid, "batch_too_large", "a batch has %d machines at most, not %d", MaxBatch,
			len(asked.Machines))
	case from < 0 || from >= len(asked.Machines):
		return Preflighted{}, rejectedAs("body.from_machine", "must be less than the number of machines")
	}
	found, err := s.sites.Site(ctx, asked.Site)
	if err != nil {
		return Preflighted{}, err
	}
	p := &preflight{Service: s, asked: asked, site: found}
	if from > 0 {
		if p.wellFormed() {
			p.inMAAS(ctx, from)
		}
		return p.found, nil
	}
	p.note("site_active", site.RequireEnabled(found), "the site %s takes new work", found.Name)
	if err := p.policy(ctx); err != nil {
		return Preflighted{}, err
	}
	if err := p.maas(ctx); err != nil {
		return Preflighted{}, err
	}
	p.sku(ctx)
	p.machines(ctx)
	return p.found, p.capacity(ctx)
}

// wellFormed normalises the machines, and says whether all are well-formed.
func (p *preflight) wellFormed() bool {
	normal, err := checked(p.asked.Machines, func(i int) string { return p.asked.Machines[i].Hostname + " " })
	p.note("machines", err, "%d, each with a host name and a BMC address", len(normal))
	if err == nil {
		p.asked.Machines = normal
	}
	return err == nil
}

// machines checks each machine after all were found well-formed.
func (p *preflight) machines(ctx context.Context) {
	if !p.wellFormed() {
		for _, name := range []string{"power_credentials", "roce_rows", "not_in_use", "machines_in_maas"} {
			p.bad(name, "not_checked", "first correct: machines", "not looked at")
		}
		return
	}
	p.power(ctx)
	p.roce(ctx)
	p.inUse(ctx)
	p.inMAAS(ctx, 0)
}

func (p *preflight) well(name, format string, args ...any) {
	p.found.Checks = append(p.found.Checks, Check{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)})
}

func (p *preflight) bad(name, code, remedy, format string, args ...any) {
	p.found.Checks = append(p.found.Checks,
		Check{Name: name, Code: code, Remedy: remedy, Detail: fmt.Sprintf(format, args...)})
}

// note adds a check whose result is the error; the text applies if there is
// none.
func (p *preflight) note(name string, err error, format string, args ...any) {
	f, known := fault.As(err)
	switch {
	case err == nil:
		p.well(name, format, args...)
	case known && f.Kind != fault.Internal:
		p.bad(name, f.Code, or(f.Remedy, "correct it and look again"), "%s", withFields(f))
	default: // the message of a defect may not be for the caller
		p.bad(name, fault.CodeOf(err), "look into the log of the control plane", "it could not be found out")
		p.logger.WarnContext(context.Background(), "preflight could not check something", "check", name, "error", err)
	}
}

// withFields returns the message of a failure with what is wrong with each
// rejected field.
func withFields(f *fault.Error) string {
	if len(f.Fields) == 0 {
		return f.Message
	}
	texts := make([]string, len(f.Fields))
	for i, field := range f.Fields {
		texts[i] = field.Path + " " + field.Message
	}
	return f.Message + ": " + some(texts)
}

// some joins texts, but not hundreds of them.
func some(texts []string) string {
	const most = 10
	if len(texts) <= most {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:most], "; "), len(texts)-most)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// policy chooses the profile, and checks that it can be used.
func (p *preflight) policy(ctx context.Context) error {
	profile, err := p.chosen(ctx)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	p.profile = profile
	if err == nil {
		err = site.RequireProfileEnabled(profile)
	}
	p.note("profile", err, "profile %s: image %s for %s", profile.Name, profile.Policy.DistroSeries,
		profile.Policy.Architecture)
	return nil
}

func (p *preflight) chosen(ctx context.Context) (site.Profile, error) {
	if !p.asked.Profile.IsZero() {
		return p.sites.Profile(ctx, p.asked.Site, p.asked.Profile)
	}
	all, err := p.sites.Profiles(ctx, p.asked.Site, postgres.Slice[id.Profile]{Limit: everything})
	if err != nil {
		return site.Profile{}, err
	}
	for _, profile := range all {
		if profile.Name == site.DefaultProfile {
			return profile, nil
		}
	}
	return site.Profile{}, fault.New(fault.NotFound, "not_found", "the site has no profile %s",
		site.DefaultProfile).WithRemedy("name a profile_id")
}

// maas asks the region whether it is ready for this profile.
func (p *preflight) maas(ctx context.Context) error {
	checks, err := p.sites.ProbeFor(ctx, p.asked.Site, p.profile.ID)
	for _, c := range checks {
		p.found.Checks = append(p.found.Checks, Check(c))
	}
	return err
}

func (p *preflight) sku(ctx context.Context) {
	found, err := sku.Get(ctx, p.db, p.asked.SKU)
	if err == nil && found.Status != sku.Active {
		err = fault.New(fault.Conflict, "sku_disabled", "the SKU %s is disabled and gets no new nodes", found.ID).
			WithRemedy("enable it: gpuaas sku update %s --status active", found.ID)
	}
	p.note("sku", err, "%s: %d × %s", found.ID, found.GPUsTotal, found.GPUModel)
}

// everything is a limit above the number of rows of any site.
const everything = 1_000_000

func (p *preflight) power(ctx context.Context) {
	const name = "power_credentials"
	overrides, err := p.sites.PowerOverrides(ctx, p.asked.Site, postgres.Slice[id.PowerOverride]{Limit: everything})
	if err != nil {
		p.note(name, err, "")
		return
	}
	readable := map[id.PowerOverride]error{}
	own := 0
	var bad []string
	var first *fault.Error
	for _, m := range p.asked.Machines {
		chosen, err := p.powerOf(ctx, overrides, m, readable)
		if !chosen.IsZero() {
			own++
		}
		if err == nil {
			continue
		}
		f, known := fault.As(err)
		if !known || f.Kind == fault.Internal {
			p.note(name, err, "")
			return
		}
		if first == nil {
			first = f
		}
		bad = append(bad, m.Hostname+": "+f.Message)
	}
	if first != nil {
		p.bad(name, first.Code, or(first.Remedy, "write the credentials of the site again"), "%s", some(bad))
		return
	}
	p.well(name, "found for all %d, %d of them by an override", len(p.asked.Machines), own)
}

// powerOf looks for the BMC credentials of one machine and returns the override
// that they come from, or zero if they are the site's. Machines that share
// credentials share the request to the secrets engine.
func (p *preflight) powerOf(ctx context.Context, overrides []site.PowerOverride, m Request,
	readable map[id.PowerOverride]error,
) (id.PowerOverride, error) {
	machine := site.Machine{Hostname: m.Hostname, IPMIIP: m.IPMIIP}
	choice, err := site.ChoosePower(p.site, overrides, machine)
	if err != nil {
		return id.PowerOverride{}, err
	}
	if _, known := readable[choice.Override]; !known {
		_, _, readable[choice.Override] = p.sites.PowerFor(ctx, p.asked.Site, machine)
	}
	return choice.Override, readable[choice.Override]
}

func (p *preflight) roce(ctx context.Context) {
	const name = "roce_rows"
	if !p.profile.Policy.EnablePhase2RoCE {
		p.well(name, "the profile gives RoCE interfaces no addresses")
		return
	}
	of, err := p.assignments(ctx, p.asked)
	if err != nil {
		p.note(name, err, "")
		return
	}
	var bad, without []string
	for _, m := range p.asked.Machines {
		if of[m.Hostname] == nil {
			without = append(without, m.Hostname)
		}
		bad = append(bad, malformed(m.Hostname, of[m.Hostname])...)
	}
	switch {
	case len(bad) > 0:
		p.bad(name, "roce_rows_malformed", "correct them: gpuaas site roce import "+p.site.Name+" FILE", "%s", some(bad))
	case len(without) > 0:
		p.well(name, "well-formed; there are none for %s, which get no RoCE addresses", some(without))
	default:
		p.well(name, "well-formed, for all %d", len(p.asked.Machines))
	}
}

// assignments returns the RoCE addresses of the machines, by host name.
func (s *Service) assignments(ctx context.Context, asked NewOnboarding) (map[string][]site.AssignmentRow, error) {
	hostnames := make([]string, len(asked.Machines))
	for i, m := range asked.Machines {
		hostnames[i] = m.Hostname
	}
	return s.sites.AssignmentsOf(ctx, asked.Site, hostnames)
}

// malformed says what is wrong with the RoCE rows of a machine: two interfaces
// with the same address, or a link with both ends on this machine.
func malformed(hostname string, rows []site.AssignmentRow) []string {
	var bad []string
	holder := map[netip.Prefix]string{}
	for _, r := range rows {
		at := hostname + " " + r.Interface + ": "
		prefix, err := netip.ParsePrefix(r.IPv4CIDR)
		if err != nil || !prefix.Addr().Is4() {
			bad = append(bad, at+r.IPv4CIDR+" is not an IPv4 address with prefix length")
			continue
		}
		key := netip.PrefixFrom(prefix.Addr(), 32)
		if prefix.Bits() == 31 {
			key = prefix.Masked()
		}
		if other, taken := holder[key]; taken {
			bad = append(bad, at+r.IPv4CIDR+" is on the link of "+other)
		}
		holder[key] = r.Interface
	}
	return bad
}

// inUse checks whether the machines are known already.
func (p *preflight) inUse(ctx context.Context) {
	taken, err := inUse(ctx, p.reads, p.site, p.asked.Machines)
	if err == nil && len(taken) > 0 {
		texts := make([]string, len(taken))
		for i, t := range taken {
			texts[i] = t.Message
		}
		err = fault.New(fault.Conflict, "onboarding_conflict", "%s", some(texts)).
			WithRemedy("take those machines out of the request, or finish what uses them")
	}
	p.note("not_in_use", err, "no host name or BMC address is being onboarded or in the inventory")
}

func (p *preflight) wellSo(name string) bool {
	return slices.ContainsFunc(p.found.Checks, func(c Check) bool { return c.Name == name && c.OK })
}

// capacity says how many onboardings could begin at once. The others wait,
// which is not a fault.
func (p *preflight) capacity(ctx context.Context) error {
	held, limit, err := p.rows.Slots(ctx, p.asked.Site)
	if err != nil {
		return err
	}
	used := 0
	for _, n := range held {
		used += n
	}
	free := max(limit-used, 0)
	if len(p.asked.Machines) > 1 {
		free = min(free, int(p.profile.Policy.BatchMaxParallel))
	}
	begin := min(free, len(p.asked.Machines))
	p.well("capacity", "%d of %d places of the site are in use: %d would begin at once, %d would wait", used, limit, begin,
		len(p.asked.Machines)-begin)
	return nil
}
