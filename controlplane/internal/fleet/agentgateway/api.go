package agentgateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
)

const (
	maxBody        = 1 << 20
	bodyTimeout    = 30 * time.Second
	answerTimeout  = time.Minute
	packageTimeout = 15 * time.Minute // for a slow line
)

// handler answers a request, or returns an error that the frame answers with.
type handler func(w http.ResponseWriter, r *http.Request) error

// nodeHandler is a handler for a node that was let in.
type nodeHandler func(w http.ResponseWriter, r *http.Request, c caller) error

func (g *Gateway) routes() http.Handler {
	mux := http.NewServeMux()
	for _, route := range []struct {
		method, path, operation string
		handle                  handler
	}{
		{http.MethodGet, agentwire.PathCA, "bootstrap-ca", g.asNewcomer(g.serveCA)},
		{http.MethodGet, agentwire.PathBootstrapScript, "bootstrap-script", g.asNewcomer(g.serveScript)},
		{http.MethodGet, agentwire.PathPackage, "bootstrap-package", g.asNewcomer(g.servePackage)},
		{http.MethodPost, agentwire.PathEnroll, "enroll-node", g.asNewcomer(g.enroll)},
		{http.MethodPost, agentwire.PathRenew, "renew-certificate", g.asMember(g.renew)},
		{http.MethodGet, agentwire.PathTrust, "node-trust", g.asMember(g.trusted)},
		{http.MethodPost, agentwire.PathReport, "report-node", g.asMember(g.report)},
		{http.MethodPost, agentwire.PathHostKeys, "node-host-keys", g.asMember(g.hostKeys)},
		{http.MethodPost, agentwire.PathBaseline, "node-baseline", g.asMember(g.baseline)},
		{http.MethodGet, agentwire.PathNodePackage, "node-package", g.asMember(g.serveUpdate)},
		{http.MethodGet, agentwire.PathWait, operationWait, g.asNode(g.meter.polls, g.wait)},
		{http.MethodPost, agentwire.PathResult, "task-result", g.asNode(g.meter.calls, g.result)},
		{http.MethodPost, agentwire.PathProgress, "task-progress", g.asNode(g.meter.calls, g.progress)},
		{http.MethodPost, agentwire.PathLogs, "task-logs", g.asNode(g.meter.calls, g.taskLogs)},
		{http.MethodPost, agentwire.PathRegistry, "registry-credential", g.asMember(g.registryCredential)},
		{http.MethodPost, agentwire.PathMint, "mint-credential", g.asMember(g.mintCredential)},
		{http.MethodGet, agentwire.PathRegistryObjects, "node-registry", g.asMemberWithin(g.meter.fetches, g.serveRegistry)},
		{http.MethodGet, agentwire.PathTerminal, operationTerminal, g.asMember(g.terminalSession)},
	} {
		mux.Handle(route.method+" "+route.path, g.frame(route.operation, route.handle))
	}
	unmatched := g.frame("unmatched", func(http.ResponseWriter, *http.Request) error {
		return fault.New(fault.NotFound, "not_found", "there is no operation of this method at this path").
			WithRemedy("check that GPUAAS_API_URL names the node-facing listener and has no path")
	})
	mux.Handle("/", unmatched)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.Canonical(r) { // the mux would send the caller elsewhere
			unmatched.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// frame surrounds every operation: it makes the request traceable, bounds it
// in time, and turns whatever happens into an answer and a log line.
func (g *Gateway) frame(operation string, handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx = telemetry.WithCorrelation(ctx, httpapi.Correlation(r.Header))
		ctx = telemetry.WithClientAddr(ctx, httpapi.Peer(r.RemoteAddr))
		r = r.WithContext(ctx)
		rw := &response{ResponseWriter: w}
		h := w.Header()
		h.Set("X-Correlation-Id", telemetry.Correlation(ctx))
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(start.Add(answerTimeout)) // a real server has deadlines
		if r.ContentLength != 0 {
			_ = control.SetReadDeadline(start.Add(bodyTimeout))
		}
		if operation != operationWait { // thousands of them wait, and nothing happens in them
			var span trace.Span
			ctx, span = otel.Tracer(instrumentation).Start(ctx, operation, trace.WithSpanKind(trace.SpanKindServer))
			defer span.End()
			r = r.WithContext(ctx)
		}
		err := survive(rw, r, handle)
		if err != nil && rw.status == 0 {
			httpapi.WriteProblem(ctx, rw, err)
		}
		g.note(r, operation, rw.status, time.Since(start), err)
	})
}

// survive turns a panic into an error.
func survive(w *response, r *http.Request, handle handler) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if e, ok := v.(error); ok && errors.Is(e, http.ErrAbortHandler) {
			panic(v)
		}
		err = fault.New(fault.Internal, "internal", "handler panicked: %v\n%s", v, debug.Stack())
	}()
	return handle(w, r)
}

// note logs and counts a request. For a refusal it also logs what the TLS layer
// saw, because nobody can find that out later.
func (g *Gateway) note(r *http.Request, operation string, status int, took time.Duration, err error) {
	ctx := r.Context()
	measure(ctx, operation, status, took)
	attrs := []slog.Attr{
		slog.String("operation", operation), slog.Int("status", status), slog.Duration("duration", took),
		slog.String("client", telemetry.ClientAddr(ctx)),
	}
	switch {
	case err == nil && operation == operationWait:
		g.logger.LogAttrs(ctx, slog.LevelDebug, "node request", attrs...)
	case err == nil:
		g.logger.LogAttrs(ctx, slog.LevelInfo, "node request", attrs...)
	case r.Context().Err() != nil:
		g.logger.LogAttrs(ctx, slog.LevelDebug, "node left", attrs...)
	case status >= http.StatusInternalServerError || status == 0:
		g.logger.LogAttrs(ctx, slog.LevelError, "node request failed",
			append(attrs, slog.String("code", fault.CodeOf(err)), slog.String("error", err.Error()))...)
	default:
		g.logger.LogAttrs(ctx, slog.LevelWarn, "node request refused",
			append(append(attrs, slog.String("code", fault.CodeOf(err)),
				slog.String("reason", err.Error())), seen(r)...)...)
	}
}

