package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/agent/internal/planetest"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

func TestOutcomes(t *testing.T) {
	r := newRig(t)
	outcome := make(chan func(context.Context) (any, error), 1)
	r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(ctx context.Context, _ *task.Task) (
		any, error,
	) {
		return (<-outcome)(ctx)
	}}}, func(o *Options) { o.renewal = 20 * time.Millisecond })
	short := func(e *agentwire.Envelope) { e.ExpiresAt = time.Now().Add(300 * time.Millisecond) }
	for name, c := range map[string]struct {
		handler              func(context.Context) (any, error)
		change               func(*agentwire.Envelope)
		status, code, remedy string
	}{
		"a failure with a code": {
			func(context.Context) (any, error) {
				return nil, task.Fail("disk_gone", "no disk", "plug it in", errors.New("cause"))
			}, nil,
			agentwire.ResultFailed, "disk_gone", "plug it in",
		},
		"a failure without": {
			func(context.Context) (any, error) { return nil, errors.New("oops") }, nil,
			agentwire.ResultFailed, "task_failed", "",
		},
		"a panic": {
			func(context.Context) (any, error) { panic("at the disco") }, nil, agentwire.ResultFailed,
			"handler_panic", "the log of the agent has the details; report it to the makers of gpuaas",
		},
		"too late": {
			func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, short,
			agentwire.ResultFailed, "deadline_exceeded", "look at the steps for what took so long, then ask for it again",
		},
		"an output of another type": {
			func(context.Context) (any, error) { return map[string]int{"a": 1}, nil }, nil,
			agentwire.ResultFailed, "output_invalid", "report it to the makers of gpuaas",
		},
		"an output that is too large": {
			func(context.Context) (any, error) {
				return agentwire.HealthProbeOutput{Checks: []agentwire.HealthCheck{{Detail: strings.Repeat("x", maxOutput)}}}, nil
			}, nil, agentwire.ResultFailed, "output_invalid", "report it to the makers of gpuaas",
		},
	} {
		t.Run(name, func(t *testing.T) {
			outcome <- c.handler
			e := r.probe(c.change)
			r.Deliver(e)
			got := r.Result(e.TaskID)
			if got.Status != c.status || got.Error == nil || got.Error.Code != c.code || got.Error.Remedy != c.remedy {
				t.Errorf("result %+v, error %+v", got, got.Error)
			}
		})
	}
}

func TestACancelledTaskStops(t *testing.T) {
	r := newRig(t)
	r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(ctx context.Context, _ *task.Task) (
		any, error,
	) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}}, func(o *Options) { o.renewal = 20 * time.Millisecond })
	e := r.probe(nil)
	r.Deliver(e)
	r.Await("a renewed lease", func(s *planetest.Seen) bool { return len(s.Progress[e.TaskID]) > 0 })
	r.Update(func(s *planetest.Settings) { s.Cancel[e.TaskID] = true })
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultCancelled {
		t.Errorf("result %+v", got)
	}
}

// A handler that must not be interrupted goes on after a cancel. If its lease ran
// out meanwhile, the control plane would give the node to somebody else.
func TestACancelledTaskKeepsItsLeaseUntilItsHandlerReturns(t *testing.T) {
	r := newRig(t)
	cancelled, release := make(chan struct{}), make(chan struct{})
	r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(ctx context.Context, _ *task.Task) (
		any, error,
	) {
		<-ctx.Done()
		close(cancelled)
		<-release
		return healthy(), nil
	}}}, func(o *Options) { o.renewal = 20 * time.Millisecond })
	e := r.probe(nil)
	r.Deliver(e)
	r.Await("a renewed lease", func(s *planetest.Seen) bool { return len(s.Progress[e.TaskID]) > 0 })
	r.Update(func(s *planetest.Settings) { s.Cancel[e.TaskID] = true })
	<-cancelled
	var before int
	r.Await("", func(s *planetest.Seen) bool { before = len(s.Progress[e.TaskID]); return true })
	r.Await("a lease that is renewed after the cancel", func(s *planetest.Seen) bool {
		return len(s.Progress[e.TaskID]) > before+3
	})
	close(release)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("result %+v", got)
	}
}

