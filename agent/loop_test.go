package agent

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/planetest"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

func TestATaskIsCarriedOutAndReported(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	e := r.probe(nil)
	r.Deliver(e)
	got := r.Result(e.TaskID)
	if got.Status != agentwire.ResultSucceeded || got.Attempt != 1 || got.Build != testBuild ||
		got.FinishedAt.Before(got.StartedAt) {
		t.Errorf("result %+v", got)
	}
	r.Await("a report", func(s *planetest.Seen) bool {
		return len(s.Reports) > 0 && s.Reports[0].Build == testBuild && s.Reports[0].VerifierVersion == 1 &&
			s.Reports[0].Capabilities.Facts["gpu.vendor"] == "none" &&
			s.Reports[0].Capabilities.Facts[agentwire.FactArchitecture] == runtime.GOARCH &&
			s.Reports[0].Capabilities.Facts[agentwire.FactProtocol] == "1"
	})
	testkit.Eventually(r.t, "connected", func() bool {
		s := r.status()
		return s.State == StateConnected && s.Running && s.NodeID == planetest.Node
	})
}

func TestEveryRefusalIsReported(t *testing.T) {
	r := newRig(t)
	r.Update(func(s *planetest.Settings) { s.Verifiers.Version, s.Verifiers.Revoked = 2, []string{"signer-0"} })
	r.enroll() // brings the new set
	r.start(nil)
	spoil := func(change func(*agentwire.Envelope)) agentwire.Envelope {
		e := r.probe(nil)
		change(&e) // after it was signed
		return e
	}
	for reason, e := range map[agentwire.Reason]agentwire.Envelope{
		agentwire.RefusedBadSignature:  spoil(func(e *agentwire.Envelope) { e.ExpiresAt = e.ExpiresAt.Add(time.Hour) }),
		agentwire.RefusedUnknownSigner: r.probe(func(e *agentwire.Envelope) { e.SignerVersion = "signer-9" }),
		agentwire.RefusedRevokedSigner: r.probe(func(e *agentwire.Envelope) { e.SignerVersion = "signer-0" }),
		agentwire.RefusedExpired:       r.probe(func(e *agentwire.Envelope) { e.ExpiresAt = time.Now().Add(-time.Second) }),
		agentwire.RefusedClockSkew: r.probe(
			func(e *agentwire.Envelope) { e.IssuedAt = time.Now().Add(10 * time.Minute) }),
		agentwire.RefusedWrongNode: r.probe(
			func(e *agentwire.Envelope) { e.NodeID = "01890000-0000-7000-8000-000000000002" }),
		agentwire.RefusedStaleGeneration: r.probe(func(e *agentwire.Envelope) { e.Generation = 0 }),
		agentwire.RefusedUnknownType:     r.Envelope("node.make_coffee", struct{}{}, nil),
		agentwire.RefusedInvalidParams:   r.Envelope(agentwire.TypeHealthProbe, map[string]int{"depth": 3}, nil),
	} {
		r.Deliver(e)
		got := r.Result(e.TaskID)
		if got.Status != agentwire.ResultRefused || got.Error == nil || got.Error.Code != string(reason) ||
			got.Error.Message == "" {
			t.Errorf("%s: %+v, error %+v", reason, got, got.Error)
		}
		if n := counts(t, r.root, "begun"); n != 0 {
			t.Fatalf("%s: a refused task was carried out", reason)
		}
	}
}

// A refusal is not remembered: a refused task may come again in order.
func TestARefusedTaskCanBeHandedOutAgain(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	e := r.probe(nil)
	bad := e
	bad.Signature = make([]byte, ed25519.SignatureSize)
	r.Deliver(bad)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultRefused {
		t.Fatalf("result %+v", got)
	}
	r.Deliver(e)
	r.Await("the second result", func(s *planetest.Seen) bool {
		return len(s.Results[e.TaskID]) == 2 && s.Results[e.TaskID][1].Status == agentwire.ResultSucceeded
	})
}

