package cli

import (
	"bytes"
	"encoding/json"
	"time"
)

// clearScreen puts the cursor into the corner and forgets what was there.
const clearScreen = "\x1b[H\x1b[J"

// again runs a step now and after every interval, until it says that all is done, fails, or
// somebody has seen enough: that is no failure. A control plane that is away for a while does
// not end it.
func (s *session) again(interval time.Duration, step func() (done bool, err error)) error {
	if interval < 100*time.Millisecond {
		return usage(s.cmd, "--interval must be at least 100ms")
	}
	lost := false
	for {
		done, err := step()
		f := (*failure)(nil)
		if err != nil && s.ctx.Err() == nil {
			f = s.failureOf(s.ctx, err)
		}
		switch {
		case s.ctx.Err() != nil && (err == nil || stopped(s.ctx, err)):
			return nil
		case f != nil && f.exit != exitUnavailable:
			return err
		case f != nil && !lost:
			s.note("%s; trying again", f.what)
		case done:
			return nil
		}
		lost = f != nil
		if s.wait(s.ctx, interval) != nil {
			return nil //nolint:nilerr // seen enough
		}
	}
}

// watchList shows a list again and again: in place on a terminal, elsewhere what is new or
// has changed.
func watchList[T any](s *session, interval time.Duration, columns []column[T], read func() ([]json.RawMessage, error)) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	inPlace := format == formatTable && s.terminal(s.program.Out)
	shown := changes{}
	return s.again(interval, func() (bool, error) {
		raws, err := read()
		if err != nil {
			return false, err
		}
		if inPlace {
			if err := write(s.program.Out, clearScreen); err != nil {
				return false, err
			}
			return false, printList(s.app, columns, raws)
		}
		first := shown.seen == nil
		return false, appendRows(s, format, columns, shown.pick(raws), first && !s.flags.noHeaders)
	})
}

// appendRows prints objects below what was printed before.
func appendRows[T any](s *session, format string, columns []column[T], raws []json.RawMessage, headers bool) error {
	if format != formatTable {
		for _, raw := range raws {
			if err := printLine(s.program.Out, format, raw); err != nil {
				return err
			}
		}
		return nil
	}
	objects, err := decodeAll[T](raws)
	if err != nil {
		return err
	}
	return printTable(s.program.Out, columns, objects, headers)
}

// changes picks what was not there before in the same form.
type changes struct{ seen map[string]bool }

func (c *changes) pick(raws []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	now := make(map[string]bool, len(raws))
	for _, raw := range raws {
		now[string(raw)] = true
		if !c.seen[string(raw)] {
			out = append(out, raw)
		}
	}
	c.seen = now
	return out
}

// watchOne shows one object whenever it has changed, until ended says that it will not.
func watchOne[T any](s *session, interval time.Duration, read func() (json.RawMessage, error), tell func(object[T]) error, ended func(T) bool) error {
	var last []byte
	return s.again(interval, func() (bool, error) {
		raw, err := read()
		if err != nil {
			return false, err
		}
		o, err := decode[T](raw)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(raw, last) {
			last = raw
			if err := tell(o); err != nil {
				return false, err
			}
		}
		return ended(o.value), nil
	})
}
