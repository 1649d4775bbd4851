package node_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

func (w *world) root(tb testing.TB, n id.Node) {
	tb.Helper()
	err := w.db.InTx(system(tb), func(ctx context.Context, tx pgx.Tx) error {
		return node.TaintRoot(ctx, tx, n, node.RootBySudo, "a tenant with sudo")
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// says records a validation that found nothing and looked just now.
func (w *world) says(tb testing.TB, n id.Node) error {
	tb.Helper()
	return w.db.InTx(system(tb), func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.NoteClean(ctx, tx, n, time.Now().Add(time.Minute), "it says that it is clean")
		return err
	})
}

// install takes a node through a reimage, as an operation does.
func (w *world) install(tb testing.TB, n id.Node) {
	tb.Helper()
	w.exec(tb, `UPDATE nodes SET onboarding_mode = 'maas' WHERE id = $1`, n)
	w.drive(tb, n, node.Drain)
	err := w.db.InTx(system(tb), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := node.Reimaged(ctx, tx, n, "workflow", "reimage"); err != nil {
			return err
		}
		if err := node.Installed(ctx, tx, n, "decommission 1"); err != nil {
			return err
		}
		_, err := node.Move(ctx, tx, n, node.Enrolled, "reimage")
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// The inventory itself refuses, whoever asks and whatever a plan said.
func TestAttackAnInstallationThatSomebodyHadRootOnDoesNotTestify(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	w.taint(t, a.node)
	if got := w.read(t, a.node); got.Access() != node.UserAccess || got.Compromised() {
		t.Fatalf("an ordinary user had %q", got.Access())
	}
	w.root(t, a.node)
	w.taint(t, a.node) // an ordinary user afterwards changes nothing about it
	wantCode(t, w.says(t, a.node), fault.Conflict, node.CodeRoot)
	if got := w.read(t, a.node); got.Access() != node.RootAccess || !got.Compromised() || got.CleanAt != nil {
		t.Fatalf("%+v", got)
	}
	w.drive(t, a.node, node.Quarantine)
	_, err := w.service.ReturnToService(system(t), a.node, "it looks fine")
	wantCode(t, err, fault.Conflict, node.CodeRoot)
	w.install(t, a.node)
	if got := w.read(t, a.node); got.Compromised() || got.Access() != node.RootAccess || got.Schedulable {
		t.Fatalf("installed anew it is %+v", got)
	}
	err = w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error { // a validation from before that
		_, err := node.NoteClean(ctx, tx, a.node, *w.read(t, a.node).Installation.MadeAt, "it says that it is clean")
		return err
	})
	wantCode(t, err, fault.Conflict, node.CodeRoot)
	if err := w.says(t, a.node); err != nil {
		t.Fatal(err)
	}
	if got := w.read(t, a.node); got.Tainted() || got.Root.Stands() || got.Access() != node.NoAccess {
		t.Fatalf("proven clean it is %+v", got)
	}
	w.root(t, a.node) // on the new installation
	wantCode(t, w.says(t, a.node), fault.Conflict, node.CodeRoot)
}

// A migration found root on nodes that otherwise count as clean. Once out of
// service, they do not come back as they are.
func TestAttackRootAloneKeepsANodeOutOfService(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	w.root(t, a.node)
	w.drive(t, a.node, node.Quarantine)
	w.exec(t, `UPDATE nodes SET tainted_at = NULL WHERE id = $1`, a.node)
	_, err := w.service.ReturnToService(system(t), a.node, "it looks fine")
	wantCode(t, err, fault.Conflict, node.CodeRoot)
	w.exec(t, `UPDATE nodes SET installed_at = clock_timestamp(), installed_generation = generation WHERE id = $1`, a.node)
	_, err = w.service.ReturnToService(system(t), a.node, "it is installed anew")
	wantCode(t, err, fault.Conflict, "node_tainted")
}

// An installation that enrols again with a token that somebody carried to it
// proves nothing about itself.
func TestAttackARecoveryTokenMakesNoInstallation(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	w.root(t, a.node)
	w.install(t, a.node)
	w.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, a.node)
	wantCode(t, w.says(t, a.node), fault.Conflict, node.CodeRoot)
	err := w.db.InTx(system(t), func(ctx context.Context,
		tx pgx.Tx,
	) error {
		return node.Installed(ctx, tx, a.node, "somebody")
	})
	if got := w.read(t, a.node); err != nil || got.Installation.By != "decommission 1" {
		t.Errorf("an active node was installed by %q, %v", got.Installation.By, err)
	}
}

// Root taint belongs to the machine, not to the id. A machine that was
// installed later can testify.
func TestAttackAMachineThatLeftWithRootComesBackWithRoot(t *testing.T) {
	w := newWorld(t)
	old := w.active(t, "m1")
	w.root(t, old.node)
	had := *w.read(t, old.node).Root.At
	w.leaves(t, old.node)
	back := w.active(t, "m1")
	if got := w.read(t, back.node); !got.Compromised() || !got.Root.At.Equal(had) || got.Root.Cause != node.RootBySudo ||
		got.Schedulable {
		t.Fatalf("it came back as %+v", got)
	}
	wantCode(t, w.says(t, back.node), fault.Conflict, node.CodeRoot)
	w.install(t, back.node)
	if err := w.says(t, back.node); err != nil {
		t.Error(err)
	}
}

func TestARiskIsAcceptedInWordsAndOnlyWhereNothingElseHelps(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	w.root(t, a.node)
	accept := func(seen time.Time, risk string) error {
		return w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.AcceptRoot(ctx, tx, a.node, seen, risk, "op (u1)", "decommission 1")
			return err
		})
	}
	had := *w.read(t, a.node).Root.At
	wantCode(t, accept(had, " "), fault.Conflict, node.CodeRoot)
	wantCode(t, accept(had.Add(-time.Second), "a risk"), fault.Conflict, node.CodeRoot)
	w.exec(t, `UPDATE nodes SET onboarding_mode = 'maas' WHERE id = $1`, a.node)
	wantCode(t, accept(had, "a risk"), fault.Conflict, node.CodeRoot)
	w.exec(t, `UPDATE nodes SET onboarding_mode = 'manual' WHERE id = $1`, a.node)
	if err := accept(had, "a risk"); err != nil {
		t.Fatal(err)
	}
	if got := w.read(t, a.node); got.Root.Stands() || !got.Root.Accepted() || got.Root.Risk != "a risk" ||
		got.Root.AcceptedBy != "op (u1)" || !got.Tainted() {
		t.Errorf("%+v", got)
	}
	w.leaves(t, a.node) // the risk was accepted for that node only
	if back := w.read(t, w.active(t, "m1").node); !back.Compromised() {
		t.Errorf("it came back as %+v", back)
	}
}

