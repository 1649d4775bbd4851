package node_test

import (
	"context"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// fill adds nodes that are in service and called just now.
func (w *world) fill(tb testing.TB, count int) []id.Node {
	tb.Helper()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable, agent_instance,
			reported_agent_version, reported_agent_commit, certificate_not_after, capabilities, status_changed_at)
		SELECT gen_random_uuid(), 'active', 'n' || i, 'n' || i, $2, 8, 'eu-' || (i % 4), 'manual', true, 'm' || i,
			'1.0.0', 'abc123', clock_timestamp() + interval '1 day', $3::jsonb -> 'facts', clock_timestamp() - interval '1 day'
		FROM generate_series(1, $1) AS i`, count, someSKU, inspected)
	w.exec(tb, `INSERT INTO node_inspections (node_id, found) SELECT id, $1::jsonb FROM nodes ON CONFLICT DO NOTHING`,
		inspected)
	w.exec(tb, `INSERT INTO node_contacts (node_id, last_contact_at, session_id)
		SELECT id, clock_timestamp(), 'first' FROM nodes WHERE id NOT IN (SELECT node_id FROM node_contacts)`)
	rows, err := w.owner.Query(tb.Context(), `SELECT id FROM nodes ORDER BY id`)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var out []id.Node
	for rows.Next() {
		var n id.Node
		if err := rows.Scan(&n); err != nil {
			tb.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// listens records that somebody has been listening for long.
func (w *world) listens(tb testing.TB) {
	tb.Helper()
	w.flush(tb)
	w.exec(tb,
		`UPDATE node_listening SET listening_since = clock_timestamp() - interval '1 day', last_flush_at = clock_timestamp()`)
}

func (w *world) flush(tb testing.TB) {
	tb.Helper()
	if err := w.service.Contacts().Flush(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) silent(tb testing.TB, n id.Node, minutes int) {
	tb.Helper()
	w.exec(tb,
		`UPDATE node_contacts SET last_contact_at = clock_timestamp() - make_interval(mins => $2) WHERE node_id = $1`,
		n.String(), minutes)
}

func (w *world) sweep(tb testing.TB) int {
	tb.Helper()
	n, err := w.service.Sweep(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func (w *world) wantStatus(tb testing.TB, n id.Node, want node.Status) {
	tb.Helper()
	if got := w.read(tb, n).Status; got != want {
		tb.Errorf("the node is %s, want %s", got, want)
	}
}

// Polls are gathered: nothing is written until the flush, which writes exactly
// the nodes that called, in one transaction.
func TestContactsAreWrittenInBatches(t *testing.T) {
	w := newWorld(t)
	all := w.fill(t, 1000)
	w.exec(t, `UPDATE node_contacts SET last_contact_at = clock_timestamp() - interval '30 seconds'`)
	writes := func() int64 { return w.count(t, `SELECT count(DISTINCT xmin::text) FROM node_contacts`) }
	before := w.versions(t)
	for range 10 {
		for _, n := range all[:900] {
			w.service.Contacts().Note(n, agentwire.Vitals{})
		}
	}
	if w.versions(t) != before {
		t.Fatal("polls were written")
	}
	w.flush(t)
	if got := writes(); got != 2 {
		t.Errorf("%d transactions wrote contacts, want the flush and what was there before", got)
	}
	if got := w.count(t,
		`SELECT count(*) FROM node_contacts WHERE last_contact_at > clock_timestamp() - interval '20 seconds'`); got != 900 {
		t.Errorf("%d nodes were heard of", got)
	}
	quiet := w.versions(t)
	w.flush(t) // nobody called since
	if w.versions(t) != quiet {
		t.Error("a flush without contacts wrote some")
	}
	if got := w.count(t, `SELECT count(*) FROM node_contacts WHERE recovering_since IS NOT NULL`); got != 0 {
		t.Errorf("%d nodes count as back although they were never away", got)
	}
}

func TestContactsThatCouldNotBeWrittenAreKept(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.flush(t)
	w.silent(t, a.node, 1)
	w.service.Contacts().Note(a.node, agentwire.Vitals{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.service.Contacts().Flush(gone); err == nil {
		t.Fatal("a flush without a database succeeded")
	}
	w.flush(t)
	if at := w.read(t, a.node).LastContactAt; at == nil || time.Since(*at) > 30*time.Second {
		t.Errorf("last heard of at %v", at)
	}
}

// An agent of before says nothing, and so what a later one said must not stay.
func TestWhatAgentsSayOfThemselvesIsKeptWithTheirContact(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.flush(t)
	w.silent(t, a.node, 1)
	w.service.Contacts().Note(a.node, agentwire.Vitals{MemoryBytes: 40 << 20, Uptime: time.Hour})
	w.flush(t)
	n := w.read(t, a.node)
	if n.AgentMemory == nil || *n.AgentMemory != 40<<20 || n.AgentStartedAt == nil ||
		time.Since(*n.AgentStartedAt).Round(time.Minute) != time.Hour {
		t.Errorf("memory %v, started %v", n.AgentMemory, n.AgentStartedAt)
	}
	w.silent(t, a.node, 1)
	w.service.Contacts().Note(a.node, agentwire.Vitals{})
	w.flush(t)
	if n := w.read(t, a.node); n.AgentMemory != nil || n.AgentStartedAt != nil {
		t.Errorf("memory %v, started %v", n.AgentMemory, n.AgentStartedAt)
	}
}

func TestRunFlushesUntilItEnds(t *testing.T) {
	w := newWorld(t, node.Settings{FlushEvery: time.Hour})
	a := w.active(t, "a")
	w.silent(t, a.node, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		w.service.Contacts().Run(ctx)
		close(done)
	}()
	w.service.Contacts().Note(a.node, agentwire.Vitals{})
	cancel()
	<-done
	if at := w.read(t, a.node).LastContactAt; time.Since(*at) > 30*time.Second {
		t.Errorf("last heard of at %v", at)
	}
	if w.count(t, `SELECT count(*) FROM node_listening`) != 1 {
		t.Error("nobody listens")
	}
}

func TestSilentNodesBecomeOfflineAndReturn(t *testing.T) {
	w := newWorld(t)
	a, b := w.active(t, "a"), w.active(t, "b")
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '1 day'`)
	w.listens(t)
	w.silent(t, a.node, 4)
	if n := w.sweep(t); n != 0 {
		t.Errorf("%d nodes changed after 4 minutes", n)
	}
	w.silent(t, a.node, 6)
	before := w.rowVersion(t, b.node)
	if n := w.sweep(t); n != 1 {
		t.Errorf("%d nodes changed", n)
	}
	w.wantStatus(t, a.node, node.Offline)
	w.wantStatus(t, b.node, node.Active)
	if w.read(t, a.node).Schedulable || w.rowVersion(t, b.node) != before {
		t.Error("an offline node is schedulable, or another row was written")
	}
	if n := w.sweep(t); n != 0 {
		t.Errorf("%d nodes changed although nothing happened", n)
	}
	w.service.Contacts().Note(a.node, agentwire.Vitals{})
	w.flush(t)
	if n := w.sweep(t); n != 1 {
		t.Errorf("%d nodes came back", n)
	}
	if n := w.read(t, a.node); n.Status != node.Active || !n.Schedulable {
		t.Errorf("the node is %+v", n)
	}
	if told := w.told(t, a.node, "node.state_changed"); told != 4 {
		t.Errorf("%d changes of state were told", told)
	}
}

