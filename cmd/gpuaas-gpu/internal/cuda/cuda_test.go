package cuda

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuaas/cmd/gpuaas-gpu/internal/wipe"
)

type launched struct {
	kernel               uintptr
	blocks, threads      uint32
	begin, end, mul, add uint64
}

// fake answers like a driver with one GPU of 4 multiprocessors.
func fake(launches *[]launched) *Library {
	ok := func(uintptr) int32 { return 0 }
	return &Library{
		deviceCount:    func(n *int32) int32 { *n = 2; return 0 },
		deviceGet:      func(d *int32, i int32) int32 { *d = i; return 0 },
		deviceUUID:     func(id *[16]byte, d int32) int32 { id[15] = byte(d); return 0 },
		deviceTotal:    func(n *uint64, _ int32) int32 { *n = 1 << 30; return 0 },
		attribute:      func(v *int32, _, _ int32) int32 { *v = 4; return 0 },
		contextCreate:  func(c *uintptr, _ uint32, _ int32) int32 { *c = 9; return 0 },
		contextDestroy: ok,
		moduleLoad:     func(m *uintptr, _ string, _ uint32, _ *jitOptions, _ *jitValues) int32 { *m = 3; return 0 },
		moduleFunction: func(f *uintptr, _ uintptr, name string) int32 { *f = uintptr(len(name)); return 0 },
		moduleGlobal:   func(a, n *uint64, _ uintptr, _ string) int32 { *a, *n = 77, 8; return 0 },
		memoryInfo:     func(free, total *uint64) int32 { *free, *total = 5, 6; return 0 },
		memAlloc: func(a *uint64, n uint64) int32 {
			if n > 1<<20 {
				return outOfMemory
			}
			*a = 1 << 20
			return 0
		},
		memSet:     func(uint64, uint8, uint64) int32 { return 0 },
		copyToHost: func(v *uint64, _, _ uint64) int32 { *v = 42; return 0 },
		launch: func(f uintptr, gx, _, _, bx, _, _, _ uint32, _ uintptr, p *kernelParameters, _ uintptr) int32 {
			*launches = append(*launches, launched{f, gx, bx, *p.begin, *p.end, *p.multiply, *p.add})
			return 0
		},
		eventCreate:  func(e *uintptr, _ uint32) int32 { *e = 1; return 0 },
		eventRecord:  func(_, _ uintptr) int32 { return 0 },
		eventWait:    ok,
		eventElapsed: func(ms *float32, _, _ uintptr) int32 { *ms = 1.5; return 0 },
	}
}

const second = "GPU-00000000-0000-0000-0000-000000000001"

func TestKernelsAreLaunchedOverWholeChunks(t *testing.T) {
	var launches []launched
	s, err := fake(&launches).Session(second)
	if err != nil {
		t.Fatal(err)
	}
	chunks := []wipe.Chunk{{Address: 4096, Bytes: 64 << 20}, {Address: 1 << 40, Bytes: 2 << 20}}
	took, err := s.Fill(chunks, wipe.Pattern{Multiply: 3, Add: 4})
	if err != nil || took != 1500*time.Microsecond {
		t.Fatalf("took %v, %v", took, err)
	}
	words, _, err := s.Count(chunks, wipe.Zeros)
	if err != nil || words != 42 {
		t.Fatalf("%d words, %v", words, err)
	}
	want := []launched{
		{s.fill, 4096, 256, 4096, 4096 + 64<<20, 3, 4},
		{s.fill, 128, 256, 1 << 40, 1<<40 + 2<<20, 3, 4},
		{s.count, 4 * countBlocks, 256, 4096, 4096 + 64<<20, 0, 0},
		{s.count, 128, 256, 1 << 40, 1<<40 + 2<<20, 0, 0},
	}
	for i, w := range want {
		if launches[i] != w {
			t.Errorf("launch %d: %+v, want %+v", i, launches[i], w)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestNoRoomIsToldApart(t *testing.T) {
	s, err := fake(nil).Session(second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Alloc(2 << 20); !errors.Is(err, wipe.ErrNoRoom) {
		t.Errorf("err %v", err)
	}
	if c, err := s.Alloc(1 << 20); err != nil || c.Address != 1<<20 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestFailuresOfTheDriver(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(*Library)
		uuid    string
		says    string
	}{
		"no such GPU": {func(*Library) {}, "GPU-x", "none of the 2 GPUs"},
		"fabric": {func(l *Library) {
			l.contextCreate = func(*uintptr, uint32, int32) int32 { return 802 }
		}, second, "fabric manager"},
		"compiler": {func(l *Library) {
			l.moduleLoad = func(_ *uintptr, _ string, _ uint32, _ *jitOptions, v *jitValues) int32 { *v.log = 'X'; return 218 }
		}, second, "cannot compile the kernels (code 218): X"},
		"unknown code": {func(l *Library) {
			l.deviceTotal = func(*uint64, int32) int32 { return 12345 }
		}, second, "code 12345"},
	} {
		t.Run(name, func(t *testing.T) {
			l := fake(nil)
			c.breakIt(l)
			if _, err := l.Session(c.uuid); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("err %v, want %q", err, c.says)
			}
		})
	}
}

// The kernels and the launches must agree on the shape of the work.
func TestTheKernelsHaveTheShapeOfTheLaunches(t *testing.T) {
	if threads*16*4 != tile || wipe.Granule%tile != 0 {
		t.Errorf("%d threads with 4 accesses of 16 bytes do not make tiles of %d", threads, tile)
	}
	for text, times := range map[string]int{
		`, 16384;`: 4, `\.entry (fill|count)\(`: 2, `\.visible \.global \.align 8 \.u64 differing`: 1,
		`st\.global\.v2\.u64`: 4, `ld\.global\.v2\.u64`: 4, `\+12288\]`: 2, `setp\.ne\.u64`: 8,
	} {
		if got := len(regexp.MustCompile(text).FindAllString(kernels, -1)); got != times {
			t.Errorf("the kernels have %q %d times, want %d", text, got, times)
		}
	}
}
