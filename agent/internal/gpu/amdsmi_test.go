package gpu_test

import (
	"slices"
	"testing"

	"gpuaas/agent/internal/gpu"
)

// The answers are written from the published sources of amd-smi; it was never
// run on hardware.
func TestWhatAMDSMISaysOfErrors(t *testing.T) {
	const counts = `{"gpu": 0, "ecc": {"total_correctable_count": 3, "total_uncorrectable_count": 1, "total_deferred_count": 0}}`
	for name, c := range map[string]struct {
		output string
		want   []gpu.ECC
		fails  bool
	}{
		"of ROCm 6": {"[" + counts + "]", []gpu.ECC{{Corrected: 3, Uncorrected: 1}}, false},
		"of ROCm 7": {`{"gpu_data": [` + counts + "]}", []gpu.ECC{{Corrected: 3, Uncorrected: 1}}, false},
		"not counted": {
			`[{"gpu": 0, "ecc": {"total_correctable_count": "N/A", "total_uncorrectable_count": "N/A"}}]`,
			[]gpu.ECC{{}},
			false,
		},
		"no GPU":     {"[]", []gpu.ECC{}, false},
		"text":       {"AMD-SMI: no driver", nil, true},
		"no numbers": {`[{"ecc": {"total_uncorrectable_count": -1}}]`, nil, true},
	} {
		got, err := gpu.ParseAMDErrors([]byte(c.output))
		if !slices.Equal(got, c.want) || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
