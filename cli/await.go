package cli

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

// waiting is how a command that starts something waits for its end.
type waiting struct {
	wait, watch       bool
	interval, timeout time.Duration
}

func addWaitFlags(cmd *cobra.Command) *waiting {
	w := &waiting{}
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until it has ended")
	addWatchFlags(cmd, &w.watch, &w.interval)
	cmd.Flags().Lookup("watch").Usage = "wait until it has ended, and show how it goes on"
	cmd.Flags().Lookup("interval").Usage = "how often to look while waiting"
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "how long to wait; exit code 7 when that was not enough")
	return w
}

var errWaitedLongEnough = errors.New("waited long enough")

// awaited is something that goes on after the command that started it was answered.
type awaited[T any] struct {
	what   string // "the self-check"
	seeIt  string // the command that shows it
	read   func() (json.RawMessage, error)
	ended  func(T) bool
	report func(object[T]) error // how it goes on, for --watch
}

// await reads something until it has ended.
func await[T any](s *session, w waiting, a awaited[T]) (last object[T], err error) {
	deadline := s.now().Add(w.timeout)
	ended := false
	err = watchOne(s, w.interval,
		func() (json.RawMessage, error) {
			if s.now().After(deadline) {
				return nil, errWaitedLongEnough
			}
			return a.read()
		},
		func(o object[T]) error {
			last = o
			if !w.watch {
				return nil
			}
			return a.report(o)
		},
		func(v T) bool {
			ended = a.ended(v)
			return ended
		})
	goesOn := "it goes on; see it with: " + a.seeIt
	switch {
	case err == nil && !ended:
		return last, fail(exitInterrupted, "interrupted", goesOn, "interrupted before %s ended", a.what)
	case errors.Is(err, errWaitedLongEnough):
		return last, fail(exitUnavailable, "wait_timeout", goesOn, "%s did not end within %s", a.what, w.timeout)
	}
	return last, err
}
