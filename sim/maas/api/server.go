package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// InFlight is how many requests a region works on at once: four processes with
// four places each.
const InFlight = 16

const (
	base     = "/MAAS/api/2.0"
	metadata = "/MAAS/metadata/"
	hash     = "36763f1444f05f8c565d0292aabefcaa9ece4369"
)

// Options say how a region is served.
type Options struct {
	Region *region.Region
	// Faults decides what happens to requests. Nil leaves them alone.
	Faults *fault.Plan
	// ListCost is the time that each machine of a listing takes.
	ListCost time.Duration
	// InFlight is how many requests are worked on at once. 0 means as in MAAS.
	InFlight int
	Log      *slog.Logger
}

// Server serves one region.
type Server struct {
	region   *region.Region
	faults   *fault.Plan
	listCost time.Duration
	places   chan struct{}
	log      *slog.Logger
	routes   []route
}

// New makes the HTTP interface of a region.
func New(o Options) *Server {
	if o.InFlight == 0 {
		o.InFlight = InFlight
	}
	if o.Faults == nil {
		o.Faults = fault.NewPlan(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		region: o.Region, faults: o.Faults, listCost: o.ListCost, places: make(chan struct{}, o.InFlight),
		log: o.Log,
	}
	s.routes = s.table()
	return s
}

// call is one request as its handler sees it.
type call struct {
	ctx    context.Context //nolint:containedctx // a call lives exactly as long as its request
	caller region.Caller
	args   []string
	query  url.Values
	form   url.Values
}

func (c *call) arg(n int) string { return c.args[n] }

type handler func(c *call) (any, error)

// verb is an operation with the method that it takes.
type verb struct {
	method string
	do     handler
}

// route is one resource. A star in its path stands for an argument.
type route struct {
	name    string
	path    []string
	methods map[string]handler
	ops     map[string]verb
	open    bool // needs no authentication
	halfway bool // answers anonymous callers by refusing the signature
}

func (t *route) allowed() []string {
	var list []string
	add := func(m string) {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	for _, m := range []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodDelete} {
		if t.methods[m] != nil {
			add(m)
		}
		for _, v := range t.ops {
			if v.method == m {
				add(m)
			}
		}
	}
	return list
}

func (s *Server) match(path string) (*route, []string) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for n := range s.routes {
		t := &s.routes[n]
		if args, ok := t.matches(parts); ok {
			return t, args
		}
	}
	return nil, nil
}

func (t *route) matches(parts []string) ([]string, bool) {
	if len(parts) != len(t.path) {
		return nil, false
	}
	var args []string
	for i, want := range t.path {
		switch {
		case want == "*" && parts[i] != "":
			arg, err := url.PathUnescape(parts[i])
			if err != nil {
				return nil, false
			}
			args = append(args, arg)
		case want != parts[i]:
			return nil, false
		}
	}
	return args, true
}

// ServeHTTP answers as MAAS does.
func (s *Server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-q.Context().Done():
		return
	}
	switch path := q.URL.Path; {
	case path == "/MAAS/api/version/":
		plainAnswer(w, http.StatusOK, "2.0")
	case strings.HasPrefix(path, "/MAAS/api/1.0/"):
		plainAnswer(w, http.StatusGone, "The 1.0 API is no longer available. Please use API version 2.0.")
	case path == runScriptsPath:
		plainAnswer(w, http.StatusOK, runScripts)
	case strings.HasPrefix(path, metadata):
		s.serveMetadata(w, q)
	default:
		s.serveAPI(w, q)
	}
}

func plainAnswer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a caller that has gone cannot be told
}

func (s *Server) serveAPI(w http.ResponseWriter, q *http.Request) {
	path, op := q.URL.EscapedPath(), ""
	if at := strings.LastIndex(path, "/op-"); at >= 0 {
		path, op = path[:at+1], path[at+4:]
	}
	t, args := s.match(strings.TrimPrefix(path, base))
	if t == nil || !strings.HasPrefix(path, base+"/") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, "Unknown API endpoint: %s.", q.URL.Path) //nolint:gosec // plain text, as MAAS words it
		return
	}
	caller, err := s.region.Authenticate(q.Header.Get("Authorization"))
	if err != nil {
		refuse(w, err)
		return
	}
	c := &call{ctx: q.Context(), caller: caller, args: args, query: q.URL.Query()}
	if c.form, err = readForm(w, q); err != nil {
		refuse(w, err)
		return
	}
	for _, v := range []string{c.query.Get("op"), c.form.Get("op")} {
		if op == "" {
			op = v
		}
	}
	c.query.Del("op")
	c.form.Del("op")
	s.dispatch(w, q, t, c, op)
}

