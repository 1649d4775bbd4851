package rollout_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/rollout"
)

// lost is a node that was told to update, and of which nothing is heard any more.
func lost(t *testing.T) (*world, rollout.Rollout, id.Node) {
	t.Helper()
	w := newWorld(t, 3)
	for _, n := range w.nodes {
		w.takes[n] = "silent"
	}
	r := w.run(w.begin(rollout.Plan{Canaries: 1}).ID, false)
	for _, m := range w.members(r.ID) {
		if m.Outcome == rollout.Failed {
			delete(w.takes, m.Node)
			return w, r, m.Node
		}
	}
	t.Fatalf("no node failed: %s %q", r.Status, r.PausedBecause)
	return w, r, id.Node{}
}

// comesBack is a report of a node that runs a version by now.
func (w *world) comesBack(n id.Node, v string) {
	w.t.Helper()
	w.exec(`UPDATE nodes SET reported_agent_version = $2 WHERE id = $1`, n, v)
	// The sweep has ended by then what the node was told.
	w.exec(`UPDATE node_tasks SET status = 'expired', finished_at = clock_timestamp(), lease_expires_at = NULL
		WHERE node_id = $1 AND status = 'dispatched'`, n)
	if err := w.service.CameBack(w.ctx, n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) member(of id.Rollout, n id.Node) rollout.Member {
	w.t.Helper()
	for _, m := range w.members(of) {
		if m.Node == n {
			return m
		}
	}
	w.t.Fatal("the node is not in the rollout")
	return rollout.Member{}
}

func TestANodeThatComesBackWithTheVersionIsSentBack(t *testing.T) {
	t.Run("while the rollout is paused", func(t *testing.T) {
		w, r, n := lost(t)
		w.comesBack(n, before) // it never took it
		if m := w.member(r.ID, n); m.Outcome != rollout.Failed {
			t.Fatalf("a node without the version: %+v", m)
		}
		w.comesBack(n, version)
		w.comesBack(n, version) // agents report more than once
		r = w.run(r.ID, true)
		if m := w.member(r.ID, n); m.Outcome != rollout.Returned || w.with(version) != 0 || m.Failures != 1 {
			t.Errorf("%+v, %d nodes have the version", m, w.with(version))
		}
	})
	t.Run("after the rollout was aborted", func(t *testing.T) {
		w, r, n := lost(t)
		w.abort(r.ID)
		w.comesBack(n, version)
		w.comesBack(n, version)
		w.work()
		if m := w.member(r.ID, n); m.Outcome != rollout.Failed || !strings.Contains(m.Detail, "told to go back to 1.0.0") ||
			w.with(version) != 0 {
			t.Errorf("%+v, %d nodes have the version", m, w.with(version))
		}
		var orders int
		if err := w.owner.QueryRow(w.ctx, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND params ->> 'action' = 'rollback'`,
			n).Scan(&orders); err != nil || orders != 1 {
			t.Errorf("%d orders to go back, %v", orders, err)
		}
	})
	t.Run("but not to a version that may not be given", func(t *testing.T) {
		w, r, n := lost(t)
		w.abort(r.ID)
		w.refused[before] = fault.New(fault.Conflict, "agent_version_blocked", "version 1.0.0 is blocked")
		w.comesBack(n, version)
		w.work()
		if m := w.member(r.ID, n); !strings.Contains(m.Detail, "keeps it") || w.with(version) != 1 {
			t.Errorf("%+v, %d nodes have the version", m, w.with(version))
		}
	})
}

func (w *world) abort(of id.Rollout) {
	w.t.Helper()
	if _, err := w.service.Abort(w.ctx, of, true, "bad"); err != nil {
		w.t.Fatal(err)
	}
	if r := w.run(of, false); r.Status != rollout.Aborted {
		w.t.Fatalf("it is %s", r.Status)
	}
}

// A certificate that lapses after the list was frozen leaves the node to people.
func TestANodeWhoseCertificateLapsesIsExcludedWithItsWay(t *testing.T) {
	w := newWorld(t, 6)
	w.exec(`UPDATE nodes SET status = 'offline', schedulable = false WHERE id = ANY($1)`, w.nodes[3:5])
	r := w.begin(rollout.Plan{Canaries: 1, WavePercent: 100})
	lapse := func(n id.Node) {
		w.exec(`UPDATE nodes SET certificate_not_after = clock_timestamp() - interval '1 minute' WHERE id = $1`, n)
	}
	lapse(w.nodes[2])
	lapse(w.nodes[3])
	if r = w.run(r.ID, true); r.Status != rollout.Completed {
		t.Fatalf("%s %q", r.Status, r.PausedBecause)
	}
	for i, want := range []rollout.Outcome{
		rollout.Verified, rollout.Verified, rollout.Excluded, rollout.Excluded, rollout.SkippedOffline, rollout.Verified,
	} {
		m := w.member(r.ID, w.nodes[i])
		way := "bootstrap " + m.Hostname + " --recovery"
		if m.Outcome != want || want == rollout.Excluded && !strings.Contains(m.Detail, way) {
			t.Errorf("node %d is %s: %s", i, m.Outcome, m.Detail)
		}
	}
}

// What keeps a node busy, and what does not.
func TestANodeIsBusyWithWhatIsInOnePlace(t *testing.T) {
	w := newWorld(t, 4)
	session := func(n id.Node, status string) {
		w.exec(`INSERT INTO terminal_sessions (id, node_id, username, status, token_hash, token_expires_at, requested_by,
			requester_kind, requester_name, window_columns, window_rows, correlation_id, closed_at)
			VALUES ($1, $2, 'op', $3::text, sha256($4::text::bytea), clock_timestamp() + interval '1 hour', 'op', 'user', 'op', 80, 24, 'c',
			CASE WHEN $3::text = 'failed' THEN clock_timestamp() END)`, id.New[id.Node](), n, status, n.String())
	}
	session(w.nodes[0], "issued")
	session(w.nodes[1], "failed") // it is over
	w.exec(`UPDATE nodes SET held_by = 'decommission x', schedulable = false WHERE id = $1`, w.nodes[2])
	r := w.run(w.begin(rollout.Plan{Canaries: 2}).ID, false)
	if r.Status != rollout.Completed {
		t.Fatalf("%s %q", r.Status, r.PausedBecause)
	}
	for i, want := range []string{
		"it was never idle: there was still a terminal", "", "it was never idle: there was still an operation", "",
	} {
		if m := w.member(r.ID, w.nodes[i]); m.Detail != want {
			t.Errorf("node %d: %s %q", i, m.Outcome, m.Detail)
		}
	}
}