func (w *world) rowVersion(tb testing.TB, n id.Node) int64 {
	tb.Helper()
	return w.count(tb, `SELECT xmin::text::bigint FROM nodes WHERE id = $1`, n.String())
}

// While nobody listened, silence says nothing.
func TestSilenceCountsOnlyWhileSomebodyListened(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '1 day'`)
	w.flush(t)
	w.silent(t, a.node, 60)
	for name, listening := range map[string]string{
		"nobody ever":      `SELECT`,
		"for a minute":     `INSERT INTO node_listening VALUES (true, clock_timestamp() - interval '1 minute', clock_timestamp())`,
		"nobody right now": `INSERT INTO node_listening VALUES (true, clock_timestamp() - interval '1 day', clock_timestamp() - interval '10 minutes')`,
	} {
		w.exec(t, `DELETE FROM node_listening`)
		w.exec(t, listening)
		if n := w.sweep(t); n != 0 {
			t.Errorf("%s: %d nodes changed", name, n)
		}
	}
	// After a pause, the first flush starts the count again.
	w.exec(t, `DELETE FROM node_listening`)
	w.exec(t,
		`INSERT INTO node_listening VALUES (true, clock_timestamp() - interval '1 day', clock_timestamp() - interval '10 minutes')`)
	w.flush(t)
	if n := w.sweep(t); n != 0 {
		t.Errorf("after a pause: %d nodes changed", n)
	}
	w.listens(t)
	if n := w.sweep(t); n != 1 {
		t.Errorf("with somebody listening: %d nodes changed", n)
	}
}

// A node that has just become active gets time to call.
func TestAReactivatedNodeIsNotOfflineAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.drive(t, a.node, node.Drain, node.Drained)
	w.listens(t)
	w.silent(t, a.node, 600)
	w.drive(t, a.node, node.Reactivate)
	if n := w.sweep(t); n != 0 {
		t.Errorf("%d nodes changed", n)
	}
}

func TestFlappingIsDamped(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.listens(t)
	// Seconds of contact that the n-th return needs.
	for i, needs := range []int{0, 60, 120, 240, 480, 600, 600} {
		w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '6 minutes'`)
		w.silent(t, a.node, 6)
		if n := w.sweep(t); n != 1 {
			t.Fatalf("loss %d: %d nodes changed", i+1, n)
		}
		w.service.Contacts().Note(a.node, agentwire.Vitals{})
		w.flush(t)
		since := func(seconds int) {
			w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '20 minutes'`)
			w.exec(t, `UPDATE node_contacts SET recovering_since = clock_timestamp() - make_interval(secs => $1)`, seconds)
		}
		if needs > 0 {
			since(needs - 10)
			if n := w.sweep(t); n != 0 {
				t.Errorf("loss %d: back after %d seconds", i+1, needs-10)
			}
		}
		since(needs + 1)
		if n := w.sweep(t); n != 1 {
			t.Fatalf("loss %d: not back after %d seconds", i+1, needs+1)
		}
	}
	// Losses of more than an hour ago do not count.
	w.exec(t, `UPDATE node_events SET occurred_at = occurred_at - interval '2 hours'`)
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '6 minutes'`)
	w.silent(t, a.node, 6)
	w.sweep(t)
	w.service.Contacts().Note(a.node, agentwire.Vitals{})
	w.flush(t)
	if n := w.sweep(t); n != 1 {
		t.Error("an old story is held against the node")
	}
}

