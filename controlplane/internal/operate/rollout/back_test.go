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
	if r.PausedCode != "too_many_failures" || !strings.Contains(r.PausedBecause, "did not report") {
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

// Nothing begins outside of a window. What is under way when it closes goes to its end.
func TestNodesAreBegunWithInWindowsOnly(t *testing.T) {
	w := newWorld(t, 4)
	opens := w.now().UTC().Add(25 * time.Hour).Truncate(time.Hour)
	plan := rollout.Plan{Canaries: 1, Parallel: 1, Windows: []rollout.Window{{
		Zone: "UTC", Days: []string{strings.ToLower(opens.Weekday().String()[:3])}, From: opens.Format("15:04"),
		To: opens.Add(time.Hour).Format("15:04"),
	}}}
	r := w.begin(plan)
	drive := func() time.Duration {
		t.Helper()
		_, wait, err := w.service.Drive(w.ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	if wait := drive(); wait != time.Hour || w.outcomes(r.ID)[rollout.Pending] != 4 {
		t.Errorf("before the window it looks again after %s, and nodes are %v", wait, w.outcomes(r.ID))
	}
	w.more = time.Until(opens.Add(-time.Minute))
	if wait := drive(); wait > time.Minute {
		t.Errorf("a minute before the window it looks again after %s", wait)
	}
	w.more = time.Until(opens.Add(time.Minute))
	drive()
	if w.outcomes(r.ID)[rollout.Updating] != 1 {
		t.Fatalf("in the window nodes are %v", w.outcomes(r.ID))
	}
	w.work()
	drive()
	w.more = time.Until(opens.Add(2 * time.Hour))
	w.work()
	drive() // the bake time of the canary is over, and the window too
	drive()
	if got := w.outcomes(r.ID); got[rollout.Verified] != 1 || got[rollout.Pending] != 3 {
		t.Errorf("after the window nodes are %v", got)
	}
}

// An order that nobody has fetched when the window closes would begin outside of it.
func TestAWindowThatClosesTakesOrdersBack(t *testing.T) {
	w := newWorld(t, 1)
	now := w.now().UTC()
	r := w.begin(rollout.Plan{NodeSeconds: 7200, Windows: []rollout.Window{{
		Zone: "UTC", Days: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"},
		From: now.Add(-time.Hour).Format("15:04"), To: now.Add(time.Hour).Format("15:04"),
	}}})
	for _, step := range []struct {
		more time.Duration
		want rollout.Outcome
	}{{0, rollout.Updating}, {90 * time.Minute, rollout.Pending}, {24 * time.Hour, rollout.Updating}} {
		w.more = step.more
		if _, _, err := w.service.Drive(w.ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		if got := w.outcomes(r.ID); got[step.want] != 1 {
			t.Errorf("after %s it is %v, not %s", step.more, got, step.want)
		}
	}
}
