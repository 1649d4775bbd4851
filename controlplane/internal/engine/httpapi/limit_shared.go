package httpapi

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"gpuaas/controlplane/internal/engine/httpapi/internal/httpapidb"
	"gpuaas/controlplane/internal/engine/postgres"
)

const (
	// A replica takes a twentieth of the burst at a time, at most leaseMost, so
	// that it asks the database once for so many requests.
	leaseShare = 20
	leaseMost  = 50
	// leaseIdle is after which time a replica gives unused allowance back.
	leaseIdle = 2 * time.Second
	// leasePatience is how long a request waits for the database. After that,
	// this replica counts alone.
	leasePatience = 500 * time.Millisecond
	// refusalLast is how long a refusal is repeated without asking the
	// database.
	refusalLast = time.Second
)

// sharedLimiter limits the rate of each caller over all replicas. PostgreSQL
// holds the allowance; a replica takes it in batches and gives unused parts
// back.
type sharedLimiter struct {
	db     *postgres.DB
	local  *limiter
	batch  int32
	clock  func() time.Time
	logger *slog.Logger

	mu       sync.Mutex
	leases   map[string]*lease
	settling bool // a goroutine that gives back is running
}

// lease is the part of a caller's allowance that this replica holds.
type lease struct {
	mu      sync.Mutex
	left    int32
	used    time.Time
	refused time.Time // until then the answer is no
	gone    bool      // given back: take another one
}

func newSharedLimiter(cfg Config) *sharedLimiter {
	return &sharedLimiter{
		db: cfg.DB, local: newLimiter(cfg.Limits, cfg.Clock), clock: cfg.Clock, logger: cfg.Logger,
		batch:  int32(min(max(cfg.Limits.Burst/leaseShare, 1), leaseMost)),
		leases: map[string]*lease{},
	}
}

// take counts one request of a caller. If there were too many, it fails and
// says when to come back.
func (l *sharedLimiter) take(ctx context.Context, key string) error {
	if l.db == nil {
		return l.local.take(key)
	}
	held := l.hold(key)
	defer held.mu.Unlock()
	now := l.clock()
	held.used = now
	switch {
	case held.left > 0:
		held.left--
		return nil
	case now.Before(held.refused):
		return tooMany(l.local.rate, held.refused.Sub(now))
	}
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	got, err := httpapidb.New(l.db).LeaseAllowance(ctx, httpapidb.LeaseAllowanceParams{
		Caller: key, Column2: l.local.burst, Leased: l.batch, Column4: l.local.rate,
	})
	if err != nil {
		l.logger.DebugContext(ctx, "requests are counted by this replica alone", "error", err)
		return l.local.take(key)
	}
	if got.Leased == 0 {
		wait := l.local.missing(got.Tokens)
		held.refused = now.Add(min(wait, refusalLast))
		return tooMany(l.local.rate, wait)
	}
	held.left = got.Leased - 1
	return nil
}

// hold finds the lease of a caller and locks it.
func (l *sharedLimiter) hold(key string) *lease {
	for {
		l.mu.Lock()
		held := l.leases[key]
		if held == nil {
			held = &lease{}
			l.leases[key] = held
		}
		if !l.settling {
			l.settling = true
			go l.settle()
		}
		l.mu.Unlock()
		held.mu.Lock()
		if !held.gone {
			return held
		}
		held.mu.Unlock()
	}
}

// settle gives unused allowance back until this replica holds none.
func (l *sharedLimiter) settle() {
	tick := time.NewTicker(leaseIdle)
	defer tick.Stop()
	for range tick.C {
		l.mu.Lock()
		keys := make([]string, 0, len(l.leases))
		for key := range l.leases {
			keys = append(keys, key)
		}
		l.settling = len(keys) > 0
		l.mu.Unlock()
		if len(keys) == 0 {
			return
		}
		for _, key := range keys {
			l.giveBack(key)
		}
	}
}

func (l *sharedLimiter) giveBack(key string) {
	l.mu.Lock()
	held := l.leases[key]
	l.mu.Unlock()
	held.mu.Lock()
	defer held.mu.Unlock()
	if l.clock().Sub(held.used) < leaseIdle {
		return
	}
	held.gone = true
	l.mu.Lock()
	delete(l.leases, key)
	l.mu.Unlock()
	if held.left == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leasePatience)
	defer cancel()
	err := httpapidb.New(l.db).ReturnAllowance(ctx,
		httpapidb.ReturnAllowanceParams{Burst: l.local.burst, Unused: held.left, Caller: key})
	if err != nil { // the allowance refills by itself
		l.logger.DebugContext(ctx, "unused requests could not be given back", "error", err)
	}
}

const allowancesKept = time.Hour

// sweep deletes callers whose allowance has long been full again.
func (l *sharedLimiter) sweep(ctx context.Context) error {
	if l.db == nil {
		return nil
	}
	full := max(allowancesKept.Seconds(), l.local.burst/l.local.rate)
	_, err := httpapidb.New(l.db).SweepAllowances(ctx, full)
	return err
}
