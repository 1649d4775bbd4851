// Package wipe overwrites all memory of a GPU that can be allocated, reads it
// back on the GPU, and leaves zeros. It knows the procedure; how a GPU is
// reached is behind an interface.
package wipe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// WordBytes is the size of a word: the unit in which differences are counted.
	WordBytes = 8
	// Granule is the smallest chunk taken, and every chunk is a multiple of it:
	// drivers hand out device memory in pages of this size.
	Granule = 2 << 20
)

// Pattern says what is written: the word at address a is a*Multiply + Add.
type Pattern struct{ Multiply, Add uint64 }

// Zeros is the pattern that the memory is left with.
var Zeros = Pattern{}

// Chunk is a piece of device memory.
type Chunk struct{ Address, Bytes uint64 }

// ErrNoRoom is what Alloc returns when a chunk of that size cannot be had.
var ErrNoRoom = errors.New("no room on the GPU")

// Device is the memory of one GPU, worked on by the GPU itself.
type Device interface {
	Total() uint64
	Free() (uint64, error)
	Alloc(bytes uint64) (Chunk, error)
	// Fill writes the pattern and returns the time that took on the GPU.
	Fill(chunks []Chunk, p Pattern) (time.Duration, error)
	// Count returns how many words differ from the pattern.
	Count(chunks []Chunk, p Pattern) (uint64, time.Duration, error)
}

// Step names a part of the procedure.
type Step string

// The steps, in their order.
const (
	Check      Step = "check"
	Allocate   Step = "allocate"
	Survey     Step = "survey"
	FillStep   Step = "fill"
	Verify     Step = "verify"
	Zero       Step = "zero"
	VerifyZero Step = "verify_zero"
)

// Pass is one step over all memory taken.
type Pass struct {
	Step  Step
	Bytes uint64
	Took  time.Duration // on the GPU
	Words uint64        // that differed
}

// Result is what one run did, also when it failed on the way.
type Result struct {
	Total, Covered uint64
	Chunks         int
	// Before counts the words that were not zero when they were taken.
	Before uint64
	// Wrong counts the words that did not read back as written.
	Wrong uint64
	// Left counts the words that were not zero in the end.
	Left   uint64
	Passes []Pass
}

// FaultyMemoryError says that the memory does not hold what is written to it.
type FaultyMemoryError struct{ Wrong, Left uint64 }

func (e *FaultyMemoryError) Error() string {
	return fmt.Sprintf("%d words did not read back as written and %d were not zero in the end", e.Wrong, e.Left)
}

// BrokenCheckError says that the GPU counts differences wrongly, so that its
// count proves nothing.
type BrokenCheckError struct{ Counted, Expected uint64 }

func (e *BrokenCheckError) Error() string {
	return fmt.Sprintf("the check counted %d differing words where there are %d", e.Counted, e.Expected)
}

// Run is one procedure on one GPU.
type Run struct {
	Device  Device
	Pattern Pattern
	// Idle fails when somebody else uses the GPU. It is asked once all memory is
	// taken and again in the end: until then memory may have been missed.
	Idle     func() error
	Progress func(Pass)

	result Result
	chunks []Chunk
}

// Do runs the procedure. The result is valid up to the step that failed.
func (r *Run) Do(ctx context.Context) (Result, error) {
	r.result = Result{Total: r.Device.Total()}
	for _, step := range []func() error{
		r.proveCheck,
		r.allocate,
		r.Idle,
		func() error { return r.count(Survey, r.chunks[1:], Zeros, &r.result.Before) },
		func() error { return r.fill(FillStep, r.Pattern) },
		func() error { return r.count(Verify, r.chunks, r.Pattern, &r.result.Wrong) },
		func() error { return r.fill(Zero, Zeros) },
		func() error { return r.count(VerifyZero, r.chunks, Zeros, &r.result.Left) },
		r.Idle,
	} {
		if err := ctx.Err(); err != nil {
			return r.result, fmt.Errorf("scrub interrupted: %w", err)
		}
		if err := step(); err != nil {
			return r.result, err
		}
	}
	if r.result.Wrong != 0 || r.result.Left != 0 {
		return r.result, &FaultyMemoryError{Wrong: r.result.Wrong, Left: r.result.Left}
	}
	return r.result, nil
}

// proveCheck takes the first chunk and shows on it that the check finds
// differences: a check that cannot fail would call any memory clean. It also
// has the driver load the kernels while there is room for them.
func (r *Run) proveCheck() error {
	first, err := r.Device.Alloc(Granule)
	if err != nil {
		return fmt.Errorf("allocate first chunk: %w", err)
	}
	r.take(first)
	one := []Chunk{first}
	before, _, err := r.Device.Count(one, Zeros)
	if err != nil {
		return fmt.Errorf("survey first chunk: %w", err)
	}
	r.result.Before = before
	if _, err := r.Device.Fill(one, r.Pattern); err != nil {
		return fmt.Errorf("fill first chunk: %w", err)
	}
	other := Pattern{Multiply: r.Pattern.Multiply, Add: r.Pattern.Add + 1}
	for _, c := range []struct {
		against  Pattern
		expected uint64
	}{{r.Pattern, 0}, {other, first.Bytes / WordBytes}} {
		counted, _, err := r.Device.Count(one, c.against)
		if err != nil {
			return fmt.Errorf("check first chunk: %w", err)
		}
		if counted != c.expected {
			return &BrokenCheckError{Counted: counted, Expected: c.expected}
		}
	}
	r.report(Pass{Step: Check, Bytes: first.Bytes})
	return nil
}

// allocate takes all memory: as much at once as can be had, then ever smaller
// chunks for what is left between.
func (r *Run) allocate() error {
	free, err := r.Device.Free()
	if err != nil {
		return fmt.Errorf("read free memory: %w", err)
	}
	for size := free - free%Granule; size >= Granule; {
		chunk, err := r.Device.Alloc(size)
		switch {
		case err == nil:
			r.take(chunk)
		case errors.Is(err, ErrNoRoom):
			size = size / 2 / Granule * Granule
		default:
			return fmt.Errorf("allocate %d bytes: %w", size, err)
		}
	}
	r.report(Pass{Step: Allocate, Bytes: r.result.Covered})
	return nil
}

func (r *Run) take(c Chunk) {
	r.chunks = append(r.chunks, c)
	r.result.Chunks++
	r.result.Covered += c.Bytes
}

func (r *Run) fill(step Step, p Pattern) error {
	took, err := r.Device.Fill(r.chunks, p)
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	r.pass(Pass{Step: step, Bytes: size(r.chunks), Took: took})
	return nil
}

func (r *Run) count(step Step, chunks []Chunk, p Pattern, into *uint64) error {
	words, took, err := r.Device.Count(chunks, p)
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	*into += words
	r.pass(Pass{Step: step, Bytes: size(chunks), Took: took, Words: words})
	return nil
}

func (r *Run) pass(p Pass) {
	r.result.Passes = append(r.result.Passes, p)
	r.report(p)
}

func (r *Run) report(p Pass) {
	if r.Progress != nil {
		r.Progress(p)
	}
}

func size(chunks []Chunk) uint64 {
	var n uint64
	for _, c := range chunks {
		n += c.Bytes
	}
	return n
}
