package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

var (
	errRefused = errors.New("refused")
	errAway    = fault.New(fault.Unavailable, "away", "the destination is away")
)

func versionOf(t *testing.T, m outbox.Message) int64 {
	t.Helper()
	var envelope eventwire.Envelope
	var payload eventwire.Tenant
	if err := errors.Join(json.Unmarshal(m.Body, &envelope), json.Unmarshal(envelope.Payload, &payload)); err != nil {
		t.Fatal(err)
	}
	return payload.Version
}

// Many writers, several relays, a destination that fails at random: whatever
// happens, each aggregate's events arrive in commit order, each once.
func TestOrderPerAggregate(t *testing.T) {
	const writers, rounds, tenants, relays = 6, 40, 12, 3
	db := postgrestest.New(t)
	names := makeTenants(t, db, tenants)
	dice := rand.New(rand.NewPCG(1, 2)) // only used under the script's lock
	to := newScript(func(outbox.Message) error {
		switch n := dice.IntN(100); {
		case n < 12:
			return errRefused
		case n < 14:
			return errAway
		}
		return nil
	})
	for range relays {
		runRelay(t, outbox.RelayConfig{
			DB: db, Destinations: toNATS(to), BatchSize: 7, Workers: 2, MaxAttempts: 1000,
			RetryUnit: time.Millisecond, RetryCap: 4 * time.Millisecond, OutageCap: 2 * time.Millisecond,
		})
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			pick := rand.New(rand.NewPCG(3, uint64(w)))
			for range rounds {
				if err := changeTenants(t.Context(), db, names[pick.IntN(tenants)], names[pick.IntN(tenants)]); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	wg.Wait()
	awaitRows(t, db, 0, "status <> 'published'")
	accepted := to.awaitCount(t, countRows(t, db, "true"))
	seen := map[id.Event]bool{}
	last := map[string]int64{}
	for _, m := range accepted {
		if seen[m.ID] {
			t.Errorf("event %s arrived twice although nothing crashed", m.ID)
		}
		seen[m.ID] = true
		if v := versionOf(t, m); v != last[m.AggregateID]+1 {
			t.Errorf("tenant %s: version %d came after %d", m.AggregateID, v, last[m.AggregateID])
		} else {
			last[m.AggregateID] = v
		}
	}
	if len(accepted) != writers*rounds*2 {
		t.Errorf("%d events arrived, %d were written", len(accepted), writers*rounds*2)
	}
}

// makeTenants makes rows with a version each; any table that has one serves.
func makeTenants(tb testing.TB, db *postgres.DB, n int) []string {
	tb.Helper()
	tenants := make([]string, n)
	for i := range tenants {
		tenants[i] = id.NewString()
		_, err := db.Exec(tb.Context(),
			"INSERT INTO self_checks (id, requested_by, correlation_id, version) VALUES ($1, '', '', 0)", tenants[i])
		if err != nil {
			tb.Fatal(err)
		}
	}
	return tenants
}

// changeTenants appends the version that each change produced: the lock of the
// row makes versions follow the order of commits.
func changeTenants(ctx context.Context, db *postgres.DB, tenants ...string) error {
	slices.Sort(tenants) // or transactions wait for each other
	return db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, tenant := range tenants {
			var version int64
			err := tx.QueryRow(ctx, "UPDATE self_checks SET version = version + 1 WHERE id = $1 RETURNING version",
				tenant).Scan(&version)
			if err != nil {
				return err
			}
			if err := outbox.Append(ctx, tx, tenantEvent(tenant, version)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A message that is refused holds back its own aggregate until it is given up,
// and nobody else.
func TestPoisonIsDeadLettered(t *testing.T) {
	db := postgrestest.New(t)
	var events []outbox.Event
	for i := range 40 { // more than there are partitions: some share that of the poison
		events = append(events, tenantEvent(fmt.Sprint("healthy-", i), 1))
	}
	poison := func(m outbox.Message) bool { return m.AggregateID == "sick" && versionOf(t, m) == 1 }
	to := newScript(func(m outbox.Message) error {
		if poison(m) {
			return fault.Wrap(errRefused, fault.Invalid, "bad_event", "it cannot be read \xff\x00")
		}
		return nil
	})
	appendEvents(t, db, append([]outbox.Event{tenantEvent("sick", 1), tenantEvent("sick", 2)}, events...)...)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(to), MaxAttempts: 3, RetryUnit: 50 * time.Millisecond})

	accepted := to.awaitCount(t, 41)
	for _, m := range accepted[:40] {
		if m.AggregateID == "sick" {
			t.Error("the successor of a waiting message was not held back")
		}
	}
	if last := accepted[40]; last.AggregateID != "sick" || versionOf(t, last) != 2 {
		t.Errorf("last came %s version %d, want the successor of the poison", last.AggregateID, versionOf(t, last))
	}
	awaitRows(t, db, 1, "status = 'failed' AND attempt_count = 3 AND last_error = 'bad_event: it cannot be read '")
	to.await(t, "three attempts", func(_ []outbox.Message, tried map[id.Event]int) bool {
		total := 0
		for _, n := range tried {
			total += n
		}
		return total == 41+3
	})
}

// While a destination is away nothing counts as an attempt, and the relay
// comes back by itself.
func TestOutageCountsNoAttempt(t *testing.T) {
	db := postgrestest.New(t)
	refusals := 30
	to := newScript(func(outbox.Message) error {
		if refusals > 0 {
			refusals--
			return errAway
		}
		return nil
	})
	appendEvents(t, db, tenantEvent("a", 1), tenantEvent("a", 2), tenantEvent("b", 1))
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(to), MaxAttempts: 2, OutageCap: 5 * time.Millisecond})
	for _, m := range to.awaitCount(t, 3) {
		if m.Attempt != 1 {
			t.Errorf("message arrived at attempt %d, want 1", m.Attempt)
		}
	}
	awaitRows(t, db, 3, "status = 'published'")
}

type blocked struct {
	entered, release chan struct{}
}

func (b *blocked) Deliver(ctx context.Context, batch []outbox.Message) []error {
	b.entered <- struct{}{}
	select {
	case <-b.release:
	case <-ctx.Done():
	}
	return make([]error, len(batch))
}

func TestOneDestinationDoesNotHoldUpAnother(t *testing.T) {
	db := postgrestest.New(t)
	stuck := &blocked{make(chan struct{}, 10), make(chan struct{})}
	temporal := newScript(nil)
	stop := runRelay(t, outbox.RelayConfig{DB: db, Destinations: map[string]outbox.Deliverer{
		outbox.DestinationNATS: stuck, outbox.DestinationTemporal: temporal,
	}})
	appendEvents(t, db, tenantEvent("a", 1))
	<-stuck.entered
	err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{Type: "W", ID: "w", Queue: "q"})
	})
	if err != nil {
		t.Fatal(err)
	}
	temporal.awaitCount(t, 1)
	close(stuck.release)
	stop()
}

