package onboarding

import (
	"context"
	"fmt"
	"time"

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

// queue is what an onboarding that is pending waits in, which only the
// database knows.
type queue struct {
	used, limit           int // places of the site
	ofBatch, limitOfBatch int // and of the batch; no limit: it is on its own
	batch                 id.OnboardingBatch
	pausedAt              *time.Time
}

func (q queue) inUse() string {
	text := fmt.Sprintf("%d of %d places of the site are in use", q.used, q.limit)
	if q.limitOfBatch > 0 {
		text += fmt.Sprintf(", %d of %d of the batch", q.ofBatch, q.limitOfBatch)
	}
	return text
}

// within adds what a pending onboarding waits for.
func (e Explanation) within(o Onboarding, q queue, now time.Time) Explanation {
	e.Observed = q.inUse()
	switch {
	case o.AdmittedAt != nil:
	case q.pausedAt != nil:
		e.WaitingSince = job.UTC(q.pausedAt)
		e.Expected = "the batch is resumed, and a place within the limits of the site and the batch is free"
		e.Observed = fmt.Sprintf("batch %s is paused since %s; %s", q.batch, q.pausedAt.UTC().Format(time.RFC3339), e.Observed)
		e.Summary = fmt.Sprintf("%s is not begun: its batch has been paused%s", o.Hostname, job.Lasting(q.pausedAt, now))
		e.Remedy = fmt.Sprintf("go on with the batch: gpuaas onboarding batch resume %s --reason REASON", q.batch)
	case q.used >= q.limit:
		e.Summary += fmt.Sprintf(": %d of %d of the site are in use", q.used, q.limit)
	case q.limitOfBatch > 0 && q.ofBatch >= q.limitOfBatch:
		e.Summary += fmt.Sprintf(": %d of %d of the batch are in use", q.ofBatch, q.limitOfBatch)
	}
	return e
}

// explained reads an onboarding and explains it.
func (s *Service) explained(ctx context.Context, onboarding id.Onboarding) (Onboarding, []job.Event, Explanation, error) {
	o, events, told, err := s.jobs.Explain(ctx, onboarding.String())
	if err != nil {
		return Onboarding{}, nil, Explanation{}, err
	}
	explanation := explanationOf(told)
	if o.Status == job.Pending {
		q, err := s.queueOf(ctx, o)
		if err != nil {
			return Onboarding{}, nil, Explanation{}, err
		}
		explanation = explanation.within(o, q, s.now())
	}
	return o, events, explanation, nil
}

// queueOf reads what a pending onboarding waits in.
func (s *Service) queueOf(ctx context.Context, o Onboarding) (queue, error) {
	batch := ""
	if !o.Batch.IsZero() {
		batch = o.Batch.String()
	}
	places, err := s.rows.Places(ctx, s.db, o.Site, batch)
	if err != nil {
		return queue{}, err
	}
	q := queue{used: int(places.OfSite), limit: int(places.SiteLimit)}
	if o.Batch.IsZero() {
		return q, nil
	}
	r, err := s.reads.Batch(ctx, o.Batch)
	b, err := s.batchFound(r, err)
	if err != nil {
		return queue{}, err
	}
	limit, err := s.reads.BatchLimit(ctx, b.Profile)
	if err != nil {
		return queue{}, fmt.Errorf("read limit of batch: %w", err)
	}
	q.batch, q.pausedAt, q.ofBatch, q.limitOfBatch = b.ID, b.PausedAt, int(places.OfBatch), int(limit)
	return q, nil
}
