package pglimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/adapter/maas/pglimit"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
)

func limiter(t *testing.T, db *postgres.DB, site string) *pglimit.Limiter {
	t.Helper()
	l := pglimit.New(db, site, maas.PerSite)
	t.Cleanup(l.Close)
	return l
}

func acquire(t *testing.T, l *pglimit.Limiter) func() {
	t.Helper()
	release, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func locks(t *testing.T, db *postgres.DB) (n int) {
	t.Helper()
	err := db.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE "+
			"datname = current_database())").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTwoReplicasTogetherStayWithinTheLimit(t *testing.T) {
	first, second := postgrestest.NewWithOwner(t) // two pools on one database
	replicas := []*pglimit.Limiter{limiter(t, first, "site-a"), limiter(t, second, "site-a")}
	var inFlight, most atomic.Int32
	var served [2]atomic.Int32
	var wg sync.WaitGroup
	const callers, rounds = 6, 15
	for i, l := range replicas {
		for range callers {
			wg.Go(func() {
				for range rounds {
					release, err := l.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					now := inFlight.Add(1)
					for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
					}
					<-time.After(time.Millisecond) // the request
					inFlight.Add(-1)
					release()
					served[i].Add(1)
				}
			})
		}
	}
	wg.Wait()
	if most.Load() > maas.PerSite {
		t.Errorf("%d in flight", most.Load())
	}
	if most.Load() < 2 || served[0].Load() != callers*rounds || served[1].Load() != callers*rounds {
		t.Errorf("at most %d in flight; served %d and %d", most.Load(), served[0].Load(), served[1].Load())
	}
	if n := locks(t, first); n != 0 {
		t.Errorf("%d slots still held", n)
	}
}

func TestAReplicaThatDiesGivesItsSlotsBack(t *testing.T) {
	db, owner := postgrestest.NewWithOwner(t)
	dying, living := limiter(t, owner, "site-a"), limiter(t, db, "site-a")
	var held []func()
	for range maas.PerSite {
		held = append(held, acquire(t, dying))
	}
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := living.Acquire(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a fifth slot: %v", err)
	}
	if _, err := owner.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); err != nil {
		t.Fatal(err)
	}
	acquire(t, living)()
	for _, release := range held { // of slots that are lost already
		release()
	}
	acquire(t, dying)() // with a new connection
}

func TestSitesDoNotShareSlots(t *testing.T) {
	db := postgrestest.New(t)
	a, b := limiter(t, db, "site-a"), limiter(t, db, "site-b")
	for range maas.PerSite {
		defer acquire(t, a)()
		defer acquire(t, b)()
	}
	if n := locks(t, db); n != 2*maas.PerSite {
		t.Errorf("%d slots held", n)
	}
}

func TestGivingUpAndClosingLeaveNothingBehind(t *testing.T) {
	db, owner := postgrestest.NewWithOwner(t)
	l, other := limiter(t, db, "site-a"), limiter(t, owner, "site-a")
	var held []func()
	for range maas.PerSite {
		held = append(held, acquire(t, other))
	}
	for range 20 { // give up at every moment of an attempt
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := l.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		cancel()
	}
	for _, release := range held {
		release()
	}
	acquire(t, l)()
	_ = acquire(t, l)
	l.Close()
	other.Close()
	if n := locks(t, owner); n != 0 {
		t.Errorf("%d slots still held", n)
	}
	if _, err := l.Acquire(t.Context()); err == nil {
		t.Error("a closed limiter gave a slot")
	}
}

func TestWithoutADatabaseThereAreNoSlots(t *testing.T) {
	db, err := postgres.Open(postgres.Config{URL: redact.New("postgres://u@127.0.0.1:1/x?connect_timeout=1")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = limiter(t, db, "site-a").Acquire(t.Context())
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
}

func BenchmarkAcquire(b *testing.B) {
	l := pglimit.New(postgrestest.New(b), "site-a", maas.PerSite)
	defer l.Close()
	for b.Loop() {
		release, err := l.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		release()
	}
}
