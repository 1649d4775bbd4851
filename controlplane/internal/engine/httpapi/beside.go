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

// What other listeners share with the API, so that a refusal looks the same
// everywhere.

// WriteProblem answers a request with the problem document of an error. The
// caller of WriteProblem logs what the client must not see.
func WriteProblem(ctx context.Context, w http.ResponseWriter, err error) {
	writeProblem(w, problemOf(ctx, err))
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	body, err := json.Marshal(p)
	if err != nil { // cannot fail: strings and numbers only
		panic(err)
	}
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}

// Guarded puts a handler that is not in the contract behind the checks of every
// operation: who calls, from which page, how often, and whether they hold the
// permission on the platform. If they do not, it writes an audit entry.
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

// Attended puts a handler that is not in the contract behind the checks that every known
// caller passes: who calls, from which page, and how often. The handler decides what they
// may do, and how long that takes. Refuse answers those who are not let in.
func (a *API) Attended(
	name string, h http.Handler, refuse func(http.ResponseWriter, *http.Request, error),
) http.Handler {
	return a.observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := Operation{ID: name, Method: boundedMethod(r.Method), Path: r.Pattern, Access: Authenticated()}
		exchangeFrom(r.Context()).operation = name
		ctx, err := a.admit(r, op)
		if err != nil {
			refuse(w, r, err)
			return
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// Paths below these never belong to anything but registered handlers.
var reserved = []string{"/api/", "/docs/", "/lab/", "/v2/"}

// Beyond lets a handler answer all paths that no operation has. The handler
// passes what it does not know either to missing, which answers with a problem.
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

// Canonical reports whether the path of a request is in its only accepted form:
// no empty or dot segments, no encoded slashes or dots. Other paths belong to
// no operation, and nobody is redirected to what they might mean.
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

// Correlation returns the correlation id of a request, or a new one.
func Correlation(h http.Header) string { return correlationOf(h) }

// Peer returns the address of the other end of a connection, without its port.
func Peer(remote string) string { return hostOf(remote) }

// InvalidRequest is the fault for a request that cannot be read.
func InvalidRequest(format string, args ...any) error {
	return fault.New(fault.Invalid, codeInvalidRequest, format, args...)
}

// Limiter limits the rate of each caller.
type Limiter struct{ limiter *limiter }

// NewLimiter makes a limiter. It uses only the rate and the burst of l.
func NewLimiter(l Limits, clock func() time.Time) *Limiter { return &Limiter{newLimiter(l, clock)} }

// Take counts one request of a caller. If there were too many, it fails and
// says when to come back.
func (l *Limiter) Take(key string) error { return l.limiter.take(key) }
