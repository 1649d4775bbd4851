package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
	"gpuaas/cmd/gpuaas-gpu/internal/wipe"
)

// The memory of an AMD GPU goes through the same procedure as that of others;
// only without HIP it is left to a reset, which this program does not do.
func TestScrubOfAnMI300X(t *testing.T) {
	with := func(name, text string) fstest.MapFS {
		sys := amd()
		sys[name] = &fstest.MapFile{Data: []byte(text)}
		return sys
	}
	without := amd()
	delete(without, "class/kfd/kfd/topology/nodes/1/gpu_id")
	for _, c := range []struct {
		name    string
		sys     fstest.MapFS
		open    error
		outcome string
		code    string
		says    string
	}{
		{name: "all well", sys: amd(), outcome: "scrubbed"},
		{
			name: "without HIP", sys: amd(), open: fmt.Errorf("open libamdhip64.so.7: %w", dl.ErrNoLibrary),
			outcome: "failed", code: "method_unavailable", says: "libamdhip64",
		},
		{
			name: "HIP is broken", sys: amd(), open: errors.New("hipInit: code 3"),
			outcome: "failed", code: "driver_error", says: "hipInit",
		},
		{
			name: "in use", sys: with("class/kfd/kfd/proc/4711/vram_51140", "0"),
			outcome: "failed", code: "gpu_in_use", says: "4711",
		},
		{
			name: "only this program", sys: with(fmt.Sprintf("class/kfd/kfd/proc/%d/vram_51140", self), "7"),
			outcome: "scrubbed",
		},
		{
			name: "divided", sys: with("class/drm/card1/device/current_compute_partition", "CPX"),
			outcome: "failed", code: "mig_enabled", says: "SPX",
		},
		{name: "users unknown", sys: without, outcome: "failed", code: "driver_error", says: "does not show this GPU"},
	} {
		t.Run(c.name, func(t *testing.T) {
			memory := &card{}
			s := scrubber{
				host: host{sys: c.sys, nvidiaErr: errNoLibrary}, self: self, now: time.Now, emit: func(any) {},
				open: func(vendor string, g gpu) (session, error) {
					if vendor != vendorAMD || g.PCI != "0000:85:00.0" || g.Architecture != "gfx942" {
						t.Errorf("opened %s %+v", vendor, g)
					}
					return memory, c.open
				},
			}
			r := s.scrub(t.Context(), nil)
			if r.Vendor != "amd" || r.Outcome != c.outcome || len(r.GPUs) != 1 || code(r.GPUs[0]) != c.code {
				t.Fatalf("got %+v", r)
			}
			g := r.GPUs[0]
			if c.code != "" && !strings.Contains(g.Error.Message, c.says) {
				t.Errorf("says %q, want %q", g.Error.Message, c.says)
			}
			if c.code == "" && (g.UUID != "a1b2" || g.BytesCovered != 4*wipe.Granule || g.Method != methodOverwrite ||
				!memory.closed) {
				t.Errorf("got %+v, closed %v", g, memory.closed)
			}
		})
	}
}
