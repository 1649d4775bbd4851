package reconciliation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// healthy returns a node in service on a machine that is as it should be. Each
// case changes what it is about.
func healthy(change ...func(*Subject)) Subject {
	contact, age := noon.Add(-10*time.Second), 5*time.Minute
	synced := noon.Add(-age)
	s := Subject{
		Policy: site.DefaultPolicy(), Node: id.New[id.Node](), Hostname: "c07u31", Status: node.Active, Host: "10.20.0.31",
		LastContact: &contact, SystemID: "abc123", Installation: 41, BoundAt: noon.Add(-24 * time.Hour), Now: noon,
		SyncAge: &age,
		RoCE:    []site.AssignmentRow{{Hostname: "c07u31", Interface: "enp28s0np0", IPv4CIDR: "172.30.9.61/31"}},
		Machine: &Machine{
			SystemID: "abc123", Hostname: "c07u31", Status: "Deployed", State: Installed, Power: "on", Owner: "gpuaas",
			IPs:          []string{"10.20.0.31", "172.30.9.61"},
			Installation: 41, SyncEnabled: true, SyncInterval: 15 * time.Minute, LastSync: &synced,
			Links: []Link{{Interface: "eno1", Address: "10.20.0.31"}, {Interface: "enp28s0np0", Address: "172.30.9.61"}},
		},
	}
	s.Site.Settings.DeploySSHIface = "eno1"
	for _, c := range change {
		c(&s)
	}
	return s
}

func is(status node.Status) func(*Subject) { return func(s *Subject) { s.Status = status } }

func shown(state State, label string) func(*Subject) {
	return func(s *Subject) { s.Machine.State, s.Machine.Status = state, label }
}

func power(p string) func(*Subject) { return func(s *Subject) { s.Machine.Power = p } }

func gone(s *Subject) { s.Machine, s.Absent = nil, true }

func silentFor(d time.Duration) func(*Subject) {
	return func(s *Subject) { t := s.Now.Add(-d); s.LastContact = &t }
}

func ips(list ...string) func(*Subject) { return func(s *Subject) { s.Machine.IPs = list } }

func installation(known, observed int64) func(*Subject) {
	return func(s *Subject) { s.Installation, s.Machine.Installation = known, observed }
}

func agentOf(version string, saysHardware bool) func(*Subject) {
	return func(s *Subject) { s.AgentVersion, s.HardwareSaid = version, saysHardware }
}

func tried(login string) func(*Subject) { return func(s *Subject) { s.LoginTried = login } }

func mayRelease(s *Subject) { s.Policy.RetiredMachines = site.RetiredRelease }

// foundTypes returns the types of the rules that hold, sorted.
func foundTypes(found []Judged) []Type {
	var out []Type
	for _, f := range found {
		out = append(out, f.Rule.Type)
	}
	slices.Sort(out)
	return out
}

