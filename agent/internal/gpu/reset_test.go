package gpu_test

import (
	"slices"
	"testing"

	"gpuaas/agent/internal/gpu"
)

func TestResetCommands(t *testing.T) {
	for _, c := range []struct {
		vendor gpu.Vendor
		gpu    gpu.GPU
		want   [][]string
	}{
		{gpu.NVIDIA, gpu.GPU{UUID: h200}, [][]string{{"nvidia-smi", "--gpu-reset", "-i", h200}}},
		{gpu.AMD, gpu.GPU{UUID: "a1b2", Index: 3, PCI: "0000:85:00.0"}, [][]string{
			{"amd-smi", "reset", "--gpureset", "--gpu", "0000:85:00.0"}, {"rocm-smi", "--gpureset", "-d", "3"},
		}},
		{gpu.NVIDIA, gpu.GPU{UUID: "--help"}, nil},
		{gpu.NVIDIA, gpu.GPU{}, nil},
		{gpu.AMD, gpu.GPU{Index: -1, PCI: "0000:85:00.0"}, nil},
		{gpu.AMD, gpu.GPU{PCI: "--all"}, nil},
		{gpu.None, gpu.GPU{UUID: h200}, nil},
	} {
		got, err := gpu.ResetCommands(c.vendor, c.gpu)
		if !slices.EqualFunc(got, c.want, slices.Equal) || (err == nil) != (c.want != nil) {
			t.Errorf("%s %+v: %v, %v", c.vendor, c.gpu, got, err)
		}
	}
}

// The texts of nvidia-smi are those of an H200 with driver 580.159.04. Those of
// amd-smi and rocm-smi are of their published sources; no tool of AMD was run.
func TestWhatAResetSays(t *testing.T) {
	for _, c := range []struct {
		vendor gpu.Vendor
		exit   int
		output string
		want   gpu.ResetOutcome
	}{
		{gpu.NVIDIA, 0, "GPU 00000000:00:06.0 was successfully reset.\nAll done.\n", gpu.ResetDone},
		{gpu.NVIDIA, 1, "GPU 00000000:00:06.0 was successfully reset.\nAll done.\n", gpu.ResetFailed},
		{gpu.NVIDIA, 255, "The following GPUs could not be reset:\n  GPU 00000000:00:06.0: In use by another client\n\n1 " +
			"device is currently being used by one or more other processes", gpu.ResetInUse},
		{
			gpu.NVIDIA, 4, "Unable to disable persistence mode for GPU 00000000:00:06.0: Insufficient Permissions\n",
			gpu.ResetNotPermitted,
		},
		{
			gpu.NVIDIA, 3, "The following GPUs could not be reset:\n  GPU 00000000:17:00.0: Not Supported\n",
			gpu.ResetNotSupported,
		},
		{gpu.NVIDIA, 6, "No devices were found\n", gpu.ResetFailed},
		{gpu.NVIDIA, 0, "", gpu.ResetFailed},
		{gpu.AMD, 0, "GPU[0]\t\t: Successfully reset GPU 0\n", gpu.ResetDone},
		{gpu.AMD, 0, "GPU[0]\t\t: Successfully reset clocks\n", gpu.ResetFailed},
		{gpu.AMD, 0, "ERROR: GPU[0]\t\t: Unable to reset GPU 0\n", gpu.ResetFailed},
		{gpu.AMD, 0, "GPU[0]\t\t: reset_gpu, Not supported on the given system\n", gpu.ResetNotSupported},
		{gpu.AMD, 0, "GPU: 0\n    GPU_RESET: Successfully reset GPU\n", gpu.ResetDone},
		{gpu.AMD, 0, "GPU: 0\n    GPU_RESET: Failed to reset GPU\n", gpu.ResetFailed},
		{gpu.AMD, 0, "GPU: 0\n    GPU_RESET: Unable to reset non-amd GPU\n", gpu.ResetFailed},
		{gpu.AMD, 255, "PermissionError: Command requires elevation\n", gpu.ResetNotPermitted},
		{gpu.AMD, 0, "GPU: 0\n    GPU_RESET: AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported\n", gpu.ResetNotSupported},
		{gpu.None, 0, "was successfully reset", gpu.ResetFailed},
	} {
		if got := gpu.ParseReset(c.vendor, c.exit, c.output); got != c.want {
			t.Errorf("%s exit %d %q: %s, want %s", c.vendor, c.exit, c.output, got, c.want)
		}
	}
}
