package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
)

// Region is what a probe and the check of a token ask a MAAS region.
type Region interface {
	Version(ctx context.Context) (string, error)
	User(ctx context.Context) (RegionUser, error)
	Racks(ctx context.Context) ([]Rack, error)
	Setting(ctx context.Context, name string) (string, error)
	// Lacks says which images are not there under exactly their name.
	Lacks(ctx context.Context, images []Image) ([]Image, error)
	// Machines says how those stand that the region has under some host names.
	Machines(ctx context.Context, hostnames []string) ([]RegionMachine, error)
	// Scripts lists the commissioning and testing scripts.
	Scripts(ctx context.Context) ([]Script, error)
	// Skew is how far the clock of the region is ahead, when an answer said so.
	Skew() (time.Duration, bool)
	Close()
}

// RegionUser is whom a token belongs to.
type RegionUser struct {
	Name  string
	Admin bool
}

// Rack is a rack controller.
type Rack struct {
	Name    string
	Rackd   string // status of its service rackd
	Healthy bool

	Interfaces []RackInterface
}

// RegionMachine is a machine as the region shows it.
type RegionMachine struct {
	SystemID string
	Hostname string
	Status   string // in the words of MAAS
	Taken    bool   // somebody has it, or something is installed on it
}

// Image is an image that a profile deploys.
type Image struct{ Name, Architecture string }

// Check is one answer of a probe.
type Check struct {
	Name   string `json:"name" enum:"reachable,version,token_valid,token_admin,rack_controllers,pxe_network,capabilities,images,scripts,bundle,hw_sync_interval,dns_servers,clock_skew,hw_sync_source,deploy_password" doc:"What was looked at."`
	OK     bool   `json:"ok"`
	Detail string `json:"detail" doc:"What was found."`
	Remedy string `json:"remedy,omitempty" doc:"What to do about it; absent when it is well."`
	Code   string `json:"code,omitempty" doc:"What is wrong, for programs; not_checked when an earlier check is in the way. Absent when it is well."`
}

// Probe limits: a caller waits, and a region that hangs must not use up the
// time of the request.
const (
	probeLimit = 25 * time.Second
	maxSkew    = 60 * time.Second // MAAS refuses signatures that are five minutes old
)

// MachinesNamed asks the region of a site which machines it has under some host
// names, and how they stand.
func (s *Service) MachinesNamed(ctx context.Context, site id.Site, hostnames []string) ([]RegionMachine, error) {
	found, err := s.Site(ctx, site)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	token, err := s.token(ctx, found)
	if err != nil {
		return nil, err
	}
	access, err := accessTo(found, token)
	if err != nil {
		return nil, err
	}
	region, err := s.regions.Open(access)
	if err != nil {
		return nil, err
	}
	defer region.Close()
	return region.Machines(ctx, hostnames)
}

// Probe looks at everything that work on a site needs. It fails only when the
// site cannot be read: whatever else is wrong is in the checks.
func (s *Service) Probe(ctx context.Context, site id.Site) ([]Check, error) {
	return s.ProbeFor(ctx, site, id.Profile{})
}

// ProbeFor looks at everything that work by one profile needs; the zero profile
// stands for all that are in use.
func (s *Service) ProbeFor(ctx context.Context, site id.Site, profile id.Profile) ([]Check, error) {
	found, err := s.Site(ctx, site)
	if err != nil {
		return nil, err
	}
	profiles, err := s.Profiles(ctx, site, postgres.Slice[id.Profile]{Limit: 1000})
	if err != nil {
		return nil, err
	}
	profiles = slices.DeleteFunc(profiles, func(p Profile) bool {
		return !profile.IsZero() && p.ID != profile || profile.IsZero() && p.Status != Active
	})
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	p := &probing{site: found, profiles: profiles}
	unpinned, err := s.reads.CountUnpinned(ctx, site)
	if err != nil {
		return nil, fmt.Errorf("count nodes without a pin: %w", err)
	}
	wishes, err := s.IntervalWishes(ctx, site)
	if err != nil {
		return nil, err
	}
	p.syncSource(unpinned)
	p.sharedPassword()
	if err := s.probeBundles(ctx, p); err != nil {
		return nil, err
	}
	token, tokenErr := s.token(ctx, found)
	access, err := accessTo(found, token)
	if err != nil {
		return nil, err
	}
	if p.region, err = s.regions.Open(access); err != nil {
		p.fail("reachable", err)
		return p.rest("reachable"), nil
	}
	defer p.region.Close()
	if p.reach(ctx); !p.last().OK {
		return p.rest("reachable"), nil
	}
	if tokenErr != nil {
		p.fail("token_valid", tokenErr)
	} else {
		p.identify(ctx)
	}
	if p.ok("token_valid") {
		p.racks(ctx)
		p.images(ctx)
		p.scripts(ctx)
		p.interval(ctx, wishes)
		p.dns(ctx)
	}
	p.clock()
	return p.rest("token_valid"), nil
}