func TestStepsArriveInOrderAndBeforeTheResult(t *testing.T) {
	r := newRig(t)
	r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(_ context.Context, t *task.Task) (
		any, error,
	) {
		t.Reporter.Step("look", "started", "")
		t.Reporter.Step("look", "succeeded", "all there")
		if err := t.Reporter.Checkpoint("k", "v"); err != nil || t.Reporter.Recall("k") != "v" {
			return nil, errors.New("no checkpoint")
		}
		return healthy(), nil
	}}})
	e := r.probe(nil)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Fatalf("result %+v", got.Error)
	}
	r.Await("", func(s *planetest.Seen) bool {
		var steps []agentwire.Step
		for _, p := range s.Progress[e.TaskID] {
			steps = append(steps, p.Steps...)
		}
		if len(steps) != 2 || steps[0].Seq != 1 || steps[1].Seq != 2 || steps[1].Message != "all there" {
			t.Errorf("steps %+v", steps)
		}
		return true
	})
}

// Tasks that change the machine take turns; a task that only looks does not
// wait.
func TestClassesOfTasks(t *testing.T) {
	r := newRig(t)
	var inside, most atomic.Int32
	release := make(chan struct{})
	change := func(out any) scripted {
		return scripted{apply: func(context.Context, *task.Task) (any, error) {
			defer inside.Add(-1)
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-release
			return out, nil
		}}
	}
	r.start(map[string]task.Handler{
		agentwire.TypeDrain:           change(agentwire.DrainOutput{UsersRevoked: []string{}, UsersLeft: []string{}}),
		agentwire.TypeDeprovisionUser: change(agentwire.DeprovisionUserOutput{}),
	})
	user := agentwire.DeprovisionUserParams{AllocationID: planetest.Node, Username: "alice"}
	waiting := []agentwire.Envelope{
		r.Envelope(agentwire.TypeDrain, agentwire.DrainParams{}, nil),
		r.Envelope(agentwire.TypeDrain, agentwire.DrainParams{}, nil),
		r.Envelope(agentwire.TypeDeprovisionUser, user, nil), r.Envelope(agentwire.TypeDeprovisionUser, user, nil),
	}
	look := r.probe(nil)
	r.Deliver(append(slices.Clone(waiting), look)...)
	if got := r.Result(look.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("a task that only looks: %+v", got)
	}
	beat := r.Envelope(agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{}, nil)
	r.Deliver(beat)
	var out agentwire.HeartbeatOutput
	if err := json.Unmarshal(r.Result(beat.TaskID).Output, &out); err != nil || out.TasksRunning != 4 ||
		out.Build != testBuild {
		t.Errorf("heartbeat %+v, %v", out, err)
	}
	close(release)
	for _, e := range waiting {
		if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
			t.Errorf("%s: %+v", e.Type, got.Error)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d tasks changed the machine at once", most.Load())
	}
}

func TestSecretsOfATaskAreForgottenWithIt(t *testing.T) {
	r := newRig(t)
	r.Update(func(s *planetest.Settings) {
		s.Credential = agentwire.Credential{
			CredentialType: agentwire.CredentialOCIPull,
			Values:         map[string]string{"password": "canary"},
		}
	})
	var minted agentwire.Credential
	a := r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(ctx context.Context,
		t *task.Task,
	) (any, error) {
		var err error
		if minted, err = t.Credentials.Mint(ctx, agentwire.CredentialOCIPull, nil); err != nil ||
			minted.Values["password"] != "canary" {
			return nil, errors.New("not minted")
		}
		_, err = t.Credentials.Mint(ctx, agentwire.CredentialHFToken, nil)
		return healthy(), task.Fail("no_credential", "no token", "", err)
	}}})
	e := r.probe(nil)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Error == nil || !strings.Contains(got.Error.Message, "credential_backend_missing") {
		t.Errorf("result %+v", got.Error)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if len(minted.Values) != 0 {
		t.Error("the secret is still in memory")
	}
	if strings.Contains(a.log.String(), "canary") {
		t.Error("the secret is in the log")
	}
}

