package bringup

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/maas"
)

func TestJudge(t *testing.T) {
	said := func(level maas.Level, kind, text string) maas.Event {
		return maas.Event{Level: level, Type: kind, Description: text}
	}
	step := func(kind string) maas.Event { return said(maas.LevelInfo, kind, "") }
	failing := func(kind, text string) maas.Event { return said(maas.LevelError, kind, text) }
	ended := maas.Machine{Status: maas.StatusFailedDeployment}
	under := maas.Machine{Status: maas.StatusDeploying}
	const marked, installer, post = "Marking node failed", "Node installation failure", "Node post-installation failure"
	cases := map[string]struct {
		machine   maas.Machine
		events    []maas.Event
		installed bool
		scripts   []string
		kind      string
		late      bool
	}{
		"nothing is known": {ended, nil, false, nil, generic, false},
		"no datasource": {
			ended,
			[]maas.Event{failing(marked, "no datasource found")},
			false, nil,
			datasourceLike, false,
		},
		"datasource none": {
			ended,
			[]maas.Event{failing(post, "'cloudinit' DataSourceNone used")},
			false, nil,
			datasourceLike, false,
		},
		"final stage": {
			ended,
			[]maas.Event{failing(post, "'cloudinit' running modules for final")},
			false,
			nil, datasourceLike, false,
		},
		"network data": {ended, []maas.Event{failing(post,
			"'cloudinit' searching for network data from DataSourceMAAS")}, false, nil, datasourceLike, false},
		"silence after the reboot": {ended, []maas.Event{
			step("Rebooting"),
			failing(marked, "time-out during deployment"),
		}, false, nil, datasourceLike, true},
		"silence, after our patience": {
			under,
			[]maas.Event{step("Configuring OS"), step("Rebooting")},
			true, nil,
			datasourceLike, true,
		},
		"installed, and nothing since": {under, nil, true, nil, datasourceLike, true},
		"too slow before the reboot": {ended, []maas.Event{
			step("Installing OS"),
			failing(marked, "time-out during deployment"),
		}, false, nil, generic, true},
		"the installer": {ended, []maas.Event{
			failing(installer, "'curtin' curtin command install"),
			failing(marked, "Installation failed"),
		}, false, nil, generic, false},
		"the installer of cloud-init": {ended, []maas.Event{
			failing(installer, "'curtin' configuring cloud-init"),
			failing(marked, "Installation failed"),
		}, false, nil, generic, false},
		"a script": {
			ended,
			[]maas.Event{failing(post, "cloud-init")},
			false,
			[]string{"/tmp/install.log Failed"},
			generic, false,
		},
		"power": {
			ended,
			[]maas.Event{failing("Failed to power on node", "cipher suite")},
			false, nil,
			generic, false,
		},
	}
	for name, c := range cases {
		got := judge(c.machine, c.events, c.installed, c.scripts)
		if got.kind != c.kind || got.late != c.late || got.evidence == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}

	// Of earlier deployments nothing counts.
	events := []maas.Event{
		step("Deploying"), failing(post, "no datasource"), step("Released"), step("Deploying"),
		failing(installer, "x"),
	}
	if got := sinceDeploying(events); len(got) != 2 {
		t.Errorf("%d events count", len(got))
	}

	// What MAAS says is bounded and holds nothing that looks like a key.
	var many []maas.Event
	for range 50 {
		many = append(many, failing(marked, strings.Repeat("long ", 50)+"\x1b[31m key a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4"),
			step("x"))
	}
	if got := judge(ended, many, false, nil).evidence; len(got) > 2*maxEvidence || strings.ContainsAny(got, "\x1b\n") ||
		strings.Contains(got, "a1b2c3d4e5f6") {
		t.Errorf("evidence is %d bytes: %q", len(got), got)
	}
}
