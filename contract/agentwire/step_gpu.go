package agentwire

import "strings"

// Abstract kinds, which the resolver configuration of the node turns into
// command profiles.
const (
	StepGPURuntimeCheck          = "gpu.runtime.check"
	StepGPUDriverValidate        = "gpu.driver.validate"
	StepGPUFabricVerify          = "gpu.fabric.verify"
	StepGPUContainerRuntimeCheck = "gpu.container_runtime.check"
)

// AbstractKinds lists them.
var AbstractKinds = []string{
	StepGPUContainerRuntimeCheck, StepGPUDriverValidate, StepGPUFabricVerify, StepGPURuntimeCheck,
}

var (
	_ = declareStep[GPUCheckWith, GPUCheckResult](abstract(StepGPURuntimeCheck, "check driver, runtime and GPUs"))
	_ = declareStep[GPUCheckWith, GPUCheckResult](abstract(StepGPUDriverValidate,
		"check the version of the GPU driver"))
	_ = declareStep[GPUCheckWith, GPUCheckResult](abstract(StepGPUFabricVerify, "check the links between GPUs"))
	_ = declareStep[GPUCheckWith, GPUCheckResult](abstract(StepGPUContainerRuntimeCheck,
		"check that containers can use the GPUs"))
)

func abstract(kind, title string) StepKind {
	return StepKind{
		Kind: kind, Title: title, Impact: ImpactRead, Interruptible: true, Abstract: true,
		Checks: "Runs the program that the node's resolver configuration chooses for its hardware, and looks at its exit " +
			"code and output.",
		Sound:  []string{`{}`, `{"minimum_lines":8}`, `{"expect":["NVIDIA H200"]}`},
		Answer: `{"profile":"simulated","exit_code":0,"stdout":"","stderr":""}`,
	}
}

// GPUCheckWith says what the output of the profile must show besides its exit
// code.
type GPUCheckWith struct {
	// Expect are texts that must be in the output, such as a driver version.
	Expect []string `json:"expect,omitempty"`
	// MinimumLines is how many lines the output must have, such as one for each
	// GPU.
	MinimumLines int `json:"minimum_lines,omitempty"`
}

// Validate implements StepParams.
func (w GPUCheckWith) Validate() StepProblems {
	var p StepProblems
	for _, e := range w.Expect {
		if len(e) == 0 || len(e) > 200 || !printable(e) || strings.TrimSpace(e) != e {
			p.add("expect", "must be printable texts of at most 200 bytes")
		}
	}
	if len(w.Expect) > 32 {
		p.add("expect", "there are at most 32")
	}
	if w.MinimumLines < 0 || w.MinimumLines > 1024 {
		p.add("minimum_lines", "must be between 0 and 1024")
	}
	return p
}

// GPUCheckResult is how the command profile ended.
type GPUCheckResult struct {
	CommandResult
	// Missing are the texts that were expected and not found.
	Missing []string `json:"missing,omitempty"`
}
