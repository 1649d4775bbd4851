package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
	"gpuaas/cmd/gpuaas-gpu/internal/wipe"
)

// idleMemory is how much memory of an idle GPU may be in use. It does not
// include the driver's own memory, and the smallest context uses more.
const idleMemory = 64 << 20

// session is a context on one GPU.
type session interface {
	wipe.Device
	Close() error
}

// scrubber overwrites the memory of the GPUs of a host, all at the same time.
type scrubber struct {
	host host
	open func(vendor string, g gpu) (session, error)
	self int // the process id of this program
	now  func() time.Time
	emit func(line any)
	// grace is how long a GPU may take to stop after an interrupt: a driver
	// that hangs cannot be interrupted at all.
	grace time.Duration
}

// scrub scrubs the GPUs with these UUIDs, or all of them.
func (s scrubber) scrub(ctx context.Context, uuids []string) scrubReport {
	begun := s.now()
	seen := s.host.inspect()
	out := scrubReport{
		Type: "result", Vendor: seen.Vendor, Driver: seen.Driver, Outcome: outcomeScrubbed, GPUs: []scrubbedGPU{},
		Notes: seen.Notes,
	}
	wanted, refused := choose(seen, uuids)
	out.GPUs = append(s.all(ctx, seen.Vendor, wanted), refused...)
	switch {
	case len(out.GPUs) == 0:
		out.Outcome = outcomeNotApplicable
	case slices.ContainsFunc(out.GPUs, func(g scrubbedGPU) bool { return g.Error != nil }):
		out.Outcome = outcomeFailed
	}
	out.DurationMS = milliseconds(s.now().Sub(begun))
	return out
}

// choose separates the requested GPUs into those to scrub and those that cannot
// be scrubbed.
func choose(seen report, uuids []string) (wanted []gpu, refused []scrubbedGPU) {
	if len(uuids) == 0 {
		for _, pci := range seen.Unreachable {
			refused = append(refused, failed(started(gpu{UUID: pci}), codeUnreachable, "no driver answers for this GPU"))
		}
		return seen.GPUs, refused
	}
	for _, uuid := range uuids {
		i := slices.IndexFunc(seen.GPUs, func(g gpu) bool { return g.UUID == uuid })
		if i < 0 {
			refused = append(refused, failed(started(gpu{UUID: uuid}), codeNotFound, "no GPU of this UUID answers on this host"))
			continue
		}
		wanted = append(wanted, seen.GPUs[i])
	}
	return wanted, refused
}