func TestTheSameTaskInAnyOrderIsOneExecution(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	entered := make(chan struct{}, 10)
	r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(context.Context, *task.Task) (
		any, error,
	) {
		entered <- struct{}{}
		<-release
		return healthy(), nil
	}}})
	second := r.probe(func(e *agentwire.Envelope) { e.Attempt = 2 })
	first := second
	first.Attempt = 1
	first = r.Sign(first)
	third := second
	third.Attempt = 3
	third = r.Sign(third)
	forged := second
	forged.Attempt = 9
	r.Deliver(second, first, second, forged, third, first)
	r.Await("all deliveries", func(s *planetest.Seen) bool { return s.Queued == 0 })
	r.Await("another poll", pollsAfter(r))
	close(release)
	if got := r.Result(second.TaskID); got.Attempt != 3 {
		t.Errorf("result of attempt %d, want the newest", got.Attempt)
	}
	if len(entered) != 1 {
		t.Errorf("carried out %d times", len(entered))
	}
	r.Deliver(first)
	r.Await("the stored result", func(s *planetest.Seen) bool { return len(s.Results[second.TaskID]) >= 2 })
	if len(entered) != 1 {
		t.Errorf("carried out %d times", len(entered))
	}
}

// pollsAfter holds after the agent has asked for more than it had so far.
func pollsAfter(r *rig) func(*planetest.Seen) bool {
	before := 0
	r.Await("", func(s *planetest.Seen) bool { before = s.Polls; return true })
	return func(s *planetest.Seen) bool { return s.Polls > before || s.Queued == 0 && s.Polls >= before }
}

func TestTheNetworkIsAwayLongerThanALease(t *testing.T) {
	r := newRig(t)
	release, entered := make(chan struct{}), make(chan struct{}, 10)
	a := r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(ctx context.Context,
		_ *task.Task,
	) (any, error) {
		entered <- struct{}{}
		<-release
		return healthy(), ctx.Err()
	}}}, func(o *Options) { o.renewal = 20 * time.Millisecond })
	e := r.probe(nil)
	r.Deliver(e)
	r.Await("a lease that is renewed", func(s *planetest.Seen) bool { return len(s.Progress[e.TaskID]) > 2 })
	r.Stop()
	testkit.Eventually(r.t, "many lost renewals",
		func() bool { return strings.Count(a.log.String(), "lease not renewed") > 5 })
	testkit.Eventually(r.t, "told by status", func() bool { return r.status().State == StateUnreachable })
	r.Start()
	again := e
	again.Attempt = 2 // the control plane has given up the first attempt
	r.Deliver(r.Sign(again))
	r.Await("the lease of the new attempt", func(s *planetest.Seen) bool {
		p := s.Progress[e.TaskID]
		return p[len(p)-1].Attempt == 2
	})
	close(release)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded || got.Attempt != 2 {
		t.Errorf("result %+v", got)
	}
	if len(entered) != 1 {
		t.Errorf("carried out %d times", len(entered))
	}
}

func TestAResultOutlivesTheControlPlaneAndTheAgent(t *testing.T) {
	r := newRig(t)
	release, entered := make(chan struct{}), make(chan struct{})
	a := r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(context.Context, *task.Task) (
		any, error,
	) {
		close(entered)
		<-release
		return healthy(), nil
	}}})
	e := r.probe(nil)
	r.Deliver(e)
	<-entered
	r.Stop()
	close(release)
	testkit.Eventually(r.t, "a result that waits", func() bool { return r.status().ResultsUnsent == 1 })
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	r.Start()
	r.start(nil)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("result %+v", got)
	}
	if n := counts(t, r.root, "begun"); n != 0 {
		t.Error("the second agent carried it out again")
	}
}

func TestAClockThatIsOffRefusesTasksAndSaysSo(t *testing.T) {
	for name, offset := range map[string]time.Duration{"behind": 10 * time.Minute, "ahead of": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Update(func(s *planetest.Settings) { s.ClockOffset = offset })
			r.start(nil)
			e := r.probe(nil)
			r.Deliver(e)
			got := r.Result(e.TaskID)
			if got.Status != agentwire.ResultRefused || got.Error.Code != string(agentwire.RefusedClockSkew) ||
				!strings.Contains(got.Error.Message, name) {
				t.Errorf("result %+v, error %+v", got, got.Error)
			}
			testkit.Eventually(r.t, "told by status", func() bool {
				s := r.status()
				return s.State == StateClockSkew && strings.Contains(s.Remedy, "set the clock")
			})
			if c := find(Doctor(t.Context(), Options{HostRoot: r.root}), "clock"); c.Status != CheckFailed {
				t.Errorf("doctor says %+v", c)
			}
			r.Update(func(s *planetest.Settings) { s.ClockOffset = 0 })
			good := r.probe(nil)
			r.Deliver(good)
			if got := r.Result(good.TaskID); got.Status != agentwire.ResultRefused && got.Status != agentwire.ResultSucceeded {
				t.Errorf("result %+v", got)
			}
			last := r.probe(nil)
			r.Deliver(last)
			if got := r.Result(last.TaskID); got.Status != agentwire.ResultSucceeded {
				t.Errorf("after the clock was set: %+v", got)
			}
		})
	}
}

