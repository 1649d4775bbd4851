package allocation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/reservation"
)

// reserver is a context in which somebody acts who may reserve.
func (w *world) reserver(tb testing.TB) context.Context {
	tb.Helper()
	return auth.With(tb.Context(), &auth.Principal{Kind: auth.KindUser, ID: "olga", Name: "Olga", Platform: auth.Operator})
}

func (w *world) reservations() *reservation.Service {
	return reservation.New(w.db, 90*time.Second, nil)
}

// wish is a reservation of the tenant of the world for an hour.
func (w *world) wish(nodes int32, of reservation.Selector) reservation.Wish {
	return reservation.Wish{
		Owner: reservation.Owner{Org: w.org}, SKU: h200, Nodes: nodes, EndsAt: time.Now().Add(time.Hour), Selector: of,
	}
}

func (w *world) reserve(tb testing.TB, wish reservation.Wish) reservation.Reservation {
	tb.Helper()
	r, err := w.reservations().Create(w.reserver(tb), wish)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// reserved expects how a reservation is used.
func (w *world) reserved(tb testing.TB, of id.Reservation, used, held int32) {
	tb.Helper()
	r, err := w.reservations().Get(w.reserver(tb), of)
	if err != nil || r.Usage != (reservation.Usage{Used: used, Held: held}) {
		tb.Errorf("used %d and held %d, want %d and %d; %v", r.Usage.Used, r.Usage.Held, used, held, err)
	}
}

// stranger is a project of another tenant.
func (w *world) stranger(tb testing.TB, slug string) id.Project {
	tb.Helper()
	org, project := id.New[id.Org](), id.New[id.Project]()
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, $2, $2)`, org, slug)
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, $3, $3)`, project, org, slug)
	return project
}

func refusedFor(err error, reason string) bool {
	f, _ := fault.As(err)
	return f != nil && f.Code == allocation.CodeUnavailable &&
		slices.ContainsFunc(f.Fields, func(x fault.Field) bool { return x.Path == "capacity."+reason })
}

