package nvml

import (
	"errors"
	"fmt"
	"strings"
)

// GPU is what the library says of one GPU.
type GPU struct {
	Index        int
	UUID         string
	Name         string
	Architecture string
	PCI          string // as the kernel writes it
	MemoryTotal  uint64
	MemoryUsed   uint64
	// UsedIsExact tells that MemoryUsed leaves out what the driver reserves for
	// itself; old libraries count that in.
	UsedIsExact bool
	Processes   []Process
	ECC         *ECC // nil where the GPU does not count errors
	MIG         bool
	Remap       *Remap   // nil where the GPU does not replace rows of its memory
	Slowdowns   []string // why the GPU holds itself back now, beyond what load and power limits explain
	Persistence *bool    // nil where the driver does not say
}

// Remap is how the GPU stands that replaces broken rows of its memory.
type Remap struct {
	Pending bool // rows are replaced with the next reset
	Failed  bool // rows could not be replaced
}

// Process is one process that has a context on a GPU.
type Process struct {
	PID  int
	Used *uint64 // nil where the driver withholds the figure
	Kind string
}

// ECC is the number of memory errors since the driver was loaded.
type ECC struct{ Corrected, Uncorrected uint64 }

// ErrProcessesUnknown says that the library cannot tell who uses a GPU.
var ErrProcessesUnknown = errors.New("the driver does not list the processes of a GPU")

var architectures = map[uint32]string{
	2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper", 10: "blackwell",
}

// Driver is the driver's version.
func (l *Library) Driver() (string, error) {
	return l.text("nvmlSystemGetDriverVersion", 80, l.driverVersion)
}

// GPUs reads every GPU. A GPU that cannot be read is an error beside the
// others, which are still returned.
func (l *Library) GPUs() ([]GPU, error) {
	var n uint32
	if err := l.check("nvmlDeviceGetCount", l.count(&n)); err != nil {
		return nil, err
	}
	var gpus []GPU
	var failed []error
	for i := range n {
		g, err := l.gpu(i)
		if err != nil {
			failed = append(failed, fmt.Errorf("read GPU %d: %w", i, err))
			continue
		}
		gpus = append(gpus, g)
	}
	return gpus, errors.Join(failed...)
}

func (l *Library) gpu(index uint32) (GPU, error) {
	var device uintptr
	if err := l.check("nvmlDeviceGetHandleByIndex", l.byIndex(index, &device)); err != nil {
		return GPU{}, err
	}
	g := GPU{Index: int(index)}
	var err error
	if g.UUID, err = l.text("nvmlDeviceGetUUID", 96,
		func(b *byte, n uint32) int32 { return l.uuid(device, b, n) }); err != nil {
		return GPU{}, err
	}
	if g.Name, err = l.text("nvmlDeviceGetName", 96,
		func(b *byte, n uint32) int32 { return l.name(device, b, n) }); err != nil {
		return GPU{}, err
	}
	var pci pciInfo
	if err := l.check("nvmlDeviceGetPciInfo", l.pci(device, &pci)); err != nil {
		return GPU{}, err
	}
	g.PCI = kernelBusID(cString(pci.busID[:]))
	if err := l.readMemory(device, &g); err != nil {
		return GPU{}, err
	}
	if g.Processes, err = l.processesOf(device); err != nil && !errors.Is(err, ErrProcessesUnknown) {
		return GPU{}, err
	}
	l.readExtras(device, &g)
	l.readCondition(device, &g)
	return g, nil
}

// kernelBusID turns 00000000:17:00.0 into 0000:17:00.0.
func kernelBusID(id string) string {
	id = strings.ToLower(id)
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 {
		return domain[4:] + ":" + rest
	}
	return id
}

