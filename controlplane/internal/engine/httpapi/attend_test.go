package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/testkit"
)

// lastOf reads a stream to its end and returns its last message.
func lastOf(l *listening) (last string) {
	for got := l.next(); got != ""; got = l.next() {
		if got != ": alive" {
			last = got
		}
	}
	return last
}

// The default settings must keep the promise, not those of a test.
func TestAttackAStreamDoesNotOutliveItsToken(t *testing.T) {
	f := streamFrame(t, untilDone)
	l := listen(t, f, "/watch", "viewer")
	if got := l.next(); got != ": alive" {
		t.Fatalf("got %q", got)
	}
	f.world.set(func(w *world) { w.revoked["viewer"] = true })
	revoked := time.Now()
	if last := lastOf(l); !strings.HasPrefix(last, "event: problem|") || !strings.Contains(last, "token_invalid") {
		t.Errorf("the stream did not say why it ends: %q", last)
	}
	if took := time.Since(revoked); took > 15*time.Second {
		t.Errorf("the stream went on for %s after its token was revoked", took)
	}
}

// An open stream loses a role that is taken away, even if another role keeps
// the stream itself alive.
func TestAttackAStreamDoesNotKeepARoleThatWasTakenAway(t *testing.T) {
	roles := make(chan int, 1)
	f := streamFrame(t, func(ctx context.Context, _ *feedInput, send sender) error {
		if err := send(httpapi.Event{}); err != nil {
			return err
		}
		for len(httpapi.Caller(ctx).Projects) != 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
		roles <- len(httpapi.Caller(ctx).Projects)
		return nil
	}, func(c *httpapi.Config) { c.Recheck = 10 * time.Millisecond })
	l := listen(t, f, "/watch", "viewer")
	if got := l.next(); got != ": open" {
		t.Fatalf("got %q", got)
	}
	f.world.set(func(w *world) { w.moved["viewer"] = true })
	testkit.Receive(t, "the stream to lose the role of its beginning", roles)
}

func TestAttackOneCallerCannotHoldAllStreams(t *testing.T) {
	f := streamFrame(t, untilDone, func(c *httpapi.Config) { c.Limits.StreamsPerCaller, c.Limits.Streams = 2, 3 })
	mine := []*listening{listen(t, f, "/watch", "viewer"), listen(t, f, "/watch", "viewer")}
	resultOf(t, listen(t, f, "/watch", "viewer").Response).expect(t, http.StatusTooManyRequests, "stream_limit_exceeded")

	other := listen(t, f, "/watch", "tenant-admin")
	if got := other.next(); got != ": alive" {
		t.Errorf("another caller got %q", got)
	}
	refused := resultOf(t, listen(t, f, "/watch", "admin").Response).expect(t, http.StatusServiceUnavailable,
		"streams_exhausted")
	if refused.problem.Remedy == "" || refused.header.Get("Retry-After") == "" {
		t.Errorf("the refusal does not say what to do: %s", refused.body)
	}
	mine[0].leave()
	for deadline := time.Now().Add(10 * time.Second); ; {
		l := listen(t, f, "/watch", "admin")
		if l.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a place that was left is not given to the next: %d", l.StatusCode)
		}
	}
}

func TestAttendChecksTerminalsLikeStreams(t *testing.T) {
	f := newFrame(t, func(c *httpapi.Config) { c.Recheck = time.Millisecond })
	ended := make(chan error, 1)
	caller := &auth.Principal{Kind: auth.KindUser, ID: "user-x"}
	leave, err := f.Attend(httpapi.Standing{
		Caller: caller,
		Again:  func(context.Context) (*auth.Principal, error) { return caller, nil },
		May: func(context.Context, *auth.Principal) error {
			_, err := f.world.Authenticate(t.Context(), redact.New("rubbish"))
			return err
		},
		End: func(why error) { ended <- why },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if why := <-ended; why == nil || !strings.Contains(why.Error(), "token_invalid") {
		t.Errorf("ended because of %v", why)
	}
}
