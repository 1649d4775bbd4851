package cuda

import (
	_ "embed" // the kernels
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"gpuaas/cmd/gpuaas-gpu/internal/wipe"
)

//go:embed kernels.ptx
var kernels string

const (
	// threads and tile are what the kernels are written for.
	threads = 256
	tile    = 16 << 10
	// countBlocks is the number of blocks per multiprocessor of a count. A fill
	// is fastest with a block for each tile; a count adds what its threads found
	// with one atomic operation each, and would be slow on dirty memory with so
	// many of them.
	countBlocks = 256

	// maxBlocks is the widest grid that the driver takes.
	maxBlocks = 1<<31 - 1

	jitErrorLog, jitErrorLogSize = 5, 6
)

// Session is a context on one GPU. All its calls come from one goroutine,
// which stays on its thread: a context belongs to a thread.
type Session struct {
	lib         *Library
	context     uintptr
	fill, count uintptr
	differing   uint64
	start, stop uintptr
	total       uint64
	countBlocks uint64
}

var _ wipe.Device = (*Session)(nil)

// Session opens a context on the GPU of that UUID and loads the kernels. Close
// ends it, and with it every allocation.
func (l *Library) Session(uuid string) (_ *Session, err error) {
	device, err := l.find(uuid)
	if err != nil {
		return nil, err
	}
	s := &Session{lib: l}
	var processors int32
	if err := check("cuDeviceGetAttribute", l.attribute(&processors, attributeProcessors, device)); err != nil {
		return nil, err
	}
	s.countBlocks = uint64(processors) * countBlocks //nolint:gosec // a number of multiprocessors: 1 to a few hundred
	if err := check("cuDeviceTotalMem", l.deviceTotal(&s.total, device)); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	if err := check("cuCtxCreate", l.contextCreate(&s.context, waitBlocking, device)); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Session) load() error {
	log := make([]byte, 4096)
	options := &jitOptions{log: jitErrorLog, size: jitErrorLogSize}
	values := &jitValues{log: &log[0], size: uintptr(len(log))}
	var module uintptr
	if err := check("cuModuleLoadDataEx", s.lib.moduleLoad(&module, kernels, 2, options, values)); err != nil {
		text, _, _ := strings.Cut(string(log), "\x00")
		return fmt.Errorf("load kernels: %w: %s", err, strings.Join(strings.Fields(text), " "))
	}
	var bytes uint64
	return errors.Join(
		check("cuModuleGetFunction", s.lib.moduleFunction(&s.fill, module, "fill")),
		check("cuModuleGetFunction", s.lib.moduleFunction(&s.count, module, "count")),
		check("cuModuleGetGlobal", s.lib.moduleGlobal(&s.differing, &bytes, module, "differing")),
		check("cuEventCreate", s.lib.eventCreate(&s.start, 0)),
		check("cuEventCreate", s.lib.eventCreate(&s.stop, 0)),
	)
}

// Close destroys the context, which frees its memory.
func (s *Session) Close() error {
	defer runtime.UnlockOSThread()
	return check("cuCtxDestroy", s.lib.contextDestroy(s.context))
}

// Total is the memory that the driver offers to programs.
func (s *Session) Total() uint64 { return s.total }

// Free is the part of it that nobody has.
func (s *Session) Free() (uint64, error) {
	var free, total uint64
	err := check("cuMemGetInfo", s.lib.memoryInfo(&free, &total))
	return free, err
}

// Alloc takes a chunk.
func (s *Session) Alloc(bytes uint64) (wipe.Chunk, error) {
	c := wipe.Chunk{Bytes: bytes}
	code := s.lib.memAlloc(&c.Address, bytes)
	if code == outOfMemory {
		return wipe.Chunk{}, wipe.ErrNoRoom
	}
	return c, check("cuMemAlloc", code)
}

// Fill writes the pattern.
func (s *Session) Fill(chunks []wipe.Chunk, p wipe.Pattern) (time.Duration, error) {
	return s.timed(s.fill, chunks, p)
}

// Count counts the words that differ from the pattern.
func (s *Session) Count(chunks []wipe.Chunk, p wipe.Pattern) (uint64, time.Duration, error) {
	if err := check("cuMemsetD8", s.lib.memSet(s.differing, 0, wipe.WordBytes)); err != nil {
		return 0, 0, err
	}
	took, err := s.timed(s.count, chunks, p)
	if err != nil {
		return 0, 0, err
	}
	var words uint64
	err = check("cuMemcpyDtoH", s.lib.copyToHost(&words, s.differing, wipe.WordBytes))
	return words, took, err
}

// timed runs a kernel over the chunks and returns the time by the GPU's clock.
func (s *Session) timed(kernel uintptr, chunks []wipe.Chunk, p wipe.Pattern) (time.Duration, error) {
	if err := check("cuEventRecord", s.lib.eventRecord(s.start, 0)); err != nil {
		return 0, err
	}
	for _, c := range chunks {
		if err := s.launch(kernel, c, p); err != nil {
			return 0, err
		}
	}
	var ms float32
	for _, step := range []struct {
		call string
		do   func() int32
	}{
		{"cuEventRecord", func() int32 { return s.lib.eventRecord(s.stop, 0) }},
		{"cuEventSynchronize", func() int32 { return s.lib.eventWait(s.stop) }},
		{"cuEventElapsedTime", func() int32 { return s.lib.eventElapsed(&ms, s.start, s.stop) }},
	} {
		if err := check(step.call, step.do()); err != nil {
			return 0, err
		}
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

func (s *Session) launch(kernel uintptr, c wipe.Chunk, p wipe.Pattern) error {
	begin, end := c.Address, c.Address+c.Bytes
	blocks := c.Bytes / tile
	if kernel == s.count {
		blocks = min(blocks, s.countBlocks)
	}
	// The driver copies the values before it returns.
	parameters := &kernelParameters{begin: &begin, end: &end, multiply: &p.Multiply, add: &p.Add}
	code := s.lib.launch(kernel, uint32(min(blocks, maxBlocks)), 1, 1, threads, 1, 1, 0, 0, parameters, 0)
	runtime.KeepAlive(parameters)
	return check("cuLaunchKernel", code)
}