func (l *Library) readMemory(device uintptr, g *GPU) error {
	if l.memory != nil {
		m := memoryV2{version: memoryVersion}
		if code := l.memory(device, &m); code == success {
			g.MemoryTotal, g.MemoryUsed, g.UsedIsExact = m.total, m.used, true
			return nil
		} else if l.memoryOld == nil {
			return l.check("nvmlDeviceGetMemoryInfo_v2", code)
		}
	}
	var m memoryV1
	if err := l.check("nvmlDeviceGetMemoryInfo", l.memoryOld(device, &m)); err != nil {
		return err
	}
	g.MemoryTotal, g.MemoryUsed = m.total, m.used
	return nil
}

// readExtras fills in what not every GPU and driver has.
func (l *Library) readExtras(device uintptr, g *GPU) {
	var arch uint32
	if l.architecture != nil && l.architecture(device, &arch) == success {
		if g.Architecture = architectures[arch]; g.Architecture == "" {
			g.Architecture = fmt.Sprintf("nvidia-%d", arch)
		}
	}
	if l.ecc != nil {
		var e ECC
		if l.ecc(device, corrected, volatileCounter, &e.Corrected) == success &&
			l.ecc(device, uncorrected, volatileCounter, &e.Uncorrected) == success {
			g.ECC = &e
		}
	}
	var current, pending uint32
	if l.mig != nil && l.mig(device, &current, &pending) == success {
		g.MIG = current == 1
	}
}

// slowdowns are the reasons that tell of a fault: of cooling or of power. The
// others, such as an idle GPU or its power limit, are part of normal work.
var slowdowns = []struct {
	bit    uint64
	reason string
}{{0x8, "hw_slowdown"}, {0x20, "sw_thermal_slowdown"}, {0x40, "hw_thermal_slowdown"}, {0x80, "hw_power_brake"}}

// readCondition fills in what tells whether the GPU is fit for work.
func (l *Library) readCondition(device uintptr, g *GPU) {
	var rowsCorrected, rowsUncorrected, pending, failure uint32
	if l.remapped != nil &&
		l.remapped(device, &rowsCorrected, &rowsUncorrected, &pending, &failure) == success {
		g.Remap = &Remap{Pending: pending != 0, Failed: failure != 0}
	}
	var reasons uint64
	if l.slowdowns != nil && l.slowdowns(device, &reasons) == success {
		for _, s := range slowdowns {
			if reasons&s.bit != 0 {
				g.Slowdowns = append(g.Slowdowns, s.reason)
			}
		}
	}
	var mode uint32
	if l.persistence != nil && l.persistence(device, &mode) == success {
		on := mode == 1
		g.Persistence = &on
	}
}

// Processes lists who uses the GPU now.
func (l *Library) Processes(index int) ([]Process, error) {
	var device uintptr
	if err := l.check("nvmlDeviceGetHandleByIndex", l.byIndex(uint32(index), &device)); err != nil { //nolint:gosec // an index that the library gave
		return nil, err
	}
	return l.processesOf(device)
}

func (l *Library) processesOf(device uintptr) ([]Process, error) {
	var all []Process
	known := false
	for _, list := range l.processes {
		infos, err := l.list(device, list)
		if refused := (*Error)(nil); errors.As(err, &refused) && refused.Code == notSupported {
			continue
		}
		if err != nil {
			return nil, err
		}
		known = known || list.kind == "compute"
		for _, i := range infos {
			p := Process{PID: int(i.pid), Kind: list.kind}
			if used := i.used; used != notAvailable {
				p.Used = &used
			}
			all = append(all, p)
		}
	}
	if !known {
		return nil, ErrProcessesUnknown
	}
	return all, nil
}

// list grows its buffer until the processes fit: more of them may start
// between two calls.
func (l *Library) list(device uintptr, list processList) ([]processInfo, error) {
	const most = 1 << 16
	for size := uint32(64); ; size *= 4 {
		infos, n := make([]processInfo, size), size
		code := list.call(device, &n, &infos[0])
		if code == insufficientSize && size < most {
			continue
		}
		if err := l.check("list "+list.kind+" processes", code); err != nil {
			return nil, err
		}
		return infos[:min(n, size)], nil
	}
}
