package allocation_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/testkit"
)

// queued asks for nodes that there are not, and waits.
func (w *world) queued(tb testing.TB, ask allocation.Ask) allocation.Request {
	tb.Helper()
	if ask.SKU == "" {
		ask.SKU = h200
	}
	if ask.Project.IsZero() {
		ask.Project = w.project
	}
	if ask.WaitUpTo == 0 {
		ask.WaitUpTo = time.Hour
	}
	o, err := w.service.Request(w.ctx, ask)
	if err != nil || o.Request == nil || len(o.Allocations) != 0 {
		tb.Fatalf("it was to wait: %+v, %v", o, err)
	}
	return *o.Request
}

func (w *world) request(tb testing.TB, of id.AllocationRequest) allocation.Request {
	tb.Helper()
	r, _, err := w.service.GetRequest(tb.Context(), of)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (w *world) serve(tb testing.TB) int {
	tb.Helper()
	n, err := w.service.Serve(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// otherProject is another project of the tenant.
func (w *world) otherProject(tb testing.TB, slug string) id.Project {
	tb.Helper()
	p := id.New[id.Project]()
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, $3, $3)`, p, w.org, slug)
	return p
}

// free gives a node back that an allocation has, as if it had been cleaned.
func (w *world) free(tb testing.TB, a allocation.Allocation) {
	tb.Helper()
	if _, err := w.service.ForceCleanup(w.ctx, a.ID, true, "test"); err != nil {
		tb.Fatal(err)
	}
}

func TestARequestWaitsForTheLastNode(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	first := w.create(t, allocation.Ask{})[0]
	r := w.queued(t, allocation.Ask{Name: "later"})
	now, why, err := w.service.GetRequest(t.Context(), r.ID)
	if err != nil || now.Position != 1 || why == nil || why.Free != 0 || why.Nodes != 1 {
		t.Fatalf("%+v, %+v, %v", now, why, err)
	}
	if n := w.serve(t); n != 0 {
		t.Fatalf("%d were placed on nothing", n)
	}
	w.free(t, first)
	if n := w.serve(t); n != 1 {
		t.Fatalf("%d were placed", n)
	}
	now = w.request(t, r.ID)
	if now.Status != allocation.Placed || len(now.Allocations) != 1 || now.Position != 0 {
		t.Fatalf("%+v", now)
	}
	a := w.get(t, now.Allocations[0])
	if a.Name != "later" || a.AskedBy != "ann" || a.Status != allocation.Requested {
		t.Errorf("%+v", a)
	}
	if n := w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type IN ('allocation_request.waiting', 'allocation_request.placed')
		AND aggregate_id = $1`, r.ID.String()); n != 2 {
		t.Errorf("%d events", n)
	}
	if _, err := w.service.Cancel(w.ctx, r.ID); fault.KindOf(err) != fault.Conflict {
		t.Errorf("cancel of what was placed: %v", err)
	}
}

// The database itself tells that a node has become free: nobody looks for it.
func TestWhoWaitsIsToldOfANode(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	first := w.create(t, allocation.Ask{})[0]
	r := w.queued(t, allocation.Ask{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.service.Attend(ctx) }()
	defer func() { cancel(); <-ended }()
	w.free(t, first)
	testkit.Succeeds(t, "the request is placed", time.Minute, func() error {
		if w.request(t, r.ID).Status != allocation.Placed {
			return errors.New("it waits")
		}
		return nil
	})
}

func TestOnlyWantOfCapacityIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 2)
	w.create(t, allocation.Ask{Count: 2})
	for name, ask := range map[string]allocation.Ask{
		"no such SKU": {SKU: "none"}, "more than there are in all": {SKU: h200, Count: 3},
		"a region without nodes": {SKU: h200, Wish: allocation.Wish{Region: "mars"}},
	} {
		ask.Project, ask.WaitUpTo = w.project, time.Hour
		if _, err := w.service.Request(w.ctx, ask); fault.CodeOf(err) != allocation.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, ask := range map[string]allocation.Ask{
		"a second": {WaitUpTo: time.Second}, "a year": {WaitUpTo: 365 * 24 * time.Hour},
		"a named node": {WaitUpTo: time.Hour, Wish: allocation.Wish{Node: id.New[id.Node]()}},
	} {
		ask.SKU, ask.Project = h200, w.project
		if _, err := w.service.Request(w.ctx, ask); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_requests`); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// Projects take turns, whoever asked first and how often.
func TestProjectsTakeTurns(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 4)
	held := w.create(t, allocation.Ask{Count: 4})
	greedy := []allocation.Request{
		w.queued(t, allocation.Ask{}), w.queued(t, allocation.Ask{}), w.queued(t, allocation.Ask{}),
	}
	modest := w.queued(t, allocation.Ask{Project: w.otherProject(t, "modest")})
	if now := w.request(t, modest.ID); now.Position != 2 {
		t.Errorf("position %d: its project has had no turn", now.Position)
	}
	for i, want := range []id.AllocationRequest{greedy[0].ID, modest.ID, greedy[1].ID, greedy[2].ID} {
		w.free(t, held[i])
		if n := w.serve(t); n != 1 || w.request(t, want).Status != allocation.Placed {
			t.Fatalf("turn %d: %d were placed, and not the one whose turn it was", i, n)
		}
	}
}

// A tenant with many projects has no more turns than one with a single project.
func TestAttackMoreProjectsAreNotMoreTurns(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 5)
	held := w.create(t, allocation.Ask{Count: 5})
	many := []allocation.Request{w.queued(t, allocation.Ask{}), w.queued(t, allocation.Ask{})}
	for _, slug := range []string{"one", "two"} {
		many = append(many, w.queued(t, allocation.Ask{Project: w.otherProject(t, slug)}))
	}
	single := w.queued(t, allocation.Ask{Project: w.stranger(t, "globex")})
	if now := w.request(t, single.ID); now.Position != 2 {
		t.Errorf("position %d: its tenant has had no turn", now.Position)
	}
	// Then the projects of the first tenant take turns.
	for i, want := range []id.AllocationRequest{many[0].ID, single.ID, many[2].ID, many[3].ID, many[1].ID} {
		w.free(t, held[i])
		if n := w.serve(t); n != 1 || w.request(t, want).Status != allocation.Placed {
			t.Fatalf("turn %d: %d were placed, and not the one whose turn it was", i, n)
		}
	}
}

// Requests that come at once do not pass the count of those who wait together.
func TestAttackNoMoreThanTheMostWaitByAskingAtOnce(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	w.create(t, allocation.Ask{})
	for range allocation.MaxWaiting - 1 {
		w.queued(t, allocation.Ask{})
	}
	var over sync.WaitGroup
	refused := make(chan error, 2)
	if err := w.owner.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE allocation_requests IN SHARE MODE`); err != nil { // nothing is inserted
			return err
		}
		for range 2 {
			over.Go(func() {
				_, err := w.service.Request(w.ctx, allocation.Ask{SKU: h200, Project: w.project, WaitUpTo: time.Hour})
				refused <- err
			})
		}
		testkit.Eventually(t, "both have looked whether they may wait", func() bool {
			return w.count(t, `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE NOT l.granted AND a.datname = current_database()`) == 2
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	over.Wait()
	if err := errors.Join(<-refused, <-refused); fault.CodeOf(err) != "too_many_waiting_requests" {
		t.Errorf("one was to be refused: %v", err)
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_requests WHERE status = 'waiting'`); n != allocation.MaxWaiting {
		t.Errorf("%d wait", n)
	}
}

// Nobody who comes later takes what somebody waits for: neither the one who does not
// wait, nor the one who asks for less. What those who wait have no use for can be had.
func TestNobodyOvertakesThoseWhoWait(t *testing.T) {
	w := newWorld(t)
	nodes := w.nodes(t, 2)
	held := w.create(t, allocation.Ask{Count: 2})
	big := w.queued(t, allocation.Ask{Count: 2})
	w.free(t, held[0])
	if n := w.serve(t); n != 0 {
		t.Fatalf("%d were placed: both nodes were asked for", n)
	}
	_, err := w.try(allocation.Ask{})
	f, _ := fault.As(err)
	if f == nil || f.Code != allocation.CodeUnavailable ||
		!slices.ContainsFunc(f.Fields, func(x fault.Field) bool { return x.Path == "capacity.kept_for_waiting" }) {
		t.Fatalf("it was to be kept for the one who waits: %v", err)
	}
	small := w.queued(t, allocation.Ask{Project: w.otherProject(t, "small")})
	if n := w.serve(t); n != 0 || w.request(t, small.ID).Position != 2 {
		t.Fatalf("%d were placed", n)
	}
	w.exec(t, `UPDATE nodes SET region_code = 'us' WHERE id = ANY ($1)`, []string{nodes[0].String(), nodes[1].String()})
	w.node(t, "elsewhere", `region_code = 'eu'`, `labels = '{"tier": "fast"}'`)
	if n := w.serve(t); n != 1 { // two are free now, wherever they are
		t.Fatalf("%d were placed", n)
	}
	if now := w.request(t, big.ID); now.Status != allocation.Placed || len(now.Allocations) != 2 {
		t.Fatalf("%+v", now)
	}
}

// A node that whoever waits cannot use is not kept for them.
func TestWhatNobodyWaitsForCanBeHad(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1", fit)
	w.create(t, picky())
	w.queued(t, picky())
	w.node(t, "plain")
	w.create(t, allocation.Ask{})
}

func TestARequestEndsWithoutANode(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	first := w.create(t, allocation.Ask{})[0]
	late, taken := w.queued(t, allocation.Ask{}), w.queued(t, allocation.Ask{})
	w.exec(t, `UPDATE allocation_requests SET wait_until = clock_timestamp() WHERE id = $1`, late.ID)
	for range 2 { // taking it back again changes nothing
		if r, err := w.service.Cancel(w.ctx, taken.ID); err != nil || r.Status != allocation.RequestCancelled {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	w.free(t, first)
	if n := w.serve(t); n != 0 {
		t.Errorf("%d were placed that do not wait any more", n)
	}
	if n, err := w.service.GiveUp(t.Context()); err != nil || n != 1 {
		t.Errorf("%d gave up, %v", n, err)
	}
	if now := w.request(t, late.ID); now.Status != allocation.RequestExpired || now.Failure.Remedy == "" {
		t.Errorf("%+v", now)
	}
}

// admits lets so many nodes of a project in.
type admits struct{ nodes int32 }

func (a *admits) Admit(_ context.Context, _ pgx.Tx, r allocation.Admitted) error {
	if r.Nodes > a.nodes {
		return fault.New(fault.Forbidden, "quota_exceeded", "too much")
	}
	return nil
}

func (a *admits) StillMay(context.Context, pgx.Tx, string, auth.Permission, auth.Target) (bool, error) {
	return a.nodes != 0, nil
}

// Quotas and rights count at the moment of the placement.
func TestAttackARequestDoesNotOutliveTheRightToRent(t *testing.T) {
	for name, c := range map[string]struct {
		left int32
		code string
	}{"right lost": {0, "insufficient_permissions"}, "quota used up": {1, "quota_exceeded"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			limits := &admits{nodes: 2}
			w.service = allocation.New(allocation.Config{
				DB: w.db, Tasks: w.agents, Cleanups: w.cleanups, Terminals: w.terminals, Admission: limits, Members: limits,
			})
			w.nodes(t, 2)
			first := w.create(t, allocation.Ask{Count: 2})
			r := w.queued(t, allocation.Ask{Count: 2})
			limits.nodes = c.left
			w.free(t, first[0])
			w.free(t, first[1])
			if n := w.serve(t); n != 0 {
				t.Fatalf("%d were placed", n)
			}
			if now := w.request(t, r.ID); now.Status != allocation.Refused || now.Failure.Code != c.code {
				t.Errorf("%+v", now)
			}
		})
	}
}

// tariff is what a node costs for an hour.
type tariff struct{ hour int64 }

func (p *tariff) Quote(context.Context, pgx.Tx, allocation.Priced) (allocation.Price, error) {
	return allocation.Price{Minor: p.hour / 8, Currency: "USD", Hour: p.hour}, nil
}

func (p *tariff) Freeze(ctx context.Context, tx pgx.Tx, of allocation.Priced) (allocation.Price, error) {
	return p.Quote(ctx, tx, of)
}

// Who waits gets a node at the price of the moment in which it asked, or cheaper, or not
// at all.
func TestARequestIsNotPlacedAtAHigherPrice(t *testing.T) {
	for name, c := range map[string]struct {
		then, now int64
		status    allocation.RequestStatus
		code      string
	}{
		"dearer":    {2800, 2801, allocation.Refused, "price_changed"},
		"cheaper":   {2800, 2799, allocation.Placed, ""},
		"as it was": {2800, 2800, allocation.Placed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			price := &tariff{hour: c.then}
			w.service = allocation.New(allocation.Config{
				DB: w.db, Tasks: w.agents, Cleanups: w.cleanups, Terminals: w.terminals, Pricing: price,
			})
			w.nodes(t, 1)
			first := w.create(t, allocation.Ask{})
			r := w.queued(t, allocation.Ask{})
			price.hour = c.now
			w.free(t, first[0])
			w.serve(t)
			if now := w.request(t, r.ID); now.Status != c.status || now.Failure.Code != c.code {
				t.Errorf("%+v", now)
			}
		})
	}
}

// Several replicas serve the same queue: each request is placed once.
func TestReplicasServeOneQueue(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 6)
	held := w.create(t, allocation.Ask{Count: 6})
	for range 6 {
		w.queued(t, allocation.Ask{})
	}
	for _, a := range held {
		w.free(t, a)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, err := w.service.Serve(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	w.serve(t)
	if n := w.count(t, `SELECT count(*) FROM allocation_requests WHERE status = 'placed' AND cardinality(allocation_ids) = 1`); n != 6 {
		t.Errorf("%d were placed", n)
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_resource_claims WHERE ended_at IS NULL`); n != 6 {
		t.Errorf("%d claims", n)
	}
}