func TestNobodyGetsWhatIsReservedForOthers(t *testing.T) {
	w := newWorld(t)
	other := w.stranger(t, "other")
	w.nodes(t, 3)
	r := w.reserve(t, w.wish(2, reservation.Selector{}))
	w.reserved(t, r.ID, 0, 2)
	w.create(t, allocation.Ask{Project: other}) // one is left
	_, err := w.try(allocation.Ask{Project: other})
	if !refusedFor(err, "reserved") {
		t.Fatalf("%v", err)
	}
	if f, _ := fault.As(err); strings.Contains(fmt.Sprint(f.Message, f.Fields), w.org.String()) ||
		strings.Contains(f.Message, "acme") {
		t.Errorf("it names others: %v", f)
	}
	c, err := w.service.Explain(w.ctx, allocation.Ask{SKU: h200, Project: other})
	if err != nil || c.Free != 0 || !slices.Contains(c.Filters, allocation.Filter{
		Reason: "reserved", Text: "are kept for reservations of others", Before: 2, After: 0,
	}) {
		t.Errorf("%+v, %v", c, err)
	}
	mine := w.create(t, allocation.Ask{Count: 2})
	w.reserved(t, r.ID, 2, 0)
	w.free(t, mine[0])
	w.reserved(t, r.ID, 1, 1)
	if _, err := w.try(allocation.Ask{Project: other}); !refusedFor(err, "reserved") {
		t.Errorf("what its owner gave back is still reserved: %v", err)
	}
	if _, err := w.reservations().Cancel(w.reserver(t), r.ID, "test"); err != nil {
		t.Fatal(err)
	}
	w.create(t, allocation.Ask{Project: other})
	if n := w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type IN ('reservation.created', 'reservation.cancelled')`); n != 2 {
		t.Errorf("%d events", n)
	}
}

// A reservation begins and ends by the time, and takes nothing from anybody: it is
// short until nodes become free.
func TestAReservationTakesFreeNodesAsTheyCome(t *testing.T) {
	w := newWorld(t)
	other := w.stranger(t, "other")
	w.nodes(t, 2)
	held := w.create(t, allocation.Ask{Project: other, Count: 2})
	wish := w.wish(2, reservation.Selector{})
	wish.StartsAt = time.Now().Add(time.Minute)
	r := w.reserve(t, wish)
	if r.State != reservation.Upcoming {
		t.Errorf("%+v", r)
	}
	w.free(t, held[0])
	again := w.create(t, allocation.Ask{Project: other})[0] // it has not begun
	w.exec(t, `UPDATE reservations SET starts_at = clock_timestamp()`)
	w.reserved(t, r.ID, 0, 0)
	w.free(t, again)
	w.reserved(t, r.ID, 0, 1)
	if _, err := w.try(allocation.Ask{Project: other}); !refusedFor(err, "reserved") {
		t.Errorf("%v", err)
	}
	w.exec(t, `UPDATE reservations SET ends_at = clock_timestamp()`)
	w.create(t, allocation.Ask{Project: other}) // it is over
}

// What an owner has counts as use of its reservations, each node once, and its next
// requests go to nodes that fit them.
func TestAnOwnerUsesItsReservationsFirst(t *testing.T) {
	w := newWorld(t)
	other := w.stranger(t, "other")
	for i := range 4 {
		w.node(t, fmt.Sprintf("plain%d", i))
	}
	for i := range 2 {
		w.node(t, fmt.Sprintf("r1-%d", i), `rack = 'r1', clean_at = clock_timestamp()`) // they would be taken last
	}
	racked := w.reserve(t, w.wish(2, reservation.Selector{Rack: "r1"}))
	wish := w.wish(1, reservation.Selector{})
	wish.Project = w.project
	anywhere := w.reserve(t, wish)
	made := w.create(t, allocation.Ask{Count: 2})
	if made[0].Hostname[:2] != "r1" || made[1].Hostname[:2] != "r1" {
		t.Errorf("on %s and %s, which its reservation does not need", made[0].Hostname, made[1].Hostname)
	}
	w.reserved(t, racked.ID, 2, 0)
	w.reserved(t, anywhere.ID, 0, 1)
	w.create(t, allocation.Ask{Project: w.otherProject(t, "neighbour")}) // of the tenant, but not of the project
	w.reserved(t, anywhere.ID, 0, 1)
	w.create(t, allocation.Ask{Project: other, Count: 2})
	if _, err := w.try(allocation.Ask{Project: other}); !refusedFor(err, "reserved") {
		t.Errorf("%v", err)
	}
}

// An owner gets a node that it asks for, where the one that is kept for it would serve
// the other reservation as well.
func TestAnOwnerIsNotRefusedForANodeThatCouldBeExchanged(t *testing.T) {
	for _, first := range []bool{true, false} {
		w := newWorld(t)
		w.node(t, "plain")
		w.node(t, "fast", `labels = '{"public/tier": "fast"}'`)
		other := w.stranger(t, "other")
		theirs := w.wish(1, reservation.Selector{})
		theirs.Project = other
		if err := w.owner.QueryRow(t.Context(), `SELECT org_id FROM projects WHERE id = $1`, other).Scan(&theirs.Org); err != nil {
			t.Fatal(err)
		}
		wishes := []reservation.Wish{w.wish(1, reservation.Selector{}), theirs}
		if !first {
			slices.Reverse(wishes)
		}
		for _, wish := range wishes {
			w.reserve(t, wish)
		}
		a := w.create(t, allocation.Ask{Wish: allocation.Wish{Labels: map[string]string{"public/tier": "fast"}}})[0]
		if a.Hostname != "fast" {
			t.Errorf("it is on %s", a.Hostname)
		}
		if b := w.create(t, allocation.Ask{Project: other})[0]; b.Hostname != "plain" {
			t.Errorf("the other is on %s", b.Hostname)
		}
	}
}

// A reservation does not change what its owner asks for.
func TestAReservationDoesNotOverrideTheLabelsThatWereAskedFor(t *testing.T) {
	w := newWorld(t)
	for _, tier := range []string{"fast", "slow"} {
		w.node(t, tier, `labels = '{"public/tier": "`+tier+`"}'`)
	}
	w.reserve(t, w.wish(1, reservation.Selector{Labels: map[string]string{"public/tier": "fast"}}))
	wish := allocation.Wish{Labels: map[string]string{"public/tier": "slow"}}
	if a := w.create(t, allocation.Ask{Wish: wish})[0]; a.Hostname != "slow" {
		t.Errorf("it is on %s", a.Hostname)
	}
	if a := w.create(t, allocation.Ask{})[0]; a.Hostname != "fast" {
		t.Errorf("it is on %s", a.Hostname)
	}
}

// Those who wait leave what is reserved for others, and the owner of a reservation does
// not wait behind those who cannot have it.
func TestTheQueueHonoursReservations(t *testing.T) {
	w := newWorld(t)
	other := w.stranger(t, "other")
	w.nodes(t, 2)
	held := w.create(t, allocation.Ask{Project: other, Count: 2})
	r := w.reserve(t, w.wish(1, reservation.Selector{}))
	first := w.queued(t, allocation.Ask{Project: other})
	owner := w.queued(t, allocation.Ask{})
	w.free(t, held[0])
	if n := w.serve(t); n != 1 || w.request(t, owner.ID).Status != allocation.Placed {
		t.Fatalf("%d were placed", n)
	}
	w.reserved(t, r.ID, 1, 0)
	w.free(t, held[1])
	if n := w.serve(t); n != 1 || w.request(t, first.ID).Status != allocation.Placed {
		t.Fatalf("%d were placed", n)
	}
}

func TestMoreThanTheFleetIsReservedOnlyByForce(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 3)
	w.node(t, "r1", `rack = 'r1'`)
	w.node(t, "gone", `status = 'retired', schedulable = false`) // it is none of the fleet any more
	now := time.Now()
	at := func(nodes int32, from, until time.Duration, of reservation.Selector) reservation.Wish {
		wish := w.wish(nodes, of)
		wish.StartsAt, wish.EndsAt = now.Add(from), now.Add(until)
		return wish
	}
	w.reserve(t, at(2, 2*time.Hour, 4*time.Hour, reservation.Selector{}))
	w.reserve(t, at(1, 3*time.Hour, 5*time.Hour, reservation.Selector{Rack: "r1"}))
	// 2 of 4 are free from 0 to 2, 2 from 2 to 3, 1 from 3 to 4, 3 from 4 to 5.
	_, err := w.reservations().Create(w.reserver(t), at(2, time.Hour, 6*time.Hour, reservation.Selector{}))
	f, _ := fault.As(err)
	if f == nil || f.Code != "reservation_exceeds_fleet" ||
		f.Fields[0].Message != "fit 4, reserved by others 3, asked 2" ||
		!strings.Contains(f.Message, now.Add(3*time.Hour).UTC().Format(time.RFC3339)) {
		t.Fatalf("%v %+v", err, f)
	}
	w.reserve(t, at(1, time.Hour, 6*time.Hour, reservation.Selector{}))
	inRack := at(1, 3*time.Hour, 5*time.Hour, reservation.Selector{Rack: "r1"})
	if _, err := w.reservations().Create(w.reserver(t), inRack); fault.CodeOf(err) != "reservation_exceeds_fleet" {
		t.Errorf("the rack has one node: %v", err)
	}
	forced := at(9, 0, time.Hour, reservation.Selector{})
	forced.Force = true
	w.reserved(t, w.reserve(t, forced).ID, 0, 4)
	for name, wish := range map[string]reservation.Wish{
		"no nodes":                    at(0, 0, time.Hour, reservation.Selector{}),
		"an end before the beginning": at(1, 2*time.Hour, time.Hour, reservation.Selector{}),
		"an end in the past":          at(1, -2*time.Hour, -time.Hour, reservation.Selector{}),
	} {
		if _, err := w.reservations().Create(w.reserver(t), wish); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := w.wish(1, reservation.Selector{})
	gone.Org = id.New[id.Org]()
	foreign := w.wish(1, reservation.Selector{})
	foreign.Project = w.stranger(t, "foreign")
	for name, wish := range map[string]reservation.Wish{"no tenant": gone, "a project of another tenant": foreign} {
		if _, err := w.reservations().Create(w.reserver(t), wish); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A tenant sees what is kept for it, and nothing of others.
func TestAttackATenantDoesNotSeeReservationsOfOthers(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 3)
	neighbour := w.otherProject(t, "neighbour")
	mine := w.reserve(t, w.wish(1, reservation.Selector{}))
	wish := w.wish(1, reservation.Selector{})
	wish.Project = neighbour
	theirs := w.reserve(t, wish)
	abroad := w.wish(1, reservation.Selector{})
	abroad.Project = w.stranger(t, "abroad")
	if err := w.owner.QueryRow(t.Context(), `SELECT org_id FROM projects WHERE id = $1`, abroad.Project).Scan(&abroad.Org); err != nil {
		t.Fatal(err)
	}
	foreign := w.reserve(t, abroad)
	all, err := w.reservations().List(w.ctx, reservation.Selection{}, postgres.Slice[id.Reservation]{Limit: 10})
	if err != nil || len(all) != 1 || all[0].ID != mine.ID {
		t.Errorf("%+v, %v", all, err)
	}
	for _, of := range []reservation.Reservation{theirs, foreign} {
		if _, err := w.reservations().Get(w.ctx, of.ID); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%+v: %v", of, err)
		}
	}
	if _, err := w.reservations().Get(w.ctx, mine.ID); err != nil {
		t.Error(err)
	}
}

// An allocation that is placed again leaves what is reserved for others, too.
func TestASecondPlacementLeavesWhatIsReserved(t *testing.T) {
	w := newWorld(t)
	other := w.stranger(t, "other")
	bad := w.node(t, "bad")
	w.agents.unhealthy[bad] = "Xid 79"
	a := w.create(t, allocation.Ask{Project: other})[0]
	w.node(t, "good")
	w.reserve(t, w.wish(1, reservation.Selector{}))
	w.provision(t, a)
	if now := w.get(t, a.ID); now.Status != allocation.Failed {
		t.Errorf("it is %s on %s", now.Status, now.Hostname)
	}
}
