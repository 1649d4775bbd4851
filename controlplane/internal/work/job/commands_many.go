package job

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
)

// Meant is a job that an operator means to act on.
type Meant struct {
	Job string
	// Epoch is the epoch of the row when the operator looked at it: a job that
	// somebody has acted on since is refused. Nil if nobody looked at it.
	Epoch *int64
	// Cause is the reason for which the job must still be parked. If nil, any
	// reason will do, or the job need not be parked.
	Cause *Cause
}

// Outcome is the result of the action on one of many jobs.
type Outcome[R Row] struct {
	Job     string
	Row     R            // as it is now; zero: it could not be read
	Refused *fault.Error // nil: the action was taken
}

// Cause is why jobs are parked. An empty field means any.
type Cause struct {
	Stage string
	Class FailureClass
	Code  string
}

// Of says whether that is why a job is parked.
func (c Cause) Of(j Job) bool {
	return (c.Stage == "" || c.Stage == j.Stage) && (c.Class == "" || c.Class == j.FailureClass) &&
		(c.Code == "" || c.Code == j.ErrorCode)
}

// ParkedFor names the rows that are parked for a cause. It refuses to name none.
func ParkedFor[R Row](rows []R, c Cause) ([]Meant, error) {
	var out []Meant
	for _, r := range rows {
		if j := r.Common(); c.Of(j) {
			out = append(out, Meant{Job: j.ID, Cause: &c})
		}
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Conflict, "none_parked_so", "no job of the batch is parked for this cause any more").
			WithRemedy("check the present state of its jobs, then decide again")
	}
	return out, nil
}

// ActMany does to many jobs what an operator decided: each in a transaction of
// its own, by the rules of Act. A job that refuses does not keep the others from
// it. If something breaks on our side, the jobs that were not reached are refused
// as not tried; nothing but the first job's own error is returned as an error.
func (r *Runner[R, W]) ActMany(ctx context.Context, jobs []Meant, action Trigger, reason string) ([]Outcome[R], error) {
	if _, err := stated(reason); err != nil {
		return nil, err
	}
	out := make([]Outcome[R], 0, len(jobs))
	seen := map[string]bool{}
	broke := false
	for _, m := range jobs {
		if seen[m.Job] {
			continue
		}
		seen[m.Job] = true
		if broke {
			out = append(out, Outcome[R]{Job: m.Job, Refused: notTried()})
			continue
		}
		row, err := r.Act(ctx, m.Job, action, reason, Besides[R]{Within: r.asMeant(m, action)})
		refused := refusal(err)
		if err != nil && refused == nil {
			if len(out) == 0 {
				return nil, err
			}
			broke, refused = true, unproven()
			r.logger.ErrorContext(ctx, "an action on many jobs broke off", "family", r.family.Noun, "job", m.Job,
				"action", action, "error", err)
		}
		out = append(out, Outcome[R]{Job: m.Job, Row: row, Refused: refused})
	}
	return out, nil
}

// asMeant refuses to act on a job that is not any more what the operator decided
// about, and to destroy anything that nobody looked at.
func (r *Runner[R, W]) asMeant(m Meant, action Trigger) func(context.Context, pgx.Tx, R, *Acted[R]) error {
	return func(_ context.Context, _ pgx.Tx, before R, _ *Acted[R]) error {
		j := r.family.common(before)
		switch {
		case m.Epoch != nil && *m.Epoch != j.Epoch:
			return fault.New(fault.Conflict, "job_changed", "somebody acted on the %s of %s meanwhile", r.family.Noun,
				j.Subject).
				WithRemedy("look how it stands now, and decide again")
		case m.Cause != nil && (j.Phase != Parked || !m.Cause.Of(j)):
			return fault.New(fault.Conflict, "job_changed", "the %s of %s is not parked for this cause any more", r.family.Noun,
				j.Subject).WithRemedy("look how it stands now, and decide again")
		case m.Epoch == nil && r.family.safetyOf(before, action) == DestroysData:
			return fault.New(fault.Conflict, "epoch_missing", "%s destroys what is on %s, and the request does not say that "+
				"somebody looked at it", action, j.Subject).WithRemedy("read the %s, and name it with its epoch", r.family.Noun)
		}
		return nil
	}
}

// refusal returns what to tell the caller about an error that concerns only one
// job, or nil if it concerns more than that.
func refusal(err error) *fault.Error {
	f, ok := fault.As(err)
	if !ok {
		return nil
	}
	if f.Code == "idempotency_overtaken" { // of httpapi: a repetition of the whole request does the rest
		return nil
	}
	switch f.Kind {
	case fault.Invalid, fault.Forbidden, fault.NotFound, fault.Conflict, fault.Stale:
		return f
	case fault.Unauthenticated, fault.RateLimited, fault.Unavailable, fault.Ambiguous, fault.Internal:
	}
	return nil
}

func unproven() *fault.Error {
	return fault.New(fault.Ambiguous, "outcome_unknown",
		"the control plane failed: the action may or may not have been taken").
		WithRemedy("check its state; you can safely send the same request again")
}

func notTried() *fault.Error {
	return fault.New(fault.Unavailable, "not_tried",
		"the control plane failed before it reached this one: nothing was done to it").
		WithRemedy("ask for it again, with a new idempotency key")
}
