// Package cuda runs the kernels of the scrub on an NVIDIA GPU through the
// driver's own library. No CUDA toolkit is needed: the driver compiles the
// kernels when they are loaded.
package cuda

import (
	"encoding/hex"
	"fmt"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
)

const (
	outOfMemory         = 2
	attributeProcessors = 16
	waitBlocking        = 4
)

// Library is the driver's library, initialised.
type Library struct {
	initialize  func(uint32) int32
	deviceCount func(*int32) int32
	deviceGet   func(*int32, int32) int32
	deviceUUID  func(*[16]byte, int32) int32
	deviceTotal func(*uint64, int32) int32
	attribute   func(*int32, int32, int32) int32

	contextCreate  func(*uintptr, uint32, int32) int32
	contextDestroy func(uintptr) int32
	moduleLoad     func(*uintptr, string, uint32, *jitOptions, *jitValues) int32
	moduleFunction func(*uintptr, uintptr, string) int32
	moduleGlobal   func(*uint64, *uint64, uintptr, string) int32

	memoryInfo func(*uint64, *uint64) int32
	memAlloc   func(*uint64, uint64) int32
	memSet     func(uint64, uint8, uint64) int32
	copyToHost func(*uint64, uint64, uint64) int32

	launch func(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream uintptr, parameters *kernelParameters,
		extra uintptr) int32
	eventCreate  func(*uintptr, uint32) int32
	eventRecord  func(uintptr, uintptr) int32
	eventWait    func(uintptr) int32
	eventElapsed func(*float32, uintptr, uintptr) int32
}

// jitOptions and jitValues ask for the messages of the driver's compiler. The
// library reads the values as an array of pointer-sized entries.
type jitOptions struct{ log, size uint32 }

type jitValues struct {
	log  *byte
	size uintptr
}

// kernelParameters is what both kernels take. The library reads an array of
// pointers to the values.
type kernelParameters struct{ begin, end, multiply, add *uint64 }

// Error is a refusal of the driver.
type Error struct {
	Call string
	Code int32
}

// meanings are the codes that an operator can do something about.
var meanings = map[int32]string{
	2:   "out of memory",
	3:   "the driver is not initialised",
	46:  "the GPU is busy or in exclusive mode",
	100: "no GPU",
	101: "no such GPU",
	209: "no code for this GPU",
	214: "uncorrectable memory error",
	218: "the driver cannot compile the kernels",
	222: "the driver is too old for the kernels",
	700: "illegal address",
	702: "the kernel ran into the driver's time limit",
	719: "the kernel failed",
	802: "the system is not ready: is the fabric manager running?",
	803: "library and kernel driver are of different versions: a reboot is due",
	999: "unknown error: see the kernel log",
}

func (e *Error) Error() string {
	if text := meanings[e.Code]; text != "" {
		return fmt.Sprintf("%s: %s (code %d)", e.Call, text, e.Code)
	}
	return fmt.Sprintf("%s: code %d", e.Call, e.Code)
}

func check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	return &Error{Call: call, Code: code}
}

// Open loads and initialises the library.
func Open() (*Library, error) {
	file, err := dl.Open("libcuda.so.1")
	if err != nil {
		return nil, err
	}
	l := &Library{}
	if err := file.BindAll(l.symbols()); err != nil {
		return nil, err
	}
	if err := check("cuInit", l.initialize(0)); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Library) symbols() dl.Symbols {
	return dl.Symbols{
		{&l.initialize, []string{"cuInit"}},
		{&l.deviceCount, []string{"cuDeviceGetCount"}},
		{&l.deviceGet, []string{"cuDeviceGet"}},
		{&l.deviceUUID, []string{"cuDeviceGetUuid_v2", "cuDeviceGetUuid"}},
		{&l.deviceTotal, []string{"cuDeviceTotalMem_v2"}},
		{&l.attribute, []string{"cuDeviceGetAttribute"}},
		{&l.contextCreate, []string{"cuCtxCreate_v2"}},
		{&l.contextDestroy, []string{"cuCtxDestroy_v2"}},
		{&l.moduleLoad, []string{"cuModuleLoadDataEx"}},
		{&l.moduleFunction, []string{"cuModuleGetFunction"}},
		{&l.moduleGlobal, []string{"cuModuleGetGlobal_v2"}},
		{&l.memoryInfo, []string{"cuMemGetInfo_v2"}},
		{&l.memAlloc, []string{"cuMemAlloc_v2"}},
		{&l.memSet, []string{"cuMemsetD8_v2"}},
		{&l.copyToHost, []string{"cuMemcpyDtoH_v2"}},
		{&l.launch, []string{"cuLaunchKernel"}},
		{&l.eventCreate, []string{"cuEventCreate"}},
		{&l.eventRecord, []string{"cuEventRecord"}},
		{&l.eventWait, []string{"cuEventSynchronize"}},
		{&l.eventElapsed, []string{"cuEventElapsedTime"}},
	}
}

// find returns the device of that UUID.
func (l *Library) find(uuid string) (int32, error) {
	var n int32
	if err := check("cuDeviceGetCount", l.deviceCount(&n)); err != nil {
		return 0, err
	}
	for i := range n {
		var device int32
		if err := check("cuDeviceGet", l.deviceGet(&device, i)); err != nil {
			return 0, err
		}
		var id [16]byte
		if err := check("cuDeviceGetUuid", l.deviceUUID(&id, device)); err != nil {
			return 0, err
		}
		if format(id) == uuid {
			return device, nil
		}
	}
	return 0, fmt.Errorf("find %s: none of the %d GPUs that the driver opens for computing", uuid, n)
}

func format(id [16]byte) string {
	h := hex.EncodeToString(id[:])
	return fmt.Sprintf("GPU-%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}
