package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"gpuaas/agent/internal/planetest"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// Wherever the agent is killed, the task is finished by the next one, its
// effect happens once, and its result arrives.
func TestKilledAtEveryPoint(t *testing.T) {
	for point, begun := range map[string]int{
		pointAccepted: 1, pointApply: 1, "in-apply": 2, pointApplied: 1, pointJournalled: 1, pointSent: 1,
	} {
		t.Run(point, func(t *testing.T) {
			r := newRig(t)
			first := r.child(point)
			e := r.probe(nil)
			r.Deliver(e)
			var exit *exec.ExitError
			if err := first.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the agent was not killed at %s: %v", point, err)
			}
			r.child("")
			got := r.Result(e.TaskID)
			if got.Status != agentwire.ResultSucceeded || string(got.Output) != asJSON(t, healthy()) {
				t.Errorf("result %+v", got)
			}
			if n := counts(t, r.root, "done"); n != 1 {
				t.Errorf("the effect happened %d times", n)
			}
			if n := counts(t, r.root, "begun"); n != begun {
				t.Errorf("Apply was called %d times, want %d", n, begun)
			}
			testkit.Eventually(r.t, "result marked as sent", func() bool {
				s := r.status()
				return s.TasksUnfinished == 0 &&
					s.ResultsUnsent == 0
			})

			// It is remembered still: delivered again, only the result is.
			r.Await("all results so far", func(s *planetest.Seen) bool {
				return point != pointSent ||
					len(s.Results[e.TaskID]) == 2
			})
			before := 0
			r.Await("", func(s *planetest.Seen) bool { before = len(s.Results[e.TaskID]); return true })
			again := e
			again.Attempt = 2
			r.Deliver(r.Sign(again))
			r.Await("the stored result", func(s *planetest.Seen) bool {
				return len(s.Results[e.TaskID]) == before+1 && s.Results[e.TaskID][before].Attempt == 2
			})
			if n := counts(t, r.root, "begun"); n != begun {
				t.Errorf("a replayed task was carried out")
			}
		})
	}
}

func TestASecondAgentOnTheSameStateIsRefused(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	r.Await("a poll of the first", func(s *planetest.Seen) bool { return s.Polls >= 2 })
	second := r.child("")
	var exit *exec.ExitError
	if err := second.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 4 {
		t.Errorf("the second agent ended with %v", err)
	}
	if err := Run(t.Context(), Options{HostRoot: r.root}); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
	_, err := Enroll(t.Context(), Options{HostRoot: r.root}, r.Token(), nil)
	if !errors.Is(err, ErrInUse) {
		t.Errorf("enrolling beside a running agent: %v", err)
	}
}

func TestADamagedJournalIsToldAndSurvived(t *testing.T) {
	r := newRig(t)
	a := r.start(nil)
	first := r.probe(nil)
	r.Deliver(first)
	r.Result(first.TaskID)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.root, "var/lib/gpuaas/journal/journal.log")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 0x20
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := r.status(); len(s.JournalDamage) == 0 {
		t.Error("status does not tell")
	}
	r.start(nil)
	second := r.probe(nil)
	r.Deliver(second)
	if got := r.Result(second.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("result %+v", got)
	}
}
