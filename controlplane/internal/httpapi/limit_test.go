package httpapi_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/httpapi"
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
	f, _ := limitedFrame(t)
	from := func(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.1:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/known", "rubbish", "", from("203.0.113.1:2")).expect(t, 401, "token_invalid")
	f.call(t, http.MethodGet, "/known", "rubbish", "", from("203.0.113.1:3")).expect(t, 429, "rate_limit_exceeded")
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.1:4")).expect(t, 429, "rate_limit_exceeded")
	f.call(t, http.MethodGet, "/public", "", "", from("203.0.113.2:1")).expect(t, 204, "")
	f.call(t, http.MethodGet, "/known", "nobody", "", from("203.0.113.1:5")).expect(t, 204, "") // known callers go by name
}
