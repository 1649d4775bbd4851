package hip

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unsafe"

	"gpuaas/cmd/gpuaas-gpu/internal/wipe"
)

const (
	mi300x = "0000:85:00.0"
	base   = 1 << 32
	fillF  = 11
	countF = 12
)

// gpu is HIP with one GPU of four granules and a little more. Its memory is
// words, on which the kernels are carried out as they are written.
type gpu struct {
	words     []uint64
	counter   uint64
	free      uint64
	next      uint64
	freed     int
	unloaded  bool
	options   string
	stuck     int // index of a word that never changes; -1: none
	launches  int
	destroyed bool
}

func newGPU() *gpu {
	g := &gpu{words: make([]uint64, 4*wipe.Granule/wipe.WordBytes), free: 4 * wipe.Granule, stuck: -1}
	for i := range g.words {
		g.words[i] = uint64(i % 2) // what a tenant left
	}
	return g
}

// cString reads what a library would: up to the zero byte.
func cString(b *byte) string {
	var out []byte
	for p := unsafe.Pointer(b); *(*byte)(p) != 0; p = unsafe.Add(p, 1) {
		out = append(out, *(*byte)(p))
	}
	return string(out)
}

func (g *gpu) alloc(address *uint64, n uint64) int32 {
	if n == wipe.WordBytes { // the counter, which lies elsewhere
		*address = 8
		return 0
	}
	if n > g.free {
		return outOfMemory
	}
	*address = base + g.next
	g.next, g.free = g.next+n, g.free-n
	return 0
}

func (g *gpu) launch(f uintptr, gx, gy, gz, bx, by, bz, _ uint32, _ uintptr, p *kernelParameters, _ uintptr) int32 {
	g.launches++
	if gx != blocks || bx != threads || gy*gz*by*bz != 1 || *p.differing != 8 {
		return 1
	}
	for at := *p.begin; at < *p.end; at += wipe.WordBytes {
		i, want := int(at-base)/wipe.WordBytes, at**p.multiply+*p.add
		switch {
		case f == fillF && i != g.stuck:
			g.words[i] = want
		case f == countF && g.words[i] != want:
			g.counter++
		}
	}
	return 0
}

func (g *gpu) library() *Library {
	ok := func(uintptr) int32 { return 0 }
	return &Library{
		deviceByPCI: func(d *int32, pci string) int32 {
			if pci != mi300x {
				return 101
			}
			*d = 3
			return 0
		},
		deviceTotal:  func(n *uint64, _ int32) int32 { *n = 4*wipe.Granule + 512; return 0 },
		setDevice:    func(int32) int32 { return 0 },
		moduleLoad:   func(m *uintptr, _ *byte) int32 { *m = 5; return 0 },
		moduleUnload: func(uintptr) int32 { g.unloaded = true; return 0 },
		moduleFunction: func(f *uintptr, _ uintptr, n string) int32 {
			*f = map[string]uintptr{"fill": fillF, "count": countF}[n]
			return 0
		},
		memoryInfo:     func(free, total *uint64) int32 { *free, *total = g.free, 4*wipe.Granule; return 0 },
		memAlloc:       g.alloc,
		memFree:        func(uint64) int32 { g.freed++; return 0 },
		memSet:         func(uint64, int32, uint64) int32 { g.counter = 0; return 0 },
		copyToHost:     func(v *uint64, _, _ uint64) int32 { *v = g.counter; return 0 },
		launch:         g.launch,
		eventCreate:    func(e *uintptr) int32 { *e = 1; return 0 },
		eventRecord:    func(_, _ uintptr) int32 { return 0 },
		eventWait:      ok,
		eventElapsed:   func(ms *float32, _, _ uintptr) int32 { *ms = 1.5; return 0 },
		programCreate:  func(p *uintptr, _, _ string, _ int32, _, _ uintptr) int32 { *p = 2; return 0 },
		programCompile: func(_ uintptr, _ int32, o *compilerOptions) int32 { g.options = cString(o.architecture); return 0 },
		programDestroy: func(*uintptr) int32 { g.destroyed = true; return 0 },
		codeSize:       func(_ uintptr, n *uint64) int32 { *n = 4; return 0 },
		code:           func(uintptr, *byte) int32 { return 0 },
		logSize:        func(_ uintptr, n *uint64) int32 { *n = 1; return 0 },
		log:            func(_ uintptr, b *byte) int32 { *b = 'X'; return 0 },
	}
}