// all scrubs the GPUs side by side and keeps their order. A GPU that is not
// finished when the grace after an interrupt is over counts as failed.
func (s scrubber) all(ctx context.Context, vendor string, gpus []gpu) []scrubbedGPU {
	results := make([]scrubbedGPU, len(gpus))
	for i, g := range gpus {
		results[i] = failed(started(g), codeInterrupted, "the driver did not answer in time after the interrupt")
	}
	var mu sync.Mutex
	var working sync.WaitGroup
	for i, g := range gpus {
		working.Go(func() {
			r := s.one(ctx, vendor, g)
			mu.Lock()
			defer mu.Unlock()
			results[i] = r
		})
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(s.grace):
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(results)
}

func started(g gpu) scrubbedGPU {
	return scrubbedGPU{UUID: g.UUID, Name: g.Name, BytesTotal: g.MemoryTotal, Passes: []pass{}}
}

// undivide says how a GPU becomes whole again.
var undivide = map[string]string{
	vendorNVIDIA: "the GPU is divided into instances: disable MIG first",
	vendorAMD:    "the GPU is divided into instances: set its compute partition to SPX first",
}

// one scrubs one GPU.
func (s scrubber) one(ctx context.Context, vendor string, g gpu) scrubbedGPU {
	out, begun := started(g), s.now()
	if g.MIG {
		return failed(out, codeMIG, undivide[vendor])
	}
	result, err := s.wipe(ctx, vendor, g)
	out.Method, out.WordBytes = methodOverwrite, wipe.WordBytes
	if result.Total != 0 {
		out.BytesTotal = result.Total
	}
	out.BytesCovered, out.Chunks = result.Covered, result.Chunks
	out.WordsBefore, out.WordsMismatched, out.WordsNonzero = result.Before, result.Wrong, result.Left
	for _, p := range result.Passes {
		out.Passes = append(out.Passes, pass{
			Name: string(p.Step), Bytes: p.Bytes, DeviceMS: milliseconds(p.Took), Rate: rate(p), Words: p.Words,
		})
	}
	out.DurationMS = milliseconds(s.now().Sub(begun))
	if err != nil {
		out.Error = classify(err)
	}
	return out
}

func (s scrubber) wipe(ctx context.Context, vendor string, g gpu) (result wipe.Result, err error) {
	if err := s.idle(vendor, g); err != nil {
		return wipe.Result{}, err
	}
	if g.usedIsExact && g.MemoryUsed > idleMemory {
		return wipe.Result{}, &inUseError{used: g.MemoryUsed}
	}
	device, err := s.open(vendor, g)
	if err != nil {
		return wipe.Result{}, fmt.Errorf("open GPU: %w", err)
	}
	defer func() {
		if closing := device.Close(); closing != nil && err == nil {
			err = fmt.Errorf("close GPU: %w", closing)
		}
	}()
	run := wipe.Run{
		Device: device, Pattern: randomPattern(), Idle: func() error { return s.idle(vendor, g) },
		Progress: func(p wipe.Pass) {
			s.emit(phase{
				Type: "phase", UUID: g.UUID, Phase: string(p.Step), Bytes: p.Bytes, DeviceMS: milliseconds(p.Took),
				Words: p.Words,
			})
		},
	}
	return run.Do(ctx)
}

// inUseError says who keeps the GPU from being scrubbed.
type inUseError struct {
	pids []int
	used uint64
}

func (e *inUseError) Error() string {
	if len(e.pids) == 0 {
		return fmt.Sprintf("%d bytes of the GPU are in use by a process that the driver does not show", e.used)
	}
	return fmt.Sprintf("other processes use the GPU: %v", e.pids)
}

// idle fails when a process other than this one uses the GPU.
func (s scrubber) idle(vendor string, g gpu) error {
	users, err := s.host.users(vendor, g)
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	var others []int
	for _, pid := range users {
		if pid != s.self && !slices.Contains(others, pid) {
			others = append(others, pid)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		return &inUseError{pids: others}
	}
	return nil
}

// randomPattern is new in every run, so that the pattern of an earlier run is
// not taken for this one's.
func randomPattern() wipe.Pattern {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return wipe.Pattern{Multiply: binary.NativeEndian.Uint64(b[:8]) | 1, Add: binary.NativeEndian.Uint64(b[8:])}
}

func failed(g scrubbedGPU, code, message string) scrubbedGPU {
	g.Error = &failure{Code: code, Message: message}
	return g
}

func classify(err error) *failure {
	f := &failure{Code: codeDriver, Message: err.Error()}
	var (
		inUse  *inUseError
		faulty *wipe.FaultyMemoryError
		broken *wipe.BrokenCheckError
	)
	switch {
	case errors.As(err, &inUse):
		f.Code, f.PIDs = codeInUse, inUse.pids
	case errors.As(err, &faulty):
		f.Code = codeFaulty
	case errors.As(err, &broken):
		f.Code = codeCheck
	case errors.Is(err, dl.ErrNoLibrary):
		f.Code = codeUnsupported
	case errors.Is(err, context.Canceled):
		f.Code = codeInterrupted
	}
	return f
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

func rate(p wipe.Pass) float64 {
	if p.Took <= 0 {
		return 0
	}
	return float64(p.Bytes) / p.Took.Seconds()
}
