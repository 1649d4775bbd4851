package node_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
)

// by runs something as an actor, in a transaction.
func (w *world) by(tb testing.TB, who *auth.Principal, fn func(ctx context.Context, tx pgx.Tx) error) {
	tb.Helper()
	ctx := auth.With(telemetry.WithCorrelation(tb.Context(), "test"), who)
	if err := w.db.InTx(ctx, fn); err != nil {
		tb.Fatal(err)
	}
}

// note records how a machine was seen, and returns when it was recorded.
func (w *world) note(tb testing.TB, n id.Node, cause string, seen node.Observed) time.Time {
	tb.Helper()
	w.by(tb, auth.System("reconciliation"), func(ctx context.Context, tx pgx.Tx) error {
		return node.Note(ctx, tx, n, "seen", cause, seen)
	})
	return w.lastEvent(tb, n)
}

func (w *world) lastEvent(tb testing.TB, n id.Node) (at time.Time) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), `SELECT max(occurred_at) FROM node_events WHERE node_id = $1`,
		n).Scan(&at); err != nil {
		tb.Fatal(err)
	}
	return at
}

func same(a, b *node.Observed) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Provider == b.Provider && a.Status == b.Status && a.Power == b.Power && slices.Equal(a.IPs, b.IPs) &&
		slices.Equal(a.Findings, b.Findings) && a.SeenAt.Equal(b.SeenAt)
}

func TestANodeAsItWasObserved(t *testing.T) {
	w := newWorld(t)
	a, other := w.active(t, "a"), w.active(t, "b")
	seenAt := time.Now().Truncate(time.Microsecond)
	fine := node.Observed{Provider: "maas", Status: "Deployed", Power: "on", IPs: []string{"10.0.0.9"}, SeenAt: seenAt}
	gone := node.Observed{
		Provider: "maas", Status: "Ready", Power: "off", Findings: []string{"released", "powered_off"},
		SeenAt: seenAt.Add(time.Minute),
	}
	before := w.read(t, a.node)
	unseen := w.lastEvent(t, a.node)
	at1 := w.note(t, a.node, "the machine was seen for the first time", fine)
	if after := w.read(t, a.node); after.Version != before.Version || !after.UpdatedAt.Equal(before.UpdatedAt) {
		t.Errorf("an observation changed the node: %+v", after)
	}
	w.in(t, func(ctx context.Context, tx pgx.Tx) error {
		return node.SetHost(ctx, tx, a.node, "10.0.0.9", "its address became known")
	})
	at2 := w.note(t, a.node, "the machine was released in MAAS", gone)

	for name, c := range map[string]struct {
		at   time.Time
		want *node.Observed
		host string
	}{
		"before it was":       {unseen, nil, "a"},
		"just before it was":  {at1.Add(-time.Microsecond), nil, "a"},
		"the first time":      {at1, &fine, "a"},
		"just before another": {at2.Add(-time.Microsecond), &fine, "10.0.0.9"},
		"the second time":     {at2, &gone, "10.0.0.9"},
		"later":               {at2.Add(time.Hour), &gone, "10.0.0.9"},
	} {
		then, err := w.service.NodeAt(t.Context(), a.node, c.at)
		if err != nil || !same(then.Observed, c.want) || then.Host != c.host || then.Status != node.Active ||
			then.Inspection == nil {
			t.Errorf("%s: %+v of %+v, %v", name, then.Observed, then, err)
		}
	}
	for name, c := range map[string]struct {
		node id.Node
		want *node.Observed
	}{"now": {a.node, &gone}, "another node": {other.node, nil}} {
		if n, err := w.service.Detail(t.Context(), c.node); err != nil || !same(n.Observed, c.want) {
			t.Errorf("%s: %+v %v", name, n.Observed, err)
		}
	}

	// The API shows the same.
	type shown struct {
		Observed *node.Observed
		Host     string
	}
	var now shown
	w.call(t, http.MethodGet, "/"+a.node.String(), "", nil).Decode(t, &now)
	if !same(now.Observed, &gone) {
		t.Errorf("shown now: %+v", now.Observed)
	}
	var past struct {
		AsOf  *shown `json:"as_of"`
		Items []node.HistoryView
	}
	w.call(t, http.MethodGet, "/"+a.node.String()+"/history?at="+url.QueryEscape(at1.UTC().Format(time.RFC3339Nano)), "",
		nil).Decode(t, &past)
	if past.AsOf == nil || !same(past.AsOf.Observed, &fine) || past.AsOf.Host != "a" {
		t.Errorf("shown of then: %+v", past.AsOf)
	}
	if len(past.Items) == 0 || past.Items[0].Kind != node.KindObserved || past.Items[0].Source != node.ByDrift ||
		past.Items[0].Cause != "the machine was seen for the first time" {
		t.Errorf("history until then: %+v", past.Items)
	}
}

