package decommission

import (
	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
)

// Outcome says whether an operation that reached its goal did everything that
// was asked for. It is not a status: an operation with gaps is over all the
// same.
type Outcome string

// The outcomes.
const (
	Clean    Outcome = "clean"
	WithGaps Outcome = "with_gaps" // less was done than was asked for, or something is left to be done
)

// Outcomes lists them.
func Outcomes() []Outcome { return []Outcome{Clean, WithGaps} }

// outcomeOf returns the outcome of an operation. It is empty if nothing was to be
// cleaned and there is no gap, because nothing is clean then. Otherwise it is clean unless an operator
// skipped a stage, the machine was released without the requested erasing, no
// GPU was scrubbed although the node has some, GPUs were cleaned by a weaker
// method than overwriting, or there are follow-ups.
func outcomeOf(d Decommission, n node.Node, evidence []Evidence) (Outcome, error) {
	if len(d.Overrides) > 0 || len(d.FollowUps) > 0 || d.Facts.Release != nil && d.Facts.Release.FellBack {
		return WithGaps, nil
	}
	out := Clean
	for _, e := range latest(evidence) {
		if e.Kind == EvidenceWeaker {
			out = WithGaps
		}
		if e.Kind != EvidenceGPU || n.GPUsTotal == 0 {
			continue
		}
		err := fromTask(e, func(_ seen, scrub agentwire.GPUScrubOutput) {
			if scrub.Outcome == outcomeNoGPU {
				out = WithGaps
			}
		})
		if err != nil {
			return "", err
		}
	}
	if out == Clean && !d.Mode.judged() {
		return "", nil
	}
	return out, nil
}
