package hip

import (
	_ "embed" // the kernels
	"errors"
	"fmt"
	"runtime"
	"time"

	"gpuaas/cmd/gpuaas-gpu/internal/wipe"
)

//go:embed kernels.hip
var kernels string

const (
	threads = 256
	// blocks are enough to keep all 304 compute units of an MI300X busy. The
	// number of threads of a launch must stay below 1<<32.
	blocks = 8192
)

// Session is the work on one GPU. All its calls come from one goroutine, which
// stays on its thread: the library remembers the GPU for each thread.
type Session struct {
	lib         *Library
	module      uintptr
	fill, count uintptr
	differing   uint64
	start, stop uintptr
	total       uint64
	taken       []uint64
}

var _ wipe.Device = (*Session)(nil)

// Session begins to work on the GPU at that PCI address, and loads the kernels
// for its architecture. Close ends it, and with it every allocation.
func (l *Library) Session(pci, architecture string) (_ *Session, err error) {
	if architecture == "" {
		return nil, fmt.Errorf("find %s: the compute driver does not know this GPU", pci)
	}
	var device int32
	if err := check("hipDeviceGetByPCIBusId", l.deviceByPCI(&device, pci)); err != nil {
		return nil, fmt.Errorf("find %s: %w", pci, err)
	}
	s := &Session{lib: l}
	if err := check("hipDeviceTotalMem", l.deviceTotal(&s.total, device)); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	if err := check("hipSetDevice", l.setDevice(device)); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	if err := s.load(architecture); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Session) load(architecture string) error {
	code, err := s.lib.compile(architecture)
	if err != nil {
		return err
	}
	if err := check("hipModuleLoadData", s.lib.moduleLoad(&s.module, &code[0])); err != nil {
		return err
	}
	runtime.KeepAlive(code)
	return errors.Join(
		check("hipModuleGetFunction", s.lib.moduleFunction(&s.fill, s.module, "fill")),
		check("hipModuleGetFunction", s.lib.moduleFunction(&s.count, s.module, "count")),
		check("hipMalloc", s.lib.memAlloc(&s.differing, wipe.WordBytes)),
		check("hipEventCreate", s.lib.eventCreate(&s.start)),
		check("hipEventCreate", s.lib.eventCreate(&s.stop)),
	)
}

// Close frees the memory and forgets the kernels.
func (s *Session) Close() error {
	defer runtime.UnlockOSThread()
	var failed []error
	if s.differing != 0 {
		s.taken = append(s.taken, s.differing)
	}
	for _, address := range s.taken {
		failed = append(failed, check("hipFree", s.lib.memFree(address)))
	}
	if s.module != 0 {
		failed = append(failed, check("hipModuleUnload", s.lib.moduleUnload(s.module)))
	}
	return errors.Join(failed...)
}

// Total is the memory that the driver offers to programs.
func (s *Session) Total() uint64 { return s.total }

// Free is the part of it that nobody has.
func (s *Session) Free() (uint64, error) {
	var free, total uint64
	err := check("hipMemGetInfo", s.lib.memoryInfo(&free, &total))
	return free, err
}

// Alloc takes a chunk.
func (s *Session) Alloc(bytes uint64) (wipe.Chunk, error) {
	c := wipe.Chunk{Bytes: bytes}
	code := s.lib.memAlloc(&c.Address, bytes)
	if code == outOfMemory {
		return wipe.Chunk{}, wipe.ErrNoRoom
	}
	if err := check("hipMalloc", code); err != nil {
		return wipe.Chunk{}, err
	}
	s.taken = append(s.taken, c.Address)
	return c, nil
}

// Fill writes the pattern.
func (s *Session) Fill(chunks []wipe.Chunk, p wipe.Pattern) (time.Duration, error) {
	return s.timed(s.fill, chunks, p)
}

// Count counts the words that differ from the pattern.
func (s *Session) Count(chunks []wipe.Chunk, p wipe.Pattern) (uint64, time.Duration, error) {
	if err := check("hipMemset", s.lib.memSet(s.differing, 0, wipe.WordBytes)); err != nil {
		return 0, 0, err
	}
	took, err := s.timed(s.count, chunks, p)
	if err != nil {
		return 0, 0, err
	}
	var words uint64
	err = check("hipMemcpyDtoH", s.lib.copyToHost(&words, s.differing, wipe.WordBytes))
	return words, took, err
}

// timed runs a kernel over the chunks and returns the time by the GPU's clock.
func (s *Session) timed(kernel uintptr, chunks []wipe.Chunk, p wipe.Pattern) (time.Duration, error) {
	if err := check("hipEventRecord", s.lib.eventRecord(s.start, 0)); err != nil {
		return 0, err
	}
	for _, c := range chunks {
		if err := s.launch(kernel, c, p); err != nil {
			return 0, err
		}
	}
	if err := check("hipEventRecord", s.lib.eventRecord(s.stop, 0)); err != nil {
		return 0, err
	}
	if err := check("hipEventSynchronize", s.lib.eventWait(s.stop)); err != nil {
		return 0, err
	}
	var ms float32
	if err := check("hipEventElapsedTime", s.lib.eventElapsed(&ms, s.start, s.stop)); err != nil {
		return 0, err
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

func (s *Session) launch(kernel uintptr, c wipe.Chunk, p wipe.Pattern) error {
	begin, end := c.Address, c.Address+c.Bytes
	// The library copies the values before it returns.
	parameters := &kernelParameters{
		begin: &begin, end: &end, multiply: &p.Multiply, add: &p.Add, differing: &s.differing,
	}
	code := s.lib.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, 0, parameters, 0)
	runtime.KeepAlive(parameters)
	return check("hipModuleLaunchKernel", code)
}
