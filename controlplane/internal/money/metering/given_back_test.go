package metering_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/metering"
)

func (w *world) repaired(tb testing.TB, a id.Allocation, from, to time.Time) {
	tb.Helper()
	w.exec(tb, `INSERT INTO allocation_repairs (id, allocation_id, node_id, reason, began_at, began_by, ended_at)
		VALUES (gen_random_uuid(), $1, $2, 'a fan', $3, '', $4)`, a, w.node, from, to)
}

// entry is an entry about a time of an allocation that begins at a moment.
func (w *world) entry(tb testing.TB, kind ledger.Kind, from time.Time) (of id.LedgerEntry) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), `SELECT id FROM ledger_entries WHERE kind = $1 AND window_start = $2`, string(kind),
		from).Scan(&of); err != nil {
		tb.Fatal(err)
	}
	return of
}

// A time is given back once, as a charge that is corrected or as a relief, whichever
// comes first; and what somebody took back is not given again by itself.
func TestATimeIsGivenBackOnce(t *testing.T) {
	w := newWorld(t)
	books := ledger.New(w.db)
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	a := w.rent(t, 8)
	w.activate(t, a, start)
	for hour := 1; hour <= 5; hour++ {
		w.now = at(hour)
		w.tend(t)
	}
	correct := func(of id.LedgerEntry) id.LedgerEntry {
		t.Helper()
		made, err := books.Correct(t.Context(), w.org, of, "the node was dead")
		if err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	refused := func(of id.LedgerEntry) {
		t.Helper()
		if _, err := books.Correct(t.Context(), w.org, of, "again"); fault.CodeOf(err) != "ledger_time_given_back" {
			t.Errorf("time is given back twice: %v", err)
		}
	}
	correct(w.entry(t, ledger.Usage, at(1)))
	w.repaired(t, a, at(1), at(3)) // the first half of it was given back already
	w.now = at(6)
	w.tend(t)
	w.tend(t)
	if got := w.balance(t); got != -2520*4 {
		t.Fatalf("the balance is %d: the corrected hour was given back again", got)
	}
	second, relief := w.entry(t, ledger.Usage, at(2)), w.entry(t, ledger.Relief, at(2))
	refused(second)
	took := correct(relief)
	w.now = at(7)
	w.tend(t)
	if got := w.balance(t); got != -2520*6 { // what a person took back stays so
		t.Fatalf("the balance is %d", got)
	}
	correct(second)
	refused(took) // the relief would stand again
	w.release(t, a, at(7))
	w.tend(t)
	if got := w.balance(t); got != -2520*5 || w.open(t) != 0 {
		t.Errorf("the balance is %d, %d meters are open", got, w.open(t))
	}
}

// How long a repair or a quarantine lasts is the word of somebody who may not give money:
// it gives back so much and no more. The silence of a machine is nobody's word.
func TestARepairGivesBackSoMuchAndNoMore(t *testing.T) {
	w := newWorld(t)
	w.meters = metering.New(metering.Config{
		DB: w.db, Every: time.Hour, Silence: metering.LongSilence, Most: metering.MostRelief,
		Clock: func() time.Time { return w.now.Truncate(time.Microsecond) },
	})
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	state := func(to string, hours int) {
		w.exec(t, `INSERT INTO node_events (node_id, occurred_at, kind, event, to_status, cause, actor_kind, actor_id, correlation_id,
			snapshot) VALUES ($1, $2, 'state_changed', 'e', $3, '', 'system', '', '', '{}')`, w.node, at(hours), to)
	}
	a := w.rent(t, 8)
	w.activate(t, a, start)
	w.repaired(t, a, at(10), at(82)) // three days
	state("quarantined", 100)
	state("offline", 140)
	state("active", 200)
	for _, hour := range []int{50, 150, 250} {
		w.now = at(hour)
		w.tend(t)
	}
	if got := w.balance(t); got != -2520*(250-24-24-60) {
		t.Errorf("the balance is %d, want %d", got, -2520*(250-24-24-60))
	}
}

// The database holds that a meter goes forwards, is closed at the end only, and charges
// nothing beyond it.
func TestAMeterOnlyGoesOn(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 8)
	w.activate(t, a, start)
	w.now = start.Add(5 * time.Hour)
	w.tend(t)
	refused := func(what, query string, args ...any) {
		t.Helper()
		if _, err := w.owner.Exec(t.Context(), query, args...); err == nil {
			t.Errorf("the database takes %s", what)
		}
	}
	refused("the end of charges while the tenant has it", `UPDATE usage_meters SET closed_at = now()`)
	refused("a meter that goes back", `UPDATE usage_meters SET charged_until = $1`, start.Add(time.Hour))
	refused("a meter that forgets", `UPDATE usage_meters SET charged_until = NULL`)
	refused("no meter", `DELETE FROM usage_meters`)
	w.release(t, a, start.Add(7*time.Hour))
	refused("the end of charges before the end", `UPDATE usage_meters SET closed_at = now()`)
	refused("a window after the end", `INSERT INTO usage_windows (allocation_id, meter, starts_at, ends_at, follows, amount_minor)
		VALUES ($1, 'held', $2, $3, $2, 0)`, a, start.Add(5*time.Hour), start.Add(8*time.Hour))
	w.tend(t)
	refused("a meter that is opened again", `UPDATE usage_meters SET closed_at = NULL`)
	if got := w.balance(t); got != -2520*7 || w.open(t) != 0 {
		t.Errorf("the balance is %d", got)
	}
}

// The natural key of an entry holds by itself, whoever books without a lock: a window is
// charged once, and given back once for one reason.
func TestAWindowIsBookedOnce(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 8)
	w.activate(t, a, start)
	w.now = start.Add(time.Hour)
	w.tend(t)
	again := ledger.Window{Allocation: a, Meter: metering.Held, Start: start, End: w.now}
	relieve := func(ctx context.Context, tx pgx.Tx) error {
		_, err := ledger.Relieve(ctx, tx, w.org, "USD", again, 1, "repair 1", "a fan")
		return err
	}
	if err := w.db.InTx(t.Context(), relieve); err != nil {
		t.Fatal(err)
	}
	for what, book := range map[string]postgres.TxFunc{
		"a charge": func(ctx context.Context, tx pgx.Tx) error {
			_, err := ledger.Charge(ctx, tx, w.org, "USD", again, 1)
			return err
		},
		"a relief": relieve,
	} {
		if err := w.db.InTx(t.Context(), book); !postgres.Violates(err, "ledger_entries_window") {
			t.Errorf("%s is booked twice: %v", what, err)
		}
	}
	if got := w.balance(t); got != -2519 {
		t.Errorf("the balance is %d", got)
	}
}
