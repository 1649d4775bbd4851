package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gpuaas/cmd/gpuaas-gpu/internal/nvml"
	"gpuaas/cmd/gpuaas-gpu/internal/wipe"
)

const self = 100

// card is a GPU's memory of four granules that takes every write.
type card struct {
	mu     sync.Mutex
	taken  int
	closed bool
	last   map[uint64]wipe.Pattern // by chunk
	wrong  uint64                  // reported by every count of more than one chunk
	onFill func()
}

func (c *card) Total() uint64         { return 4 * wipe.Granule }
func (c *card) Free() (uint64, error) { return uint64(4-c.taken) * wipe.Granule, nil }
func (c *card) Close() error          { c.mu.Lock(); defer c.mu.Unlock(); c.closed = true; return nil }

func (c *card) Alloc(bytes uint64) (wipe.Chunk, error) {
	if c.taken+int(bytes/wipe.Granule) > 4 {
		return wipe.Chunk{}, wipe.ErrNoRoom
	}
	c.taken += int(bytes / wipe.Granule)
	return wipe.Chunk{Address: uint64(c.taken) << 32, Bytes: bytes}, nil
}

func (c *card) Fill(chunks []wipe.Chunk, p wipe.Pattern) (time.Duration, error) {
	if c.onFill != nil {
		c.onFill()
	}
	if c.last == nil {
		c.last = map[uint64]wipe.Pattern{}
	}
	for _, k := range chunks {
		c.last[k.Address] = p
	}
	return 2 * time.Millisecond, nil
}

func (c *card) Count(chunks []wipe.Chunk, p wipe.Pattern) (uint64, time.Duration, error) {
	var n uint64
	for _, k := range chunks {
		if c.last[k.Address] != p {
			n += k.Bytes / wipe.WordBytes
		}
	}
	if len(chunks) > 1 {
		n += c.wrong
	}
	return n, time.Millisecond, nil
}

// bench is a host with GPUs GPU-0, GPU-1 and so on.
func bench(d driver, cards map[string]*card) scrubber {
	return scrubber{
		host: host{sys: pci(), nvidia: d}, self: self, now: time.Now, emit: func(any) {}, grace: 0,
		open: func(_ string, g gpu) (session, error) {
			if c := cards[g.UUID]; c != nil {
				return c, nil
			}
			return nil, errors.New("context: code 999")
		},
	}
}

func code(g scrubbedGPU) string {
	if g.Error == nil {
		return ""
	}
	return g.Error.Code
}