// The names are the rows of the tables of scenarios and of rules in the
// specification of drift.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		subject  Subject
		want     Type // empty: nothing holds
		severity Severity
		action   Action
		withheld string
		host     string
	}{
		"scenario: admin releases node in MAAS UI": {
			subject: healthy(shown(Free, "Ready")), want: TypeReleased,
			severity: Critical, action: Quarantine,
		},
		"scenario: admin redeploys from MAAS CLI": {
			subject: healthy(shown(Deploying, "Deploying")),
			want:    TypeRedeploying, severity: Critical, action: Quarantine,
		},
		"scenario: node hardware failure": {
			subject: healthy(shown(Failed, "Failed testing")),
			want:    TypeHardwareFailed, severity: Critical, action: Quarantine,
		},
		"scenario: node powered off externally": {
			subject: healthy(power("off"), silentFor(2*time.Minute)),
			want:    TypePoweredOff, severity: Warning, action: MarkOffline,
		},
		"scenario: MAAS firmware update reboots node": {
			subject: healthy(shown(Maintenance, "Commissioning")),
			want:    TypeRecommissioning, severity: Warning,
		},
		"scenario: node IP changes after redeploy": {
			subject: healthy(ips("10.20.0.77", "172.30.9.61")),
			want:    TypeIPChanged, severity: Info, action: UpdateHost, host: "10.20.0.77",
		},
		"scenario: node retired, MAAS not told": {
			subject: healthy(is(node.Retired)), want: TypeRetiredPoweredOn, severity: Info, action: PowerOff,
		},
		"scenario: node retired, the profile leaves it": {
			subject: healthy(is(node.Retired), func(s *Subject) { s.Policy.RetiredMachines = site.RetiredLeave }),
			want:    TypeRetiredDeployed, severity: Info, action: Release, withheld: "does not allow it",
		},
		"scenario: machine deleted from MAAS": {
			subject: healthy(gone), want: TypeAbsent, severity: Critical,
			action: Quarantine,
		},
		"rule: Deployed, active": {subject: healthy()},
		"rule: Deployed, offline": {
			subject: healthy(is(node.Offline)), want: TypeAgentSilent,
			severity: Warning,
		},
		"rule: Ready, active": {
			subject: healthy(shown(Free, "Ready")), want: TypeReleased,
			severity: Critical, action: Quarantine,
		},
		"rule: Released, active": {
			subject: healthy(shown(Leaving, "Releasing")),
			want:    TypeReleased, severity: Critical, action: Quarantine,
		},
		"rule: Failed, active": {
			subject: healthy(shown(Failed, "Failed deployment")),
			want:    TypeHardwareFailed, severity: Critical, action: Quarantine,
		},
		"rule: Broken, active": {
			subject: healthy(shown(Failed, "Broken")),
			want:    TypeHardwareFailed, severity: Critical, action: Quarantine,
		},
		"rule: Commissioning, active": {
			subject: healthy(shown(Maintenance, "Commissioning")),
			want:    TypeRecommissioning, severity: Warning,
		},
		"rule: Deployed and IP changed, active with old IP": {
			subject: healthy(ips("10.20.0.77")), want: TypeIPChanged,
			severity: Info, action: UpdateHost, host: "10.20.0.77",
		},
		"rule: absent from MAAS, active": {
			subject: healthy(gone), want: TypeAbsent, severity: Critical,
			action: Quarantine,
		},
		"an agent of the release before": {
			subject: healthy(agentOf("1.0.0", false)),
			want:    TypeAgentUnidentified, severity: Info,
		},
		"an agent that says which machine it is on": {subject: healthy(agentOf("1.1.0", true))},
		"a deploy login that is not there": {
			subject: healthy(tried("hpcadmin")), want: TypeLoginUnproven,
			severity: Info,
		},
		"a deploy login of a retired node": {subject: healthy(is(node.Retired), mayRelease,
			tried("hpcadmin")), want: TypeRetiredDeployed, severity: Info, action: Release},
		"rule: Deployed, retired": {
			subject: healthy(is(node.Retired), mayRelease),
			want:    TypeRetiredDeployed, severity: Info, action: Release,
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := Judge(c.subject)
			if c.want == "" {
				if len(found) != 0 {
					t.Fatalf("holds %v, want nothing", foundTypes(found))
				}
				return
			}
			if len(found) != 1 || found[0].Rule.Type != c.want {
				t.Fatalf("holds %v, want %s alone", foundTypes(found), c.want)
			}
			r, v := found[0].Rule, found[0].Verdict
			if r.Severity != c.severity || r.Action != c.action || v.Host != c.host {
				t.Errorf("is %s, does %q, sets %q; want %s, %q, %q", r.Severity, r.Action, v.Host, c.severity, c.action, c.host)
			}
			if (v.Withheld == "") != (c.withheld == "") || !strings.Contains(v.Withheld, c.withheld) {
				t.Errorf("withheld because %q, want %q", v.Withheld, c.withheld)
			}
			if v.Expected == "" || v.Observed == "" || !strings.Contains(v.Message, "c07u31") ||
				v.Details["maas_system_id"] != "abc123" {
				t.Errorf("the verdict lacks something: %+v", v)
			}
		})
	}
	t.Run("rule: any machine without a node", func(t *testing.T) {
		r, known := RuleOf(TypeUnmanagedMachine)
		if !known || r.Severity != Debug || r.Action != None || r.When != nil || !r.Standing {
			t.Errorf("%+v, want a standing debug finding that does nothing and that the run finds", r)
		}
	})
}

