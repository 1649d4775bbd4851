package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
)

// What listeners beside the API share with it, so that a refusal looks the
// same wherever it comes from.

// WriteProblem answers a request with the problem document of an error. What the
// caller must not see is for whoever calls it to log.
func WriteProblem(ctx context.Context, w http.ResponseWriter, err error) {
	writeProblem(w, problemOf(ctx, err))
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers only
		panic(err)
	}
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a caller who is gone needs no answer
}

// Guarded puts a handler that is no part of the contract behind what stands
// before every operation: who is calling and from what page, how often, whether
// they hold the permission on the platform, and an audit entry when they do not.
func (a *API) Guarded(name string, permission auth.Permission, h http.Handler) http.Handler {
	return a.observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := Operation{ID: name, Method: boundedMethod(r.Method), Path: r.Pattern, Access: Platform(permission)}
		exchangeFrom(r.Context()).operation = name
		ctx, err := a.admit(r, op)
		if err != nil {
			endSession(w, r, err)
			a.fail(w, r, err)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, a.cfg.Limits.RequestTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, a.cfg.Limits.MaxBodyBytes)
		h.ServeHTTP(w, r)
	}))
}

// Paths below these are never anything but what was registered for them.
var reserved = []string{"/api/", "/docs/", "/lab/"}

// Beyond lets a handler answer at every path that no operation has. What it
// knows nothing of either it gives to missing, which says so in a problem.
func (a *API) Beyond(name string, with func(missing http.Handler) http.Handler) {
	beyond := with(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchangeFrom(r.Context()).operation = unmatched
		a.routeNotFound(w, r)
	}))
	a.router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range reserved {
			if strings.HasPrefix(r.URL.Path+"/", prefix) {
				a.routeNotFound(w, r)
				return
			}
		}
		exchangeFrom(r.Context()).operation = name
		beyond.ServeHTTP(w, r)
	})
}

// Canonical reports whether a request has a path of the one form that it can have:
// without empty and dot segments, and without slashes and dots in disguise. Others
// belong to no operation, and nobody is sent from one to what it might mean.
func Canonical(r *http.Request) bool {
	escaped := strings.ToLower(r.URL.EscapedPath())
	if strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%2e") || strings.Contains(escaped, "%5c") {
		return false
	}
	if !strings.HasPrefix(r.URL.Path, "/") {
		return false
	}
	return path.Clean(r.URL.Path) == r.URL.Path || path.Clean(r.URL.Path)+"/" == r.URL.Path
}

// canonical answers requests for other paths itself.
func (a *API) canonical(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Canonical(r) {
			a.routeNotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Correlation is the correlation id that a request brings, or a new one.
func Correlation(h http.Header) string { return correlationOf(h) }

// Peer is the address of the other end of a connection, without its port.
func Peer(remote string) string { return hostOf(remote) }

// InvalidRequest is a request that cannot be read.
func InvalidRequest(format string, args ...any) error {
	return fault.New(fault.Invalid, codeInvalidRequest, format, args...)
}

// Limiter gives each caller a rate of its own.
type Limiter struct{ limiter *limiter }

// NewLimiter makes a limiter of which only rate and burst count.
func NewLimiter(l Limits, clock func() time.Time) *Limiter { return &Limiter{newLimiter(l, clock)} }

// Take counts one request of a caller, or fails saying when to come back.
func (l *Limiter) Take(key string) error { return l.limiter.take(key) }
