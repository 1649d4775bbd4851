// Package simclock is the time of the simulator: the clock of the machine when
// it runs as a program, and a clock that is moved by hand when a test skips an
// hour.
package simclock

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Clock tells time and wakes callers.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f once d has passed. stop cancels it.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	// Sleep returns when d has passed or ctx ends.
	Sleep(ctx context.Context, d time.Duration) error
}

type wall struct{}

// Wall returns the clock of the machine.
func Wall() Clock { return wall{} }

func (wall) Now() time.Time { return time.Now() }

func (wall) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

func (wall) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait %s: %w", d, ctx.Err())
	}
}

type alarm struct {
	at  time.Time
	seq uint64
	f   func()
}

// Manual is a clock that stands still until it is advanced.
type Manual struct {
	moving sync.Mutex // only one caller moves the clock at a time
	mu     sync.Mutex
	now    time.Time
	seq    uint64
	alarms map[uint64]alarm
}

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual {
	return &Manual{now: start, alarms: map[uint64]alarm{}}
}

// Now returns the time of the clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// AfterFunc runs f during the Advance that reaches its time, even if d is zero.
func (m *Manual) AfterFunc(d time.Duration, f func()) func() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	seq := m.seq
	m.alarms[seq] = alarm{at: m.now.Add(max(d, 0)), seq: seq, f: f}
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		_, pending := m.alarms[seq]
		delete(m.alarms, seq)
		return pending
	}
}

// Sleep returns when the clock has been advanced by d or ctx ends.
func (m *Manual) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	done := make(chan struct{})
	stop := m.AfterFunc(d, func() { close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		stop()
		return fmt.Errorf("wait %s: %w", d, ctx.Err())
	}
}

// Advance moves the clock by d and runs, in order of time, everything that
// falls due, including what that work schedules within d.
func (m *Manual) Advance(d time.Duration) {
	m.moving.Lock()
	defer m.moving.Unlock()
	m.mu.Lock()
	end := m.now.Add(d)
	for {
		next, ok := m.next(end)
		if !ok {
			break
		}
		delete(m.alarms, next.seq)
		m.now = next.at
		m.mu.Unlock()
		next.f()
		m.mu.Lock()
	}
	m.now = end
	m.mu.Unlock()
}

func (m *Manual) next(end time.Time) (alarm, bool) {
	var first alarm
	found := false
	for _, a := range m.alarms {
		if a.at.After(end) {
			continue
		}
		if !found || a.at.Before(first.at) || a.at.Equal(first.at) && a.seq < first.seq {
			first, found = a, true
		}
	}
	return first, found
}

// Waiting returns the number of alarms that are not yet due.
func (m *Manual) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.alarms)
}
