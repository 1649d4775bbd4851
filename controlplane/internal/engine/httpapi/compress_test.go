package httpapi_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// TestLargeAnswersAreCompressed checks that large answers are compressed for
// clients that ask for it, and small ones are not.
func TestLargeAnswersAreCompressed(t *testing.T) {
	f := newFrame(t)
	large := strings.Repeat("c07u43 is active; ", 1000)
	for path, text := range map[string]string{"/large": large, "/small": "active"} {
		httpapi.Register(f.API, get(path[1:], path, httpapi.Anywhere(auth.EventRead)),
			func(context.Context, *noInput) (*httpapi.Plain[map[string]string], error) {
				return &httpapi.Plain[map[string]string]{Body: map[string]string{"text": text}}, nil
			})
	}
	for name, c := range map[string]struct {
		path, accepts, coding, text string
	}{
		"large":                   {"/large", "gzip", "gzip", large},
		"large, understands none": {"/large", "", "", large},
		"small":                   {"/small", "gzip", "", "active"},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.call(t, http.MethodGet, c.path, "viewer", "", header("Accept-Encoding", c.accepts))
			if got := r.header.Get("Content-Encoding"); got != c.coding || r.header.Get("Vary") != "Accept-Encoding" {
				t.Fatalf("it is encoded as %q: %v", got, r.header)
			}
			body := r.body
			if c.coding != "" {
				if len(body) > len(large)/10 {
					t.Errorf("%d bytes became %d", len(large), len(body))
				}
				body = inflated(t, body)
			}
			if !strings.Contains(body, c.text) {
				t.Errorf("it says %.100q", body)
			}
		})
	}
}

func inflated(t *testing.T, body string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestStreamsAreNotHeldBackByCompression reads a message before the next one is
// sent.
func TestStreamsAreNotHeldBackByCompression(t *testing.T) {
	read := make(chan struct{})
	f := streamFrame(t, func(ctx context.Context, _ *feedInput, send sender) error {
		if err := send(httpapi.Event{Name: "tick", Data: tick{N: 1}}); err != nil {
			return err
		}
		select {
		case <-read:
		case <-ctx.Done():
		}
		return nil
	})
	l := listen(t, f, "/watch", "viewer", header("Accept-Encoding", "gzip"))
	if l.Header.Get("Content-Encoding") != "" {
		t.Errorf("it is encoded: %v", l.Header)
	}
	if got := l.next(); !strings.Contains(got, `{"n":1}`) {
		t.Errorf("the first message is %q", got)
	}
	close(read)
}
