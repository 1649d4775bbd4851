package wipe_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuaas/cmd/gpuaas-gpu/internal/wipe"
)

// memory is a device whose memory is a slice of words: fills and counts are
// done for real.
type memory struct {
	words []uint64
	// holes are the free stretches, in granules; an allocation must fit in one.
	holes []int
	next  uint64

	stuckAt  int  // index of a word that never changes; -1 for none
	blind    bool // counts nothing
	allocErr error
	fillErr  error
	onFill   func()
}

const base = 1 << 32

func newMemory(holes ...int) *memory {
	m := &memory{holes: holes, stuckAt: -1}
	granules := 0
	for _, h := range holes {
		granules += h
	}
	m.words = make([]uint64, granules*wipe.Granule/wipe.WordBytes)
	return m
}

func (m *memory) Total() uint64 { return uint64(len(m.words)) * wipe.WordBytes }

func (m *memory) Free() (uint64, error) {
	n := 0
	for _, h := range m.holes {
		n += h
	}
	return uint64(n)*wipe.Granule + 12345, nil // no multiple of anything
}

func (m *memory) Alloc(bytes uint64) (wipe.Chunk, error) {
	if m.allocErr != nil {
		return wipe.Chunk{}, m.allocErr
	}
	need := int((bytes + wipe.Granule - 1) / wipe.Granule)
	for i := range m.holes {
		if m.holes[i] >= need {
			m.holes[i] -= need
			c := wipe.Chunk{Address: base + m.next, Bytes: bytes}
			m.next += uint64(need) * wipe.Granule
			return c, nil
		}
	}
	return wipe.Chunk{}, wipe.ErrNoRoom
}

func each(chunks []wipe.Chunk, p wipe.Pattern, do func(i int, want uint64)) {
	for _, c := range chunks {
		for a := c.Address; a < c.Address+c.Bytes; a += wipe.WordBytes {
			do(int(a-base)/wipe.WordBytes, a*p.Multiply+p.Add)
		}
	}
}

func (m *memory) Fill(chunks []wipe.Chunk, p wipe.Pattern) (time.Duration, error) {
	if m.onFill != nil {
		m.onFill()
	}
	if m.fillErr != nil {
		return 0, m.fillErr
	}
	each(chunks, p, func(i int, want uint64) {
		if i != m.stuckAt {
			m.words[i] = want
		}
	})
	return time.Millisecond, nil
}

func (m *memory) Count(chunks []wipe.Chunk, p wipe.Pattern) (uint64, time.Duration, error) {
	var n uint64
	each(chunks, p, func(i int, want uint64) {
		if m.words[i] != want && !m.blind {
			n++
		}
	})
	return n, time.Millisecond, nil
}

func idle() error { return nil }

var pattern = wipe.Pattern{Multiply: 0x9e3779b97f4a7c15, Add: 7}

func TestAllMemoryIsCoveredAndLeftZero(t *testing.T) {
	for name, holes := range map[string][]int{
		"one stretch": {23}, "fragments": {1, 9, 3, 16, 2}, "smallest": {1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(holes...)
			for i := range m.words {
				m.words[i] = uint64(i % 3) // what a tenant left
			}
			dirty := uint64(len(m.words)) - uint64((len(m.words)+2)/3)
			var steps []wipe.Step
			run := wipe.Run{
				Device: m, Pattern: pattern, Idle: idle,
				Progress: func(p wipe.Pass) { steps = append(steps, p.Step) },
			}
			got, err := run.Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Covered != m.Total() || got.Total != m.Total() {
				t.Errorf("covered %d of %d, want all", got.Covered, got.Total)
			}
			if got.Before != dirty || got.Wrong != 0 || got.Left != 0 {
				t.Errorf("found %d before, %d wrong, %d left; want %d, 0, 0", got.Before, got.Wrong, got.Left, dirty)
			}
			if i := slices.IndexFunc(m.words, func(w uint64) bool { return w != 0 }); i >= 0 {
				t.Errorf("word %d is left as %x", i, m.words[i])
			}
			want := []wipe.Step{wipe.Check, wipe.Allocate, wipe.Survey, wipe.FillStep, wipe.Verify, wipe.Zero, wipe.VerifyZero}
			if d := cmp.Diff(want, steps); d != "" {
				t.Errorf("steps (-want +got):\n%s", d)
			}
		})
	}
}

func TestMemoryThatDoesNotHoldIsFaulty(t *testing.T) {
	m := newMemory(4)
	m.stuckAt = len(m.words) - 1
	m.words[m.stuckAt] = 1
	run := wipe.Run{Device: m, Pattern: pattern, Idle: idle}
	got, err := run.Do(t.Context())
	var faulty *wipe.FaultyMemoryError
	if !errors.As(err, &faulty) || faulty.Wrong != 1 || faulty.Left != 1 || got.Before != 1 {
		t.Fatalf("err %v, before %d: want one faulty word", err, got.Before)
	}
}

func TestACheckThatFindsNothingIsNotBelieved(t *testing.T) {
	m := newMemory(4)
	m.blind = true
	run := wipe.Run{Device: m, Pattern: pattern, Idle: idle}
	_, err := run.Do(t.Context())
	var broken *wipe.BrokenCheckError
	if !errors.As(err, &broken) || broken.Counted != 0 || broken.Expected != wipe.Granule/wipe.WordBytes {
		t.Fatalf("err %v: want a broken check", err)
	}
}

func TestSomebodyElseStopsTheRun(t *testing.T) {
	busy := errors.New("busy")
	for name, c := range map[string]struct{ busyAt, passes int }{"after allocation": {1, 0}, "in the end": {2, 5}} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			run := wipe.Run{Device: newMemory(4), Pattern: pattern, Idle: func() error {
				if asked++; asked == c.busyAt {
					return busy
				}
				return nil
			}}
			got, err := run.Do(t.Context())
			if !errors.Is(err, busy) || len(got.Passes) != c.passes {
				t.Fatalf("err %v after %d passes, want busy after %d", err, len(got.Passes), c.passes)
			}
		})
	}
}

func TestAnInterruptStopsBetweenSteps(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := newMemory(4)
	m.onFill = cancel
	run := wipe.Run{Device: m, Pattern: pattern, Idle: idle}
	got, err := run.Do(ctx)
	if !errors.Is(err, context.Canceled) || got.Left != 0 || len(got.Passes) != 0 {
		t.Fatalf("err %v after %d passes", err, len(got.Passes))
	}
}

func TestErrorsOfTheDeviceEndTheRun(t *testing.T) {
	lost := errors.New("lost")
	for name, breakIt := range map[string]func(*memory){
		"alloc": func(m *memory) { m.allocErr = lost },
		"fill":  func(m *memory) { m.fillErr = lost },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(4)
			breakIt(m)
			run := wipe.Run{Device: m, Pattern: pattern, Idle: idle}
			if _, err := run.Do(t.Context()); !errors.Is(err, lost) {
				t.Fatalf("err %v, want lost", err)
			}
		})
	}
}
