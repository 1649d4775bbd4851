package balance_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/balance"
)

// Whatever happens in which order (money that comes in, looks, charges, releases by the
// tenant, a process that dies in the middle of a look), the balance is what was given less
// what an independent calculation says, nothing is released twice, and nobody goes
// further beyond its limit than what is used between two looks.
func TestAnyOrderGivesTheSameMoney(t *testing.T) {
	w := newWorld(t)
	cases := 0
	rapid.Check(t, func(r *rapid.T) {
		cases++
		w.org, w.project, w.released, w.onEnd = w.tenant(t, fmt.Sprintf("t%d", cases)), id.New[id.Project](), nil, nil
		w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'p', 'p')`, w.project, w.org)
		w.limit(t, nil)
		m := model{world: w, t: t, r: r, lives: map[id.Allocation]bool{}}
		for range rapid.IntRange(4, 14).Draw(r, "steps") {
			m.step()
		}
		m.finish()
	})
}

type model struct {
	*world
	t        *testing.T
	r        *rapid.T
	given    int64
	lives    map[id.Allocation]bool
	unlooked time.Duration // since the last look
	owed     int64         // what was beyond the limit then
}

func (m *model) step() {
	steps := []string{"wait", "wait", "credit", "rent", "rent", "leave", "charge", "look", "die"}
	switch rapid.SampledFrom(steps).Draw(m.r, "step") {
	case "wait":
		span := time.Duration(rapid.Int64Range(1, int64(3*time.Hour)).Draw(m.r, "span")).Truncate(time.Microsecond)
		m.now, m.unlooked = m.now.Add(span), m.unlooked+span
	case "credit":
		minor := rapid.Int64Range(1, 20_000).Draw(m.r, "minor")
		m.credit(m.t, minor)
		m.given += minor
	case "rent":
		a, err := m.ask(m.t.Context())
		if fault.CodeOf(err) == "insufficient_balance" {
			return
		}
		if err != nil {
			m.t.Fatal(err)
		}
		m.exec(m.t, `UPDATE allocations SET status = 'active', active_at = $2 WHERE id = $1`, a, m.time())
		m.lives[a] = true
	case "leave":
		for a := range m.lives { // any of them
			m.exec(m.t, `UPDATE allocations SET status = 'releasing', release_requested_at = $2
				WHERE id = $1 AND release_requested_at IS NULL`, a, m.time())
			return
		}
	case "charge":
		if err := m.meters.Tend(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
	case "look":
		m.evaluate()
	case "die": // after a release was begun, before it is committed
		ctx, cancel := context.WithCancel(m.t.Context())
		m.onEnd = func(id.Allocation) error { cancel(); return context.Canceled }
		_ = m.balances.Evaluate(ctx)
		m.onEnd = nil
		cancel()
	}
}

// evaluate looks, and checks what a look promises.
func (m *model) evaluate() {
	before, err := m.balances.Of(m.t.Context(), m.org)
	if err != nil {
		m.t.Fatal(err)
	}
	left, _ := before.Left()
	ran := m.number(m.t, `SELECT count(*) FROM allocations WHERE org_id = $1 AND coalesce(release_requested_at >= $2, true)`, m.org,
		m.time().Add(-m.unlooked))
	if most := m.owed + ran*2800*(int64(m.unlooked/time.Second)+1)/3600; -left > most {
		m.r.Fatalf("%d beyond the limit after %s with %d allocations", -left, m.unlooked, ran)
	}
	m.unlooked = 0
	if err := m.balances.Evaluate(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	after, err := m.balances.Of(m.t.Context(), m.org)
	if err != nil {
		m.t.Fatal(err)
	}
	left, _ = after.Left()
	if left <= 0 && after.Live > 0 || (left <= 0) != (after.Status == balance.Depleted) {
		m.r.Fatalf("%d is left in state %s, and %d allocations run", left, after.Status, after.Live)
	}
	m.owed = max(0, -left)
}

// finish ends everything, charges it, and adds it up by hand.
func (m *model) finish() {
	m.evaluate()
	m.now = m.now.Add(time.Minute)
	m.exec(m.t, `UPDATE allocations SET status = 'releasing', release_requested_at = $2 WHERE org_id = $1
		AND release_requested_at IS NULL`, m.org, m.time())
	if err := m.meters.Tend(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	rows, err := m.owner.Query(m.t.Context(), `SELECT active_at, release_requested_at FROM allocations WHERE org_id = $1`, m.org)
	if err != nil {
		m.t.Fatal(err)
	}
	defer rows.Close()
	want := m.given
	for rows.Next() {
		var from, to time.Time
		if err := rows.Scan(&from, &to); err != nil {
			m.t.Fatal(err)
		}
		want -= 8 * 350 * int64(to.Sub(from)/time.Second) / 3600
	}
	s, err := m.balances.Of(m.t.Context(), m.org)
	if err != nil {
		m.t.Fatal(err)
	}
	if s.Posted != want || s.Accrued != 0 || s.Held != 0 {
		m.r.Fatalf("booked are %d, want %d; %d used, %d held", s.Posted, want, s.Accrued, s.Held)
	}
	once := m.number(m.t, `SELECT count(*) FROM balance_releases WHERE org_id = $1`, m.org)
	if int(once) != len(m.released) {
		m.r.Fatalf("%d were released, %d are recorded", len(m.released), once)
	}
}
