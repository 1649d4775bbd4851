package gpu

import (
	"errors"
	"fmt"
	"slices"
)

// Outcome says how a scrub ended.
type Outcome string

// The outcomes. NotApplicable is the answer of a host without GPUs.
const (
	Scrubbed      Outcome = "scrubbed"
	Failed        Outcome = "failed"
	NotApplicable Outcome = "not_applicable"
)

// Codes of failures that callers tell apart.
const (
	CodeInUse       = "gpu_in_use"
	CodeUnsupported = "method_unavailable"
	CodeDriver      = "driver_error"
	CodeCoverage    = "coverage_low"
)

// MinimumCoverage is the share of a GPU's memory that a scrub must reach. The
// driver keeps half a gibibyte for itself, 0.4 % of an H200. If more is
// missing, somebody holds memory.
const MinimumCoverage = 0.99

// Phase is the progress of a scrub.
type Phase struct {
	Type     string  `json:"type"`
	UUID     string  `json:"uuid"`
	Phase    string  `json:"phase"`
	Bytes    uint64  `json:"bytes"`
	DeviceMS float64 `json:"device_ms"`
	Words    uint64  `json:"words"`
}

// ScrubReport is the result of a scrub.
type ScrubReport struct {
	Type       string        `json:"type"`
	Vendor     Vendor        `json:"vendor"`
	Driver     string        `json:"driver"`
	Outcome    Outcome       `json:"outcome"`
	GPUs       []ScrubbedGPU `json:"gpus"`
	Notes      []string      `json:"notes"`
	DurationMS float64       `json:"duration_ms"`
}

// ScrubbedGPU is what was done to one GPU.
type ScrubbedGPU struct {
	UUID         string `json:"uuid"`
	Name         string `json:"name"`
	Method       string `json:"method"`
	BytesTotal   uint64 `json:"bytes_total"`
	BytesCovered uint64 `json:"bytes_covered"`
	Chunks       int    `json:"chunks"`
	WordBytes    int    `json:"word_bytes"`
	// Words that were not zero before anything was written, that differed from
	// the pattern after it was written, and that were not zero in the end.
	WordsBefore     uint64   `json:"words_nonzero_before"`
	WordsMismatched uint64   `json:"words_mismatched"`
	WordsNonzero    uint64   `json:"words_nonzero"`
	Passes          []Pass   `json:"passes"`
	DurationMS      float64  `json:"duration_ms"`
	Error           *Failure `json:"error,omitempty"`
}

// Pass is one pass over the memory of a GPU.
type Pass struct {
	Name     string  `json:"name"`
	Bytes    uint64  `json:"bytes"`
	DeviceMS float64 `json:"device_ms"`
	Rate     float64 `json:"bytes_per_second"`
	Words    uint64  `json:"words"`
}

// Failure says why a GPU was not scrubbed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	PIDs    []int  `json:"pids,omitempty"`
}

// Coverage is the share of the memory that was overwritten.
func (g ScrubbedGPU) Coverage() float64 {
	if g.BytesTotal == 0 {
		return 0
	}
	return float64(g.BytesCovered) / float64(g.BytesTotal)
}

// Failure says why the GPU does not count as scrubbed. It is nil if it does.
func (g ScrubbedGPU) Failure() *Failure {
	switch {
	case g.Error != nil:
		return g.Error
	case g.Coverage() < MinimumCoverage:
		return &Failure{
			Code: CodeCoverage,
			Message: fmt.Sprintf("only %.1f %% of the memory could be overwritten, %.0f %% is required", 100*g.Coverage(),
				100*MinimumCoverage),
		}
	default:
		return nil
	}
}

// validate refuses a result that contradicts itself or leaves out a requested
// GPU: such a result is no evidence.
func (r ScrubReport) validate(asked []string) error {
	if err := r.Vendor.validate(); err != nil {
		return err
	}
	failed := 0
	for _, g := range r.GPUs {
		if err := g.validate(); err != nil {
			return fmt.Errorf("GPU %q: %w", g.UUID, err)
		}
		if g.Error != nil {
			failed++
		}
	}
	for _, uuid := range asked {
		if !slices.ContainsFunc(r.GPUs, func(g ScrubbedGPU) bool { return g.UUID == uuid }) {
			return fmt.Errorf("GPU %q was asked for and is not in the result", uuid)
		}
	}
	switch r.Outcome {
	case Scrubbed:
		if failed > 0 || len(r.GPUs) == 0 {
			return fmt.Errorf("outcome scrubbed with %d GPUs, %d of them failed", len(r.GPUs), failed)
		}
	case Failed:
		if failed == 0 {
			return errors.New("outcome failed without a GPU that failed")
		}
	case NotApplicable:
		if len(r.GPUs) > 0 || r.Vendor != None {
			return fmt.Errorf("outcome not_applicable with %d GPUs of %s", len(r.GPUs), r.Vendor)
		}
	default:
		return fmt.Errorf("outcome %q is unknown", string(r.Outcome))
	}
	return nil
}

func (g ScrubbedGPU) validate() error {
	switch {
	case !identifier.MatchString(g.UUID):
		return errors.New("malformed UUID")
	case g.BytesCovered > g.BytesTotal:
		return fmt.Errorf("%d bytes covered of %d", g.BytesCovered, g.BytesTotal)
	case g.Error != nil && g.Error.Code == "":
		return errors.New("an error without a code")
	case g.Error != nil:
		return nil
	case g.BytesCovered == 0 || g.Method == "" || len(g.Passes) == 0:
		return errors.New("success without evidence")
	case g.WordsMismatched != 0 || g.WordsNonzero != 0:
		return fmt.Errorf("success with %d words mismatched and %d not zero", g.WordsMismatched, g.WordsNonzero)
	}
	return nil
}