func TestAnOperatorRecordsThatSomebodyHadRoot(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	path := "/" + a.node.String() + "/taint"
	w.call(t, http.MethodPost, path, "", map[string]any{"cause": "found", "reason": "r"}).Wants(t,
		http.StatusUnprocessableEntity, "validation_error")
	w.call(t, http.MethodPost, path, "", map[string]any{"cause": "physical_console"}).Wants(t,
		http.StatusUnprocessableEntity, "validation_error")
	var shown node.View
	answered := w.call(t, http.MethodPost, path, "",
		map[string]any{"cause": "physical_console", "reason": "a technician was at the console"})
	answered.Wants(t, http.StatusOK, "")
	answered.Decode(t, &shown)
	if shown.Access != node.RootAccess || shown.Root == nil || !shown.Root.Compromised ||
		shown.Root.Cause != node.RootByConsole || !shown.Tainted || !shown.Schedulable {
		t.Errorf("it is shown as %+v, %+v", shown, shown.Root)
	}
	if w.audited(t, a.node, "node.taint_root") != 1 {
		t.Error("it is not in the audit log")
	}
	w.leaves(t, a.node)
	w.call(t, http.MethodPost, path, "", map[string]any{"cause": "physical_console", "reason": "r"}).Wants(t,
		http.StatusConflict, "node_deleted")
}

// Rows of the previous release: whoever was given sudo on the present
// installation had root on it, whatever its agent's validation said since.
// Later installations are free of it.
func TestTheMigrationFindsWhoHadRootBefore(t *testing.T) {
	w := newWorld(t)
	text, err := os.ReadFile("../../engine/postgres/migrations/00024_root_taint.sql")
	if err != nil {
		t.Fatal(err)
	}
	provision := func(n id.Node, sudo bool, attempt int, when string) {
		w.exec(t, `INSERT INTO node_tasks (id, node_id, type, params, status, concurrency_class, generation, attempt, max_attempts, deadline_at, requested_by, correlation_id, created_at, finished_at)
			VALUES ($1, $2, 'allocation.provision_user', jsonb_build_object('sudo', $3::boolean), 'cancelled', 'exclusive', 1, $4, 3, clock_timestamp(), 'x', 'x',
				clock_timestamp() + $5::interval, clock_timestamp() + $5::interval)`, id.New[id.NodeTask](), n, sudo, attempt, when)
	}
	want := map[string]bool{
		"user": false, "sudo": true, "never_handed_out": false, "reset_since": true,
		"reimaged_since": false, "reimaged_before": true,
	}
	nodes := map[string]id.Node{}
	for name := range want {
		n := w.active(t, strings.ReplaceAll(name, "_", "-")).node
		nodes[name] = n
		w.taint(t, n)
		switch name {
		case "user":
			provision(n, false, 1, "-1 hour")
		case "never_handed_out":
			provision(n, true, 0, "-1 hour")
		case "reimaged_since":
			provision(n, true, 1, "-1 hour")
			w.install(t, n)
		case "reimaged_before":
			w.install(t, n)
			provision(n, true, 1, "1 hour")
		default:
			provision(n, true, 1, "-1 hour")
		}
		if name == "reset_since" {
			w.clean(t, n)
		}
	}
	w.exec(t, `ALTER TABLE nodes DROP COLUMN root_at CASCADE, DROP COLUMN root_cause, DROP COLUMN root_ended_at CASCADE, DROP COLUMN root_risk,
		DROP COLUMN installed_at, DROP COLUMN installed_by, DROP COLUMN installed_generation`)
	w.exec(t, string(text))
	w.reopen()
	for name, root := range want {
		got := w.read(t, nodes[name])
		if got.Compromised() != root || (got.Root.Cause == node.RootBySudo) != root {
			t.Errorf("%s: compromised %t, %+v, %+v", name, got.Compromised(), got.Root, got.Installation)
		}
	}
}
