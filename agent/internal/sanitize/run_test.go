package sanitize

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gpuaas/contract/agentwire"
)

const diskSize = 6*mebi + 3*sector // a last block that is not whole

func TestARealDeviceIsErasedAndVerified(t *testing.T) {
	t.Parallel()
	for name, methods := range map[string][]Method{
		"zero out": {ZeroOut}, "overwrite": {Overwrite}, "discard": {Discard},
		"no secure discard": {SecureDiscard, ZeroOut},
	} {
		t.Run(name, func(t *testing.T) {
			d := newLoop(t, diskSize).open(t)
			rec := sanitized(t, d, only(methods...))
			e := rec.Evidence
			last := methods[len(methods)-1]
			want := agentwire.DeviceSanitized{
				SizeBytes: diskSize, Method: string(last), Level: agentwire.LevelClear, Outcome: agentwire.OutcomeSanitized,
				Reason: e.Reason, BytesCovered: diskSize,
				CanariesPlanted: canaryCount, SamplesRead: 7, SampleBytes: diskSize, VerifiedBy: agentwire.VerifiedByZeroes,
				Verified: true, StartedAt: noon, EndedAt: noon,
			}
			if e != want {
				t.Errorf("evidence\n%+v, want\n%+v", e, want)
			}
			if len(methods) > 1 {
				has(t, e.Reason, "secure_discard", "not supported")
			}
			if n := d.nonzero(t); n != 0 {
				t.Errorf("%d bytes are left", n)
			}
		})
	}
}

func TestALargeDeviceIsSampled(t *testing.T) {
	t.Parallel()
	d := newLoop(t, 64*mebi).open(t)
	var l ledger
	rec, opts := l.record(t, only(ZeroOut)), l.options()
	opts.FullRead = mebi
	if err := Run(t.Context(), d, rec, opts); err != nil {
		t.Fatal(err)
	}
	if e := rec.Evidence; !e.Verified || e.SamplesRead != sampleCount+2 || e.SampleBytes < sampleCount*block {
		t.Errorf("evidence %+v", e)
	}
}

func TestCanariesAreSpreadAndReachBothEnds(t *testing.T) {
	for _, size := range []int64{smallest, diskSize, 1 << 40} {
		seed := make([]byte, 32)
		randomBytes(seed)
		places := canaryPlaces(seed, size)
		if len(places) != canaryCount || places[0] >= mebi || places[len(places)-1] < size-mebi-block ||
			places[len(places)-1]+block > size {
			t.Errorf("%d: %v", size, places)
		}
		for i, p := range places {
			if p%block != 0 || p < 0 || p+block > size {
				t.Errorf("%d: place %d is %d", size, i, p)
			}
		}
		if !slices.IsSorted(places) || len(slices.Compact(places)) != canaryCount {
			t.Errorf("%d: not spread: %v", size, places)
		}
	}
}

// liar claims that it erased itself, and did not.
type liar struct{ *loop }

func (liar) Zero(int64, int64) error          { return nil }
func (liar) Discard(int64, int64, bool) error { return nil }

// halfLiar erases all but one place.
type halfLiar struct{ *loop }

func (h halfLiar) Zero(at, n int64) error {
	if err := h.loop.Zero(at, 4*mebi); err != nil {
		return err
	}
	return h.loop.Zero(4*mebi+sector, n-4*mebi-sector)
}

func TestADeviceThatLiesFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lie     func(*loop) Device
		methods []Method
		found   []int // how many canaries may be found
	}{
		"zero out":       {func(l *loop) Device { return liar{l} }, []Method{ZeroOut, Overwrite}, []int{canaryCount}},
		"secure discard": {func(l *loop) Device { return liar{l} }, []Method{SecureDiscard, ZeroOut}, []int{canaryCount}},
		// Canaries are where chance puts them: one of them may be in that sector.
		"one sector": {func(l *loop) Device { return halfLiar{l} }, []Method{ZeroOut}, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newLoop(t, diskSize).open(t)
			rec := sanitized(t, c.lie(d), only(c.methods...))
			e := rec.Evidence
			if e.Outcome != agentwire.OutcomeFailed || e.Verified || e.VerifiedBy != agentwire.VerifiedByNothing ||
				e.SamplesUnclean == 0 || !slices.Contains(c.found, e.CanariesFound) {
				t.Errorf("evidence %+v", e)
			}
			if e.Method != string(c.methods[0]) {
				t.Errorf("after a lie it went on with %s", e.Method)
			}
			has(t, e.Reason, "not erased")
		})
	}
}