// syncSource says what vouches for the program by which machines report their
// hardware: root runs it. Machines that were deployed before that count by
// themselves.
func (p *probing) syncSource(unpinned int64) {
	const name = "hw_sync_source"
	s := p.site.Settings
	trusted := fmt.Sprintf("let MAAS speak https, or pin the program: gpuaas site update %s --hw-sync-http pinned",
		p.site.Name)
	switch {
	case !slices.ContainsFunc(p.profiles, func(p Profile) bool { return p.Policy.RequireHWSync }):
		p.well(name, "no profile asks for hardware sync")
	case s.PinsSync() && s.HWSyncHTTP == SyncUndecided:
		p.bad(name, "hw_sync_undecided",
			fmt.Sprintf("decide: %s; or accept that: gpuaas site update %s --hw-sync-http accepted", trusted, p.site.Name),
			"nobody has decided what vouches for the program that machines get over plain HTTP and root runs: "+
				"new machines go by its digest, and root on machines of before may run whatever comes")
	case unpinned > 0 && !s.PlainSync():
		p.bad(name, "hw_sync_unpinned",
			"agents of this release are told its digest by themselves within a day, unless the site has a CA of its own: "+
				"then reimage the nodes, so that they fetch it over https",
			"root on %d nodes may run what plain HTTP brings: they were deployed before the site vouched for the program, and have not said since that they go by its digest", unpinned)
	case s.PinsSync():
		p.well(name, "machines get it over plain HTTP and run only what has the digest that the control plane saw")
	case !s.PlainSync():
		p.well(name, "machines get it over https")
	default:
		p.bad(name, "hw_sync_plain_http", trusted,
			"root on every machine runs what plain HTTP brings; somebody has accepted that")
	}
}

// sharedPassword advises to rotate a password that machines were given.
func (p *probing) sharedPassword() {
	const name = "deploy_password"
	at := p.site.SharedPassword()
	if at == nil {
		p.well(name, "no machine was given a password of the site")
		return
	}
	p.bad(name, "deploy_password_shared",
		fmt.Sprintf("once no onboarding from before is under way, write another one, which no machine is told: "+
			"gpuaas site credentials set %s --deploy-password-file FILE", p.site.Name),
		"every machine that was deployed before %s was given the deploy password of the site, so whoever had one of them may know it", at.UTC().Format(time.DateOnly))
}

// checkNames is the order in which checks are shown.
var checkNames = []string{
	"reachable", "version", "token_valid", "token_admin", "rack_controllers", "pxe_network", "capabilities",
	"images", "scripts", "bundle", "hw_sync_interval", "dns_servers", "clock_skew", "hw_sync_source", "deploy_password",
}

// probing collects the checks of one probe.
type probing struct {
	site     Site
	profiles []Profile
	region   Region
	checks   []Check
}

func (p *probing) well(name, format string, args ...any) {
	p.checks = append(p.checks, Check{Name: name, OK: true, Detail: shown(format, args...)})
}

func (p *probing) bad(name, code, remedy, format string, args ...any) {
	if remedy == "" {
		remedy = "look into the log of the control plane"
	}
	p.checks = append(p.checks, Check{Name: name, Code: code, Remedy: remedy, Detail: shown(format, args...)})
}

// shown bounds and cleans a text that may hold what MAAS, or something that
// pretends to be MAAS, answered.
func shown(format string, args ...any) string {
	const most = 500
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f {
			return '?'
		}
		return r
	}, fmt.Sprintf(format, args...))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func (p *probing) fail(name string, err error) {
	f, known := fault.As(err)
	switch {
	case known && f.Kind != fault.Internal:
		p.bad(name, f.Code, f.Remedy, "%s", f.Message)
	case known: // its message may be nobody's business; its code and remedy are not
		p.bad(name, f.Code, f.Remedy, "something in the control plane refused")
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		p.bad(name, "maas_unreachable", "check that MAAS is running and not overloaded", "MAAS did not answer in time")
	default:
		p.bad(name, "internal", "", "it could not be found out")
	}
}

func (p *probing) last() Check { return p.checks[len(p.checks)-1] }

func (p *probing) ok(name string) bool {
	return slices.ContainsFunc(p.checks, func(c Check) bool { return c.Name == name && c.OK })
}

// rest adds what could not be looked at, in the order of all checks.
func (p *probing) rest(obstacle string) []Check {
	out := make([]Check, 0, len(checkNames))
	for _, name := range checkNames {
		i := slices.IndexFunc(p.checks, func(c Check) bool { return c.Name == name })
		if i >= 0 {
			out = append(out, p.checks[i])
			continue
		}
		out = append(out, Check{
			Name: name, Code: "not_checked", Detail: "not looked at",
			Remedy: "first correct: " + obstacle,
		})
	}
	return out
}

