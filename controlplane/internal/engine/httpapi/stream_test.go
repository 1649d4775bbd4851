package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

type feedInput struct {
	httpapi.LastEventID
	Kind string `query:"kind" enum:"a,b"`
}

type tick struct {
	N int `json:"n"`
}

type sender = func(httpapi.Event) error

// listening is one open stream over a real connection.
type listening struct {
	*http.Response
	lines *bufio.Scanner
	leave context.CancelFunc
}

func listen(t *testing.T, f *frame, path, token string, options ...func(*http.Request)) *listening {
	t.Helper()
	server := httptest.NewServer(f.Handler())
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel) // runs before the server is closed, which waits for the stream
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for _, o := range options {
		o(r)
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &listening{Response: resp, lines: bufio.NewScanner(resp.Body), leave: cancel}
}

// next returns the next message, its lines joined by |. It is empty at the end.
func (l *listening) next() string {
	var lines []string
	for l.lines.Scan() {
		if l.lines.Text() == "" {
			return strings.Join(lines, "|")
		}
		lines = append(lines, l.lines.Text())
	}
	return strings.Join(lines, "|")
}

func streamFrame(t *testing.T, handler func(context.Context, *feedInput, sender) error,
	change ...func(*httpapi.Config),
) *frame {
	t.Helper()
	f := newFrame(t, change...)
	httpapi.RegisterStream(f.API, get("watch", "/watch", httpapi.Anywhere(auth.EventRead)), map[string]any{"tick": tick{}},
		handler)
	return f
}

func TestStream(t *testing.T) {
	f := streamFrame(t, func(_ context.Context, in *feedInput, send sender) error {
		for i := range 2 {
			if err := send(httpapi.Event{ID: "after-" + in.Last(), Name: "tick", Data: tick{N: i}}); err != nil {
				return err
			}
		}
		return nil
	})
	for name, c := range map[string]struct {
		path    string
		options []func(*http.Request)
		want    string
	}{
		"from the beginning": {"/watch", nil, "after-"},
		"header":             {"/watch", []func(*http.Request){header("Last-Event-ID", "17")}, "after-17"},
		"query":              {"/watch?last_event_id=18", nil, "after-18"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, f, c.path, "viewer", c.options...)
			if l.StatusCode != http.StatusOK || l.Header.Get("Content-Type") != "text/event-stream" ||
				l.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d %v", l.StatusCode, l.Header)
			}
			for i, want := range []string{`|event: tick|data: {"n":0}`, `|event: tick|data: {"n":1}`, ""} {
				if want != "" {
					want = "id: " + c.want + want
				}
				if got := l.next(); got != want {
					t.Errorf("message %d: %q, want %q", i, got, want)
				}
			}
		})
	}
}

func TestStreamRefusesLikeAnyOperation(t *testing.T) {
	f := streamFrame(t, func(context.Context, *feedInput, sender) error {
		return fault.New(fault.Conflict, "feed_gone", "the event is too old to resume after")
	})
	for _, c := range []struct {
		path, token string
		status      int
		code        string
	}{
		{"/watch", "rubbish", 401, "token_invalid"},
		{"/watch", "nobody", 403, "insufficient_permissions"},
		{"/watch?kind=c", "viewer", 422, "validation_error"},
		{"/watch?colour=red", "viewer", 422, "validation_error"},
		{"/watch?last_event_id=a%20b", "viewer", 422, "validation_error"},
		{"/watch", "viewer", 409, "feed_gone"},
	} {
		l := listen(t, f, c.path, c.token)
		resultOf(t, l.Response).expect(t, c.status, c.code)
	}
}

