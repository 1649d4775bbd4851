package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/fault"
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
