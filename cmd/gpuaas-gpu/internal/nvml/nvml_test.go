package nvml

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
)

const lost = 15

func put(b *byte, n uint32, s string) int32 {
	copy(bytesAt(b, n), s+"\x00")
	return success
}

// fake answers like a driver with one H200 and the given processes.
func fake(processes ...processInfo) *Library {
	return &Library{
		errorString:   func(code int32) string { return map[int32]string{lost: "GPU is lost"}[code] },
		driverVersion: func(b *byte, n uint32) int32 { return put(b, n, "580.159.04") },
		count:         func(n *uint32) int32 { *n = 1; return success },
		byIndex:       func(_ uint32, d *uintptr) int32 { *d = 1; return success },
		uuid:          func(_ uintptr, b *byte, n uint32) int32 { return put(b, n, "GPU-1") },
		name:          func(_ uintptr, b *byte, n uint32) int32 { return put(b, n, "NVIDIA H200") },
		pci:           func(_ uintptr, p *pciInfo) int32 { copy(p.busID[:], "00000000:1A:00.0"); return success },
		memory: func(_ uintptr, m *memoryV2) int32 {
			if m.version != memoryVersion {
				return 25
			}
			m.total, m.used = 100, 1
			return success
		},
		memoryOld:    func(_ uintptr, m *memoryV1) int32 { m.total, m.used = 100, 10; return success },
		architecture: func(_ uintptr, a *uint32) int32 { *a = 9; return success },
		ecc:          func(_ uintptr, kind, _ int32, n *uint64) int32 { *n = uint64(kind) + 4; return success },
		mig:          func(_ uintptr, current, _ *uint32) int32 { *current = 1; return success },
		remapped: func(_ uintptr, _, _, pending, failed *uint32) int32 {
			*pending, *failed = 1, 0
			return success
		},
		slowdowns:   func(_ uintptr, r *uint64) int32 { *r = 0x1 | 0x4 | 0x40; return success },
		persistence: func(_ uintptr, m *uint32) int32 { *m = 1; return success },
		processes: []processList{
			{"compute", lister(processes)},
			{"graphics", func(uintptr, *uint32, *processInfo) int32 { return notSupported }},
		},
	}
}

// lister refuses buffers that are too small, as the driver does.
func lister(all []processInfo) func(uintptr, *uint32, *processInfo) int32 {
	return func(_ uintptr, n *uint32, to *processInfo) int32 {
		room := *n
		*n = uint32(len(all))
		if int(room) < len(all) {
			return insufficientSize
		}
		copy(infosAt(to, room), all)
		return success
	}
}

func TestAGPUIsRead(t *testing.T) {
	l := fake(processInfo{pid: 7, used: 42}, processInfo{pid: 8, used: notAvailable})
	got, err := l.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	used, on := uint64(42), true
	want := []GPU{{
		UUID: "GPU-1", Name: "NVIDIA H200", Architecture: "hopper", PCI: "0000:1a:00.0", MemoryTotal: 100, MemoryUsed: 1,
		UsedIsExact: true,
		Processes:   []Process{{PID: 7, Used: &used, Kind: "compute"}, {PID: 8, Kind: "compute"}},
		ECC:         &ECC{Corrected: 4, Uncorrected: 5}, MIG: true,
		Remap: &Remap{Pending: true}, Slowdowns: []string{"hw_thermal_slowdown"}, Persistence: &on,
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if v, err := l.Driver(); v != "580.159.04" || err != nil {
		t.Errorf("driver %q, %v", v, err)
	}
}

func TestAnOldDriverIsReadWithWhatItHas(t *testing.T) {
	l := fake()
	l.memory, l.architecture, l.ecc, l.mig = nil, nil, nil, nil
	l.remapped, l.slowdowns, l.persistence = nil, nil, nil
	got, err := l.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	want := []GPU{{UUID: "GPU-1", Name: "NVIDIA H200", PCI: "0000:1a:00.0", MemoryTotal: 100, MemoryUsed: 10}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestMoreProcessesThanTheFirstBufferHolds(t *testing.T) {
	all := make([]processInfo, 300)
	for i := range all {
		all[i].pid = uint32(i + 1)
	}
	got, err := fake(all...).Processes(0)
	if err != nil || len(got) != 300 || got[299].PID != 300 {
		t.Fatalf("%d processes, %v", len(got), err)
	}
}

func TestALostGPUDoesNotHideTheOthers(t *testing.T) {
	l := fake()
	l.count = func(n *uint32) int32 { *n = 3; return success }
	l.byIndex = func(i uint32, d *uintptr) int32 {
		if i == 1 {
			return lost
		}
		*d = 1
		return success
	}
	got, err := l.GPUs()
	if len(got) != 2 || err == nil || !strings.Contains(err.Error(), "GPU 1") || !strings.Contains(err.Error(), "lost") {
		t.Fatalf("%d GPUs, err %v", len(got), err)
	}
}

func TestUnknownProcessesAreNotNone(t *testing.T) {
	l := fake()
	l.processes = l.processes[1:]
	if _, err := l.Processes(0); !errors.Is(err, ErrProcessesUnknown) {
		t.Fatalf("err %v", err)
	}
	if got, err := l.GPUs(); err != nil || len(got) != 1 {
		t.Fatalf("%d GPUs, %v: a report is still made", len(got), err)
	}
}

func TestALibraryWithoutTheFunctionsIsRefused(t *testing.T) {
	_, err := bind(dl.New("libnvidia-ml.so.1", func(string) (uintptr, error) { return 0, errors.New("undefined") }))
	if err == nil || !strings.Contains(err.Error(), "nvmlInit_v2") {
		t.Fatalf("err %v", err)
	}
}

// The layouts are the driver's: with another size it would write past the end.
func TestLayoutsAreThoseOfTheHeader(t *testing.T) {
	for name, c := range map[string]struct{ got, want uintptr }{
		"memory v1": {sizeOf[memoryV1](), 24}, "memory v2": {sizeOf[memoryV2](), memoryVersion & 0xffff},
		"pci": {sizeOf[pciInfo](), 68}, "process": {sizeOf[processInfo](), 24},
	} {
		if c.got != c.want {
			t.Errorf("%s has %d bytes, want %d", name, c.got, c.want)
		}
	}
}
