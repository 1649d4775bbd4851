package rollout_test

import (
	"fmt"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/rollout"
)

// live lets agents that took the version go on in their way.
func (w *world) live() {
	w.t.Helper()
	for n, takes := range w.takes {
		switch {
		case !w.took[n]:
		case takes == "leaks":
			w.exec(`UPDATE node_contacts SET agent_memory = agent_memory + 20971520 WHERE node_id = $1`, n)
		case takes == "starts again":
			w.exec(`UPDATE node_contacts SET agent_started_at = last_contact_at - interval '10 seconds' WHERE node_id = $1`, n)
		}
	}
}

// renew is a certificate that the agent of a node renewed just now.
func (w *world) renew(n id.Node) {
	w.t.Helper()
	w.exec(`INSERT INTO node_certificates (serial, node_id, key_fingerprint, issued_at, not_after)
		VALUES ($1, $2, '', $3, $3::timestamptz + interval '1 year')`, id.New[id.Node]().String(), n, w.now())
}

func TestTheGateSaysWhatANodeDidNotProve(t *testing.T) {
	for _, c := range []struct{ bad, says string }{
		{"leaks", "its agent uses 100 MiB, 2.5 times what it used before"},
		{"cannot renew", "has not renewed the certificate"},
		{"starts again", "started again at"},
	} {
		t.Run(c.bad, func(t *testing.T) {
			w := newWorld(t, 3)
			for _, n := range w.nodes {
				w.takes[n] = c.bad
			}
			r := w.run(w.begin(rollout.Plan{Canaries: 1}).ID, true)
			if r.PausedCode != "too_many_failures" || !strings.Contains(r.PausedBecause, c.says) {
				t.Errorf("%s %q", r.PausedCode, r.PausedBecause)
			}
		})
	}
}

// An agent that was started again once, as by a restart of the machine, begins its bake
// time anew.
func TestAMachineMayStartAgainOnce(t *testing.T) {
	w := newWorld(t, 1)
	r := w.begin(rollout.Plan{})
	for range 3 { // begun with, took it, is watched
		if _, _, err := w.service.Drive(w.ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		w.work()
	}
	w.more += bake / 2
	w.work()
	w.exec(`UPDATE node_contacts SET agent_started_at = last_contact_at`)
	w.more += bake/2 + bake/4
	w.work()
	if _, _, err := w.service.Drive(w.ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	if m := w.members(r.ID)[0]; m.Outcome != rollout.Baking || !strings.Contains(m.Detail, "started again") {
		t.Fatalf("%s %q", m.Outcome, m.Detail)
	}
	if r = w.run(r.ID, true); r.Status != rollout.Completed {
		t.Errorf("%s %q", r.Status, r.PausedBecause)
	}
}

// Agents of before say nothing of themselves; they are judged by what is known.
func TestAgentsThatDoNotSayHowTheyAreAreUpdatedAllTheSame(t *testing.T) {
	w := newWorld(t, 3)
	w.exec(`UPDATE node_contacts SET agent_memory = NULL, agent_started_at = NULL`)
	for _, n := range w.nodes {
		w.takes[n] = "cannot renew"
	}
	if r := w.run(w.begin(rollout.Plan{Canaries: 1}).ID, true); r.Status != rollout.Completed {
		t.Errorf("%s %q", r.Status, r.PausedBecause)
	}
}

func TestBoundsOfMemory(t *testing.T) {
	for _, c := range []struct {
		plan        rollout.Plan
		before, now int64 // MiB
		says        string
	}{
		{rollout.Plan{}, 40, 70, ""},
		{rollout.Plan{}, 10, 41, ""}, // a small agent that is four times as large
		{rollout.Plan{}, 40, 120, "its agent uses 120 MiB, 3.0 times what it used before"},
		{rollout.Plan{MemoryPercent: 300}, 40, 120, ""},
		{rollout.Plan{MemoryPercent: 120}, 400, 500, "its agent uses 500 MiB, 1.2 times what it used before"},
		{rollout.Plan{}, 0, 412, ""},
		{rollout.Plan{MemoryMiB: 256}, 0, 412, "its agent uses 412 MiB, more than the 256 MiB that it may"},
		{rollout.Plan{}, 400, 600, "more than the 512 MiB that it may, 1.5 times what it used before"},
		{rollout.Plan{}, 700, 690, ""}, // no worse than it was
	} {
		t.Run(fmt.Sprintf("%d to %d", c.before, c.now), func(t *testing.T) {
			w := newWorld(t, 1)
			w.exec(`UPDATE node_contacts SET agent_memory = NULLIF($1::bigint, 0)`, c.before<<20)
			r := w.begin(c.plan)
			if _, _, err := w.service.Drive(w.ctx, r.ID); err != nil {
				t.Fatal(err)
			}
			w.exec(`UPDATE node_contacts SET agent_memory = $1`, c.now<<20)
			r = w.run(r.ID, false)
			if c.says == "" && r.Status != rollout.Completed || !strings.Contains(r.PausedBecause, c.says) {
				t.Errorf("%s %q", r.Status, r.PausedBecause)
			}
		})
	}
}

// Whoever cannot be updated from here says in the preview which way is left.
func TestAgentsThatCannotBeUpdatedAreLeftAloneAndSayWhatIsLeft(t *testing.T) {
	w := newWorld(t, 3)
	w.exec(`UPDATE nodes SET capabilities = '{"agent.protocol": "0"}' WHERE id = $1`, w.nodes[0])
	w.exec(`UPDATE nodes SET certificate_not_after = clock_timestamp() - interval '1 hour' WHERE id = $1`, w.nodes[1])
	_, members, err := w.service.Preview(w.ctx, rollout.Order{Version: version, Reason: "look"})
	if err != nil {
		t.Fatal(err)
	}
	says := map[id.Node]string{w.nodes[0]: "too old to be updated", w.nodes[1]: "gpuaas node bootstrap n001 --recovery"}
	for _, m := range members {
		want := says[m.Node]
		if (m.Outcome == rollout.Excluded) != (want != "") || !strings.Contains(m.Detail, want) {
			t.Errorf("%s: %s %q", m.Hostname, m.Outcome, m.Detail)
		}
	}
}