func scrub(t *testing.T, g *gpu) (wipe.Result, error) {
	t.Helper()
	s, err := g.library().Session(mi300x, "gfx942")
	if err != nil {
		t.Fatal(err)
	}
	run := wipe.Run{
		Device: s, Pattern: wipe.Pattern{Multiply: 0x9e3779b97f4a7c15, Add: 7}, Idle: func() error { return nil },
	}
	result, err := run.Do(t.Context())
	if closing := s.Close(); closing != nil {
		t.Error(closing)
	}
	return result, err
}

func TestTheMemoryOfAnMI300XIsOverwrittenAndReadBack(t *testing.T) {
	g := newGPU()
	result, err := scrub(t, g)
	if err != nil {
		t.Fatal(err)
	}
	if result.Covered != 4*wipe.Granule || result.Before != uint64(len(g.words))/2 || result.Wrong+result.Left != 0 {
		t.Errorf("result %+v", result)
	}
	for i, w := range g.words {
		if w != 0 {
			t.Fatalf("word %d is left as %x", i, w)
		}
	}
	if result.Passes[0].Took != 1500*time.Microsecond {
		t.Errorf("took %v", result.Passes[0].Took)
	}
	if g.options != "--offload-arch=gfx942" || !g.destroyed || !g.unloaded || g.freed != result.Chunks+1 {
		t.Errorf("compiled with %q; destroyed %v, unloaded %v, %d chunks freed", g.options, g.destroyed, g.unloaded, g.freed)
	}
}

func TestMemoryOfAnAMDGPUThatDoesNotHoldIsFaulty(t *testing.T) {
	g := newGPU()
	g.stuck = len(g.words) - 1
	_, err := scrub(t, g)
	var faulty *wipe.FaultyMemoryError
	if !errors.As(err, &faulty) || faulty.Wrong != 1 {
		t.Fatalf("err %v", err)
	}
}

func TestFailuresOfHIP(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt           func(*Library)
		pci, architecture string
		says              string
	}{
		"no such GPU":          {pci: "0000:01:00.0", architecture: "gfx942", says: "no such GPU"},
		"unknown to computing": {pci: mi300x, says: "the compute driver does not know this GPU"},
		"compiler": {
			breakIt: func(l *Library) { l.programCompile = func(uintptr, int32, *compilerOptions) int32 { return 6 } },
			pci:     mi300x, architecture: "gfx942", says: "hiprtcCompileProgram: code 6: X",
		},
		"no code": {
			breakIt: func(l *Library) { l.moduleLoad = func(*uintptr, *byte) int32 { return 209 } },
			pci:     mi300x, architecture: "gfx942", says: "no code for this GPU (code 209)",
		},
		"absurd code": {
			breakIt: func(l *Library) { l.codeSize = func(_ uintptr, n *uint64) int32 { *n = 1 << 40; return 0 } },
			pci:     mi300x, architecture: "gfx942", says: "bytes of code",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newGPU().library()
			if c.breakIt != nil {
				c.breakIt(l)
			}
			if _, err := l.Session(c.pci, c.architecture); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("err %v, want %q", err, c.says)
			}
		})
	}
}

func TestAFullGPUIsToldApart(t *testing.T) {
	g := newGPU()
	s, err := g.library().Session(mi300x, "gfx942")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Alloc(5 * wipe.Granule); !errors.Is(err, wipe.ErrNoRoom) {
		t.Errorf("err %v", err)
	}
}

// The kernels and the launches must agree on the parameters.
func TestTheKernelsTakeWhatTheLaunchesGive(t *testing.T) {
	const takes = `__global__ void (fill|count)\(word begin, word end, word multiply, word add, word \*differing\)`
	if got := len(regexp.MustCompile(takes).FindAllString(kernels, -1)); got != 2 {
		t.Errorf("%d kernels take these parameters, want 2", got)
	}
	if uint64(blocks)*threads >= 1<<32 {
		t.Error("more threads than a launch can have")
	}
}