// If a returning node interrupts its contact, its trial starts again.
func TestAGapStartsTheTrialAnew(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.flush(t)
	recovering := func() int64 {
		return w.count(t,
			`SELECT COALESCE(extract(epoch FROM clock_timestamp() - recovering_since), 0)::bigint FROM node_contacts`)
	}
	w.exec(t,
		`UPDATE node_contacts SET recovering_since = clock_timestamp() - interval '5 minutes', last_contact_at = clock_timestamp() - interval '50 seconds'`)
	w.service.Contacts().Note(a.node, agentwire.Vitals{})
	w.flush(t)
	if s := recovering(); s < 299 {
		t.Errorf("a pause as long as a poll: in contact for %d seconds", s)
	}
	w.exec(t, `UPDATE node_contacts SET last_contact_at = clock_timestamp() - interval '100 seconds'`)
	w.service.Contacts().Note(a.node, agentwire.Vitals{})
	w.flush(t)
	if s := recovering(); s > 30 {
		t.Errorf("a longer pause: in contact for %d seconds", s)
	}
}

func TestOneSweepsAtATime(t *testing.T) {
	w := newWorld(t)
	all := w.fill(t, 450)
	w.listens(t)
	w.exec(t, `UPDATE node_contacts SET last_contact_at = clock_timestamp() - interval '10 minutes'`)
	w.inTx(t, func(ctx context.Context, c tx) error {
		if _, err := c.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('gpuaas node sweep'))`); err != nil {
			return err
		}
		if n := w.sweep(t); n != 0 {
			t.Errorf("%d nodes changed while another swept", n)
		}
		return nil
	})
	if n := w.sweep(t); n != len(all) {
		t.Errorf("%d nodes changed, want %d in several batches", n, len(all))
	}
}

// A listener that cannot answer, for example while the secrets engine is
// sealed, hears nobody. That makes nobody offline. What it did hear is written.
func TestAListenerThatCannotAnswerDoesNotListen(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.flush(t)
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '1 day'`)
	w.exec(t,
		`UPDATE node_listening SET listening_since = clock_timestamp() - interval '1 day', last_flush_at = clock_timestamp() - interval '10 minutes'`)
	w.deaf = true
	w.silent(t, a.node, 6)
	w.flush(t)
	if got := w.count(t,
		`SELECT count(*) FROM node_listening WHERE last_flush_at > clock_timestamp() - interval '5 minutes'`); got != 0 {
		t.Error("it says that it listens")
	}
	w.service.Contacts().Note(a.node, agentwire.Vitals{})
	w.flush(t)
	if at := w.read(t, a.node).LastContactAt; at == nil || time.Since(*at) > 30*time.Second {
		t.Errorf("last heard of at %v", at)
	}
	if got := w.count(t,
		`SELECT count(*) FROM node_listening WHERE last_flush_at > clock_timestamp() - interval '5 minutes'`); got != 0 {
		t.Error("a contact counts as listening")
	}
	// When it answers again, silence counts from then on.
	w.silent(t, a.node, 60)
	w.deaf = false
	w.flush(t)
	if n := w.sweep(t); n != 0 {
		t.Errorf("%d nodes changed as soon as somebody listened again", n)
	}
	if got := w.count(t,
		`SELECT count(*) FROM node_listening WHERE listening_since > clock_timestamp() - interval '1 minute'`); got != 1 {
		t.Error("it does not say that it listens")
	}
}