func (s *Server) dispatch(w http.ResponseWriter, q *http.Request, t *route, c *call, op string) {
	allowed := t.allowed()
	if !slices.Contains(allowed, q.Method) {
		framed(w)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	do, name := t.methods[q.Method], t.name+"."+strings.ToLower(q.Method)
	if op != "" {
		do, name = nil, t.name+"."+op
		if v, known := t.ops[op]; known && v.method == q.Method {
			do = v.do
		}
	}
	if c.caller.User == nil && !t.open {
		s.turnAway(w, q, t, op)
		return
	}
	if do == nil {
		refuse(w, unrecognised(q.Method, op))
		return
	}
	s.perform(w, q, c, name, do)
}

func unrecognised(method, op string) error {
	if op == "" {
		op = "None"
	}
	return &region.RefusalError{
		Status: http.StatusBadRequest,
		Text:   fmt.Sprintf("Unrecognised signature: method=%s op=%s", method, op),
	}
}

// turnAway answers a caller that has not signed in.
func (s *Server) turnAway(w http.ResponseWriter, q *http.Request, t *route, op string) {
	switch {
	case t.halfway && op == "accept":
		refuse(w, &region.RefusalError{Status: http.StatusUnauthorized, Text: "You must be logged in to accept machines."})
	case t.halfway:
		refuse(w, unrecognised(q.Method, op))
	default:
		framed(w)
		plainAnswer(w, http.StatusUnauthorized, "Forbidden")
	}
}

// perform runs a handler, with what the plan of faults does to it.
func (s *Server) perform(w http.ResponseWriter, q *http.Request, c *call, name string, do handler) {
	act := s.faults.Request(s.subject(c), name)
	if act.Delay > 0 {
		if err := s.region.Clock().Sleep(q.Context(), act.Delay); err != nil {
			return
		}
	}
	switch act.Kind {
	case fault.Drop:
		hangUp(w)
		return
	case fault.Hang:
		<-q.Context().Done()
		return
	case fault.ErrorBefore:
		injected(w, act)
		return
	default: // strikes later
	}
	if act.Kind == fault.Ignored {
		do = s.unchanged
	}
	result, err := do(c)
	s.log.Debug("served", "operation", name, "caller", callerName(c.caller), "failed", err != nil)
	switch act.Kind {
	case fault.LostAnswer:
		hangUp(w)
		return
	case fault.ErrorAfter:
		injected(w, act)
		return
	default: // may change the answer
	}
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, result, act)
}

// unchanged answers with the machine as it is, and does nothing to it.
func (s *Server) unchanged(c *call) (any, error) {
	return s.region.Machine(c.caller, s.subject(c).SystemID)
}

func callerName(c region.Caller) string {
	if c.User != nil {
		return c.User.Name
	}
	return c.Machine
}

// subject returns the machine that a request is about, if there is one.
func (s *Server) subject(c *call) region.Ref {
	ids := append(append(slices.Clone(c.args), c.query["id"]...), c.form.Get("system_id"))
	for _, id := range ids {
		if ref, ok := s.region.Ref(id); ok {
			return ref
		}
	}
	// A machine that is being added has no id yet.
	return region.Ref{Hostname: c.form.Get("hostname"), BMC: c.form.Get("power_parameters_power_address")}
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close() // that is the point
	}
}

func injected(w http.ResponseWriter, act fault.Action) {
	w.Header().Set("Content-Type", act.ContentType)
	if act.RetryAfter != "" {
		w.Header().Set("Retry-After", act.RetryAfter)
	}
	w.WriteHeader(act.Status)
	_, _ = w.Write([]byte(act.Body))
}

const mostForm = 64 << 20

func readForm(w http.ResponseWriter, q *http.Request) (url.Values, error) {
	if q.Method != http.MethodPost && q.Method != http.MethodPut {
		return url.Values{}, nil
	}
	q.Body = http.MaxBytesReader(w, q.Body, mostForm)
	if err := q.ParseMultipartForm(mostForm); err != nil && !errors.Is(err, http.ErrNotMultipart) { //nolint:gosec // the body is bounded above
		return nil, &region.RefusalError{Status: http.StatusBadRequest, Text: "Bad Request: " + err.Error()}
	}
	if q.MultipartForm != nil {
		return q.MultipartForm.Value, nil
	}
	return q.PostForm, nil
}
