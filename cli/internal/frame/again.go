package frame

import (
	"time"

	"gpuaas/cli/internal/failure"
)

// Again runs a step now and after every interval, until it says that all is done, fails, or
// somebody has seen enough: that is no failure. A control plane that is away for a while does
// not end it.
func (s *Session) Again(interval time.Duration, step func() (done bool, err error)) error {
	if interval < 100*time.Millisecond {
		return failure.Misuse(s.Cmd, "--interval must be at least 100ms")
	}
	lost := false
	for {
		done, err := step()
		f := (*failure.Error)(nil)
		if err != nil && s.Ctx.Err() == nil {
			f = s.FailureOf(s.Ctx, err)
		}
		switch {
		case s.Ctx.Err() != nil && (err == nil || failure.Stopped(s.Ctx, err)):
			return nil
		case f != nil && f.Exit != failure.Unavailable:
			return err
		case f != nil && !lost:
			s.Note("%s; trying again", f.What)
		case done:
			return nil
		}
		lost = f != nil
		if s.Wait(s.Ctx, interval) != nil {
			return nil //nolint:nilerr // seen enough
		}
	}
}
