package rollout_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/operate/rollout"
)

// tenWithTheVersion is a rollout of which ten canaries of twelve nodes have the version,
// and which waits for approval.
func tenWithTheVersion(t *testing.T) (*world, rollout.Rollout) {
	t.Helper()
	w := newWorld(t, 12)
	r := w.run(w.begin(rollout.Plan{Canaries: 10, Parallel: 3, MaxUnavailable: 4, Approve: true}).ID, false)
	if r.PausedCode != "awaits_approval" || w.with(version) != 10 {
		t.Fatalf("%s %q, %d nodes have the version", r.Status, r.PausedBecause, w.with(version))
	}
	return w, r
}

func TestNodesGoBackAsFewAtOnceAsTheyGoForward(t *testing.T) {
	w, r := tenWithTheVersion(t)
	if _, err := w.service.Abort(w.ctx, r.ID, true, "bad"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, true); r.Status != rollout.Aborted || w.with(before) != 12 {
		t.Errorf("%s, %d of 12 nodes are back", r.Status, w.with(before))
	}
	if w.mostBack != 3 {
		t.Errorf("%d nodes were on their way back at once, not 3", w.mostBack)
	}
}

func TestNoNodeGoesBackToAVersionThatMayNotBeGiven(t *testing.T) {
	w, r := tenWithTheVersion(t)
	w.refused[before] = fault.New(fault.Conflict, "agent_version_blocked", "version %s is blocked: it leaks", before)
	if _, err := w.service.Abort(w.ctx, r.ID, true, "bad"); err != nil {
		t.Fatal(err)
	}
	r = w.run(r.ID, true)
	if r.Status != rollout.Aborted || w.with(version) != 10 || w.mostBack != 0 {
		t.Errorf("%s, %d of 10 nodes kept the version, %d were told to go back", r.Status, w.with(version), w.mostBack)
	}
	for _, part := range []string{"bad", "it leaks", "gpuaas agent rollout start"} {
		if strings.Count(r.PausedBecause, part) != 1 {
			t.Errorf("the rollout says %q, without %q", r.PausedBecause, part)
		}
	}
	for _, m := range w.members(r.ID) {
		if m.Wave != nil && *m.Wave == 0 && (m.Outcome != rollout.Failed || !strings.Contains(m.Detail, "it leaks")) {
			t.Errorf("%s: %s %q", m.Hostname, m.Outcome, m.Detail)
		}
	}
}

// What another rollout has by now is left to that one.
func TestAWayBackLeavesNodesToTheRolloutThatHasThem(t *testing.T) {
	w, r := tenWithTheVersion(t)
	w.exec(`INSERT INTO agent_releases (version, commit, architecture, digest, size, notes, minimum_control_plane, protocol_min,
		protocol_max, programs, key_id, signature, added_by) VALUES ('1.2.0', '0123456789ab', 'amd64', $1, 1, '', '', 1, 1, '{}',
		'k', '', 'op')`, strings.Repeat("b", 64))
	w.exec(`WITH other AS (INSERT INTO agent_rollouts (id, version, target, plan, waves, reason, requested_by)
		VALUES (gen_random_uuid(), '1.2.0', '{}', '{}', 1, 'x', 'op') RETURNING id)
		INSERT INTO agent_rollout_targets (rollout_id, node_id, hostname, kind, wave, status)
		SELECT other.id, $1, 'x', 'x', 0, 'pending' FROM other`, w.nodes[0])
	if _, err := w.service.Abort(w.ctx, r.ID, true, "bad"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, false); r.Status != rollout.Aborted || w.with(version) != 1 {
		t.Errorf("%s, %d nodes kept the version, not the one of the other rollout", r.Status, w.with(version))
	}
}

func TestAPauseTakesOrdersBackThatNobodyFetched(t *testing.T) {
	w := newWorld(t, 4)
	r := w.begin(rollout.Plan{Canaries: 2})
	if _, _, err := w.service.Drive(w.ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Pause(w.ctx, r.ID, "wait"); err != nil {
		t.Fatal(err)
	}
	w.work()
	if w.with(version) != 0 {
		t.Errorf("%d nodes took the version after the pause", w.with(version))
	}
	for _, m := range w.members(r.ID) {
		if m.Outcome != rollout.Pending {
			t.Errorf("%s is %s: %s", m.Hostname, m.Outcome, m.Detail)
		}
	}
	if _, err := w.service.Resume(w.ctx, r.ID, "go"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, false); r.Status != rollout.Completed || w.with(version) != 4 {
		t.Errorf("%s %q, %d nodes have the version", r.Status, r.PausedBecause, w.with(version))
	}
}

func TestAnAbortTakesOrdersBackThatNobodyFetched(t *testing.T) {
	w := newWorld(t, 4)
	r := w.begin(rollout.Plan{Canaries: 2})
	if _, _, err := w.service.Drive(w.ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Abort(w.ctx, r.ID, false, "enough"); err != nil {
		t.Fatal(err)
	}
	if r = w.run(r.ID, false); r.Status != rollout.Aborted || w.with(version) != 0 {
		t.Errorf("%s, %d nodes took the version", r.Status, w.with(version))
	}
}

// A node that failed because it was silent does not take the version when it is back.
func TestTheOrderOfASilentNodeEndsWithItsFailure(t *testing.T) {
	w := newWorld(t, 3)
	w.hung[w.nodes[0]] = true
	r := w.run(w.begin(rollout.Plan{Canaries: 1, NodeSeconds: int64(2 * time.Minute / time.Second)}).ID, false)
	if r.PausedCode != "too_many_failures" || !strings.Contains(r.PausedBecause, "silent") {
		t.Fatalf("%s %q", r.Status, r.PausedBecause)
	}
	delete(w.hung, w.nodes[0])
	w.work()
	if w.with(version) != 0 {
		t.Error("the node took the version after it had failed")
	}
}

func TestNodesOfAnotherArchitectureAreLeftAlone(t *testing.T) {
	w := newWorld(t, 4)
	w.exec(`UPDATE nodes SET capabilities = '{"agent.architecture": "arm64"}' WHERE id = $1`, w.nodes[1])
	w.exec(`INSERT INTO agent_releases (version, commit, architecture, digest, size, notes, minimum_control_plane, protocol_min,
		protocol_max, programs, key_id, signature, added_by) VALUES ('0.9.0', '0123456789ab', 'arm64', $1, 1, '', '', 1, 1, '{}',
		'k', '', 'op')`, strings.Repeat("b", 64))
	w.exec(`UPDATE nodes SET reported_agent_version = '0.9.0' WHERE id = $1`, w.nodes[2]) // an agent that does not say it
	r := w.begin(rollout.Plan{})
	w.exec(`UPDATE nodes SET capabilities = '{"agent.architecture": "arm64"}' WHERE id = $1`, w.nodes[3]) // it says so later
	if r = w.run(r.ID, false); r.Status != rollout.Completed || w.with(version) != 1 {
		t.Errorf("%s %q, %d nodes have the version", r.Status, r.PausedBecause, w.with(version))
	}
	for _, m := range w.members(r.ID) {
		foreign := strings.Contains(m.Detail, "architecture arm64") && m.Outcome == rollout.Excluded
		if m.Node != w.nodes[0] != foreign {
			t.Errorf("%s: %s %q", m.Hostname, m.Outcome, m.Detail)
		}
	}
}