func (p *probing) reach(ctx context.Context) {
	version, err := p.region.Version(ctx)
	if fault.CodeOf(err) == "maas_token_invalid" { // only MAAS refuses a key of MAAS
		p.well("reachable", "%s answers as MAAS", p.site.Settings.APIBaseURL)
		return
	}
	if err != nil {
		p.fail("reachable", err)
		return
	}
	if supported(version) {
		p.well("version", "MAAS %s", version)
	} else {
		p.bad("version", "maas_version_unsupported", "upgrade MAAS to 3.3 or newer", "MAAS %q is older than 3.3", version)
	}
	p.well("reachable", "%s answers as MAAS", p.site.Settings.APIBaseURL)
}

func supported(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	x, err := strconv.Atoi(major)
	y, err2 := strconv.Atoi(strings.TrimRight(minor, "abcdefghijklmnopqrstuvwxyz~-"))
	return err == nil && err2 == nil && (x > 3 || x == 3 && y >= 3)
}

func (p *probing) identify(ctx context.Context) {
	user, err := p.region.User(ctx)
	if err != nil {
		p.fail("token_valid", err)
		return
	}
	p.well("token_valid", "belongs to %s", user.Name)
	if user.Admin {
		p.well("token_admin", "%s is an administrator", user.Name)
		return
	}
	p.fail("token_admin", notAdmin(user.Name))
}

func (p *probing) racks(ctx context.Context) {
	racks, err := p.region.Racks(ctx)
	if err != nil {
		for _, name := range []string{"rack_controllers", "pxe_network", "capabilities"} {
			p.fail(name, err)
		}
		return
	}
	p.network(racks)
	var ill []string
	for _, r := range racks {
		if !r.Healthy {
			ill = append(ill, fmt.Sprintf("%s (rackd %s)", r.Name, r.Rackd))
		}
	}
	switch {
	case len(racks) == 0:
		p.bad("rack_controllers", "maas_no_rack",
			"register a rack controller, and check that the token is one of an administrator", "MAAS shows no rack controller")
	case len(ill) > 0:
		p.bad("rack_controllers", "maas_rack_unhealthy", "look at the rack controller in MAAS and at its log",
			"not healthy: %s", strings.Join(ill, ", "))
	default:
		p.well("rack_controllers", "%d, all healthy", len(racks))
	}
}

func (p *probing) images(ctx context.Context) {
	var wanted []Image
	users := map[Image][]string{}
	for _, profile := range p.profiles {
		image := Image{Name: profile.Policy.DistroSeries, Architecture: profile.Policy.Architecture}
		if users[image] == nil {
			wanted = append(wanted, image)
		}
		users[image] = append(users[image], profile.Name)
	}
	lacking, err := p.region.Lacks(ctx, wanted)
	if err != nil {
		p.fail("images", err)
		return
	}
	if len(lacking) == 0 {
		p.well("images", "MAAS has every image that the profiles name: %d", len(wanted))
		return
	}
	texts := make([]string, len(lacking))
	for i, image := range lacking {
		texts[i] = fmt.Sprintf("%s for %s (profile %s)", image.Name, image.Architecture, strings.Join(users[image], ", "))
	}
	p.bad("images", "maas_image_missing", "import or upload the image in MAAS, or correct the profile", "missing: %s",
		strings.Join(texts, "; "))
}

func (p *probing) dns(ctx context.Context) {
	text, err := p.region.Setting(ctx, "upstream_dns")
	if err != nil {
		p.fail("dns_servers", err)
		return
	}
	have := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	missing := slices.DeleteFunc(slices.Clone(p.site.Settings.UpstreamDNSServers),
		func(s string) bool { return slices.Contains(have, s) })
	if len(missing) > 0 {
		p.bad("dns_servers", "maas_dns_differs",
			"set upstream_dns in MAAS to "+strings.Join(p.site.Settings.UpstreamDNSServers, " ")+", or correct the site",
			"MAAS does not forward to %s", strings.Join(missing, ", "))
		return
	}
	p.well("dns_servers", "MAAS forwards to %s", strings.Join(have, ", "))
}

func (p *probing) clock() {
	ahead, known := p.region.Skew()
	switch {
	case !known:
		p.bad("clock_skew", "maas_clock_unknown", "check that no proxy removes the Date header",
			"MAAS does not tell its time")
	case ahead.Abs() > maxSkew:
		p.bad("clock_skew", "maas_clock_skew", "set the clocks of the MAAS region and of the control plane by NTP",
			"the clock of MAAS differs by %s", ahead)
	default:
		p.well("clock_skew", "differs by %s", ahead.Abs())
	}
}
