package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/planetest"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// A refusal that could not be sent must not end a later attempt that was
// accepted.
func TestAnOldRefusalDoesNotEndALaterAttempt(t *testing.T) {
	r := newRig(t)
	var away atomic.Bool
	away.Store(true)
	r.Update(func(s *planetest.Settings) {
		s.Refuse = func(q *http.Request) *agentwire.Problem {
			if strings.HasSuffix(q.URL.Path, "/result") && away.Load() {
				return &agentwire.Problem{Status: 503, Code: "starting"}
			}
			return nil
		}
	})
	entered, release := make(chan struct{}), make(chan struct{})
	a := r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(context.Context, *task.Task) (
		any, error,
	) {
		close(entered)
		<-release
		return healthy(), nil
	}}})
	bad := r.probe(nil)
	good := bad
	good.Attempt = 2
	good = r.Sign(good)
	bad.Signature = make([]byte, ed25519.SignatureSize)
	r.Deliver(bad)
	testkit.Eventually(r.t, "a refusal that waits",
		func() bool { return strings.Contains(a.log.String(), "result not sent") })
	r.Deliver(good)
	<-entered
	away.Store(false)
	for range 2 { // polls that send everything that waits
		beat := r.Envelope(agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{}, nil)
		r.Deliver(beat)
		r.Result(beat.TaskID)
	}
	close(release)
	if got := r.Result(good.TaskID); got.Status != agentwire.ResultSucceeded || got.Attempt != 2 {
		t.Errorf("result %+v", got)
	}
}

// heldCalls lets the test say when and how each result arrives.
type heldCalls struct {
	calls
	arrived chan agentwire.ResultRequest
	answer  chan error
}

func (h heldCalls) Result(ctx context.Context, _ agentwire.Envelope, result agentwire.ResultRequest) error {
	h.arrived <- result
	select {
	case err := <-h.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A refusal that is being sent when the task ends is not taken for its result.
func TestARefusalUnderWayIsNotTheResult(t *testing.T) {
	j, err := journal.Open(t.TempDir(), planetest.Node, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	h := heldCalls{arrived: make(chan agentwire.ResultRequest), answer: make(chan error)}
	o := newOutgoing(h, j, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-over
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	e := agentwire.Envelope{TaskID: "t", NodeID: planetest.Node, Attempt: 2, ExpiresAt: time.Now().Add(time.Minute)}
	o.Loose(e, agentwire.ResultRequest{Attempt: 1, Status: agentwire.ResultRefused})
	if got := <-h.arrived; got.Status != agentwire.ResultRefused {
		t.Fatalf("sent %+v", got)
	}
	var after atomic.Int32
	o.After("t", func() { after.Add(1) })
	if err := errors.Join(j.Accept(e), j.Finish("t",
		agentwire.ResultRequest{Attempt: 2, Status: agentwire.ResultSucceeded, FinishedAt: time.Now()})); err != nil {
		t.Fatal(err)
	}
	o.Journalled("t")
	h.answer <- nil // of the refusal
	if got := <-h.arrived; got.Status != agentwire.ResultSucceeded {
		t.Errorf("sent %+v", got)
	}
	if len(j.Unsent()) != 1 || after.Load() != 0 {
		t.Errorf("taken for sent: unsent %d, after %d", len(j.Unsent()), after.Load())
	}
	h.answer <- nil
	r := rig{t: t}
	testkit.Eventually(r.t, "settled", func() bool {
		return len(j.Unsent()) == 0 && after.Load() == 1 &&
			o.Waiting() == 0
	})
}

func TestARefusedReportIsToldOnce(t *testing.T) {
	r := newRig(t)
	r.refuse(422, "validation_error", "/report")
	a := r.start(nil)
	testkit.Eventually(r.t, "told", func() bool {
		return strings.Contains(a.log.String(),
			`level=WARN msg="report not sent"`)
	})
	testkit.Eventually(r.t, "tried again", func() bool {
		return strings.Contains(a.log.String(),
			`level=DEBUG msg="report not sent"`)
	})
	if n := strings.Count(a.log.String(), `level=WARN msg="report not sent"`); n != 1 {
		t.Errorf("told %d times", n)
	}
}
