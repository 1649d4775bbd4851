package simclock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gpuaas/sim/maas/simclock"
)

func TestAdvanceRunsWhatFallsDueInOrder(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := simclock.NewManual(start)
	var got []string
	c.AfterFunc(2*time.Second, func() { got = append(got, "second") })
	c.AfterFunc(time.Second, func() {
		got = append(got, "first")
		c.AfterFunc(500*time.Millisecond, func() { got = append(got, "nested") })
	})
	stop := c.AfterFunc(time.Second, func() { got = append(got, "stopped") })
	if !stop() || stop() {
		t.Error("an alarm can be stopped once")
	}
	c.AfterFunc(time.Hour, func() { got = append(got, "late") })
	c.Advance(3 * time.Second)
	if want := []string{"first", "nested", "second"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if c.Waiting() != 1 || !c.Now().Equal(start.Add(3*time.Second)) {
		t.Errorf("waiting %d at %s", c.Waiting(), c.Now())
	}
}

func TestSleepEndsWithTheContext(t *testing.T) {
	for name, c := range map[string]simclock.Clock{
		"wall":   simclock.Wall(),
		"manual": simclock.NewManual(time.Unix(0, 0)),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
		if err := c.Sleep(ctx, 0); err != nil {
			t.Errorf("%s: no wait asked for: %v", name, err)
		}
	}
}
