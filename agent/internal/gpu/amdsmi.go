package gpu

import (
	"encoding/json"
	"fmt"
)

// ParseAMDErrors reads what amd-smi metric --ecc --json prints: the errors of
// each GPU, in its order. A GPU that does not count them has zeros.
func ParseAMDErrors(output []byte) ([]ECC, error) {
	type listed struct {
		ECC struct {
			Corrected   count `json:"total_correctable_count"`
			Uncorrected count `json:"total_uncorrectable_count"`
		} `json:"ecc"`
	}
	var list []listed // of ROCm 6
	if err := json.Unmarshal(output, &list); err != nil {
		var wrapped struct { // of ROCm 7
			GPUs []listed `json:"gpu_data"`
		}
		if err := json.Unmarshal(output, &wrapped); err != nil {
			return nil, fmt.Errorf("decode output of amd-smi: %w", err)
		}
		list = wrapped.GPUs
	}
	out := make([]ECC, len(list))
	for i, g := range list {
		out[i] = ECC{Corrected: uint64(g.ECC.Corrected), Uncorrected: uint64(g.ECC.Uncorrected)}
	}
	return out, nil
}

// count is a number, or "N/A" where the GPU has none.
type count uint64

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(raw []byte) error {
	if string(raw) == `"N/A"` {
		*c = 0
		return nil
	}
	var n uint64
	if err := json.Unmarshal(raw, &n); err != nil {
		return fmt.Errorf("decode count: %w", err)
	}
	*c = count(n)
	return nil
}
