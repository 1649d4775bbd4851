package apiclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	openapi_types "github.com/oapi-codegen/runtime/types"
)

func stream(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
}

func event(id, kind string) string {
	return "id: " + id + "\nevent: event\ndata: {\"event_id\":\"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c\",\"event_type\":\"" +
		kind +
		"\",\"occurred_at\":\"2026-01-02T03:04:05Z\",\"version\":\"1.0\",\"correlation_id\":\"c\",\"payload\":{\"x\":1}}\n\n"
}

const mark41 = "id: 41\nevent: position\ndata: {\"position\":41}\n\n"

// follow runs a stream until it has told n items.
func follow(t *testing.T, s *script, r StreamRequest, n int) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.Wait = func(ctx context.Context, d time.Duration) error {
		s.pauses = append(s.pauses, d)
		return ctx.Err()
	}
	var told []string
	err := Stream(ctx, s.client(Config{Token: canary, Attempts: 1}), r, func(i StreamItem) error {
		what := "mark"
		if i.Event != nil {
			what = i.Event.EventType
		} else if i.Gap != nil {
			what = "gap"
		}
		told = append(told, i.Position+" "+what)
		if len(told) == n {
			cancel()
		}
		return nil
	})
	return told, err
}

func TestStreamResumes(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{
		stream(mark41 + ": alive\n\n" + event("42", "tenant.created")),
		hangUp,
		stream("event: problem\ndata: {\"type\":\"t\",\"title\":\"t\",\"status\":503,\"code\":\"server_shutting_down\"}\n\n"),
		problem(503, "x"),
		stream(event("43", "tenant.updated") + "event: something_new\ndata: {}\n\nid: 44\nevent: gap\ndata: " +
			"{\"requested_after\":43,\"continues_from\":44}\n\n" + event("44", "project.created")),
	}}
	told, err := follow(t, s, StreamRequest{Type: "tenant"}, 5)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"41 mark", "42 tenant.created", "43 tenant.updated", "44 gap", "44 project.created"},
		told); diff != "" {
		t.Error(diff)
	}
	var after []string
	for _, r := range s.requests() {
		after = append(after, r.Header.Get("Last-Event-ID"))
		if r.Header.Get("Accept") != streamType || r.URL.Query().Get("type") != "tenant" {
			t.Error(r.Header, r.URL)
		}
	}
	if diff := cmp.Diff([]string{"", "42", "42", "42", "42"}, after); diff != "" {
		t.Error(diff)
	}
	if s.pauses[1] <= s.pauses[0]/2 || len(s.pauses) != 4 {
		t.Error(s.pauses)
	}
}

func TestStreamIsRefused(t *testing.T) {
	for name, a := range map[string]http.HandlerFunc{
		"at once": problem(403, "forbidden"),
		"later": stream(mark41 +
			"event: problem\ndata: {\"type\":\"t\",\"title\":\"t\",\"status\":401,\"code\":\"token_revoked\"}\n\n"),
		"no event stream": answer(`{}`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := follow(t, &script{t: t, answers: []http.HandlerFunc{a}}, StreamRequest{After: "41"}, 2)
			if p := (*Problem)(nil); !errors.As(err, &p) {
				t.Error(err)
			}
		})
	}
}

func TestStreamEndsWithItsReader(t *testing.T) {
	full := errors.New("disk full")
	s := &script{t: t, answers: []http.HandlerFunc{stream(mark41)}}
	err := Stream(t.Context(), s.client(Config{}), StreamRequest{}, func(StreamItem) error { return full })
	if !errors.Is(err, full) {
		t.Error(err)
	}
}

func TestSilentStreamIsOpenedAgain(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{
		func(w http.ResponseWriter, r *http.Request) {
			stream(mark41)(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // says nothing more
		},
		stream(event("42", "tenant.created")),
	}}
	var why error
	told, err := follow(t, s, StreamRequest{
		Silence:     2 * time.Second, // a busy machine takes its time to open a stream
		Interrupted: func(e error, _ time.Duration) { why = e },
	}, 2)
	if err != nil || len(told) != 2 || !errors.Is(why, errSilent) {
		t.Error(told, err, why)
	}
}

func TestStreamHonoursRetry(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{stream("retry: 45000\n\n" + mark41), stream(event("42", "x"))}}
	if _, err := follow(t, s, StreamRequest{}, 2); err != nil || s.pauses[0] < 45*time.Second {
		t.Error(err, s.pauses)
	}
}

// A mistake in the URL must be seen at once, not tried for ever.
func TestStreamThatNeverOpens(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{problem(503, "x")}}
	if _, err := follow(t, s, StreamRequest{}, 1); err == nil || len(s.pauses) > 0 {
		t.Error(err, s.pauses)
	}
}

// Another stream of the same form is followed the same way.
func TestStreamThatIsOpenedOtherwise(t *testing.T) {
	s := &script{t: t, answers: []http.HandlerFunc{stream(mark41), stream(event("42", "node.onboarding.stage"))}}
	client := s.client(Config{Token: canary, Attempts: 1})
	var after []string
	told, err := follow(t, s, StreamRequest{Open: func(ctx context.Context, last *string, edit RequestEditorFn) (
		*http.Response, error,
	) {
		if last == nil {
			last = new(string)
		}
		after = append(after, *last)
		return client.StreamOnboardings(ctx, &StreamOnboardingsParams{LastEventID: last}, edit)
	}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"41 mark", "42 node.onboarding.stage"}, told); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "41"}, after); diff != "" {
		t.Error(diff)
	}
	for _, r := range s.requests() {
		if r.URL.Path != "/api/v1/admin/onboardings/feed" || r.Header.Get("Accept") != streamType {
			t.Error(r.URL, r.Header)
		}
	}
}

// What is asked for as a stream is told as it comes, and not when it has ended.
func TestAStreamIsReadAsItComes(t *testing.T) {
	seen := make(chan struct{})
	s := &script{t: t, answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 1-1\nevent: line\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-seen: // only then does it end
		case <-r.Context().Done():
		}
	}}}
	yes := true
	resp, err := s.client(Config{Token: canary, Attempts: 1, Timeout: time.Minute}).GetFleetOperationLogs(t.Context(),
		openapi_types.UUID{}, &GetFleetOperationLogsParams{Follow: &yes}, AsStream)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	told := 0
	err = Messages(resp.Body, func(_, name string, _ []byte) error {
		if name == "line" {
			told++
			close(seen)
		}
		return nil
	})
	if err != nil || told != 1 {
		t.Errorf("%d lines, %v", told, err)
	}
}
