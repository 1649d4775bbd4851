package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node"
)

// doubts collects raised doubts in a table of the database, so that a rollback
// removes them.
func (w *world) doubts(tb testing.TB) func(id.Node) []string {
	tb.Helper()
	w.exec(tb, `CREATE TABLE doubts (n serial, node_id uuid, reason text, actor text)`)
	w.exec(tb, `GRANT ALL ON doubts, doubts_n_seq TO gpuaas_app`)
	w.onDoubt = func(ctx context.Context, tx pgx.Tx, n id.Node, reason string) error {
		_, err := tx.Exec(ctx, `INSERT INTO doubts (node_id, reason, actor) VALUES ($1, $2, $3)`, n, reason,
			auth.From(ctx).ID)
		return err
	}
	return func(n id.Node) []string {
		tb.Helper()
		rows, err := w.owner.Query(tb.Context(), `SELECT reason FROM doubts WHERE node_id = $1 ORDER BY n`, n)
		if err != nil {
			tb.Fatal(err)
		}
		out, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			tb.Fatal(err)
		}
		return out
	}
}

func TestEveryLossRaisesOneDoubt(t *testing.T) {
	w := newWorld(t)
	lost, heard := w.active(t, "lost"), w.active(t, "heard")
	w.listens(t)
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '1 hour'`)
	of := w.doubts(t)
	told := w.onDoubt

	refuse := errors.New("nobody can be told")
	w.onDoubt = func(ctx context.Context, tx pgx.Tx, n id.Node, reason string) error {
		return errors.Join(told(ctx, tx, n, reason), refuse)
	}
	w.silent(t, lost.node, 10)
	if changed, err := w.service.Sweep(t.Context()); !errors.Is(err, refuse) || changed != 0 {
		t.Errorf("%d nodes changed although nobody could be told: %v", changed, err)
	}
	w.wantStatus(t, lost.node, node.Active)
	if got := of(lost.node); len(got) != 0 {
		t.Errorf("doubts of a change that did not happen: %q", got)
	}

	w.onDoubt = told
	for range 3 {
		w.sweep(t)
	}
	w.wantStatus(t, lost.node, node.Offline)
	if got := of(lost.node); len(got) != 1 || !strings.HasPrefix(got[0], "the agent was last heard of at ") {
		t.Errorf("doubts: %q", got)
	}
	if got := of(heard.node); len(got) != 0 {
		t.Errorf("doubts of a node that was heard of: %q", got)
	}
	if err := lost.poll(t, lost.Session); err != nil {
		t.Fatal(err)
	}
	w.flush(t)
	w.sweep(t)
	w.wantStatus(t, lost.node, node.Active)
	if got := of(lost.node); len(got) != 1 {
		t.Errorf("coming back raised a doubt: %q", got)
	}
	w.silent(t, lost.node, 10)
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '1 hour'`)
	w.sweep(t)
	if got := of(lost.node); len(got) != 2 {
		t.Errorf("doubts after the second loss: %q", got)
	}
}

func TestAnAgentThatIsElsewhereRaisesADoubt(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.in(t, func(ctx context.Context, tx pgx.Tx) error {
		return node.SetHost(ctx, tx, a.node, "10.0.0.9", "its address became known")
	})
	of := w.doubts(t)
	r := agentwire.Report{Build: release, Capabilities: anything}
	const elsewhere = "its agent reports the addresses 10.0.0.7, fd00::7, and it is reached by 10.0.0.9"
	for _, step := range []struct {
		name      string
		addresses []string
		verifiers int64
		want      []string
	}{
		{"nothing is known", nil, 1, nil},
		{"where it should be", []string{"fd00::9", "10.0.0.9"}, 1, nil},
		{
			"only where nobody reaches it",
			[]string{"127.0.0.1", "fe80::1", "169.254.0.1", "no address", "10.0.0.7%eth0"},
			1,
			nil,
		},
		{"elsewhere", []string{"fd00::7", "10.0.0.7"}, 1, []string{elsewhere}},
		{"elsewhere as before", []string{"fd00::7", "10.0.0.7"}, 1, []string{elsewhere}},
		{"elsewhere, with other news", []string{"10.0.0.7", "::ffff:10.0.0.7", "fd00::7"}, 2, []string{elsewhere}},
		{"back", []string{"::ffff:10.0.0.9"}, 2, []string{elsewhere}},
		{"elsewhere again", []string{"10.0.0.7", "fd00::7"}, 2, []string{elsewhere, elsewhere}},
	} {
		r.Capabilities.Addresses, r.VerifierVersion = step.addresses, step.verifiers
		if err := w.service.Report(t.Context(), a.node, r); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := of(a.node); strings.Join(got, "\n") != strings.Join(step.want, "\n") {
			t.Errorf("%s: doubts are %q, want %q", step.name, got, step.want)
		}
	}
	if got := w.count(t, `SELECT count(*) FROM doubts WHERE actor <> $1`, "node:"+a.node.String()); got != 0 {
		t.Errorf("%d doubts that others raised", got)
	}

	// If the doubt cannot be passed on, the report is not stored, so that the
	// agent sends it again.
	told := w.onDoubt
	w.onDoubt = func(context.Context, pgx.Tx, id.Node, string) error { return errors.New("nobody can be told") }
	r.Capabilities.Addresses = []string{"10.0.0.8"}
	if err := w.service.Report(t.Context(), a.node, r); err == nil {
		t.Error("the report was taken")
	}
	w.onDoubt = told
	if err := w.service.Report(t.Context(), a.node, r); err != nil || len(of(a.node)) != 3 {
		t.Errorf("the doubt was lost: %q %v", of(a.node), err)
	}

	// A list of dozens of addresses is cut off.
	for _, last := range []string{"1", "2", "3", "4", "5", "6", "7", "11", "12"} {
		r.Capabilities.Addresses = append(r.Capabilities.Addresses, "10.0.1."+last)
	}
	if err := w.service.Report(t.Context(), a.node, r); err != nil {
		t.Fatal(err)
	}
	if got := of(a.node); len(got) != 4 || !strings.Contains(got[3], ", 2 more, and it is reached by 10.0.0.9") {
		t.Errorf("doubts: %q", got)
	}
}

func TestANodeThatIsReachedByANameRaisesNoDoubt(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	of := w.doubts(t)
	r := agentwire.Report{Build: release, Capabilities: anything}
	r.Capabilities.Addresses = []string{"10.0.0.7"}
	if err := w.service.Report(t.Context(), a.node, r); err != nil {
		t.Fatal(err)
	}
	if got := of(a.node); len(got) != 0 {
		t.Errorf("doubts: %q", got)
	}
}
