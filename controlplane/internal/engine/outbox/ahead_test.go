package outbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/testkit"
)

// runAhead does errands until the test ends or stop is called.
func runAhead(tb testing.TB, cfg outbox.AheadConfig) (a *outbox.Ahead, stop func()) {
	tb.Helper()
	a = outbox.NewAhead(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	tb.Cleanup(stop)
	testkit.Eventually(tb, "errands are done", a.Running)
	return a, stop
}

func startOf(workflow string) outbox.WorkflowStart {
	return outbox.WorkflowStart{Type: "Demo", ID: workflow, Queue: "q"}
}

// startAhead starts a workflow that an errand may make needless.
func startAhead(tb testing.TB, db *postgres.DB, a *outbox.Ahead, workflow string, do outbox.Errand) {
	tb.Helper()
	if err := db.InTx(tb.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return a.Start(ctx, tx, startOf(workflow), do)
	}); err != nil {
		tb.Fatal(err)
	}
}

func ends(rest outbox.Rest) outbox.Errand {
	return func(context.Context) (outbox.Rest, error) { return rest, nil }
}

func toTemporal(d outbox.Deliverer) map[string]outbox.Deliverer {
	return map[string]outbox.Deliverer{outbox.DestinationTemporal: d}
}

// Only what an errand leaves starts a workflow, and it does so at once. What has been
// done, or rolled back, starts none.
func TestAWorkflowStartsOnlyForWhatIsLeft(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	to := newScript(nil)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toTemporal(to)})
	a, _ := runAhead(t, outbox.AheadConfig{DB: db, Lease: time.Hour})
	boom := errors.New("boom")
	for name, do := range map[string]outbox.Errand{
		"done": ends(outbox.Rest{Done: true}), "left": ends(outbox.Rest{}),
		"failed":   func(context.Context) (outbox.Rest, error) { return outbox.Rest{}, boom },
		"panicked": func(context.Context) (outbox.Rest, error) { panic("defect") },
		"later":    ends(outbox.Rest{Wait: time.Hour}),
	} {
		startAhead(t, db, a, name, do)
	}
	rolledBack := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := a.Start(ctx, tx, startOf("rolled back"), func(context.Context) (outbox.Rest, error) {
			t.Error("the errand of a transaction that did not commit was done")
			return outbox.Rest{}, nil
		}); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(rolledBack, boom) {
		t.Fatal(rolledBack)
	}
	got := map[string]bool{}
	for _, m := range to.awaitCount(t, 3) {
		got[m.AggregateID] = true
	}
	if len(got) != 3 || !got["left"] || !got["failed"] || !got["panicked"] {
		t.Errorf("workflows of %v started", got)
	}
	awaitRows(t, db, 1, `status = 'pending'`)
	awaitRows(t, db, 1, `status = 'pending' AND aggregate_id = 'later' AND next_attempt_at > clock_timestamp() + interval '50 minutes'`)
}

// A process that dies with an errand in hand leaves the start behind: it is delivered
// when nobody has put it off any more.
func TestTheWorkflowStartsWhenTheProcessHasDied(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	to := newScript(nil)
	a, stop := runAhead(t, outbox.AheadConfig{DB: db, Lease: time.Second})
	if err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		err := a.Start(ctx, tx, startOf("orphan"), func(context.Context) (outbox.Rest, error) {
			t.Error("somebody does the errand who is dead")
			return outbox.Rest{}, nil
		})
		stop()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toTemporal(to)})
	if got := to.awaitCount(t, 1); got[0].AggregateID != "orphan" {
		t.Errorf("%s started", got[0].AggregateID)
	}
}

// As long as an errand is under way, its workflow does not start, and what follows the
// start waits behind it. The end of the process leaves the rest to workflows at once.
func TestWhatIsUnderWayIsPutOff(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	to := newScript(nil)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toTemporal(to)})
	const lease = 3 * time.Second
	a, stop := runAhead(t, outbox.AheadConfig{DB: db, Lease: lease})
	begun := make(chan struct{})
	startAhead(t, db, a, "long", func(ctx context.Context) (outbox.Rest, error) {
		close(begun)
		<-ctx.Done()
		return outbox.Rest{}, ctx.Err()
	})
	testkit.Receive(t, "the beginning of the errand", begun)
	if err := db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return outbox.CancelWorkflow(ctx, tx, "long")
	}); err != nil {
		t.Fatal(err)
	}
	// It was put off at least once: its time is later than the lease that it began with.
	awaitRows(t, db, 1, `aggregate_id = 'long' AND event_type = 'Demo' AND next_attempt_at > created_at + interval '3500 milliseconds'`)
	stop()
	got := to.awaitCount(t, 2)
	if got[0].Type != "Demo" || got[1].Type != outbox.WorkflowCancelType {
		t.Errorf("%s came before %s", got[0].Type, got[1].Type)
	}
}

// Who only waits gives its place to others, and nobody works without one.
func TestWhoWaitsGivesItsPlaceToOthers(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	a, _ := runAhead(t, outbox.AheadConfig{DB: db, Lease: time.Hour, Places: 1})
	second := make(chan struct{})
	startAhead(t, db, a, "first", func(ctx context.Context) (outbox.Rest, error) {
		back := outbox.Aside(ctx)
		select {
		case <-second:
		case <-ctx.Done():
		}
		back()
		return outbox.Rest{Done: true}, nil
	})
	startAhead(t, db, a, "second", func(context.Context) (outbox.Rest, error) {
		close(second)
		return outbox.Rest{Done: true}, nil
	})
	awaitRows(t, db, 0, `status = 'pending'`)
	outbox.Aside(t.Context())() // elsewhere it does nothing
}

// Where nobody does errands, or too many are under way, workflows start as ever.
func TestWithoutAnybodyAheadWorkflowsStart(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	idle := outbox.NewAhead(outbox.AheadConfig{DB: db})
	full, _ := runAhead(t, outbox.AheadConfig{DB: db, Lease: time.Hour, Most: 1})
	hold := make(chan struct{})
	defer close(hold)
	startAhead(t, db, full, "busy", func(ctx context.Context) (outbox.Rest, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return outbox.Rest{Done: true}, nil
	})
	never := func(context.Context) (outbox.Rest, error) {
		t.Error("an errand was done")
		return outbox.Rest{}, nil
	}
	startAhead(t, db, full, "beyond-"+id.NewString(), never)
	startAhead(t, db, idle, "idle", never)
	startAhead(t, db, nil, "nobody", never)
	awaitRows(t, db, 3, `status = 'pending' AND attempt_count = 0 AND next_attempt_at <= clock_timestamp()`)
}

// Work that hangs, and work that finds no place meanwhile, is left to workflows.
func TestWorkThatHangsIsLeftToItsWorkflow(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	to := newScript(nil)
	runRelay(t, outbox.RelayConfig{DB: db, Destinations: toTemporal(to)})
	a, _ := runAhead(t, outbox.AheadConfig{DB: db, Places: 1, Lease: time.Second, Patience: 4 * time.Second})
	began := make(chan struct{})
	startAhead(t, db, a, "hangs", func(ctx context.Context) (outbox.Rest, error) {
		close(began)
		<-ctx.Done()
		return outbox.Rest{}, ctx.Err()
	})
	<-began
	startAhead(t, db, a, "waits", ends(outbox.Rest{Done: true}))
	to.awaitCount(t, 2)
}