func TestBoundaries(t *testing.T) {
	clock := func(d time.Duration) func(*Subject) { return func(s *Subject) { s.SyncAge = &d } }
	never := func(bound time.Duration) func(*Subject) {
		return func(s *Subject) { s.SyncAge, s.Machine.LastSync, s.BoundAt = nil, nil, s.Now.Add(-bound) }
	}
	twin := func(s *Subject) {
		s.Twin, s.TwinBy = &Machine{SystemID: "xyz789", Hostname: "c07u31", Status: "New", State: Free}, "mac_address"
	}
	for name, c := range map[string]struct {
		subject  Subject
		want     []Type
		withheld string // of the first
	}{
		"allocated by somebody": {subject: healthy(shown(Taken, "Allocated")), want: []Type{TypeReleased}},
		"deployed by name only": {subject: healthy(shown(Hollow, "Deployed")), want: []Type{TypeReleased}},
		"retired in MAAS":       {subject: healthy(shown(Withdrawn, "Retired")), want: []Type{TypeReleased}},
		"released, offline": {
			subject: healthy(is(node.Offline), shown(Free, "Ready")),
			want:    []Type{TypeReleased},
		},
		"released, and quarantined for it": {
			subject: healthy(is(node.Quarantined), shown(Free, "Ready")),
			want:    []Type{TypeReleased},
		},
		"released, retired": {subject: healthy(is(node.Retired), shown(Free, "Ready"))},
		"rescue mode": {
			subject: healthy(shown(Maintenance, "Rescue mode")),
			want:    []Type{TypeRecommissioning},
		},
		"a status of tomorrow": {
			subject: healthy(shown(Strange, "Hibernating")),
			want:    []Type{TypeStatusUnknown},
		},
		"quarantined, healthy again":  {subject: healthy(is(node.Quarantined))},
		"quarantined, off":            {subject: healthy(is(node.Quarantined), power("off"), silentFor(time.Hour))},
		"not seen":                    {subject: healthy(func(s *Subject) { s.Machine = nil })},
		"absent, retired":             {subject: healthy(is(node.Retired), gone)},
		"absent, quarantined":         {subject: healthy(is(node.Quarantined), gone), want: []Type{TypeAbsent}},
		"recreated":                   {subject: healthy(gone, twin), want: []Type{TypeRecreated}},
		"a twin of one that is there": {subject: healthy(twin)},
		"said to be absent, and seen": {subject: healthy(func(s *Subject) { s.Absent = true })},
		"installed anew":              {subject: healthy(installation(41, 42)), want: []Type{TypeDeployedElsewhere}},
		"installed anew, quarantined": {
			subject: healthy(is(node.Quarantined), installation(41, 42)),
			want:    []Type{TypeDeployedElsewhere},
		},
		"installed anew, and off": {
			subject: healthy(installation(41, 42), power("off"), silentFor(time.Hour)),
			want:    []Type{TypeDeployedElsewhere},
		},
		"installed anew, and offline": {
			subject: healthy(is(node.Offline), installation(41, 42)),
			want:    []Type{TypeDeployedElsewhere},
		},
		"installation not known yet":           {subject: healthy(installation(0, 42))},
		"MAAS does not say which installation": {subject: healthy(installation(41, 0))},
		"off, agent heard now": {
			subject: healthy(power("off")), want: []Type{TypePoweredOff},
			withheld: "contradict",
		},
		"off, agent heard 59 s ago": {
			subject: healthy(power("off"), silentFor(59*time.Second)),
			want:    []Type{TypePoweredOff}, withheld: "contradict",
		},
		"off, agent heard a minute ago": {
			subject: healthy(power("off"), silentFor(time.Minute)),
			want:    []Type{TypePoweredOff},
		},
		"off, agent heard after now": {
			subject: healthy(power("off"), silentFor(-time.Minute)),
			want:    []Type{TypePoweredOff}, withheld: "contradict",
		},
		"off, agent never heard": {
			subject: healthy(power("off"), func(s *Subject) { s.LastContact = nil }),
			want:    []Type{TypePoweredOff},
		},
		"off, offline": {
			subject: healthy(is(node.Offline), power("off"), silentFor(time.Hour)),
			want:    []Type{TypePoweredOff},
		},
		"power unknown": {subject: healthy(power("unknown"), silentFor(time.Hour))},
		"power error, offline": {
			subject: healthy(is(node.Offline), power("error")),
			want:    []Type{TypeAgentSilent},
		},
		"synced 1.5 intervals ago": {subject: healthy(clock(22*time.Minute + 30*time.Second))},
		"synced over 1.5 intervals ago": {
			subject: healthy(clock(22*time.Minute + 31*time.Second)),
			want:    []Type{TypeHWSyncStale},
		},
		"synced in the future of MAAS": {subject: healthy(clock(-time.Hour))},
		"clock of MAAS not known, old sync": {subject: healthy(func(s *Subject) {
			t := s.Now.Add(-48 * time.Hour)
			s.SyncAge, s.Machine.LastSync = nil, &t
		})},
		"local clock ahead of MAAS by a day":  {subject: healthy(func(s *Subject) { s.Now = s.Now.Add(24 * time.Hour) })},
		"never synced, bound 2 intervals ago": {subject: healthy(never(30 * time.Minute))},
		"never synced, bound before that":     {subject: healthy(never(31 * time.Minute)), want: []Type{TypeHWSyncStale}},
		"sync disabled": {
			subject: healthy(func(s *Subject) { s.Machine.SyncEnabled = false }),
			want:    []Type{TypeHWSyncStale}, withheld: "reimage",
		},
		"sync late, but not required": {subject: healthy(clock(time.Hour),
			func(s *Subject) { s.Policy.RequireHWSync = false })},
		"sync late, offline": {
			subject: healthy(is(node.Offline), clock(time.Hour)),
			want:    []Type{TypeAgentSilent},
		},
		"sync late by the interval of the profile": {
			subject: healthy(clock(80*time.Minute), func(s *Subject) {
				s.Machine.SyncInterval, s.Policy.HardwareSyncInterval = 0,
					"1h"
			}),
		},
		"sync late by the interval of MAAS": {
			subject: healthy(clock(23*time.Minute), func(s *Subject) {
				s.Machine.SyncInterval, s.Policy.HardwareSyncInterval = 0,
					""
			}), want: []Type{TypeHWSyncStale},
		},
		"sync late, and off": {
			subject: healthy(clock(time.Hour), power("off"), silentFor(time.Hour)),
			want:    []Type{TypeHWSyncStale, TypePoweredOff}, withheld: "",
		},
		"renamed in MAAS": {
			subject: healthy(func(s *Subject) { s.Machine.Hostname = "spare-4" }),
			want:    []Type{TypeHostnameDrift},
		},
		"renamed in case only": {subject: healthy(func(s *Subject) { s.Machine.Hostname = "C07U31" })},
		"node with its domain": {subject: healthy(func(s *Subject) { s.Hostname = "c07u31.dc1.example.com" })},
		"renamed and released": {subject: healthy(shown(Free, "Ready"),
			func(s *Subject) { s.Machine.Hostname = "spare-4" }), want: []Type{TypeHostnameDrift, TypeReleased}},
		"two nodes for one machine": {
			subject: healthy(func(s *Subject) { s.Others = []id.Node{id.New[id.Node]()} }),
			want:    []Type{TypeDuplicateBinding},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := Judge(c.subject)
			if got := foundTypes(found); !slices.Equal(got, c.want) {
				t.Fatalf("holds %v, want %v", got, c.want)
			}
			if len(found) > 0 && ((found[0].Verdict.Withheld == "") != (c.withheld == "") ||
				!strings.Contains(found[0].Verdict.Withheld, c.withheld)) {
				t.Errorf("withheld because %q, want %q", found[0].Verdict.Withheld, c.withheld)
			}
		})
	}
}

