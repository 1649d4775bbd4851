package durable

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"gpuaas/controlplane/internal/base/fault"
)

// retryable is the only place that decides whether Temporal may repeat an
// activity by itself: only if the effect is proven not accepted, or safe to
// repeat.
func retryable(kind fault.Kind) bool {
	switch kind {
	case fault.Unavailable, fault.RateLimited:
		return true
	case fault.Invalid, fault.Unauthenticated, fault.Forbidden, fault.NotFound, fault.Conflict, fault.Stale,
		fault.Ambiguous, fault.Internal:
		return false
	}
	return false
}

// details are stored in the workflow history. They hold what a fault shows to
// people, and never its cause, which may quote anything.
type details struct {
	Code   string        `json:"code"`
	Remedy string        `json:"remedy,omitempty"`
	Fields []fault.Field `json:"fields,omitempty"`
}

// toTemporal turns the error of an activity into what the history records.
func toTemporal(err error) error {
	if err == nil {
		return nil
	}
	var already *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	if errors.As(err, &already) || errors.As(err, &cancelled) {
		return err
	}
	kind := fault.KindOf(err)
	message, d := "unexpected error; see the worker's log", details{Code: string(kind)}
	if f, ok := fault.As(err); ok {
		message, d = f.Message, details{Code: f.Code, Remedy: f.Remedy, Fields: f.Fields}
	}
	return temporal.NewApplicationErrorWithOptions(message, string(kind), temporal.ApplicationErrorOptions{
		NonRetryable: !retryable(kind), Details: []any{d},
	})
}

// FromTemporal turns the error that a workflow gets from an activity back into
// a fault. If the activity ran out of time, nothing is known about its effect.
func FromTemporal(err error) error {
	if err == nil {
		return nil
	}
	var ae *temporal.ApplicationError
	if errors.As(err, &ae) {
		var d details
		if ae.HasDetails() {
			if derr := ae.Details(&d); derr != nil {
				d.Code = ae.Type()
			}
		}
		for _, kind := range fault.Kinds {
			if string(kind) == ae.Type() {
				f := fault.New(kind, d.Code, "%s", ae.Message()).WithFields(d.Fields...)
				if d.Remedy != "" {
					f = f.WithRemedy("%s", d.Remedy)
				}
				return f
			}
		}
		return fault.New(fault.Internal, "activity_failed", "%s", ae.Message())
	}
	var te *temporal.TimeoutError
	if errors.As(err, &te) {
		return fault.Wrap(err, fault.Ambiguous, "activity_timed_out",
			"the step did not answer in time; its effect is unknown")
	}
	return err
}
