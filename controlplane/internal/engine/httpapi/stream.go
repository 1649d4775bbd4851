package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
)

const (
	streamType = "text/event-stream"
	// A reader that takes nothing for this long is cut off.
	streamWriteTimeout = 10 * time.Second
	// After this time a stream opens even if its handler has sent nothing yet.
	streamOpensAfter = 250 * time.Millisecond
	// problemEvent is the last event of a stream that broke; its data is a
	// Problem. It is not called error, because browsers use that name for lost
	// connections.
	problemEvent = "problem"
)

// Event is one message of a stream. An event without a name opens the stream
// and sends nothing: from then on the caller knows that it is listening.
type Event struct {
	ID   string // a caller resumes after it; empty: no place to resume
	Name string // a name that was declared at registration
	Data any
}

// LastEventID is where a caller wants to resume: embed it in the input of a
// stream.
type LastEventID struct {
	LastEventIDHeader string `header:"Last-Event-ID" maxLength:"128" pattern:"^[!-~]*$" doc:"Resume after the event with this id."`
	LastEventIDQuery  string `query:"last_event_id" maxLength:"128" pattern:"^[!-~]*$" doc:"The same, for callers who cannot set headers."`
}

// Last returns the id of the last event that the caller has seen. It is empty
// at the beginning.
func (l LastEventID) Last() string {
	if l.LastEventIDHeader != "" {
		return l.LastEventIDHeader
	}
	return l.LastEventIDQuery
}

// RegisterStream adds a feed of server-sent events, which a caller who asks for a
// websocket gets as one. events names each kind of
// event and gives a sample of its data for the contract. The handler runs until
// it returns. Its context ends when the caller leaves or loses access, or when
// the server shuts down. An error before the first event is answered as a
// problem, a later one as an event named problem.
func RegisterStream[I any](
	a *API, op Operation, events map[string]any,
	handler func(ctx context.Context, in *I, send func(Event) error) error,
) {
	op.Stream = true
	if _, taken := events[problemEvent]; taken || op.Method != http.MethodGet || len(events) == 0 {
		panic(fmt.Sprintf("httpapi: stream %q: needs method GET and at least one event, none of them named %s", op.ID,
			problemEvent))
	}
	described := a.describe(op, reflect.TypeFor[I]())
	a.nameIDs(reflect.TypeFor[I]())
	described.Responses = map[string]*huma.Response{"200": {
		Description: "A stream of server-sent events. It ends with an event named problem when it breaks. A caller who asks for a websocket gets the same as one: a text message of JSON per event, with id, event and data.",
		Content:     map[string]*huma.MediaType{streamType: {Schema: a.eventSchema(events)}},
	}}
	huma.Register(a.huma, described, func(_ context.Context, in *I) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			r, w := humachi.Unwrap(hctx)
			a.stream(w, r, op, events, func(ctx context.Context, send func(Event) error) error {
				return handler(ctx, in, send)
			})
		}}, nil
	})
	a.finish(op)
}

// eventSchema describes one message. Its event field says which one it is.
func (a *API) eventSchema(events map[string]any) *huma.Schema {
	registry := a.OpenAPI().Components.Schemas
	message := func(name string, data reflect.Type) *huma.Schema {
		a.nameIDs(data)
		return &huma.Schema{
			Title: "Event " + name, Type: huma.TypeObject, Required: []string{"event", "data"},
			Properties: map[string]*huma.Schema{
				"id":    {Type: huma.TypeString},
				"event": {Type: huma.TypeString, Enum: []any{name}},
				"data":  registry.Schema(data, true, name),
			},
		}
	}
	out := &huma.Schema{Title: "Server-sent event"}
	for _, name := range sortedKeys(events) {
		out.OneOf = append(out.OneOf, message(name, reflect.TypeOf(events[name])))
	}
	out.OneOf = append(out.OneOf, message(problemEvent, reflect.TypeFor[Problem]()))
	return out
}

// stream runs one stream from its opening to its end.
func (a *API) stream(
	w http.ResponseWriter, r *http.Request, op Operation, events map[string]any,
	handler func(context.Context, func(Event) error) error,
) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	ctx, leave, err := a.attendStream(ctx, cancel, r, op)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	defer leave()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the frame's own deadline would end the stream
	out := &feed{to: newLines(w), events: events}
	if wantsSocket(r) {
		if err := a.sameOrigin(r, op); err != nil {
			a.fail(w, r, err)
			return
		}
		to := &socket{w: w, r: r, ctx: ctx, lost: func() { cancel(errUnreachable) }}
		defer to.drop()
		out.to = to
	}

	var beating sync.WaitGroup
	beating.Go(func() { a.beat(ctx, cancel, out) })
	stop := func() { cancel(nil); beating.Wait() }
	defer stop() // nothing may write after the request, even if the handler panicked
	err = handler(ctx, out.send)
	ended := context.Cause(ctx)
	stop()
	a.endStream(w, r, out, err, ended)
}

