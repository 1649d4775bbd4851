package steps

import (
	"strings"
	"testing"

	"gpuaas/agent/internal/gpu"
	"gpuaas/contract/agentwire"
)

func scrubOf(vendor gpu.Vendor, gpus ...gpu.ScrubbedGPU) (gpu.Report, gpu.ScrubReport) {
	report := gpu.Report{Type: "report", Vendor: vendor}
	result := gpu.ScrubReport{Vendor: vendor, Outcome: gpu.Scrubbed, GPUs: gpus}
	for i, g := range gpus {
		report.GPUs = append(report.GPUs, gpu.GPU{
			Index: i, UUID: g.UUID, MemoryTotal: g.BytesTotal, PCI: "0000:85:00.0",
		})
		if g.Error != nil {
			result.Outcome = gpu.Failed
		}
	}
	return report, result
}

func good(uuid string) gpu.ScrubbedGPU {
	return gpu.ScrubbedGPU{
		UUID: uuid, Method: "overwrite_verify_zero", BytesTotal: 1000, BytesCovered: 995, DurationMS: 70.4,
		Passes: []gpu.Pass{{Name: "fill", DeviceMS: 33.25}, {Name: "verify", DeviceMS: 35}},
	}
}

func TestScrub(t *testing.T) {
	low, dirty, used, amd := good("GPU-1"), good("GPU-1"), good("GPU-1"), good("0x1234")
	low.BytesCovered = 980
	dirty.WordsNonzero = 3
	used.Error = &gpu.Failure{Code: gpu.CodeInUse, Message: "by process 7", PIDs: []int{7}}
	amd.BytesCovered, amd.Method, amd.Passes, amd.Error = 0, "", nil,
		&gpu.Failure{Code: gpu.CodeUnsupported, Message: "no driver library"}
	broken := amd
	broken.BytesCovered, broken.Error = 7, &gpu.Failure{Code: gpu.CodeDriver, Message: "hipMalloc: code 1"}
	done := "GPU 00000000:18:00.0 was successfully reset.\nAll done."
	for name, c := range map[string]struct {
		vendor  gpu.Vendor
		gpus    []gpu.ScrubbedGPU
		says    string
		fails   bool
		noTool  bool
		tool    string // empty: nvidia-smi or rocm-smi
		noReset bool
		outcome string
		reason  string
		reset   string
	}{
		"all well": {
			vendor: gpu.NVIDIA, gpus: []gpu.ScrubbedGPU{good("GPU-1"), good("GPU-2")}, says: done,
			outcome: "scrubbed", reset: "done",
		},
		"no reset wanted": {
			vendor: gpu.NVIDIA, gpus: []gpu.ScrubbedGPU{good("GPU-1")}, noReset: true,
			outcome: "scrubbed", reset: "skipped: not asked for",
		},
		"no tool": {
			vendor: gpu.NVIDIA, gpus: []gpu.ScrubbedGPU{good("GPU-1")}, noTool: true, outcome: "scrubbed",
			reset: "skipped: nvidia-smi is not installed",
		},
		"reset refused": {
			vendor: gpu.NVIDIA, gpus: []gpu.ScrubbedGPU{good("GPU-1")},
			says: "Resetting GPU is not supported.", outcome: "scrubbed", reset: "failed: not_supported",
		},
		"reset fails": {
			vendor: gpu.NVIDIA, gpus: []gpu.ScrubbedGPU{good("GPU-1")}, fails: true, outcome: "scrubbed",
			reset: "failed: failed",
		},
		"too little covered": {
			vendor: gpu.NVIDIA, gpus: []gpu.ScrubbedGPU{low}, says: done, outcome: "incomplete",
			reason: "98.00 %", reset: "done",
		},
		"not zero in the end": {
			vendor: gpu.NVIDIA, gpus: []gpu.ScrubbedGPU{dirty}, says: done, outcome: "incomplete",
			reason: "3 words", reset: "done",
		},
		"one in use": {
			vendor: gpu.NVIDIA, gpus: []gpu.ScrubbedGPU{used, good("GPU-2")}, says: done,
			outcome: "incomplete", reason: "gpu_in_use", reset: "done",
		},
		"amd": {
			vendor: gpu.AMD, gpus: []gpu.ScrubbedGPU{amd}, says: "GPU[0] : Successfully reset GPU 0",
			outcome: "scrubbed", reason: "not overwritten", reset: "done",
		},
		"amd overwritten": {
			vendor: gpu.AMD, gpus: []gpu.ScrubbedGPU{good("0x1234")}, tool: "amd-smi",
			says: "GPU: 0\n    GPU_RESET: Successfully reset GPU\n", outcome: "scrubbed", reset: "done",
		},
		"amd by amd-smi": {
			vendor: gpu.AMD, gpus: []gpu.ScrubbedGPU{amd}, tool: "amd-smi",
			says: "GPU: 0\n    GPU_RESET: Successfully reset GPU\n", outcome: "scrubbed",
			reason: "0x1234 was not overwritten: method_unavailable: no driver library", reset: "done",
		},
		"amd, HIP fails on the way": {
			vendor: gpu.AMD, gpus: []gpu.ScrubbedGPU{broken}, tool: "amd-smi",
			says: "GPU: 0\n    GPU_RESET: Successfully reset GPU\n", outcome: "incomplete",
			reason: "driver_error: hipMalloc: code 1", reset: "done",
		},
		"amd refuses to reset": {
			vendor: gpu.AMD, gpus: []gpu.ScrubbedGPU{amd}, tool: "amd-smi", says: "GPU: 0\n    GPU_RESET: Failed to reset GPU\n",
			outcome: "incomplete", reason: "not_reset: failed: failed", reset: "failed: failed",
		},
		"amd without a tool": {
			vendor: gpu.AMD, gpus: []gpu.ScrubbedGPU{amd}, noTool: true, outcome: "incomplete",
			reason: "not_reset", reset: "skipped: amd-smi and rocm-smi are not installed",
		},
		"amd without a reset": {
			vendor: gpu.AMD, gpus: []gpu.ScrubbedGPU{amd}, noReset: true, outcome: "incomplete",
			reason: "not_reset", reset: "skipped: not asked for",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tool := map[gpu.Vendor]string{gpu.NVIDIA: "nvidia-smi", gpu.AMD: "rocm-smi"}[c.vendor]
			if c.tool != "" {
				tool = c.tool
			}
			if !c.noTool {
				b.Install("/usr/bin/" + tool)
			}
			b.Say(tool, c.says)
			if c.fails {
				b.Fail(tool)
			}
			b.gpu.report, b.gpu.scrub = scrubOf(c.vendor, c.gpus...)
			j := b.job(agentwire.TypeGPUScrub, agentwire.GPUScrubParams{Reset: !c.noReset})
			j.mustCheck(false)
			out := j.apply().(agentwire.GPUScrubOutput)
			if out.Outcome != c.outcome || !strings.Contains(out.Reason, c.reason) || len(out.GPUs) != len(c.gpus) ||
				out.GPUs[0].Reset != c.reset || out.GPUs[0].Method == agentwire.ScrubByReset && out.GPUs[0].BytesCovered != 0 {
				t.Errorf("output %+v", out)
			}
			j.mustCheck(true)
			if b.gpu.scrubs != 1 {
				t.Errorf("%d scrubs", b.gpu.scrubs)
			}
		})
	}
}

