package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
)

const (
	instrumentation   = "gpuaas/controlplane/internal/engine/httpapi"
	unmatched         = "unmatched"
	statusClientGone  = 499 // the caller left before the answer: not our failure
	correlationHeader = "X-Correlation-Id"
)

// exchange is one request and its answer, as logs, metrics and traces see it.
// The code outside the router makes it, the code inside fills it in.
type exchange struct {
	operation string
	principal string
	secure    bool          // the browser's end of the connection is encrypted
	port      string        // the port that the browser named; empty: the default
	session   bool          // a cookie identifies the caller
	former    redact.Secret // the browser's session before it opens a new one
	target    auth.Target   // what the request is about, as its path says
}

type exchangeKey struct{}

func exchangeFrom(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{operation: unmatched}
}

// ClientAddr returns the address that a request came from.
func ClientAddr(ctx context.Context) string { return telemetry.ClientAddr(ctx) }

var requestDuration = telemetry.NewHistogram(telemetry.Metric{
	Name: "http.server.request.duration", Seconds: true, Labels: []string{"operation", "method", "status"},
	Help:    "How long requests to the API took.",
	Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
})

// observe wraps everything: it makes the request traceable, and whatever
// happens inside ends in an answer, a log line, a metric and a span.
func (a *API) observe(next http.Handler) http.Handler {
	tracer := otel.Tracer(instrumentation)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		x := &exchange{operation: unmatched, principal: auth.Anonymous().ID, secure: a.cameByTLS(r), port: portOf(r)}
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, unmatched, trace.WithSpanKind(trace.SpanKindServer))
		ctx = telemetry.WithCorrelation(ctx, correlationOf(r.Header))
		ctx = telemetry.WithClientAddr(ctx, a.clientAddr(r))
		ctx = context.WithValue(ctx, exchangeKey{}, x)
		r = r.WithContext(ctx)
		rw := &response{ResponseWriter: w}
		a.protect(rw, r)
		defer func() {
			status, took, method := finalStatus(rw, r), time.Since(start), boundedMethod(r.Method)
			requestDuration.Record(ctx, took.Seconds(), x.operation, method, strconv.Itoa(status))
			endSpan(span, x, method, status)
			a.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", method),
				slog.String("operation", x.operation), slog.Int("status", status), slog.Duration("duration", took),
				slog.String("principal", x.principal), slog.String("client", telemetry.ClientAddr(ctx)))
		}()
		a.survive(rw, r, next)
	})
}

// survive turns a panic into an answer. It passes http.ErrAbortHandler on,
// because a handler uses it to cut the connection.
func (a *API) survive(w *response, r *http.Request, next http.Handler) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		a.cfg.Logger.ErrorContext(r.Context(), "handler panicked", "operation", exchangeFrom(r.Context()).operation,
			"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		if w.status != 0 { // half an answer must not look like a whole one
			panic(http.ErrAbortHandler)
		}
		a.fail(w, r, fault.New(fault.Internal, codeInternal, "handler panicked"))
	}()
	next.ServeHTTP(w, r)
}

// protect sets the headers that every answer carries, and the deadlines for
// reading the request and writing the answer. Streams and the documentation
// page replace some of them.
func (a *API) protect(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set(correlationHeader, telemetry.Correlation(r.Context()))
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
	}
	// Test writers have no deadlines; a real server has. A body needs one even
	// if no handler reads it, because the server reads it to the end before it
	// answers.
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(2 * a.cfg.Limits.RequestTimeout))
	if r.ContentLength != 0 {
		_ = control.SetReadDeadline(time.Now().Add(a.cfg.Limits.RequestTimeout))
	}
}

func finalStatus(w *response, r *http.Request) int {
	if errors.Is(r.Context().Err(), context.Canceled) && (w.status == 0 || w.status >= http.StatusInternalServerError) {
		return statusClientGone
	}
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

func endSpan(span trace.Span, x *exchange, method string, status int) {
	span.SetName(x.operation)
	span.SetAttributes(attribute.String("http.request.method", method), attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
	span.End()
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions,
}

// boundedMethod keeps callers from inventing metric labels.
func boundedMethod(m string) string {
	if slices.Contains(methods, m) {
		return m
	}
	return "other"
}

// correlationOf accepts the caller's id if it cannot break a log line.
func correlationOf(h http.Header) string {
	for _, name := range []string{correlationHeader, "X-Request-Id"} {
		if v := h.Get(name); isPlain(v, 128) {
			return v
		}
	}
	return id.NewString()
}

func isPlain(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("._:-", rune(c)) {
			return false
		}
	}
	return true
}

func (a *API) routeNotFound(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, fault.New(fault.NotFound, codeNotFound, "there is no operation at this path").
		WithRemedy("see /docs for the operations there are"))
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range methods {
		if a.router.Match(chi.NewRouteContext(), m, r.URL.Path) {
			allowed = append(allowed, m)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.fail(w, r, fault.New(fault.Invalid, codeMethodNotAllowed, "this path does not take %s", boundedMethod(r.Method)).
		WithRemedy("use %s", strings.Join(allowed, " or ")))
}

// response remembers the status of an answer.
type response struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the first final status.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends status 200 if no status was set before.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