func TestScrub(t *testing.T) {
	two := driver{gpus: []nvml.GPU{h200(0), h200(1)}}
	withGPU := func(change func(*nvml.GPU)) driver {
		g := h200(0)
		change(&g)
		return driver{gpus: []nvml.GPU{g}}
	}
	listing := func(after int, pids ...int) driver {
		asked := 0
		return driver{gpus: []nvml.GPU{h200(0)}, processes: func(int) ([]nvml.Process, error) {
			if asked++; asked <= after {
				return nil, nil
			}
			var out []nvml.Process
			for _, pid := range pids {
				out = append(out, nvml.Process{PID: pid})
			}
			return out, nil
		}}
	}
	for _, c := range []struct {
		name    string
		driver  driver
		cards   map[string]*card
		uuids   []string
		outcome string
		codes   []string
	}{
		{"all", two, map[string]*card{"GPU-0": {}, "GPU-1": {}}, nil, "scrubbed", []string{"", ""}},
		{"one of two", two, map[string]*card{"GPU-1": {}}, []string{"GPU-1"}, "scrubbed", []string{""}},
		{"one fails", two, map[string]*card{"GPU-0": {}}, nil, "failed", []string{"", "driver_error"}},
		{
			"unknown beside known", two,
			map[string]*card{"GPU-0": {}},
			[]string{"GPU-9", "GPU-0"},
			"failed",
			[]string{"", "gpu_not_found"},
		},
		{"faulty", two, map[string]*card{"GPU-0": {wrong: 1}, "GPU-1": {}}, nil, "failed", []string{"memory_faulty", ""}},
		{"no GPU", driver{}, nil, nil, "not_applicable", nil},
		{"asked for on a host without", driver{}, nil, []string{"GPU-0"}, "failed", []string{"gpu_not_found"}},
		{"in use before", listing(0, 7, 7, 6), map[string]*card{"GPU-0": {}}, nil, "failed", []string{"gpu_in_use"}},
		{"in use meanwhile", listing(1, self, 7), map[string]*card{"GPU-0": {}}, nil, "failed", []string{"gpu_in_use"}},
		{"in use in the end", listing(2, 7), map[string]*card{"GPU-0": {}}, nil, "failed", []string{"gpu_in_use"}},
		{"only this program", listing(1, self), map[string]*card{"GPU-0": {}}, nil, "scrubbed", []string{""}},
		{
			"hidden user", withGPU(func(g *nvml.GPU) { g.MemoryUsed = idleMemory + 1 }),
			map[string]*card{"GPU-0": {}},
			nil,
			"failed",
			[]string{"gpu_in_use"},
		},
		{
			"instances", withGPU(func(g *nvml.GPU) { g.MIG = true }),
			map[string]*card{"GPU-0": {}},
			nil, "failed",
			[]string{"mig_enabled"},
		},
		{
			"users unknown",
			driver{gpus: []nvml.GPU{h200(0)}, processes: func(int) (
				[]nvml.Process, error,
			) {
				return nil, nvml.ErrProcessesUnknown
			}},
			map[string]*card{"GPU-0": {}},
			nil,
			"failed",
			[]string{"driver_error"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := bench(c.driver, c.cards).scrub(t.Context(), c.uuids)
			if r.Outcome != c.outcome || len(r.GPUs) != len(c.codes) {
				t.Fatalf("got %+v", r)
			}
			for i, want := range c.codes {
				g := r.GPUs[i]
				if code(g) != want {
					t.Errorf("GPU %d: %+v, want code %q", i, g.Error, want)
				}
				if want == "" && (g.BytesCovered != 4*wipe.Granule || g.Method != methodOverwrite || len(g.Passes) != 5 ||
					g.Passes[1].Rate == 0) {
					t.Errorf("GPU %d: %+v", i, g)
				}
			}
			for uuid, card := range c.cards {
				if card.taken > 0 && !card.closed {
					t.Errorf("%s is left open", uuid)
				}
			}
		})
	}
}

func TestTheUsersOfAGPUAreNamed(t *testing.T) {
	d := driver{gpus: []nvml.GPU{h200(0)}, processes: func(int) ([]nvml.Process, error) {
		return []nvml.Process{{PID: 9}, {PID: self}, {PID: 7}, {PID: 9}}, nil
	}}
	r := bench(d, nil).scrub(t.Context(), nil)
	if e := r.GPUs[0].Error; e == nil || len(e.PIDs) != 2 || e.PIDs[0] != 7 || e.PIDs[1] != 9 {
		t.Fatalf("got %+v", e)
	}
}

func TestAGPUWithoutADriverFailsTheScrub(t *testing.T) {
	s := bench(driver{}, nil)
	s.host = host{sys: pci("0000:10:00.0"), nvidiaErr: errNoLibrary}
	r := s.scrub(t.Context(), nil)
	if r.Outcome != "failed" || len(r.GPUs) != 1 || code(r.GPUs[0]) != "gpu_unreachable" {
		t.Fatalf("got %+v", r)
	}
}

func TestAnInterruptIsReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &card{onFill: cancel}
	s := bench(driver{gpus: []nvml.GPU{h200(0)}}, map[string]*card{"GPU-0": c})
	s.grace = time.Minute
	r := s.scrub(ctx, nil)
	if r.Outcome != "failed" || code(r.GPUs[0]) != "interrupted" || !c.closed {
		t.Fatalf("got %+v, closed %v", r, c.closed)
	}
}

func TestADriverThatHangsDoesNotHoldTheResult(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	hung := &card{onFill: func() { cancel(); <-release }}
	s := bench(driver{gpus: []nvml.GPU{h200(0)}}, map[string]*card{"GPU-0": hung})
	r := s.scrub(ctx, nil)
	close(release)
	if r.Outcome != "failed" || code(r.GPUs[0]) != "interrupted" {
		t.Fatalf("got %+v", r)
	}
}

func TestPatternsDifferFromRunToRun(t *testing.T) {
	a, b := randomPattern(), randomPattern()
	if a == b || a.Multiply%2 == 0 {
		t.Errorf("%+v and %+v", a, b)
	}
}
