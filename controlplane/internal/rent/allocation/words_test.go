package allocation_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/testkit"
)

// operator is a context in which somebody asks who runs the platform.
func (w *world) operator(tb testing.TB) context.Context {
	tb.Helper()
	return auth.With(telemetry.WithCorrelation(tb.Context(), "corr"), &auth.Principal{
		Kind: auth.KindUser, ID: id.NewString(), Name: "op", Platform: auth.Operator,
	})
}

// inner is a word that agents, jobs and operators write, and that no tenant may read.
const inner = "/srv/inner of bmc-17"

// told is all that somebody reads of an allocation.
func (w *world) told(ctx context.Context, t *testing.T, of id.Allocation) string {
	t.Helper()
	timeline, err := w.service.Told(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v %s", allocation.Show(ctx, w.get(t, of)), timeline)
}

// What agents, jobs and operators wrote is for operators; tenants read our own words,
// in what is published, too.
func TestAttackTenantsReadNoWordsOfAgentsAndOperators(t *testing.T) {
	w := newWorld(t)
	for name, happens := range map[string]func(t *testing.T) id.Allocation{
		"a node is not ready": func(t *testing.T) id.Allocation {
			w.agents.unhealthy[w.node(t, "unfit")] = inner
			return w.provision(t, w.create(t, allocation.Ask{})[0]).ID
		},
		"an account cannot be made": func(t *testing.T) id.Allocation {
			n := w.node(t, "full")
			w.agents.fail[n] = map[string]agentwire.TaskError{agentwire.TypeProvisionUser: {
				Code: "no_space", Message: inner, Remedy: "look at " + inner,
			}}
			return w.provision(t, w.create(t, allocation.Ask{})[0]).ID
		},
		"cleaning stops": func(t *testing.T) id.Allocation {
			w.node(t, "dirty")
			w.cleanups.refuse = fault.New(fault.Conflict, "node_busy", "held for %s", inner)
			defer func() { w.cleanups.refuse = nil }()
			return w.clean(t, w.release(t, w.active(t, allocation.Ask{}))).ID
		},
		"an administrator ends it": func(t *testing.T) id.Allocation {
			w.node(t, "forced")
			a := w.active(t, allocation.Ask{})
			if _, err := w.service.ForceRelease(w.operator(t), a.ID, inner); err != nil {
				t.Fatal(err)
			}
			return a.ID
		},
		"an operation takes the node": func(t *testing.T) id.Allocation {
			n := w.node(t, "taken")
			a := w.active(t, allocation.Ask{})
			w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
				return allocation.Tenancies{}.End(ctx, tx, n, id.New[id.Decommission](), inner)
			})
			w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
				if _, err := node.NoteClean(ctx, tx, n, w.now(t), "test"); err != nil {
					return err
				}
				return allocation.Tenancies{}.Cleaned(ctx, tx, n, id.New[id.Decommission](), inner)
			})
			return a.ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := happens(t)
			if said := w.told(w.operator(t), t, of); !strings.Contains(said, inner) {
				t.Errorf("operators do not read why: %s", said)
			}
			if said := w.told(w.ctx, t, of); strings.Contains(said, inner) {
				t.Errorf("the tenant reads %s", said)
			}
			if n := w.count(t, `SELECT count(*) FROM outbox_events WHERE destination = 'nats' AND aggregate_id = $1
				AND envelope::text LIKE '%inner of%'`, of.String()); n != 0 {
				t.Errorf("%d events tell it to webhooks", n)
			}
		})
	}
}

// Why a node opens no terminal is for operators: which operation holds it, and in which
// state it is.
func TestAttackTenantsDoNotReadWhyANodeOpensNoTerminal(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	who := *auth.From(w.ctx)
	who.Platform = auth.Operator
	for _, refuse := range []error{
		fault.New(fault.Conflict, "node_held", "node n1 is held by %s", inner),
		fault.New(fault.Conflict, "node_offline", "%s", inner).WithRemedy("see %s", inner),
		fault.New(fault.NotFound, "node_not_found", "%s", inner),
	} {
		w.terminals.refuse = refuse
		if err := w.service.Mint(auth.With(w.ctx, &who), a.ID); fault.CodeOf(err) != fault.CodeOf(refuse) {
			t.Errorf("an operator reads %v", err)
		}
		f, _ := fault.As(w.service.Mint(w.ctx, a.ID))
		if f == nil || f.Code != "allocation_unreachable" || strings.Contains(f.Message+f.Remedy, inner) || f.Remedy == "" {
			t.Errorf("the tenant reads %+v", f)
		}
	}
	w.terminals.refuse = fault.New(fault.RateLimited, "rate_limit_exceeded", "too many")
	if err := w.service.Mint(w.ctx, a.ID); fault.CodeOf(err) != "rate_limit_exceeded" {
		t.Errorf("%v", err)
	}
}