// A stop finishes the batch in hand: what was delivered is recorded.
func TestStopFinishesTheBatch(t *testing.T) {
	db := postgrestest.New(t)
	to := &blocked{make(chan struct{}, 1), make(chan struct{})}
	stop := runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(to)})
	appendEvents(t, db, tenantEvent("a", 1))
	<-to.entered
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Fatal("the relay stopped with a batch in hand")
	case <-time.After(50 * time.Millisecond):
	}
	close(to.release)
	<-stopped
	if n := countRows(t, db, "status = 'published' AND finished_at IS NOT NULL"); n != 1 {
		t.Errorf("%d published, want the batch in hand to be recorded", n)
	}
}

// With a sweep once an hour, only a notification can bring an event out.
func TestNotificationWakesTheRelay(t *testing.T) {
	db := postgrestest.New(t)
	to := newScript(nil)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(to), Sweep: time.Hour})
	for i := range 20 {
		appendEvents(t, db, tenantEvent("a", int64(i)))
		to.awaitCount(t, i+1)
		awaitRows(t, db, 0, "status = 'pending'")
	}
	// A subscription that breaks is made anew.
	tag, err := db.Exec(t.Context(),
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("ended %d subscriptions: %v", tag.RowsAffected(), err)
	}
	appendEvents(t, db, tenantEvent("a", 21))
	to.awaitCount(t, 21)
}

