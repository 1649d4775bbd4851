// Package nvml reads the state of NVIDIA GPUs through the driver's management
// library.
package nvml

import (
	"errors"
	"fmt"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
)

const (
	success          = 0
	notSupported     = 3
	insufficientSize = 7

	// memoryVersion is the size of memoryV2 with the version of its layout.
	memoryVersion = 40 | 2<<24
	// notAvailable stands for a figure that the driver withholds.
	notAvailable = ^uint64(0)

	uncorrected, corrected = 1, 0
	volatileCounter        = 0
)

// Library is the management library, initialised.
type Library struct {
	initialize    func() int32
	shutdown      func() int32
	errorString   func(int32) string
	driverVersion func(*byte, uint32) int32
	count         func(*uint32) int32
	byIndex       func(uint32, *uintptr) int32
	uuid          func(uintptr, *byte, uint32) int32
	name          func(uintptr, *byte, uint32) int32
	pci           func(uintptr, *pciInfo) int32

	// The following are missing in older drivers: nil then.
	memory       func(uintptr, *memoryV2) int32
	memoryOld    func(uintptr, *memoryV1) int32
	architecture func(uintptr, *uint32) int32
	ecc          func(uintptr, int32, int32, *uint64) int32
	mig          func(uintptr, *uint32, *uint32) int32
	remapped     func(uintptr, *uint32, *uint32, *uint32, *uint32) int32
	slowdowns    func(uintptr, *uint64) int32
	persistence  func(uintptr, *uint32) int32
	processes    []processList
}

type processList struct {
	kind string
	call func(uintptr, *uint32, *processInfo) int32
}

// The layouts below are those of the library's header; what nobody reads has
// no name.
type memoryV1 struct {
	total uint64
	_     uint64 // free
	used  uint64
}

type memoryV2 struct {
	version uint32
	_       uint32
	total   uint64
	_       [2]uint64 // reserved, free
	used    uint64
}

type pciInfo struct {
	_     [16]byte  // the address in its old form
	_     [5]uint32 // domain, bus, device, device id, subsystem id
	busID [32]byte
}

type processInfo struct {
	pid  uint32
	_    uint32
	used uint64
	_    [2]uint32 // GPU and compute instance
}

// Error is a refusal of the library.
type Error struct {
	Call string
	Code int32
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (code %d)", e.Call, e.Text, e.Code) }

// Open loads and initialises the library. The error wraps dl.ErrNoLibrary
// where there is none.
func Open() (*Library, error) {
	file, err := dl.Open("libnvidia-ml.so.1")
	if err != nil {
		return nil, err
	}
	l, err := bind(file)
	if err != nil {
		return nil, err
	}
	if err := l.check("nvmlInit", l.initialize()); err != nil {
		return nil, err
	}
	return l, nil
}

func bind(file *dl.Library) (*Library, error) {
	l := &Library{}
	err := file.BindAll(dl.Symbols{
		{&l.initialize, []string{"nvmlInit_v2", "nvmlInit"}},
		{&l.shutdown, []string{"nvmlShutdown"}},
		{&l.errorString, []string{"nvmlErrorString"}},
		{&l.driverVersion, []string{"nvmlSystemGetDriverVersion"}},
		{&l.count, []string{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}},
		{&l.byIndex, []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}},
		{&l.uuid, []string{"nvmlDeviceGetUUID"}},
		{&l.name, []string{"nvmlDeviceGetName"}},
		{&l.pci, []string{"nvmlDeviceGetPciInfo_v3"}},
	})
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		file.Bind(&l.memory, "nvmlDeviceGetMemoryInfo_v2"),
		file.Bind(&l.memoryOld, "nvmlDeviceGetMemoryInfo"),
	)
	if l.memory == nil && l.memoryOld == nil {
		return nil, err
	}
	// What an old driver lacks is left out of the report, not an error.
	for _, optional := range (dl.Symbols{
		{&l.architecture, []string{"nvmlDeviceGetArchitecture"}},
		{&l.ecc, []string{"nvmlDeviceGetTotalEccErrors"}},
		{&l.mig, []string{"nvmlDeviceGetMigMode"}},
		{&l.remapped, []string{"nvmlDeviceGetRemappedRows"}},
		{&l.slowdowns, []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
		{&l.persistence, []string{"nvmlDeviceGetPersistenceMode"}},
	}) {
		_ = file.Bind(optional.Function, optional.Names...)
	}
	for _, list := range []struct{ kind, symbol string }{
		{"compute", "nvmlDeviceGetComputeRunningProcesses"},
		{"graphics", "nvmlDeviceGetGraphicsRunningProcesses"},
		{"mps", "nvmlDeviceGetMPSComputeRunningProcesses"},
	} {
		p := processList{kind: list.kind}
		if file.Bind(&p.call, list.symbol+"_v3", list.symbol+"_v2") == nil {
			l.processes = append(l.processes, p)
		}
	}
	return l, nil
}

// Close gives the library back.
func (l *Library) Close() error { return l.check("nvmlShutdown", l.shutdown()) }

func (l *Library) check(call string, code int32) error {
	if code == success {
		return nil
	}
	return &Error{Call: call, Code: code, Text: l.errorString(code)}
}

func (l *Library) text(call string, size int, read func(*byte, uint32) int32) (string, error) {
	b := make([]byte, size)
	if err := l.check(call, read(&b[0], uint32(len(b)))); err != nil { //nolint:gosec // sizes are constants of the header, 96 at most
		return "", err
	}
	return cString(b), nil
}

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