// Nodes that are out of service are counted together for tenants.
func TestAttackTenantsDoNotSeeWhyNodesAreOutOfService(t *testing.T) {
	w := newWorld(t)
	for reason, change := range unfit {
		w.node(t, strings.ReplaceAll(reason, "_", "-"), fit, change)
	}
	c, err := w.service.Explain(w.ctx, allocation.Ask{SKU: h200, Project: w.project, Wish: picky().Wish})
	if err != nil {
		t.Fatal(err)
	}
	left := c.Nodes
	for _, f := range c.Filters {
		if f.Before != left {
			t.Errorf("%s begins with %d of %d nodes", f.Reason, f.Before, left)
		}
		left = f.After
		switch f.Reason {
		case "quarantined", "offline", "joining", "leaving", "on_hold", "silent", "drifted":
			t.Errorf("a tenant sees %s", f.Reason)
		case "not_in_service":
			if n := f.Before - f.After; n != 5 {
				t.Errorf("%d nodes are out of service", n)
			}
		}
	}
	if left != c.Free || c.Nodes != int32(len(unfit)) {
		t.Errorf("%d are left, %d free: %+v", left, c.Free, c)
	}
	_, err = w.try(picky())
	if f, _ := fault.As(err); f == nil || strings.Contains(fmt.Sprint(f.Message, f.Fields), "quarantined") ||
		!strings.Contains(f.Message, "5 are not in service") {
		t.Errorf("%v", err)
	}
}

// Counting nodes by a label tells whether there are some: tenants count only by
// labels that are meant for them.
func TestAttackLabelsOfOperatorsAreNotGuessedByCounting(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1", `labels = '{"owner": "acme", "public/tier": "fast"}'`)
	for _, wish := range []allocation.Wish{
		{Labels: map[string]string{"owner": "acme"}},
		{Capabilities: map[string]string{"agent.handover": "1"}},
	} {
		ask := allocation.Ask{SKU: h200, Project: w.project, Wish: wish}
		if _, err := w.service.Explain(w.ctx, ask); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", wish, err)
		}
		if _, err := w.try(ask); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", wish, err)
		}
		if _, err := w.service.Explain(w.operator(t), ask); err != nil {
			t.Errorf("an operator: %v", err)
		}
	}
	w.create(t, allocation.Ask{Wish: allocation.Wish{Labels: map[string]string{"public/tier": "fast"}}})
}

// A token for a terminal is not issued once the end of the allocation was asked for,
// not even at the very moment.
func TestAttackATerminalIsNotIssuedBesideARelease(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	if err := w.service.Mint(w.ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	releasing, goOn, released := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	commit := sync.OnceFunc(func() { close(goOn) })
	defer commit()
	go func() {
		released <- w.owner.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE allocations SET status = 'releasing' WHERE id = $1`, a.ID)
			close(releasing)
			<-goOn
			return err
		})
	}()
	<-releasing
	minted := make(chan error, 1)
	go func() { minted <- w.service.Mint(w.ctx, a.ID) }()
	testkit.Eventually(t, "the token waits for the release", func() bool {
		return w.count(t, `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE NOT l.granted AND a.datname = current_database()`) > 0
	})
	commit()
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	if err := <-minted; fault.CodeOf(err) != "allocation_state_conflict" {
		t.Errorf("%v", err)
	}
}

// A terminal ends with the allocation, and with the right of whoever asked for it.
func TestAttackATerminalDoesNotOutliveTheAllocationOrTheRight(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	visits := allocation.Visits{DB: w.db}
	member := func(name string, role auth.Role) *auth.Principal {
		return &auth.Principal{ID: name, Projects: map[id.Project]auth.ProjectRole{w.project: {Org: w.org, Role: role}}}
	}
	for name, c := range map[string]struct {
		who *auth.Principal
		may bool
	}{
		"whoever rents it":              {member("ann", auth.ProjectMember), true},
		"an administrator":              {member("zoe", auth.ProjectAdmin), true},
		"an administrator of yesterday": {member("zoe", auth.ProjectMember), false},
		"whoever may only look":         {member("ann", auth.ProjectViewer), false},
		"whoever left":                  {&auth.Principal{ID: "ann"}, false},
	} {
		if err := visits.MayStay(t.Context(), a.ID, c.who); (err == nil) != c.may ||
			err != nil && fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.release(t, a)
	err := visits.MayStay(t.Context(), a.ID, member("ann", auth.ProjectMember))
	if fault.CodeOf(err) != "allocation_ended" {
		t.Errorf("%v", err)
	}
}

// now is the time of the database.
func (w *world) now(t *testing.T) (at time.Time) {
	t.Helper()
	if err := w.owner.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}
