package terminal

import (
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

// Active is when something was last typed or shown in a session, since it began.
func (s *Sessions) Active(id string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.open[id].active.Load())
}

// A session that is used ends when its total time is over, an idle one earlier.
func TestLimitsCount(t *testing.T) {
	for name, c := range map[string]struct {
		active, age, left time.Duration
		reason            string
	}{
		"fresh":                 {0, 0, 10 * time.Minute, agentwire.ClosedIdle},
		"idle for a while":      {0, 4 * time.Minute, 6 * time.Minute, agentwire.ClosedIdle},
		"idle for too long":     {time.Minute, 11 * time.Minute, 0, agentwire.ClosedIdle},
		"used again":            {9 * time.Minute, 11 * time.Minute, 8 * time.Minute, agentwire.ClosedIdle},
		"used, but too long":    {59 * time.Minute, time.Hour, 0, agentwire.ClosedTotal},
		"used shortly before":   {55 * time.Minute, 56 * time.Minute, 4 * time.Minute, agentwire.ClosedTotal},
		"idle before the total": {49 * time.Minute, 50 * time.Minute, 9 * time.Minute, agentwire.ClosedIdle},
	} {
		x := &session{idle: 10 * time.Minute, total: time.Hour}
		x.active.Store(int64(c.active))
		if left, reason := x.left(c.age); left != c.left || reason != c.reason {
			t.Errorf("%s: %s left until %s, want %s until %s", name, left, reason, c.left, c.reason)
		}
	}
}