func TestScrubTellsItsFigures(t *testing.T) {
	b := newBench(t)
	b.gpu.report, b.gpu.scrub = scrubOf(gpu.NVIDIA, good("GPU-1"))
	scrub := b.job(agentwire.TypeGPUScrub, agentwire.GPUScrubParams{GPUs: []string{"GPU-1"}})
	out := scrub.apply().(agentwire.GPUScrubOutput)
	want := agentwire.GPUScrubbed{
		UUID: "GPU-1", Method: "overwrite_verify_zero", BytesTotal: 1000, BytesCovered: 995, DurationMs: 70,
		DeviceMicros: 68250, Reset: "skipped: not asked for",
	}
	if out.Vendor != "nvidia" || out.GPUs[0] != want || b.gpu.asked[0] != "GPU-1" {
		t.Errorf("%+v of %v", out, b.gpu.asked)
	}
}

func TestScrubWithoutAGPUIsNotApplicable(t *testing.T) {
	out := newBench(t).job(agentwire.TypeGPUScrub,
		agentwire.GPUScrubParams{Reset: true}).apply().(agentwire.GPUScrubOutput)
	if out.Outcome != "not_applicable" || !strings.Contains(out.Reason, "no driver") {
		t.Errorf("output %+v", out)
	}
}

func TestABrokenHelperFailsTheScrub(t *testing.T) {
	b := newBench(t)
	b.gpu.inspectErr = &gpu.HelperError{Kind: gpu.NotStarted}
	j := b.job(agentwire.TypeGPUScrub, agentwire.GPUScrubParams{})
	j.applyFails("gpu_helper_not_started")
	b.gpu.inspectErr, b.gpu.scrubErr = nil, &gpu.HelperError{Kind: gpu.Crashed}
	j.applyFails("gpu_helper_crashed")
	j.mustCheck(false)
}

func TestAResetIsCancelled(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/nvidia-smi")
	b.gpu.report, b.gpu.scrub = scrubOf(gpu.NVIDIA, good("GPU-1"))
	j := b.job(agentwire.TypeGPUScrub, agentwire.GPUScrubParams{Reset: true})
	j.cancelIn("nvidia-smi")
	j.mustCheck(false)
}
