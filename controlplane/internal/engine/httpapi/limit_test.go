package httpapi_test

import (
	"cmp"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/testkit"
)

func limitedFrame(t *testing.T) (*frame, func(time.Duration)) {
	t.Helper()
	var offset atomic.Int64
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := newFrame(t, func(c *httpapi.Config) {
		c.Limits.RequestsPerSecond, c.Limits.Burst = 0.5, 2
		c.Clock = func() time.Time { return start.Add(time.Duration(offset.Load())) }
	})
	httpapi.Register(f.API, get("known", "/known", httpapi.Authenticated()), ok)
	httpapi.Register(f.API, get("public", "/public", httpapi.Public()), ok)
	return f, func(d time.Duration) { offset.Add(int64(d)) }
}

func TestRateLimitPerPrincipal(t *testing.T) {
	f, pass := limitedFrame(t)
	for range 2 {
		f.call(t, http.MethodGet, "/known", "nobody-1", "").expect(t, 204, "")
	}
	r := f.call(t, http.MethodGet, "/known", "nobody-1", "").expect(t, 429, "rate_limit_exceeded")
	if s, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || s != 2 {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	f.call(t, http.MethodGet, "/known", "nobody-2", "").expect(t, 204, "") // another caller is not affected
	pass(2 * time.Second)
	f.call(t, http.MethodGet, "/known", "nobody-1", "").expect(t, 204, "")
	f.call(t, http.MethodGet, "/known", "nobody-1", "").expect(t, 429, "rate_limit_exceeded")
}

func TestRateLimitOfStrangersIsByAddress(t *testing.T) {
	f, pass := limitedFrame(t)
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.1:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/known", "rubbish", "", from("203.0.113.1:2")).expect(t, 401, "token_invalid")
	f.call(t, http.MethodGet, "/known", "rubbish", "", from("203.0.113.1:3")).expect(t, 429, "rate_limit_exceeded")
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.1:4")).expect(t, 429, "rate_limit_exceeded")
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.2:1")).expect(t, 204, "")
	// A caller that was known before is counted by name; an unknown one has to
	// wait.
	f.call(t, http.MethodGet, "/known", "nobody", "", from("203.0.113.1:5")).expect(t, 429, "rate_limit_exceeded")
	f.call(t, http.MethodGet, "/known", "nobody", "", from("203.0.113.9:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/known", "nobody", "", from("203.0.113.1:6")).expect(t, 204, "")
	pass(2 * time.Second)
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.1:7")).expect(t, 204, "")
}

func from(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }

// An unknown token costs a database query, so somebody who guesses is stopped
// before.
func TestAttackStrangersAreCountedBeforeTheDatabaseIsAsked(t *testing.T) {
	f, _ := limitedFrame(t)
	for i := range 20 {
		f.call(t, http.MethodGet, "/known", "guess-"+strconv.Itoa(i), "", from("203.0.113.1:1"))
	}
	if asked := f.world.asked(); asked != 2 {
		t.Errorf("20 guesses of one address were looked up %d times, want 2", asked)
	}
}

func TestAttackAStrangerHasNotAsManyAddressesAsItsNetwork(t *testing.T) {
	f, _ := limitedFrame(t)
	f.call(t, http.MethodGet, "/public", "", "", from("[2001:db8:0:1::1]:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/public", "", "", from("[2001:db8:0:1:ffff::2]:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/public", "", "", from("[2001:db8:0:1:1:2:3:4]:1")).expect(t, 429, "rate_limit_exceeded")
	f.call(t, http.MethodGet, "/public", "", "", from("[2001:db8:0:2::1]:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/public", "", "", from("[::ffff:203.0.113.7]:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.7:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.7:2")).expect(t, 429, "rate_limit_exceeded")
}

// Proxy headers that a caller writes must not make it another caller.
func TestAttackAForgedForwardedAddressIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		trusted, header, other string
		value                  func(addr string) string
	}{
		"without proxies": {"", httpapi.ForwardedFor, "", func(a string) string { return a }},
		"prepended for": {
			"10.0.0.0/8", httpapi.ForwardedFor, "",
			func(a string) string { return a + ", 198.51.100.7" },
		},
		"prepended for, with port": {
			"10.0.0.0/8", httpapi.ForwardedFor, "",
			func(a string) string { return a + ", 198.51.100.7:4711" },
		},
		"prepended forwarded": {
			"10.0.0.0/8", httpapi.Forwarded, "",
			func(a string) string { return "for=" + a + `, for="198.51.100.7:1";proto=https` },
		},
		"the other header": {
			"10.0.0.0/8", httpapi.Forwarded, httpapi.ForwardedFor,
			func(a string) string { return a },
		},
		"behind another proxy": {
			"10.0.0.0/8", httpapi.ForwardedFor, "",
			func(a string) string { return a + ", 198.51.100.7, 10.1.2.3" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrame(t, func(cfg *httpapi.Config) {
				cfg.Limits.RequestsPerSecond, cfg.Limits.Burst, cfg.ProxyHeader = 0.001, 2, c.header
				if c.trusted != "" {
					cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(c.trusted)}
				}
			})
			httpapi.Register(f.API, get("public", "/public", httpapi.Public()), ok)
			for i := range 3 {
				sent := cmp.Or(c.other, c.header)
				r := f.call(t, http.MethodGet, "/public", "", "", from("10.0.0.1:1"),
					header(sent, c.value("203.0.113."+strconv.Itoa(i))))
				if want := map[bool]int{true: 204, false: 429}[i < 2]; r.status != want {
					t.Errorf("request %d: %d, want %d", i, r.status, want)
				}
			}
		})
	}
}

// Two APIs on one database are two replicas.
func TestAttackAnotherReplicaIsNotAnotherAllowance(t *testing.T) {
	db := postgrestest.New(t)
	replica := func() *frame {
		f := newFrame(t, func(c *httpapi.Config) {
			c.DB, c.Limits.RequestsPerSecond, c.Limits.Burst = db, 0.001, 100
		})
		httpapi.Register(f.API, get("known", "/known", httpapi.Authenticated()), ok)
		return f
	}
	replicas := []*frame{replica(), replica(), replica()}
	passed := 0
	for i := range 300 {
		if replicas[i%3].call(t, http.MethodGet, "/known", "nobody", "").status == http.StatusNoContent {
			passed++
		}
	}
	if passed != 100 {
		t.Errorf("%d requests passed three replicas, want the 100 that one caller may send", passed)
	}
	replicas[0].call(t, http.MethodGet, "/known", "nobody-2", "").expect(t, 204, "")
}

// Other replicas can soon use what a replica took and did not use.
func TestUnusedRequestsAreGivenBack(t *testing.T) {
	db := postgrestest.New(t)
	replica := func() *frame {
		f := newFrame(t, func(c *httpapi.Config) {
			c.DB, c.Limits.RequestsPerSecond, c.Limits.Burst = db, 0.001, 40 // taken by twos
		})
		httpapi.Register(f.API, get("known", "/known", httpapi.Authenticated()), ok)
		return f
	}
	one, other := replica(), replica()
	one.call(t, http.MethodGet, "/known", "nobody", "").expect(t, 204, "")
	for range 38 {
		other.call(t, http.MethodGet, "/known", "nobody", "").expect(t, 204, "")
	}
	other.call(t, http.MethodGet, "/known", "nobody", "").expect(t, 429, "rate_limit_exceeded")
	testkit.Eventually(t, "what one replica does not use", func() bool {
		return other.call(t, http.MethodGet, "/known", "nobody", "").status == http.StatusNoContent
	})
}

// The cost per request of counting over all replicas.
func BenchmarkSharedLimit(b *testing.B) {
	for name, db := range map[string]*postgres.DB{"one replica": nil, "shared": postgrestest.New(b)} {
		b.Run(name, func(b *testing.B) {
			f := newFrame(b, func(c *httpapi.Config) { c.DB, c.Limits.RequestsPerSecond, c.Limits.Burst = db, 1e9, 600 })
			httpapi.Register(f.API, get("known", "/known", httpapi.Authenticated()), ok)
			b.ResetTimer()
			for range b.N {
				f.call(b, http.MethodGet, "/known", "nobody", "")
			}
		})
	}
}