// attendStream has the access to a stream rechecked while it lasts.
func (a *API) attendStream(
	ctx context.Context, cancel context.CancelCauseFunc, r *http.Request, op Operation,
) (context.Context, func(), error) {
	var now atomic.Pointer[auth.Principal]
	now.Store(auth.From(ctx))
	standing := Standing{
		Caller: auth.From(ctx), End: func(why error) { cancel(why) },
		Again: func(context.Context) (*auth.Principal, error) { return auth.Anonymous(), nil },
		May: func(_ context.Context, caller *auth.Principal) error {
			now.Store(caller)
			checking, done := context.WithTimeout(auth.With(context.WithoutCancel(ctx), caller), recheckOne)
			defer done()
			return a.decide(r.WithContext(checking), op, caller)
		},
	}
	if op.Access.scope != ScopePublic {
		token, err := a.credential(r, op)
		if err != nil {
			return ctx, nil, err
		}
		standing.Again = func(ctx context.Context) (*auth.Principal, error) { return a.cfg.Auth.Authenticate(ctx, token) }
	}
	leave, err := a.Attend(standing)
	return context.WithValue(ctx, callerKey{}, now.Load), leave, err
}

// beat opens a silent stream, sends signs of life, and ends the stream when its
// caller can no longer be reached.
func (a *API) beat(ctx context.Context, cancel context.CancelCauseFunc, out *feed) {
	wait := streamOpensAfter
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = a.cfg.Heartbeat
		if err := out.sign("alive"); err != nil {
			cancel(err)
			return
		}
	}
}

func (a *API) endStream(w http.ResponseWriter, r *http.Request, out *feed, err, ended error) {
	var why *fault.Error
	if errors.As(ended, &why) {
		err = why
	}
	if err == nil || r.Context().Err() != nil || errors.Is(ended, errUnreachable) || errors.Is(err, errUnreachable) {
		if !out.opened.Load() {
			_ = out.send(Event{}) // opens the stream, although there is nothing to say
		}
		out.to.end(nil)
		return
	}
	if !out.opened.Load() {
		a.fail(w, r, err)
		return
	}
	_ = out.message(Event{Name: problemEvent, Data: a.problem(r.Context(), err)})
	out.to.end(err)
}

var errUnreachable = errors.New("the listener cannot be reached")

// wire is how a stream reaches its listener: as server-sent events or as a
// websocket.
type wire interface {
	// open begins the answer. It is called once, before anything else.
	open() error
	// event sends one message; data is JSON.
	event(e Event, data []byte) error
	// sign shows that the stream is there, although nothing happened.
	sign(text string) error
	// end ends the stream, for a reason or (nil) because it lasted long enough.
	end(why error)
}

// feed writes one stream. The handler and the heartbeat share it.
type feed struct {
	to      wire
	events  map[string]any
	once    sync.Once
	opened  atomic.Bool
	opening error
}

// ready opens the stream, unless it is open.
func (f *feed) ready() error {
	f.once.Do(func() {
		f.opened.Store(true)
		f.opening = f.to.open()
	})
	return f.opening
}

func (f *feed) send(e Event) error {
	if e.Name == "" {
		return f.sign("open")
	}
	if _, ok := f.events[e.Name]; !ok {
		return fault.New(fault.Internal, codeInternal, "event %q was not declared", e.Name)
	}
	return f.message(e)
}

func (f *feed) message(e Event) error {
	data, err := json.Marshal(e.Data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.Name, err)
	}
	for _, c := range []byte(e.ID) {
		if c < '!' || c > '~' {
			return fault.New(fault.Internal, codeInternal, "id of event %s is not visible ASCII", e.Name)
		}
	}
	if err := f.ready(); err != nil {
		return err
	}
	return f.to.event(e, data)
}

func (f *feed) sign(text string) error {
	if err := f.ready(); err != nil {
		return err
	}
	return f.to.sign(text)
}

// lines is a stream of server-sent events.
type lines struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
}

func newLines(w http.ResponseWriter) *lines {
	return &lines{w: w, control: http.NewResponseController(w)}
}

func (l *lines) open() error {
	l.w.Header().Set("Content-Type", streamType)
	l.w.Header().Set("X-Accel-Buffering", "no") // proxies must pass events on at once
	l.w.WriteHeader(http.StatusOK)
	return nil
}

func (l *lines) event(e Event, data []byte) error {
	var b bytes.Buffer
	if e.ID != "" {
		_, _ = fmt.Fprintf(&b, "id: %s\n", e.ID)
	}
	_, _ = fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Name, data) // JSON has no line breaks
	return l.write(b.Bytes())
}

func (l *lines) sign(text string) error { return l.write([]byte(": " + text + "\n\n")) }

func (l *lines) end(error) {}

func (l *lines) write(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The deadline is removed afterwards, because it would end a silent stream.
	_ = l.control.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
	defer func() { _ = l.control.SetWriteDeadline(time.Time{}) }()
	if _, err := l.w.Write(b); err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	if err := l.control.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	return nil
}
