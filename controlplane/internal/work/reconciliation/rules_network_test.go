package reconciliation

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

func TestTheNewAddressIsNotGuessed(t *testing.T) {
	links := func(list ...Link) func(*Subject) { return func(s *Subject) { s.Machine.Links = list } }
	on := func(name, address string) Link { return Link{Interface: name, Address: address} }
	reachedBy := func(host string) func(*Subject) { return func(s *Subject) { s.Host = host } }
	for name, c := range map[string]struct {
		subject  Subject
		holds    bool
		host     string
		withheld string
	}{
		"still there":                     {subject: healthy()},
		"still there, in another writing": {subject: healthy(reachedBy("2001:db8::1"), ips("2001:0db8:0:0::1"))},
		"mapped into IPv6":                {subject: healthy(reachedBy("::ffff:10.20.0.31"))},
		"reached by name":                 {subject: healthy(reachedBy("c07u31.example.com"), ips("10.20.0.77"))},
		"no address known to MAAS":        {subject: healthy(ips())},
		"no address that is one":          {subject: healthy(ips("", "nonsense"))},
		"quarantined":                     {subject: healthy(is(node.Quarantined), ips("10.20.0.77"))},
		"offline": {
			subject: healthy(is(node.Offline), ips("10.20.0.77")), holds: true,
			host: "10.20.0.77",
		},
		"released": {subject: healthy(shown(Free, "Ready"), ips("10.20.0.77"))},
		"one new":  {subject: healthy(ips("10.99.0.5")), holds: true, host: "10.99.0.5"},
		"one new beside RoCE": {
			subject: healthy(ips("172.30.9.61", "10.99.0.5")), holds: true,
			host: "10.99.0.5",
		},
		"one new beside IPv6": {
			subject: healthy(ips("2001:db8::5", "10.99.0.5")), holds: true,
			host: "10.99.0.5",
		},
		"IPv6 stays IPv6": {
			subject: healthy(reachedBy("2001:db8::1"), ips("10.99.0.5", "2001:db8::5")),
			holds:   true, host: "2001:db8::5",
		},
		"another family, one only": {subject: healthy(ips("2001:db8::5")), holds: true, host: "2001:db8::5"},
		"link-local is no choice": {
			subject: healthy(ips("10.99.0.5", "169.254.3.4")), holds: true,
			host: "10.99.0.5",
		},
		"reached by RoCE": {
			subject: healthy(reachedBy("172.30.9.61"), ips("10.20.0.31", "172.30.9.61")), holds: true, host: "10.20.0.31",
		},
		"reached by another address of an interface for RoCE": {
			subject: healthy(reachedBy("172.31.0.4"), ips("10.20.0.31", "172.31.0.4"),
				links(on("enp28s0np0", "172.31.0.4"))), holds: true, host: "10.20.0.31",
		},
		"RoCE only": {subject: healthy(ips("172.30.9.61")), holds: true, withheld: "not clear"},
		"two, one where one logs in": {
			subject: healthy(ips("10.99.0.5", "10.98.0.5"),
				links(on("eno1", "10.98.0.5"), on("eno2", "10.99.0.5"), on("enp28s0np0", "172.30.9.61"))), holds: true,
			host: "10.98.0.5",
		},
		"two, one in the old network": {subject: healthy(ips("10.99.0.5", "10.20.0.5")), holds: true, host: "10.20.0.5"},
		"two, both in the old network": {
			subject: healthy(ips("10.20.0.6", "10.20.0.5")), holds: true,
			withheld: "not clear",
		},
		"two, in other networks": {
			subject: healthy(ips("10.99.0.5", "10.98.0.5")), holds: true,
			withheld: "not clear",
		},
		"the same twice": {subject: healthy(ips("10.99.0.5", "10.99.0.5")), holds: true, host: "10.99.0.5"},
		"installed anew, the choice clear": {
			subject: healthy(ips("10.99.0.5"), installation(41, 42)), holds: true,
			host: "10.99.0.5", withheld: "settle that first",
		},
		"two, and no interface to log in by": {
			subject: healthy(ips("10.99.0.5", "10.98.0.5"), func(s *Subject) { s.Site.Settings.DeploySSHIface = "" }),
			holds:   true, withheld: "not clear",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, holds := ruleIPChanged.When(c.subject)
			if holds != c.holds || v.Host != c.host {
				t.Fatalf("holds %v with %q, want %v with %q", holds, v.Host, c.holds, c.host)
			}
			if (v.Withheld == "") != (c.withheld == "") || !strings.Contains(v.Withheld, c.withheld) {
				t.Errorf("withheld because %q, want %q", v.Withheld, c.withheld)
			}
			if holds && v.Host == "" && v.Withheld == "" {
				t.Error("there is an action and nothing to set")
			}
		})
	}
}

func TestRoCEDriftNamesEachInterface(t *testing.T) {
	rows := func(list ...site.AssignmentRow) func(*Subject) { return func(s *Subject) { s.RoCE = list } }
	row := func(name, cidr string) site.AssignmentRow { return site.AssignmentRow{Interface: name, IPv4CIDR: cidr} }
	links := func(list ...Link) func(*Subject) { return func(s *Subject) { s.Machine.Links = list } }
	for name, c := range map[string]struct {
		subject Subject
		wrong   []map[string]any
	}{
		"as assigned":               {subject: healthy()},
		"nothing assigned":          {subject: healthy(rows(), links())},
		"not asked for":             {subject: healthy(links(), func(s *Subject) { s.Policy.EnablePhase2RoCE = false })},
		"not installed":             {subject: healthy(links(), shown(Deploying, "Deploying"))},
		"retired":                   {subject: healthy(links(), is(node.Retired))},
		"an assignment of nonsense": {subject: healthy(rows(row("enp28s0np0", "anything")))},
		"a second address beside": {subject: healthy(
			links(Link{"enp28s0np0", "172.30.9.9"}, Link{"enp28s0np0", "172.30.9.61"}))},
		"no such interface": {subject: healthy(links()), wrong: []map[string]any{{"interface": "enp28s0np0"}}},
		"no address": {
			subject: healthy(links(Link{"enp28s0np0", ""})),
			wrong:   []map[string]any{{"interface": "enp28s0np0"}},
		},
		"another address": {
			subject: healthy(links(Link{"enp28s0np0", "172.30.9.60"})),
			wrong:   []map[string]any{{"interface": "enp28s0np0"}},
		},
		"quarantined": {
			subject: healthy(is(node.Quarantined), links()),
			wrong:   []map[string]any{{"interface": "enp28s0np0"}},
		},
		"two of three": {
			subject: healthy(rows(row("b", "172.30.0.1/31"), row("a", "172.30.0.3/31"), row("c", "172.30.0.5/31")),
				links(Link{"a", "172.30.0.1"}, Link{"c", "172.30.0.5"})),
			wrong: []map[string]any{{"interface": "b"}, {"interface": "a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, holds := ruleRoCEDrift.When(c.subject)
			if holds != (len(c.wrong) > 0) {
				t.Fatalf("holds %v, want %v", holds, len(c.wrong) > 0)
			}
			if !holds {
				return
			}
			got, _ := v.Details["interfaces"].([]map[string]any)
			if len(got) != len(c.wrong) {
				t.Fatalf("names %v, want %v", got, c.wrong)
			}
			for i, w := range c.wrong {
				if got[i]["interface"] != w["interface"] || !strings.Contains(v.Message, w["interface"].(string)) {
					t.Errorf("names %v, want %v; says %q", got[i], w, v.Message)
				}
			}
		})
	}
}
