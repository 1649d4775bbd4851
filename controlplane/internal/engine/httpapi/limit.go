package httpapi

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// maxTracked limits the memory of a limiter. It forgets the caller that it saw
// longest ago; that caller starts with a full burst again.
const maxTracked = 20_000

// limiter limits the rate of each caller, in this process.
type limiter struct {
	rate  float64
	burst float64
	clock func() time.Time

	mu     sync.Mutex
	most   int
	bykey  map[string]*list.Element
	recent *list.List // of *allowance, the most recent first
}

type allowance struct {
	key    string
	tokens float64
	at     time.Time
}

func newLimiter(l Limits, clock func() time.Time) *limiter {
	return &limiter{
		rate: l.RequestsPerSecond, burst: float64(l.Burst), clock: clock,
		most: maxTracked, bykey: map[string]*list.Element{}, recent: list.New(),
	}
}

// enough tolerates the rounding of fractions of a second.
const enough = 1 - 1e-9

// take counts one request of a caller. If there were too many, it fails and
// says when to come back.
func (l *limiter) take(key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.allowance(key)
	if a.tokens < enough {
		return tooMany(l.rate, l.missing(a.tokens))
	}
	a.tokens--
	return nil
}

// give undoes the counting of one request.
func (l *limiter) give(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.allowance(key)
	a.tokens = min(l.burst, a.tokens+1)
}

// missing returns how long it takes until there is a whole token.
func (l *limiter) missing(tokens float64) time.Duration {
	return time.Duration((1 - tokens) / l.rate * float64(time.Second))
}

func tooMany(rate float64, wait time.Duration) error {
	return &retryLaterError{after: max(wait, time.Millisecond), fault: fault.New(fault.RateLimited, "rate_limit_exceeded",
		"more than %.4g requests a second from this caller", rate).
		WithRemedy("wait as long as Retry-After says, and spread requests out")}
}

// allowance returns the present allowance of a caller. The lock must be held.
func (l *limiter) allowance(key string) *allowance {
	now := l.clock()
	if e, ok := l.bykey[key]; ok {
		l.recent.MoveToFront(e)
		a := e.Value.(*allowance) //nolint:forcetypeassert // the list holds nothing else
		if passed := now.Sub(a.at); passed > 0 {
			a.tokens, a.at = min(l.burst, a.tokens+l.rate*passed.Seconds()), now
		}
		return a
	}
	a := &allowance{key: key, tokens: l.burst, at: now}
	l.bykey[key] = l.recent.PushFront(a)
	if len(l.bykey) > l.most {
		oldest := l.recent.Remove(l.recent.Back()).(*allowance) //nolint:forcetypeassert // as above
		delete(l.bykey, oldest.key)
	}
	return a
}

// AddressKey returns the key under which an address is limited. Whoever has an
// IPv6 address has a whole /64 network, so the network counts as one caller.
func AddressKey(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return addr
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}