// A real device that returns everything after it was erased: the data is
// restored behind its back.
func TestARealDeviceThatKeepsItsDataFails(t *testing.T) {
	t.Parallel()
	d := newLoop(t, diskSize).open(t)
	var kept []byte
	var l ledger
	rec, opts := l.record(t, only(Overwrite)), l.options()
	opts.Progress = func(phase string, percent int) {
		var err error
		switch {
		case phase == "erase" && kept == nil:
			kept, err = os.ReadFile(d.Backing)
		case phase == "verify" && percent == 0:
			err = os.WriteFile(d.Backing, kept, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := Run(t.Context(), d, rec, opts); err != nil {
		t.Fatal(err)
	}
	if e := rec.Evidence; e.Outcome != agentwire.OutcomeFailed || e.Verified || e.CanariesFound != canaryCount ||
		e.SamplesUnclean != e.SamplesRead {
		t.Errorf("evidence %+v", e)
	}
}

// dropper loses what is written.
type dropper struct{ *loop }

func (dropper) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// broken cannot be read any more once it was erased.
type broken struct {
	*loop
	erased *bool
}

func (b broken) Zero(at, n int64) error { *b.erased = true; return b.loop.Zero(at, n) }

func (b broken) ReadAt(p []byte, at int64) (int, error) {
	if *b.erased && at <= 2*mebi && at+int64(len(p)) > 2*mebi {
		return 0, unix.EIO
	}
	return b.loop.ReadAt(p, at)
}

func TestWhatCannotBeShownIsNotVerified(t *testing.T) {
	t.Parallel()
	d := newLoop(t, diskSize).open(t)
	e := sanitized(t, dropper{d}, only(ZeroOut)).Evidence
	if e.Outcome != agentwire.OutcomeFailed || e.CanariesPlanted != 0 || e.Method != "" || e.BytesCovered != 0 {
		t.Errorf("evidence %+v", e)
	}
	has(t, e.Reason, "did not come back")
	e = sanitized(t, broken{d, new(bool)}, only(ZeroOut)).Evidence
	if e.Outcome != agentwire.OutcomeFailed || e.SamplesUnclean != 1 {
		t.Errorf("evidence %+v", e)
	}
	has(t, e.Reason, "cannot be read")
}

func TestWithoutAMethodThatWorksItFails(t *testing.T) {
	t.Parallel()
	d := newLoop(t, diskSize).open(t)
	e := sanitized(t, d, only(SecureDiscard)).Evidence
	if e.Outcome != agentwire.OutcomeFailed || e.Method != "" || e.Level != "" || e.BytesCovered != 0 {
		t.Errorf("evidence %+v", e)
	}
	has(t, e.Reason, "secure_discard", "no method")
}

// counter counts what is written before the device is erased.
type counter struct {
	*loop
	writes *int
}

func (c counter) WriteAt(p []byte, at int64) (int, error) {
	*c.writes++
	return c.loop.WriteAt(p, at)
}

// The process is killed at every point where it stores something. The
// repetition ends the same, and plants canaries only if there are none yet.
func TestARepetitionGoesOn(t *testing.T) {
	t.Parallel()
	for failAt := 1; failAt <= 5; failAt++ {
		d := newLoop(t, diskSize).open(t)
		writes := 0
		l := &ledger{failAt: failAt}
		plan := only(SecureDiscard, ZeroOut)
		err := Run(t.Context(), counter{d, &writes}, l.record(t, plan), l.options())
		if !errors.Is(err, errKilled) {
			t.Fatalf("killed at save %d: %v after %d", failAt, err, l.saves)
		}
		l.failAt = 0
		before := l.record(t, plan)
		writes = 0
		rec := l.record(t, plan)
		if err := Run(t.Context(), counter{d, &writes}, rec, l.options()); err != nil {
			t.Fatal(err)
		}
		if !rec.Evidence.Verified || rec.Evidence.CanariesPlanted != canaryCount {
			t.Errorf("killed at save %d: %+v", failAt, rec.Evidence)
		}
		if planted := before.Stage != StageNew; planted && (writes > 0 || offsets(before) != offsets(rec)) || !planted &&
			writes != canaryCount {
			t.Errorf("killed at save %d, in stage %q: %d writes", failAt, before.Stage, writes)
		}
		// After it is judged nothing more is done.
		again := l.record(t, plan)
		if err := Run(t.Context(), nil, again, l.options()); err != nil || again.Evidence != rec.Evidence {
			t.Errorf("%+v, %v", again.Evidence, err)
		}
	}
}

func TestItCanBeStopped(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"erase", "verify"} {
		d := newLoop(t, diskSize).open(t)
		ctx, cancel := context.WithCancel(t.Context())
		var l ledger
		rec, opts := l.record(t, only(Overwrite)), l.options()
		opts.Progress = func(at string, _ int) {
			if at == phase {
				cancel()
			}
		}
		if err := Run(ctx, d, rec, opts); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped in %s: %v", phase, err)
		}
		if rec = l.record(t, Plan{}); rec.Stage == StageJudged {
			t.Errorf("stopped in %s, and judged", phase)
		}
		if err := Run(t.Context(), d, rec, l.options()); err != nil || !rec.Evidence.Verified {
			t.Errorf("after it was stopped in %s: %v, %+v", phase, err, rec.Evidence)
		}
	}
}

func TestTheRecordHoldsNoContent(t *testing.T) {
	t.Parallel()
	d := newLoop(t, diskSize).open(t)
	l := &ledger{failAt: 2}
	if err := Run(t.Context(), d, l.record(t, only(ZeroOut)), l.options()); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(d.Backing)
	if err != nil {
		t.Fatal(err)
	}
	rec := l.record(t, Plan{})
	for _, c := range rec.Canaries {
		if !c.survived(raw[c.Offset : c.Offset+block]) {
			t.Fatalf("no canary at %d", c.Offset)
		}
		for i := 0; i < len(c.Sectors); i += mark {
			if bytes.Contains(raw, c.Sectors[i:i+mark]) {
				t.Error("a mark is content of the disk")
			}
		}
	}
	if len(l.saved) > 64<<10 {
		t.Errorf("a record of %d bytes is much for the journal", len(l.saved))
	}
	t.Logf("a record has %d bytes", len(l.saved))
}