// A waiting event is tried again when it comes due, not at the next sweep.
func TestRetryDoesNotWaitForTheSweep(t *testing.T) {
	db := postgrestest.New(t)
	first := true
	to := newScript(func(outbox.Message) error {
		defer func() { first = false }()
		if first {
			return errRefused
		}
		return nil
	})
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(to), Sweep: time.Hour, RetryUnit: 100 * time.Millisecond})
	appendEvents(t, db, tenantEvent("a", 1))
	if m := to.awaitCount(t, 1)[0]; m.Attempt != 2 {
		t.Errorf("arrived at attempt %d, want 2", m.Attempt)
	}
}

type mute struct{}

func (mute) Deliver(context.Context, []outbox.Message) []error { return nil }

// A deliverer that does not say what became of a message has not delivered it.
func TestDelivererMustAnswerForEveryMessage(t *testing.T) {
	db := postgrestest.New(t)
	appendEvents(t, db, tenantEvent("a", 1))
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(mute{}), MaxAttempts: 2, RetryUnit: time.Millisecond})
	awaitRows(t, db, 1, "status = 'failed' AND last_error LIKE 'deliverer_defect: %'")
}

func TestHousekeeping(t *testing.T) {
	db := postgrestest.New(t)
	appendEvents(t, db, tenantEvent("old", 1), tenantEvent("dropped", 1), tenantEvent("dead", 1), tenantEvent("new", 1))
	_, err := db.Exec(t.Context(), `UPDATE outbox_events SET finished_at = clock_timestamp() - interval '8 days',
		status = CASE aggregate_id WHEN 'old' THEN 'published' WHEN 'dropped' THEN 'discarded' ELSE 'failed' END WHERE aggregate_id <> 'new'`)
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-7 * 24 * time.Hour)
	if n, err := (outbox.Finished{DB: db}).Prune(t.Context(), before, 0, 1000); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	awaitRows(t, db, 0, "aggregate_id IN ('old', 'dropped')")
	awaitRows(t, db, 2, "(aggregate_id = 'dead' AND status = 'failed') OR (aggregate_id = 'new' AND status = 'pending')")
}

func TestRelayOutlivesTheDatabase(t *testing.T) {
	private := stacktest.Start(t, stack.Options{Only: []stack.Engine{stack.Postgres}})
	ends := private.Endpoints()
	if _, err := postgres.Migrate(t.Context(), redact.New(ends.PostgresMigrateURL)); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(postgres.Config{URL: redact.New(ends.PostgresURL), MaxConns: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	to := newScript(nil)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toNATS(to), Sweep: time.Hour, OutageCap: 100 * time.Millisecond})
	appendEvents(t, db, tenantEvent("a", 1))
	to.awaitCount(t, 1)
	if err := errors.Join(private.Kill(stack.Postgres), private.Resume(stack.Postgres)); err != nil {
		t.Fatal(err)
	}
	testkit.Succeeds(t, "connections that live", testkit.Patience, func() error { // the pool still holds dead ones
		_, err := db.Exec(t.Context(), "SELECT 1")
		return err
	})
	appendEvents(t, db, tenantEvent("b", 1))
	to.await(t, "an event after the restart",
		func(got []outbox.Message, _ map[id.Event]int) bool { return got[len(got)-1].AggregateID == "b" })
}