func TestNewVerifiersComeByTask(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	update := func(version int64) agentwire.UpdateVerifiersOutput {
		t.Helper()
		var set agentwire.VerifierSet
		r.Update(func(s *planetest.Settings) {
			s.Verifiers.Version = version
			set = s.Verifiers
		})
		e := r.Envelope(agentwire.TypeUpdateVerifiers, agentwire.UpdateVerifiersParams{Set: set}, nil)
		r.Deliver(e)
		var out agentwire.UpdateVerifiersOutput
		if err := json.Unmarshal(r.Result(e.TaskID).Output, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct{ set, want int64 }{{3, 3}, {2, 3}, {4, 4}} {
		if got := update(c.set); got.Version != c.want {
			t.Errorf("after set %d the version is %d, want %d", c.set, got.Version, c.want)
		}
	}
	r.Await("the version in a report", func(
		s *planetest.Seen,
	) bool {
		return s.Reports[len(s.Reports)-1].VerifierVersion == 4
	})
	if v := r.status().VerifierVersion; v != 4 {
		t.Errorf("version %d on the disk", v)
	}
}

func TestARestartIsTakenUpByTheNextProcess(t *testing.T) {
	r := newRig(t)
	var started atomic.Int32
	handler := map[string]task.Handler{agentwire.TypeHealthProbe: scripted{
		check: func(context.Context, *task.Task) (any, bool, error) { return healthy(), started.Load() > 0, nil },
		apply: func(context.Context, *task.Task) (any, error) { started.Add(1); return nil, task.ErrRestart },
	}}
	a := r.start(handler)
	e := r.probe(nil)
	r.Deliver(e)
	<-a.ended
	if err := a.stop(); !errors.Is(err, ErrRestart) {
		t.Fatalf("the agent ended with %v", err)
	}
	r.start(handler)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded || started.Load() != 1 {
		t.Errorf("result %+v, applied %d times", got, started.Load())
	}
}

func TestTheEndComesAfterTheResult(t *testing.T) {
	r := newRig(t)
	var finished, sent atomic.Bool
	handler := finishing{scripted{
		apply:  func(context.Context, *task.Task) (any, error) { return healthy(), task.ErrStop },
		finish: func(context.Context, *task.Task) error { finished.Store(sent.Load()); return nil },
	}}
	r.Update(func(s *planetest.Settings) {
		s.Refuse = func(q *http.Request) *agentwire.Problem {
			if strings.HasSuffix(q.URL.Path, "/result") && !sent.Swap(true) {
				return &agentwire.Problem{Status: 503, Code: "starting"}
			}
			return nil
		}
	})
	a := r.start(map[string]task.Handler{agentwire.TypeHealthProbe: handler})
	e := r.probe(nil)
	r.Deliver(e)
	<-a.ended
	if err := a.stop(); err != nil || !finished.Load() {
		t.Errorf("ended with %v, finished %v", err, finished.Load())
	}
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("result %+v", got)
	}

	// If it had been killed before it could finish, the next start would do it.
	finished.Store(false)
	again := r.start(map[string]task.Handler{agentwire.TypeHealthProbe: handler})
	<-again.ended
	if !finished.Load() {
		t.Error("the end was forgotten")
	}
}

func TestAnUnacceptableResultIsReplacedByAFailure(t *testing.T) {
	r := newRig(t)
	var calls atomic.Int32
	r.Update(func(s *planetest.Settings) {
		s.Refuse = func(q *http.Request) *agentwire.Problem {
			if strings.HasSuffix(q.URL.Path, "/result") && calls.Add(1) == 1 {
				return &agentwire.Problem{Status: 422, Code: "validation_error", Detail: "output"}
			}
			return nil
		}
	})
	r.start(nil)
	e := r.probe(nil)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultFailed || got.Error.Code != "result_refused" {
		t.Errorf("result %+v", got)
	}
	testkit.Eventually(r.t, "settled", func() bool { return r.status().ResultsUnsent == 0 })
}

// If a task expired while its agent was away, the agent only checks and does
// not repeat it.
func TestAnInterruptedTaskThatHasExpiredIsOnlyLookedAt(t *testing.T) {
	r := newRig(t)
	entered, again := make(chan struct{}), make(chan struct{}, 9)
	a := r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(ctx context.Context,
		_ *task.Task,
	) (any, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}}})
	e := r.probe(func(e *agentwire.Envelope) { e.ExpiresAt = time.Now().Add(time.Second) })
	r.Deliver(e)
	<-entered
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if s := r.status(); s.TasksUnfinished != 1 {
		t.Fatalf("interrupted tasks: %d", s.TasksUnfinished)
	}
	testkit.Eventually(r.t, "expiry", func() bool { return time.Now().After(e.ExpiresAt) })
	r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(context.Context, *task.Task) (
		any, error,
	) {
		again <- struct{}{}
		return healthy(), nil
	}}})
	testkit.Eventually(r.t, "given up", func() bool { return r.status().TasksUnfinished == 0 })
	if len(again) != 0 {
		t.Error("an expired task was carried out")
	}
	fresh := e
	fresh.Attempt, fresh.ExpiresAt = 2, time.Now().Add(time.Minute)
	r.Deliver(r.Sign(fresh))
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("the next attempt: %+v", got)
	}
}
