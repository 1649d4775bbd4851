package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/job"
)

// Explanation says how an onboarding stands: what it waits for, what was seen
// and since when, what is probably wrong, and what may be done.
type Explanation struct {
	job.Standing
	Offered
}

// Offered is what operators can do about an onboarding. It is embedded so that
// the contract lists it after how the onboarding stands.
type Offered struct {
	Actions []ExplainedAction `json:"actions" nullable:"false" doc:"What operators can do: first what is legal now, the best first."`
}

// ExplainedAction is an action of operators, and what it would do here.
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
