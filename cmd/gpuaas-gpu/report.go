package main

// The agent decodes these lines strictly: a field added here is added there.

const (
	vendorNVIDIA = "nvidia"
	vendorAMD    = "amd"
	vendorNone   = "none"

	outcomeScrubbed      = "scrubbed"
	outcomeFailed        = "failed"
	outcomeNotApplicable = "not_applicable"

	methodOverwrite = "overwrite_verify_zero"
)

// Codes of failures, stable for the agent.
const (
	codeInUse       = "gpu_in_use"
	codeNotFound    = "gpu_not_found"
	codeMIG         = "mig_enabled"
	codeUnreachable = "gpu_unreachable"
	codeUnsupported = "method_unavailable"
	codeDriver      = "driver_error"
	codeFaulty      = "memory_faulty"
	codeCheck       = "check_broken"
	codeInterrupted = "interrupted"
)

// report is the answer of inspect.
type report struct {
	Type         string   `json:"type"` // "report"
	Vendor       string   `json:"vendor"`
	Driver       string   `json:"driver"`
	DriverSeries string   `json:"driver_series"`
	GPUs         []gpu    `json:"gpus"`
	Unreachable  []string `json:"unreachable"` // PCI addresses of GPUs that no driver answers for
	Notes        []string `json:"notes"`
}

type gpu struct {
	Index        int       `json:"index"`
	UUID         string    `json:"uuid"`
	Name         string    `json:"name"`
	Architecture string    `json:"architecture"`
	PCI          string    `json:"pci_bus_id"`
	MemoryTotal  uint64    `json:"memory_total_bytes"`
	MemoryUsed   uint64    `json:"memory_used_bytes"`
	Processes    []process `json:"processes"`
	ECC          *ecc      `json:"ecc_errors,omitempty"`
	MIG          bool      `json:"mig,omitempty"` // divided into instances, by whichever name the vendor has for that
	Remap        *remap    `json:"row_remap,omitempty"`
	Slowdowns    []string  `json:"slowdowns,omitempty"` // why it holds itself back, where that tells of a fault
	Persistence  *bool     `json:"persistence,omitempty"`

	usedIsExact bool
}

type remap struct {
	Pending bool `json:"pending"`
	Failed  bool `json:"failed"`
}

type process struct {
	PID  int     `json:"pid"`
	Used *uint64 `json:"used_bytes,omitempty"`
	Kind string  `json:"kind"`
}

type ecc struct {
	Corrected   uint64 `json:"corrected"`
	Uncorrected uint64 `json:"uncorrected"`
}

// phase is a line of progress of a scrub.
type phase struct {
	Type     string  `json:"type"` // "phase"
	UUID     string  `json:"uuid"`
	Phase    string  `json:"phase"`
	Bytes    uint64  `json:"bytes"`
	DeviceMS float64 `json:"device_ms"`
	Words    uint64  `json:"words"`
}

// scrubReport is the last line of a scrub.
type scrubReport struct {
	Type       string        `json:"type"` // "result"
	Vendor     string        `json:"vendor"`
	Driver     string        `json:"driver"`
	Outcome    string        `json:"outcome"`
	GPUs       []scrubbedGPU `json:"gpus"`
	Notes      []string      `json:"notes"`
	DurationMS float64       `json:"duration_ms"`
}

type scrubbedGPU struct {
	UUID         string `json:"uuid"`
	Name         string `json:"name"`
	Method       string `json:"method"`
	BytesTotal   uint64 `json:"bytes_total"`
	BytesCovered uint64 `json:"bytes_covered"`
	Chunks       int    `json:"chunks"`
	WordBytes    int    `json:"word_bytes"`
	// Words found not zero before anything was written, found different from
	// the pattern after it was, and found not zero in the end.
	WordsBefore     uint64   `json:"words_nonzero_before"`
	WordsMismatched uint64   `json:"words_mismatched"`
	WordsNonzero    uint64   `json:"words_nonzero"`
	Passes          []pass   `json:"passes"`
	DurationMS      float64  `json:"duration_ms"`
	Error           *failure `json:"error,omitempty"`
}

type pass struct {
	Name     string  `json:"name"`
	Bytes    uint64  `json:"bytes"`
	DeviceMS float64 `json:"device_ms"`
	Rate     float64 `json:"bytes_per_second"`
	Words    uint64  `json:"words"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	PIDs    []int  `json:"pids,omitempty"`
}