// seen returns what the TLS layer knows about the caller.
func seen(r *http.Request) []slog.Attr {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return []slog.Attr{slog.Bool("mtls_present", false)}
	}
	leaf := r.TLS.PeerCertificates[0]
	subject := leaf.Subject.String()
	if len(leaf.URIs) > 0 {
		subject = leaf.URIs[0].String()
	}
	return []slog.Attr{
		slog.Bool("mtls_present", true), slog.String("subject", subject), slog.String("issuer", leaf.Issuer.String()),
		slog.String("serial", leaf.SerialNumber.Text(16)), slog.Time("not_after", leaf.NotAfter),
	}
}

// caller is a node that was let in.
type caller struct {
	node.Identity
	presented node.Presented
}

// asNewcomer serves callers that have no certificate yet. The rate limit counts
// them by their address.
func (g *Gateway) asNewcomer(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := g.meter.newcomers.Take(httpapi.AddressKey(telemetry.ClientAddr(r.Context()))); err != nil {
			return err
		}
		return next(w, r)
	}
}

// asNode lets a caller in if its certificate names the node of the path, and if
// the certificate, the machine and the state of the node allow it. It refuses a
// node that calls more often than one node may.
func (g *Gateway) asNode(allowance limiter, next nodeHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx := r.Context()
		cert, err := g.identify(ctx, r.TLS)
		if err != nil {
			return err
		}
		if path := r.PathValue("node_id"); path != "" && path != cert.node.String() {
			return mismatch("the certificate is not that of the node in the path")
		}
		// This bounds how often the database is asked. It counts by address: somebody
		// with a copy of the certificate must not use up the allowance of the node.
		if err := g.meter.arrivals.Take(cert.serial + " " + httpapi.AddressKey(telemetry.ClientAddr(ctx))); err != nil {
			return err
		}
		presented := node.Presented{
			Node: cert.node, Serial: cert.serial,
			Instance: r.Header.Get(agentwire.HeaderAgentInstance), Session: r.Header.Get(agentwire.HeaderAgentSession),
		}
		presented.Certificate.IssuedAt, presented.Certificate.NotAfter = cert.leaf.NotBefore, cert.leaf.NotAfter
		presented.Certificate.KeyFingerprint = fingerprintOf(cert.leaf.RawSubjectPublicKeyInfo)
		if !plain(presented.Instance, 128) || !plain(presented.Session, 128) {
			return httpapi.InvalidRequest("the headers %s and %s are missing or malformed", agentwire.HeaderAgentInstance,
				agentwire.HeaderAgentSession)
		}
		ctx = auth.With(ctx, auth.Node(cert.node))
		identity, err := g.nodes.Authorize(ctx, presented)
		if err != nil {
			return err
		}
		says, err := agentwire.ParseVitals(r.Header.Get(agentwire.HeaderVitals))
		if err != nil {
			return httpapi.InvalidRequest("the header %s is malformed: %v", agentwire.HeaderVitals, err)
		}
		g.contacts.Note(cert.node, says)
		// The gateway counts only callers that it lets in: others must not use up the
		// allowance of the node.
		if err := allowance.Take(cert.node.String()); err != nil {
			return err
		}
		return next(w, r.WithContext(ctx), caller{Identity: identity, presented: presented})
	}
}

// asMember is asNode for operations that a node that is being removed may not
// use any more. Such a node only reports the end of its uninstallation.
func (g *Gateway) asMember(next nodeHandler) handler { return g.asMemberWithin(g.meter.calls, next) }

func (g *Gateway) asMemberWithin(allowance limiter, next nodeHandler) handler {
	return g.asNode(allowance, func(w http.ResponseWriter, r *http.Request, c caller) error {
		if c.Status == node.Removing {
			return fault.New(fault.Forbidden, agentwire.CodeNodeFenced, "the node is being removed").
				WithRemedy("let its uninstallation end; an operator can bring the node back")
		}
		return next(w, r, c)
	})
}

// taskOf is the task in the path.
func taskOf(r *http.Request) (id.NodeTask, error) {
	task, err := id.Parse[id.NodeTask](r.PathValue("task_id"))
	if err != nil {
		return task, httpapi.InvalidRequest("the id of the task is not a UUID")
	}
	return task, nil
}

// read decodes a body strictly.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	return decode(body, into)
}

func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return httpapi.InvalidRequest("the body is not what this operation takes: %s", decodeProblem(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return httpapi.InvalidRequest("the body holds more than one JSON value")
	}
	return nil
}

// decodeProblem names the field and never its value, which may be a secret.
func decodeProblem(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Sprintf("%s must be %s", kind.Field, kind.Type)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it is not JSON"
	}
	return err.Error()
}

func answer(w http.ResponseWriter, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a caller who is gone needs no answer
	return nil
}

func plain(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// response remembers the status of an answer.
type response struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the first final status.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write is an answer of 200 when nothing else was said before.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