// A release destroys whatever runs on the machine by now.
func TestMachinesOfRetiredNodesAreReleasedOnlyIfTheyAreTheirs(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*Subject)
		withheld string
	}{
		"its own": {func(*Subject) {}, ""},
		"policy does not allow": {
			func(s *Subject) { s.Policy.RetiredMachines = site.RetiredLeave },
			"retired_machines",
		},
		"not proven clean":           {func(s *Subject) { s.Tainted = true }, "not proven clean: decommission it instead"},
		"installed anew since":       {installation(41, 42), "reinstalled"},
		"installation not known":     {installation(0, 42), "not known"},
		"MAAS does not say":          {installation(41, 0), "not known"},
		"renamed for something else": {func(s *Subject) { s.Machine.Hostname = "build-1" }, "another name"},
		"another node on it":         {func(s *Subject) { s.Others = []id.Node{id.New[id.Node]()} }, "another node"},
	} {
		t.Run(name, func(t *testing.T) {
			v, holds := ruleRetiredDeployed.When(healthy(is(node.Retired), mayRelease, c.change))
			if !holds || (v.Withheld == "") != (c.withheld == "") || !strings.Contains(v.Withheld, c.withheld) {
				t.Errorf("holds %v, withheld because %q, want %q", holds, v.Withheld, c.withheld)
			}
		})
	}
}

// The text of a finding is compared with the former one, so passing time must
// not change it.
func TestVerdictsDoNotChangeWithTime(t *testing.T) {
	for name, s := range map[string]Subject{
		"sync late":        healthy(func(s *Subject) { d := 3 * time.Hour; s.SyncAge = &d }),
		"never synced":     healthy(func(s *Subject) { s.SyncAge, s.Machine.LastSync = nil, nil }),
		"off":              healthy(power("off"), silentFor(time.Hour)),
		"silent":           healthy(is(node.Offline), silentFor(time.Hour)),
		"retired":          healthy(is(node.Retired)),
		"addresses turned": healthy(ips("10.99.0.5", "10.98.0.5")),
	} {
		t.Run(name, func(t *testing.T) {
			later := s
			later.Now = s.Now.Add(time.Minute)
			if s.SyncAge != nil {
				age := *s.SyncAge + time.Minute
				later.SyncAge = &age
			}
			m := *s.Machine
			m.IPs = slices.Clone(m.IPs)
			slices.Reverse(m.IPs)
			later.Machine = &m
			a, b := Judge(s), Judge(later)
			if len(a) != 1 || len(b) != 1 {
				t.Fatalf("holds %v, then %v", foundTypes(a), foundTypes(b))
			}
			if x, y := a[0].Verdict, b[0].Verdict; x.Expected != y.Expected || x.Observed != y.Observed ||
				x.Message != y.Message {
				t.Errorf("says %q, a minute later %q", x.Message, y.Message)
			}
		})
	}
}