func find(checks []Check, name string) Check {
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	return Check{}
}

func TestCertificatesAreRenewedWhilePolling(t *testing.T) {
	r := &rig{Plane: planetest.New(t), t: t}
	r.root = r.HostRoot()
	r.Update(func(s *planetest.Settings) {
		s.Life, s.RenewAfter = 6*time.Second, 500*time.Millisecond
		s.Verifiers.Version = 5
	})
	r.enroll()
	key := filepath.Join(r.root, "var/lib/gpuaas/identity/key.pem")
	before, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	r.Update(func(s *planetest.Settings) { s.Verifiers.Version = 6 })
	r.start(nil)
	r.Await("three certificates in use", func(s *planetest.Seen) bool { return s.Renewals >= 2 && s.Serials >= 3 })
	e := r.probe(nil)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("result %+v", got)
	}
	r.Await("the new verifier set reported",
		func(s *planetest.Seen) bool { return s.Reports[len(s.Reports)-1].VerifierVersion == 6 })
	after, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) == string(after) {
		t.Error("the key was not renewed with the certificate")
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key: %v, %v", info.Mode(), err)
	}
}

func TestAnExpiredCertificateSaysHowToRecover(t *testing.T) {
	r := &rig{Plane: planetest.New(t), t: t}
	r.root = r.HostRoot()
	r.Update(func(s *planetest.Settings) { s.Life, s.RenewAfter = 2*time.Hour, time.Hour })
	r.enroll()
	r.Update(func(s *planetest.Settings) { s.ClockOffset = 3 * time.Hour })
	a := r.start(nil)
	testkit.Eventually(r.t, "told by status", func() bool {
		s := r.status()
		return s.Code == agentwire.CodeCertificateExpired && strings.Contains(s.Remedy, "recovery token")
	})
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	r.Update(func(s *planetest.Settings) { s.ClockOffset = 0 })
	r.enroll() // with a recovery token
	r.start(nil)
	e := r.probe(nil)
	r.Deliver(e)
	if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("result %+v", got)
	}
}

func TestTheControlPlaneRestarts(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	for range 3 {
		r.Stop()
		r.Start()
		e := r.probe(nil)
		r.Deliver(e)
		if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
			t.Errorf("result %+v", got)
		}
	}
}

func TestARefusedNodeSaysWhy(t *testing.T) {
	r := newRig(t)
	r.Update(func(s *planetest.Settings) {
		s.Refuse = func(*http.Request) *agentwire.Problem {
			return &agentwire.Problem{
				Status: 409, Code: agentwire.CodeIdentityInUse, Title: "Conflict",
				Detail: "another machine uses it",
			}
		}
	})
	r.start(nil)
	testkit.Eventually(r.t, "told by status", func() bool {
		s := r.status()
		return s.State == StateRefused && s.Code == agentwire.CodeIdentityInUse && strings.Contains(s.Remedy, "stop it") &&
			s.NextTryAt.After(s.Since)
	})
}

// People recognise a machine by its host keys, so the control plane hears of them
// at the start and as soon as there are others.
func TestHostKeysAreReportedWhenTheyChange(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.root, "etc/ssh/ssh_host_ed25519_key.pub")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const first = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	const second = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	show := func(line string) {
		t.Helper()
		if err := atomicfile.Write(file, []byte(line+" root@m1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	show(first)
	r.start(nil, func(o *Options) { o.hostKeys = 10 * time.Millisecond })
	for i, want := range []string{first, second} {
		show(want)
		r.Await("host keys reported", func(s *planetest.Seen) bool {
			return len(s.HostKeys) == i+1 && slices.Equal(s.HostKeys[i], []string{want})
		})
	}
}
