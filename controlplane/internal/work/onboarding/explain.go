package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/job"
)

// Explanation describes the state of an onboarding: what it waits for, what was
// seen and since when, what is probably wrong, and what operators may do.
type Explanation struct {
	job.Standing
	Offered
}

// Offered lists what operators can do about an onboarding. It is embedded so
// that the contract lists it after the state.
type Offered struct {
	Actions []ExplainedAction `json:"actions" nullable:"false" doc:"What operators can do: first what is legal now, the best first."`
}

// ExplainedAction is an action of operators, and its effect here.
type ExplainedAction job.ExplainedAction

func explanationOf(e job.Explanation) Explanation {
	out := Explanation{Standing: e.Standing, Offered: Offered{Actions: make([]ExplainedAction, len(e.Actions))}}
	for i, a := range e.Actions {
		out.Actions[i] = ExplainedAction(a)
	}
	return out
}

// explained reads an onboarding and explains it.
func (s *Service) explained(ctx context.Context, of id.Onboarding) (Onboarding, []job.Event, Explanation, error) {
	o, events, told, err := s.jobs.Explain(ctx, of.String())
	return o, events, explanationOf(told), err
}