func TestWhatCausedEachChange(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	user := &auth.Principal{Kind: auth.KindUser, ID: "user:ada", Name: "ada", Platform: auth.PlatformAdmin}
	machine := &auth.Principal{
		Kind: auth.KindServiceAccount, ID: "service_account:ci", Name: "ci",
		Platform: auth.PlatformAdmin,
	}
	for i, c := range []struct {
		who  *auth.Principal
		want node.Source
	}{
		{user, node.ByOperator},
		{machine, node.ByOperator},
		{auth.System("workflow:onboarding/0198"), node.ByWorkflow},
		{auth.System("workflow:decommission/0198"), node.ByWorkflow},
		{auth.System("onboarding"), node.ByWorkflow},
		{auth.System("decommission"), node.ByWorkflow},
		{auth.System("reconciliation"), node.ByDrift},
		{auth.System("workflow:reconcile/0198-2026-03-04T05:06:07Z"), node.ByDrift},
		{auth.System("node:" + a.node.String()), node.ByAgent},
		{auth.System("node-sweep"), node.BySystem},
		{auth.System("signer"), node.BySystem},
	} {
		host := "10.0.0." + itoa(int64(i+1))
		w.by(t, c.who, func(ctx context.Context, tx pgx.Tx) error {
			return node.SetHost(ctx, tx, a.node, host, "because of "+host)
		})
		got, err := w.service.History(t.Context(), a.node, 0, nil, 1)
		if err != nil || got[0].Source() != c.want || got[0].Cause != "because of "+host {
			t.Errorf("%s: source %s of %+v, %v", c.who.ID, got[0].Source(), got, err)
		}
	}
	all, err := w.service.History(t.Context(), a.node, 0, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(e node.HistoryEntry) bool {
		return e.Kind == node.KindEnrolled &&
			e.Source() == node.ByAgent
	}) {
		t.Errorf("no enrolment by the agent: %+v", all)
	}
	w.silent(t, a.node, 10)
	w.listens(t)
	w.silent(t, a.node, 10)
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '1 hour'`)
	w.sweep(t)
	if lost, err := w.service.History(t.Context(), a.node, 0, nil, 1); err != nil || lost[0].To != node.Offline ||
		lost[0].Source() != node.BySystem {
		t.Errorf("%+v %v", lost, err)
	}
}

func TestWhoQuarantinedANode(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	last := func() (q node.Quarantining) {
		t.Helper()
		w.in(t, func(ctx context.Context, tx pgx.Tx) (err error) {
			q, err = node.LastQuarantined(ctx, tx, a.node)
			return err
		})
		return q
	}
	if got := last(); got != (node.Quarantining{}) {
		t.Errorf("before it ever was: %+v", got)
	}
	user := &auth.Principal{Kind: auth.KindUser, ID: "user:ada", Name: "ada", Platform: auth.PlatformAdmin}
	for _, c := range []struct {
		who      *auth.Principal
		byPerson bool
	}{{auth.System("reconciliation"), false}, {user, true}} {
		w.by(t, c.who, func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Move(ctx, tx, a.node, node.Quarantine, "by "+c.who.Name)
			return err
		})
		if got := last(); got.By != c.who.ID || got.ByPerson != c.byPerson || got.Cause != "by "+c.who.Name {
			t.Errorf("by %s: %+v", c.who.ID, got)
		}
		w.by(t, user, func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Move(ctx, tx, a.node, node.ReturnToService, "fine")
			return err
		})
	}
}

func TestManyNodesAreReadAtOnce(t *testing.T) {
	w := newWorld(t)
	a, b := w.active(t, "a"), w.active(t, "b")
	c, _ := w.make(t, "c")
	w.flush(t)
	got, err := node.Many(t.Context(), w.db, []id.Node{c.ID, a.node, id.New[id.Node](), b.node, a.node})
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	for i, want := range []id.Node{a.node, b.node, c.ID} {
		alone := w.read(t, want)
		if got[i].ID != want || got[i].Version != alone.Version || got[i].Hostname != alone.Hostname ||
			(got[i].LastContactAt == nil) != (want == c.ID) {
			t.Errorf("%d: %+v, alone %+v", i, got[i], alone)
		}
	}
	if none, err := node.Many(t.Context(), w.db, nil); err != nil || len(none) != 0 {
		t.Errorf("%+v %v", none, err)
	}
}
