package agent

import (
	"context"
	"testing"
	"time"

	"gpuaas/agent/internal/planetest"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// A clock that is off within the limit shortens no task's window, however
// short, and lengthens none.
func TestWindowsOfTasksAreTimesOfTheControlPlane(t *testing.T) {
	for name, offset := range map[string]time.Duration{"node ahead": -4 * time.Minute, "node behind": 4 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Update(func(s *planetest.Settings) { s.ClockOffset = offset })
			wait := make(chan bool, 1)
			r.start(map[string]task.Handler{agentwire.TypeHealthProbe: scripted{apply: func(ctx context.Context, _ *task.Task) (
				any, error,
			) {
				if <-wait {
					<-ctx.Done()
				}
				return healthy(), ctx.Err()
			}}})
			wait <- false
			e := r.probe(func(e *agentwire.Envelope) { e.ExpiresAt = e.IssuedAt.Add(time.Minute) })
			r.Deliver(e)
			if got := r.Result(e.TaskID); got.Status != agentwire.ResultSucceeded {
				t.Errorf("a window of a minute: %+v", got.Error)
			}
			wait <- true
			late := r.probe(func(e *agentwire.Envelope) { e.ExpiresAt = e.IssuedAt.Add(3 * time.Second) })
			r.Deliver(late)
			if got := r.Result(late.TaskID); got.Error == nil || got.Error.Code != "deadline_exceeded" {
				t.Errorf("a task at its deadline: %+v, %+v", got, got.Error)
			}
			expired := r.probe(func(e *agentwire.Envelope) { e.ExpiresAt = e.IssuedAt.Add(-2 * time.Second) })
			r.Deliver(expired)
			if got := r.Result(expired.TaskID); got.Status != agentwire.ResultRefused ||
				got.Error.Code != string(agentwire.RefusedExpired) {
				t.Errorf("an expired task: %+v, %+v", got, got.Error)
			}
		})
	}
}

// By the node's clock the certificate is always due.
func TestAClockThatIsAheadRenewsOnce(t *testing.T) {
	r := fresh(t)
	r.Update(func(s *planetest.Settings) {
		s.ClockOffset, s.Life, s.RenewAfter = -40*time.Minute, time.Hour, 30*time.Minute
	})
	r.enroll()
	r.start(nil)
	r.Await("the renewal before the clock of the control plane is known",
		func(s *planetest.Seen) bool { return s.Renewals > 0 })
	for range 20 {
		e := r.probe(nil)
		r.Deliver(e)
		r.Result(e.TaskID)
	}
	r.Await("", func(s *planetest.Seen) bool {
		if s.Renewals != 1 {
			t.Errorf("renewed %d times", s.Renewals)
		}
		return true
	})
}

// By the node's clock there is plenty of time.
func TestAClockThatIsBehindRenewsInTime(t *testing.T) {
	r := fresh(t)
	r.Update(func(s *planetest.Settings) {
		s.ClockOffset, s.Life, s.RenewAfter = 8*time.Hour, time.Hour, -30*time.Minute
	})
	r.enroll()
	r.start(nil)
	r.Await("a renewal", func(s *planetest.Seen) bool { return s.Renewals > 0 })
}

func TestRenewalsRest(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		24 * time.Hour: glance, 6 * time.Second: 600 * time.Millisecond, time.Millisecond: 100 * time.Millisecond,
		-time.Hour: glance,
	} {
		if got := renewalRest(left); got != want {
			t.Errorf("%s left: %s, want %s", left, got, want)
		}
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ skew, earliest, want time.Duration }{
		{0, -time.Hour, 0},
		{17 * time.Hour, -24 * time.Hour, -17 * time.Hour},
		{-8 * time.Hour, 0, 8 * time.Hour},
		{17 * time.Hour, time.Minute, time.Minute},
	} {
		if got := renewalDue(at, c.skew, at.Add(c.earliest)); !got.Equal(at.Add(c.want)) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
