// Package hip runs the kernels of the scrub on an AMD GPU through HIP, AMD's
// library for computing. HIP's own compiler, hipRTC, compiles the kernels for
// the GPU when they are loaded. The package is written from the published
// interfaces of both libraries and has never run on hardware.
package hip

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
)

const outOfMemory = 2

// The file names of the libraries, of the newest release of ROCm first.
var (
	runtimeNames  = []string{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}
	compilerNames = []string{"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"}
)

// Library is HIP with its compiler, initialised.
type Library struct {
	initialize  func(uint32) int32
	deviceByPCI func(*int32, string) int32
	deviceTotal func(*uint64, int32) int32
	setDevice   func(int32) int32

	moduleLoad     func(*uintptr, *byte) int32
	moduleUnload   func(uintptr) int32
	moduleFunction func(*uintptr, uintptr, string) int32

	memoryInfo func(*uint64, *uint64) int32
	memAlloc   func(*uint64, uint64) int32
	memFree    func(uint64) int32
	memSet     func(uint64, int32, uint64) int32
	copyToHost func(*uint64, uint64, uint64) int32

	launch func(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream uintptr, parameters *kernelParameters,
		extra uintptr) int32
	eventCreate  func(*uintptr) int32
	eventRecord  func(uintptr, uintptr) int32
	eventWait    func(uintptr) int32
	eventElapsed func(*float32, uintptr, uintptr) int32

	programCreate  func(p *uintptr, source, name string, headers int32, texts, names uintptr) int32
	programCompile func(p uintptr, n int32, options *compilerOptions) int32
	programDestroy func(*uintptr) int32
	codeSize       func(uintptr, *uint64) int32
	code           func(uintptr, *byte) int32
	logSize        func(uintptr, *uint64) int32
	log            func(uintptr, *byte) int32
}

// compilerOptions is an array of strings with one element.
type compilerOptions struct{ architecture *byte }

// kernelParameters is what both kernels take. The library reads an array of
// pointers to the values.
type kernelParameters struct{ begin, end, multiply, add, differing *uint64 }

// Error is a refusal of the library.
type Error struct {
	Call string
	Code int32
}

// meanings are the codes that an operator can do something about.
var meanings = map[int32]string{
	2:   "out of memory",
	3:   "the library is not initialised",
	100: "no GPU",
	101: "no such GPU",
	209: "no code for this GPU",
	214: "uncorrectable memory error",
	700: "illegal address",
	702: "the kernel ran into a time limit",
	719: "the kernel failed",
	999: "unknown error: see the kernel log",
}

func (e *Error) Error() string {
	if text := meanings[e.Code]; text != "" && strings.HasPrefix(e.Call, "hip") && !strings.HasPrefix(e.Call, "hiprtc") {
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

// Open loads and initialises both libraries. dl.ErrNoLibrary says that one of
// them is not on this host.
func Open() (*Library, error) {
	l := &Library{}
	file, err := dl.Open(runtimeNames...)
	if err != nil {
		return nil, err
	}
	if err := file.BindAll(l.symbols()); err != nil {
		return nil, err
	}
	compiler, err := dl.Open(compilerNames...)
	if errors.Is(err, dl.ErrNoLibrary) {
		compiler, err = file, nil // releases before 5.6 have the compiler in the same file
		if compiler.Bind(&l.code, "hiprtcGetCode") != nil {
			return nil, fmt.Errorf("open %s: %w", compilerNames[0], dl.ErrNoLibrary)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := compiler.BindAll(l.compilerSymbols()); err != nil {
		return nil, err
	}
	if err := check("hipInit", l.initialize(0)); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Library) symbols() dl.Symbols {
	return dl.Symbols{
		{&l.initialize, []string{"hipInit"}},
		{&l.deviceByPCI, []string{"hipDeviceGetByPCIBusId"}},
		{&l.deviceTotal, []string{"hipDeviceTotalMem"}},
		{&l.setDevice, []string{"hipSetDevice"}},
		{&l.moduleLoad, []string{"hipModuleLoadData"}},
		{&l.moduleUnload, []string{"hipModuleUnload"}},
		{&l.moduleFunction, []string{"hipModuleGetFunction"}},
		{&l.memoryInfo, []string{"hipMemGetInfo"}},
		{&l.memAlloc, []string{"hipMalloc"}},
		{&l.memFree, []string{"hipFree"}},
		{&l.memSet, []string{"hipMemset"}},
		{&l.copyToHost, []string{"hipMemcpyDtoH"}},
		{&l.launch, []string{"hipModuleLaunchKernel"}},
		{&l.eventCreate, []string{"hipEventCreate"}},
		{&l.eventRecord, []string{"hipEventRecord"}},
		{&l.eventWait, []string{"hipEventSynchronize"}},
		{&l.eventElapsed, []string{"hipEventElapsedTime"}},
	}
}

func (l *Library) compilerSymbols() dl.Symbols {
	return dl.Symbols{
		{&l.programCreate, []string{"hiprtcCreateProgram"}},
		{&l.programCompile, []string{"hiprtcCompileProgram"}},
		{&l.programDestroy, []string{"hiprtcDestroyProgram"}},
		{&l.codeSize, []string{"hiprtcGetCodeSize"}},
		{&l.code, []string{"hiprtcGetCode"}},
		{&l.logSize, []string{"hiprtcGetProgramLogSize"}},
		{&l.log, []string{"hiprtcGetProgramLog"}},
	}
}

// compile makes code for the architecture, such as gfx942.
func (l *Library) compile(architecture string) (code []byte, err error) {
	var program uintptr
	if err := check("hiprtcCreateProgram", l.programCreate(&program, kernels, "kernels.hip", 0, 0, 0)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, check("hiprtcDestroyProgram", l.programDestroy(&program))) }()
	option := append([]byte("--offload-arch="+architecture), 0)
	options := &compilerOptions{architecture: &option[0]}
	failed := l.programCompile(program, 1, options)
	runtime.KeepAlive(options)
	if err := check("hiprtcCompileProgram", failed); err != nil {
		return nil, fmt.Errorf("compile kernels for %s: %w: %s", architecture, err, l.said(program))
	}
	var size uint64
	if err := check("hiprtcGetCodeSize", l.codeSize(program, &size)); err != nil {
		return nil, err
	}
	if size == 0 || size > 64<<20 {
		return nil, fmt.Errorf("compile kernels for %s: the compiler made %d bytes of code", architecture, size)
	}
	code = make([]byte, size)
	return code, check("hiprtcGetCode", l.code(program, &code[0]))
}

// said is the compiler's log, on one line.
func (l *Library) said(program uintptr) string {
	var size uint64
	if l.logSize(program, &size) != 0 || size == 0 || size > 1<<20 {
		return "the compiler says nothing"
	}
	log := make([]byte, size)
	if l.log(program, &log[0]) != 0 {
		return "the compiler says nothing"
	}
	text, _, _ := strings.Cut(string(log), "\x00")
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 500)]
}
