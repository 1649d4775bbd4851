package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"gpuaas/controlplane/internal/engine/httpapi"
)

// dial opens a stream as a websocket.
func dial(t *testing.T, f *frame, path string, header http.Header, protocols ...string) (
	*websocket.Conn, *http.Response, error,
) {
	t.Helper()
	server := httptest.NewServer(f.Handler())
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	conn, response, err := websocket.Dial(ctx, server.URL+path, &websocket.DialOptions{
		HTTPHeader: header, Subprotocols: append([]string{"gpuaas.events.v1"}, protocols...),
	})
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, response, err
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func heard(t *testing.T, conn *websocket.Conn) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, message, err := conn.Read(ctx)
	return string(message), err
}

// A stream is the same as a websocket: its events, where it resumes, and how it ends.
func TestAStreamIsAWebsocketToo(t *testing.T) {
	f := streamFrame(t, func(_ context.Context, in *feedInput, send sender) error {
		return send(httpapi.Event{ID: "after-" + in.Last(), Name: "tick", Data: tick{N: 7}})
	})
	for name, c := range map[string]struct {
		path, want string
		header     http.Header
		protocols  []string
	}{
		"from the beginning": {"/watch", "after-", bearer("viewer"), nil},
		"resumed":            {"/watch?last_event_id=18", "after-18", bearer("viewer"), nil},
		"token of a browser": {"/watch", "after-", nil, []string{"bearer.viewer"}},
		"header for resuming": {"/watch", "after-17", http.Header{
			"Authorization": {"Bearer viewer"}, "Last-Event-Id": {"17"},
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _, err := dial(t, f, c.path, c.header, c.protocols...)
			if err != nil {
				t.Fatal(err)
			}
			if conn.Subprotocol() != "gpuaas.events.v1" {
				t.Errorf("subprotocol %q", conn.Subprotocol())
			}
			got, err := heard(t, conn)
			if want := `{"id":"` + c.want + `","event":"tick","data":{"n":7}}`; err != nil || got != want {
				t.Errorf("got %s, want %s (%v)", got, want, err)
			}
			if _, err := heard(t, conn); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// Whoever may not have a stream gets none as a websocket either, and no page of
// another origin opens one, with whatever token.
func TestAttackAPageOfAnotherOriginOpensNoStream(t *testing.T) {
	f := streamFrame(t, untilDone)
	foreign := bearer("viewer")
	foreign.Set("Origin", "https://evil.example")
	for _, c := range []struct {
		header http.Header
		status int
		code   string
	}{
		{bearer("rubbish"), 401, "token_invalid"},
		{nil, 401, "token_missing"},
		{bearer("nobody"), 403, "insufficient_permissions"},
		{foreign, 403, "cross_origin_request"},
	} {
		_, response, err := dial(t, f, "/watch", c.header)
		if err == nil {
			t.Errorf("%v: it is open", c.header)
			continue
		}
		resultOf(t, response).expect(t, c.status, c.code)
	}
}

// A token that was revoked ends the websocket, with the reason.
func TestAWebsocketEndsWithItsToken(t *testing.T) {
	f := streamFrame(t, untilDone, func(c *httpapi.Config) {
		c.Heartbeat, c.Recheck = 10*time.Millisecond, 10*time.Millisecond
	})
	conn, _, err := dial(t, f, "/watch", bearer("viewer"))
	if err != nil {
		t.Fatal(err)
	}
	f.world.set(func(w *world) { w.revoked["viewer"] = true })
	if got, err := heard(t, conn); err != nil || !strings.HasPrefix(got, `{"event":"problem",`) ||
		!strings.Contains(got, "token_invalid") {
		t.Errorf("got %s (%v)", got, err)
	}
	if _, err := heard(t, conn); websocket.CloseStatus(err) != 4401 {
		t.Errorf("it ended with %v", err)
	}
}

// A server that shuts down says so, and the caller comes again.
func TestAWebsocketEndsWithTheServer(t *testing.T) {
	f := streamFrame(t, untilDone)
	conn, _, err := dial(t, f, "/watch", bearer("viewer"))
	if err != nil {
		t.Fatal(err)
	}
	f.CloseStreams()
	if got, err := heard(t, conn); err != nil || !strings.Contains(got, "server_shutting_down") {
		t.Errorf("got %s (%v)", got, err)
	}
	if _, err := heard(t, conn); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("it ended with %v", err)
	}
}

// A caller who leaves ends the stream, and so does one who sends something: nothing is
// expected of a listener.
func TestAWebsocketEndsWithItsCaller(t *testing.T) {
	for name, leave := range map[string]func(*websocket.Conn) error{
		"leaves": func(c *websocket.Conn) error { return c.CloseNow() },
		"talks": func(c *websocket.Conn) error {
			return c.Write(context.Background(), websocket.MessageText, []byte("hello"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			f := streamFrame(t, func(ctx context.Context, in *feedInput, send sender) error {
				defer close(ended)
				return untilDone(ctx, in, send)
			})
			conn, _, err := dial(t, f, "/watch", bearer("viewer"))
			if err != nil {
				t.Fatal(err)
			}
			if err := leave(conn); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Error("the stream goes on")
			}
		})
	}
}
