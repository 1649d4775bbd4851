package agentwire

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// TypeGPUScrub overwrites GPU memory.
const TypeGPUScrub = "node.gpu_scrub"

var _ = declare[GPUScrubParams, GPUScrubOutput](Spec{
	Type: TypeGPUScrub, Title: "overwrite and verify GPU memory, reset GPUs",
	Destroys: "GPU memory is overwritten, and the GPUs are reset if the parameters say so. Whatever runs on them ends.",
	Class:    ClassExclusive, Window: 30 * time.Minute, Patience: time.Hour, Attempts: 3,
	Sound:  []string{`{"reset":true}`, `{"gpus":["GPU-0b1c"],"reset":false}`},
	Answer: `{"outcome":"not_applicable","reason":"this machine has no GPU","vendor":"none","gpus":[]}`,
})

var gpuForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// GPUScrubParams says which GPUs. None means all.
type GPUScrubParams struct {
	GPUs  []string `json:"gpus,omitempty"`
	Reset bool     `json:"reset"`
}

// Validate implements Params.
func (p GPUScrubParams) Validate() error {
	if len(p.GPUs) > 64 {
		return errors.New("at most 64 GPUs")
	}
	for _, g := range p.GPUs {
		if !gpuForm.MatchString(g) {
			return fmt.Errorf("%q is not the UUID of a GPU", g)
		}
	}
	return nil
}

// GPUScrubOutput is the evidence of a scrub.
type GPUScrubOutput struct {
	// Outcome is scrubbed, incomplete, or not_applicable if there is no GPU.
	Outcome string        `json:"outcome"`
	Reason  string        `json:"reason,omitempty"`
	Vendor  string        `json:"vendor"`
	GPUs    []GPUScrubbed `json:"gpus"`
}

// ScrubByReset is the method for GPUs whose memory cannot be overwritten: they
// are reset, and nothing is read back.
const ScrubByReset = "reset"

// GPUScrubbed is the evidence for one GPU.
type GPUScrubbed struct {
	UUID         string `json:"uuid"`
	Method       string `json:"method"`
	BytesTotal   int64  `json:"bytes_total"`
	BytesCovered int64  `json:"bytes_covered"`
	WordsNonzero int64  `json:"words_nonzero"`
	DurationMs   int64  `json:"duration_ms"`
	DeviceMicros int64  `json:"device_micros"`
	Reset        string `json:"reset"` // done, failed: reason, skipped: reason
	Error        string `json:"error,omitempty"`
}
