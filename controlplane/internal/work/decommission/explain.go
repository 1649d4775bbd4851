package decommission

import (
	"context"
	"fmt"
	"strings"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Explanation describes the state of a decommission: what it waits for, what
// was seen and since when, what is probably wrong, and what operators may do.
type Explanation struct {
	job.Standing
	Offered
}

// Offered lists what operators can do about a decommission. It is embedded so
// that the contract lists it after the state.
type Offered struct {
	Actions  []ExplainedAction `json:"actions" nullable:"false" doc:"What operators can do: first what is legal now, the best first."`
	Override *OverrideOffer    `json:"override,omitempty" doc:"How to go on without the stage that failed; absent: nobody may."`
}

// ExplainedAction is an action of operators, and its effect here.
type ExplainedAction job.ExplainedAction

// OverrideOffer is how to go on without a stage.
type OverrideOffer struct {
	Stage   string   `json:"stage" doc:"The stage that would be passed over." example:"drain_node"`
	Does    string   `json:"does" doc:"What that means."`
	Command string   `json:"command" doc:"How to do it on the command line."`
	Also    []string `json:"also,omitempty" doc:"Later stages that fail for the same reason, and that the same decision may pass over: the short way for a node whose agent is gone."`
}

func explanationOf(d Decommission, e job.Explanation) Explanation {
	out := Explanation{Standing: e.Standing, Offered: Offered{Actions: make([]ExplainedAction, len(e.Actions))}}
	for i, a := range e.Actions {
		out.Actions[i] = ExplainedAction(a)
	}
	if d.Parked() && !family().HalfUndone(d) && overridable(d, d.Stage, false) == nil {
		also := alsoWithout(d)
		out.Override = &OverrideOffer{
			Stage: d.Stage, Also: also,
			Does: "continues without this stage; who decided that, why, and the remaining risk are recorded and appear in the certificate",
			Command: fmt.Sprintf("gpuaas decommission override %s --stage %s", d.ID,
				strings.Join(append([]string{d.Stage}, also...), ",")),
		}
		if len(also) > 0 {
			out.Override.Does = "continues without this stage and " + strings.Join(also, ", ") +
				", which only the agent could carry out; who decided that, why, and the remaining risk are recorded and appear in the certificate"
		}
		if d.ErrorCode == bringup.CodeMachineGone.Name && family().Recommended(d) != job.AdoptObserved {
			out.Remedy = "find out who removed it; once it is in MAAS again, retry the stage; if it is gone for good, go on without the stage, which the certificate will say"
		}
	}
	return out
}

// explained reads a decommission and explains it.
func (s *Service) explained(ctx context.Context, of id.Decommission) (Decommission, []job.Event, Explanation, error) {
	d, events, told, err := s.runner.Explain(ctx, of.String())
	if err != nil {
		return Decommission{}, nil, Explanation{}, err
	}
	return d, events, explanationOf(d, told), nil
}
