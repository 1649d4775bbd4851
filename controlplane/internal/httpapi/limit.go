package httpapi

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"gpuaas/controlplane/internal/fault"
)

// maxTracked bounds the memory of a limiter. Whoever was not seen for longest
// is forgotten first and then starts with a full burst again.
const maxTracked = 20_000

// limiter gives each caller a rate of its own.
type limiter struct {
	rate  rate.Limit
	burst int
	clock func() time.Time

	mu     sync.Mutex
	most   int
	bykey  map[string]*list.Element
	recent *list.List // of *allowance, the most recent first
}

type allowance struct {
	key    string
	bucket *rate.Limiter
}

func newLimiter(l Limits, clock func() time.Time) *limiter {
	return &limiter{
		rate: rate.Limit(l.RequestsPerSecond), burst: l.Burst, clock: clock,
		most: maxTracked, bykey: map[string]*list.Element{}, recent: list.New(),
	}
}

// take counts one request of a caller, or fails saying when to come back.
func (l *limiter) take(key string) error {
	now := l.clock()
	reservation := l.bucket(key).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reservation.CancelAt(now)
	return &retryLaterError{after: wait, fault: fault.New(fault.RateLimited, "rate_limit_exceeded",
		"more than %.4g requests a second from this caller", float64(l.rate)).
		WithRemedy("wait as long as Retry-After says, and spread requests out")}
}

func (l *limiter) bucket(key string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.bykey[key]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*allowance).bucket //nolint:forcetypeassert // the list holds nothing else
	}
	a := &allowance{key: key, bucket: rate.NewLimiter(l.rate, l.burst)}
	l.bykey[key] = l.recent.PushFront(a)
	if len(l.bykey) > l.most {
		oldest := l.recent.Remove(l.recent.Back()).(*allowance) //nolint:forcetypeassert // as above
		delete(l.bykey, oldest.key)
	}
	return a.bucket
}