func TestStreamBreaksWithAnEvent(t *testing.T) {
	f := streamFrame(t, func(_ context.Context, _ *feedInput, send sender) error {
		if err := send(httpapi.Event{}); err != nil {
			return err
		}
		return errors.New("hunter2")
	})
	l := listen(t, f, "/watch", "viewer")
	if got := l.next(); got != ": open" {
		t.Errorf("got %q", got)
	}
	got := l.next()
	if !strings.HasPrefix(got, "event: problem|data: {") || !strings.Contains(got, `"code":"internal"`) ||
		strings.Contains(got, "hunter2") {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(f.log.String(), "hunter2") {
		t.Error("cause not logged")
	}
}

func TestUndeclaredEventIsADefect(t *testing.T) {
	f := streamFrame(t, func(_ context.Context, _ *feedInput, send sender) error {
		if err := send(httpapi.Event{Name: "tick", ID: "line\nbreak", Data: tick{}}); err == nil {
			t.Error("sent an id that breaks lines")
		}
		return send(httpapi.Event{Name: "tock", Data: tick{}})
	})
	resultOf(t, listen(t, f, "/watch", "viewer").Response).expect(t, 500, "internal")
}

func untilDone(ctx context.Context, _ *feedInput, _ sender) error {
	<-ctx.Done()
	return ctx.Err()
}

// A stream without events opens by itself, stays alive beyond the timeout of
// ordinary requests, and ends when the server shuts down.
func TestSilentStream(t *testing.T) {
	f := streamFrame(t, untilDone, func(c *httpapi.Config) {
		c.Heartbeat, c.Limits.RequestTimeout = 20*time.Millisecond, 10*time.Millisecond
	})
	l := listen(t, f, "/watch", "viewer")
	for range 5 {
		if got := l.next(); got != ": alive" {
			t.Fatalf("got %q", got)
		}
	}
	f.CloseStreams()
	got := l.next()
	for got == ": alive" {
		got = l.next()
	}
	if !strings.HasPrefix(got, "event: problem|") || !strings.Contains(got, "server_shutting_down") {
		t.Errorf("got %q", got)
	}
	if got := l.next(); got != "" {
		t.Errorf("still talking: %q", got)
	}
	resultOf(t, listen(t, f, "/watch", "viewer").Response).expect(t, 503, "server_shutting_down")
}

func TestStreamEndsWithItsToken(t *testing.T) {
	f := streamFrame(t, untilDone, func(c *httpapi.Config) {
		c.Heartbeat, c.Recheck = 10*time.Millisecond,
			10*time.Millisecond
	})
	l := listen(t, f, "/watch", "viewer")
	if got := l.next(); got != ": alive" {
		t.Fatalf("got %q", got)
	}
	f.world.set(func(w *world) { w.down = true }) // a failed check is no refusal
	for range 3 {
		if got := l.next(); got != ": alive" {
			t.Fatalf("got %q", got)
		}
	}
	f.world.set(func(w *world) { w.down, w.revoked["viewer"] = false, true })
	got := l.next()
	for got == ": alive" {
		got = l.next()
	}
	if !strings.Contains(got, "token_invalid") {
		t.Errorf("got %q", got)
	}
}

func TestStreamEndsWhenTheCallerLeaves(t *testing.T) {
	ended := make(chan struct{})
	f := streamFrame(t, func(ctx context.Context, in *feedInput, send sender) error {
		defer close(ended)
		return untilDone(ctx, in, send)
	})
	l := listen(t, f, "/watch", "viewer")
	l.leave()
	<-ended
}

func TestStreamSurvivesAPanic(t *testing.T) {
	f := streamFrame(t, func(context.Context, *feedInput, sender) error { panic("hunter2") })
	resultOf(t, listen(t, f, "/watch", "viewer").Response).expect(t, 500, "internal")
}

func TestStreamIsInTheContract(t *testing.T) {
	f := streamFrame(t, untilDone)
	if !f.Operations()[0].Stream {
		t.Error("not marked as a stream")
	}
	op := f.OpenAPI().Paths["/watch"].Get
	schema := op.Responses["200"].Content["text/event-stream"].Schema
	if len(schema.OneOf) != 2 || schema.OneOf[0].Properties["event"].Enum[0] != "tick" ||
		schema.OneOf[1].Properties["event"].Enum[0] != "problem" {
		t.Errorf("%+v", schema)
	}
	if op.Responses["403"] == nil || op.Responses["504"] != nil || op.Extensions["x-gpuaas-permission"] != "event:read" {
		t.Errorf("%+v", op.Responses)
	}
}
