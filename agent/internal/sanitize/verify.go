package sanitize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"gpuaas/contract/agentwire"
)

const (
	// piece is how much is read at a time.
	piece = mebi
	// fullRead is the size up to which a device that must be zero is read
	// whole.
	fullRead = 16 << 30
	// readers is how many goroutines read at the same time, so that the device
	// works while earlier data is checked.
	readers = 3
)

// finding is what was seen on a device after it was erased.
type finding struct {
	samples, unclean, canaries int
	bytes                      int64
	problem                    string // the first
}

// look reads a device after it was erased.
func (r *run) look(ctx context.Context) (finding, error) {
	f, err := r.lookCanaries()
	if err != nil {
		return f, err
	}
	zeroes := traits[r.method()].zeroes
	var span scan
	switch size := r.dev.Size(); {
	case zeroes && size <= r.opts.fullRead():
		span = scan{places: everywhere(size), length: piece, clean: isZero}
	case zeroes:
		span = scan{places: withEnds(spread(r.rec.Seed, size, sampleCount), size), length: piece, clean: isZero}
	default:
		span = scan{places: spread(r.rec.Seed, size, sampleCount), length: block, clean: r.differs}
	}
	span.progress = func(percent int) { r.report("verify", percent) }
	seen, err := span.run(ctx, r.dev)
	f.samples, f.unclean, f.bytes = seen.samples, seen.unclean, seen.bytes
	if f.problem == "" {
		f.problem = seen.problem
	}
	return f, err
}

func (r *run) lookCanaries() (f finding, err error) {
	p, free, err := buffer(block)
	if err != nil {
		return f, err
	}
	defer free()
	for _, c := range r.rec.Canaries {
		if _, err := r.dev.ReadAt(p, c.Offset); err != nil {
			f.canaries++ // what cannot be read is not proven gone
			f.problem = fmt.Sprintf("the place of a canary at %d cannot be read: %v", c.Offset, err)
			continue
		}
		if c.survived(p) {
			f.canaries++
			f.problem = fmt.Sprintf("a canary at %d is still there", c.Offset)
		}
	}
	return f, nil
}

// differs says whether a sample has changed.
func (r *run) differs(i int, p []byte) bool {
	before := r.rec.Before[i*mark : (i+1)*mark]
	return bytes.Equal(before, make([]byte, mark)) || !bytes.Equal(before, sampleMark(p))
}

var blank [64 << 10]byte

func isZero(_ int, p []byte) bool {
	for len(p) > 0 {
		n := min(len(p), len(blank))
		if !bytes.Equal(p[:n], blank[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}

func everywhere(size int64) []int64 {
	places := make([]int64, 0, size/piece+1)
	for at := int64(0); at < size; at += piece {
		places = append(places, at)
	}
	return places
}

// withEnds adds the first and the last piece of a device.
func withEnds(places []int64, size int64) []int64 {
	return append(places, 0, (size-piece)/block*block)
}

// scan reads places of a device and judges what is there.
type scan struct {
	places   []int64
	length   int
	clean    func(i int, p []byte) bool
	progress func(percent int)
}

// verdicts collects what the readers saw.
type verdicts struct {
	mu   sync.Mutex
	seen finding
}

func (v *verdicts) add(n int, clean bool, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.samples++
	v.seen.bytes += int64(n)
	if clean {
		return
	}
	v.seen.unclean++
	if v.seen.problem == "" {
		v.seen.problem = fmt.Sprintf(format, args...)
	}
}

func (s scan) run(ctx context.Context, d Device) (finding, error) {
	var (
		next  atomic.Int64
		all   verdicts
		group sync.WaitGroup
		fails = make([]error, readers)
	)
	for k := range readers {
		group.Go(func() { fails[k] = s.reader(ctx, d, &next, &all) })
	}
	group.Wait()
	return all.seen, errors.Join(fails...)
}

func (s scan) reader(ctx context.Context, d Device, next *atomic.Int64, all *verdicts) error {
	p, free, err := buffer(s.length)
	if err != nil {
		return err
	}
	defer free()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		i := int(next.Add(1)) - 1
		if i >= len(s.places) {
			return nil
		}
		at := s.places[i]
		part := p[:min(int64(s.length), d.Size()-at)]
		if n, err := d.ReadAt(part, at); err != nil {
			all.add(n, false, "what is at %d cannot be read: %v", at, err)
		} else {
			all.add(n, s.clean(i, part), "what is at %d is not erased", at)
		}
		if s.progress != nil {
			s.progress((i + 1) * 100 / len(s.places))
		}
	}
}

// judge turns what was seen into evidence.
func (r *run) judge(f finding) {
	e := &r.rec.Evidence
	e.CanariesFound, e.SamplesRead, e.SampleBytes, e.SamplesUnclean = f.canaries, f.samples, f.bytes, f.unclean
	e.VerifiedBy = agentwire.VerifiedByAbsence
	if traits[r.method()].zeroes {
		e.VerifiedBy = agentwire.VerifiedByZeroes
	}
	e.Verified = f.canaries == 0 && f.unclean == 0 && f.samples > 0 && e.CanariesPlanted > 0
	if e.Verified {
		e.Outcome = agentwire.OutcomeSanitized
		return
	}
	e.Outcome, e.VerifiedBy = agentwire.OutcomeFailed, agentwire.VerifiedByNothing
	r.note("%s was carried out, but %d of %d canaries and %d of %d samples are not erased: %s", e.Method, f.canaries,
		e.CanariesPlanted, f.unclean, f.samples, f.problem)
}
