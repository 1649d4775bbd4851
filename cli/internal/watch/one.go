package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
)

// Waiting is how a command that starts something waits for its end.
type Waiting struct {
	Wait, Watch       bool
	Interval, Timeout time.Duration
}

// AddWaitFlags defines the flags of commands that can wait.
func AddWaitFlags(cmd *cobra.Command) *Waiting {
	w := &Waiting{}
	cmd.Flags().BoolVar(&w.Wait, "wait", false, "wait until it has ended")
	AddFlags(cmd, &w.Watch, &w.Interval)
	cmd.Flags().Lookup("watch").Usage = "wait until it has ended, and show how it goes on"
	cmd.Flags().Lookup("interval").Usage = "how often to look while waiting"
	cmd.Flags().DurationVar(&w.Timeout, "timeout", 5*time.Minute, "how long to wait; exit code 7 when that was not enough")
	return w
}

var errWaitedLongEnough = errors.New("waited long enough")

// Awaited is something that goes on after the command that started it was answered.
type Awaited[T any] struct {
	What   string // "the self-check"
	SeeIt  string // the command that shows it
	Read   func() (json.RawMessage, error)
	Ended  func(T) bool
	Report func(output.Object[T]) error // how it goes on, for --watch
}

// Await reads something until it has ended.
func Await[T any](s *frame.Session, w Waiting, a Awaited[T]) (last output.Object[T], err error) {
	deadline := s.Now().Add(w.Timeout)
	ended, pending := false, s.Await(a.What)
	defer s.Quiet()
	err = One(s, w.Interval,
		func() (json.RawMessage, error) {
			if s.Now().After(deadline) {
				return nil, errWaitedLongEnough
			}
			return a.Read()
		},
		func(o output.Object[T]) error {
			last = o
			if !w.Watch {
				return nil
			}
			s.Quiet()
			return a.Report(o)
		},
		func(v T) bool {
			if ended = a.Ended(v); !ended {
				pending.GoesOn()
			}
			return ended
		})
	goesOn := "it goes on; see it with: " + a.SeeIt
	switch {
	case err == nil && !ended:
		return last, failure.New(failure.Interrupted, "interrupted", goesOn, "interrupted before %s ended", a.What)
	case errors.Is(err, errWaitedLongEnough):
		return last, failure.New(failure.Unavailable, "wait_timeout", goesOn, "%s did not end within %s", a.What,
			moment.Whole(w.Timeout))
	}
	return last, err
}

// One shows one object whenever it has changed, until ended says that it will not.
func One[T any](s *frame.Session, interval time.Duration, read func() (json.RawMessage, error),
	tell func(output.Object[T]) error, ended func(T) bool,
) error {
	var last []byte
	return s.Again(interval, func() (bool, error) {
		raw, err := read()
		if err != nil {
			return false, err
		}
		o, err := output.Decode[T](raw)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(raw, last) {
			last = raw
			if err := tell(o); err != nil {
				return false, err
			}
		}
		return ended(o.Value), nil
	})
}
