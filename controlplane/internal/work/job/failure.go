package job

import (
	"cmp"
	"errors"
	"fmt"

	"gpuaas/controlplane/internal/base/fault"
)

// FailureClass says what went wrong as far as it decides what may be done about
// it. Classes are chosen where a failure is met, never read from its text.
type FailureClass string

// The classes that every family knows. Families add their own.
const (
	InputConfigError  FailureClass = "input_config_error" // what was asked for, or a setting, cannot work as it is
	UpstreamTransient FailureClass = "upstream_transient" // something that is needed is away for a while
	StateAmbiguity    FailureClass = "state_ambiguity"    // nobody knows, or what is seen does not fit what was done
)

// Failure is why a stage did not reach its end.
type Failure struct { //nolint:errname // named as the specification names it
	Class   FailureClass
	Code    *Code
	Message string         // what happened, to what
	Remedy  string         // what to do about it
	Details map[string]any // never a secret
	Final   bool           // another attempt would end the same
	Next    string         // a stage that deals with it
	Cause   error
}

func (f *Failure) Error() string { return f.Code.String() + ": " + f.Message }

func (f *Failure) Unwrap() error { return f.Cause }

// Called gives a failure another code, with the class of that code and, if the
// failure has no remedy yet, its remedy.
func (f *Failure) Called(c *Code) *Failure {
	f.Code, f.Class, f.Remedy = c, cmp.Or(c.Class, f.Class), cmp.Or(f.Remedy, c.Remedy)
	return f
}

// With says what to do about it, where the remedy of the code is too general.
func (f *Failure) With(format string, args ...any) *Failure {
	f.Remedy = fmt.Sprintf(format, args...)
	return f
}

// ForGood says that another attempt would end the same.
func (f *Failure) ForGood() *Failure {
	f.Final = true
	return f
}

// Because keeps the cause, for logs.
func (f *Failure) Because(err error) *Failure {
	f.Cause = err
	return f
}

// About adds details.
func (f *Failure) About(details map[string]any) *Failure {
	f.Details = details
	return f
}

// Classify gives an error of a stage its class. The kind of a fault says whether
// another attempt makes sense.
func Classify(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	code := CodeNamed(fault.CodeOf(err))
	out := code.FailedAs(StateAmbiguity, "an unexpected error; see the worker's log").Because(err)
	if e, ok := fault.As(err); ok {
		out.Message, out.Remedy = e.Message, cmp.Or(e.Remedy, code.Remedy)
	}
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.RateLimited:
		out.Class = UpstreamTransient
	case fault.Invalid, fault.NotFound, fault.Unauthenticated, fault.Forbidden:
		out.Class, out.Final = InputConfigError, true
	case fault.Conflict, fault.Stale, fault.Ambiguous, fault.Internal:
		out.Final = true
	}
	return out
}
