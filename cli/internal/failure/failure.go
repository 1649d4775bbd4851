package failure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

// Exit codes. Scripts depend on them: they are added to, never changed.
const (
	OK              = 0
	Unexpected      = 1
	Usage           = 2
	Unauthenticated = 3
	Forbidden       = 4
	NotFound        = 5
	Conflict        = 6
	Unavailable     = 7
	Unsuccessful    = 8
	Unconfirmed     = 9
	Interrupted     = 130
)

// Error is what a person or a program is told about an error.
type Error struct {
	Exit    int
	What    string // what happened
	Code    string
	Fields  []apiclient.FieldError
	Remedy  string // what to do about it
	Quote   string // correlation id
	problem *apiclient.Problem
}

// Error makes a failure an error that knows its exit code.
func (f *Error) Error() string { return f.What }

// New is a failure: the exit code, a code for programs, what to do, and what happened.
func New(exit int, code, remedy, format string, args ...any) *Error {
	return &Error{Exit: exit, Code: code, Remedy: remedy, What: fmt.Sprintf(format, args...)}
}

// Misuse is a command that was called wrongly.
func Misuse(cmd *cobra.Command, format string, args ...any) *Error {
	return New(Usage, "usage", "see: "+cmd.CommandPath()+" --help", format, args...)
}

// Stopped says that an error is somebody's wish to end, not a failure.
func Stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

// OfInterruption is the failure of a command that somebody ended before it was done.
func OfInterruption(err error) *Error {
	var call *apiclient.CallError
	if errors.As(err, &call) && call.IdempotencyKey != "" {
		return New(Interrupted, "interrupted",
			"repeat the command with --idempotency-key "+call.IdempotencyKey+": what was done is not done twice",
			"interrupted: the change may or may not have been made")
	}
	return New(Interrupted, "interrupted", "", "interrupted")
}

// ExitOf is the exit code for a status of the API.
func ExitOf(status int64) int {
	switch status {
	case http.StatusUnauthorized:
		return Unauthenticated
	case http.StatusForbidden:
		return Forbidden
	case http.StatusNotFound:
		return NotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return Conflict
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return Unavailable
	}
	if status >= 400 && status < 500 {
		return Usage
	}
	return Unexpected
}

// OfProblem is the failure that the API answered with.
func OfProblem(p *apiclient.Problem) *Error {
	said := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	f := &Error{
		Exit: ExitOf(p.Status), What: cmp.Or(said(p.Detail), p.Title), Code: p.Code,
		Remedy: said(p.Remedy), Quote: said(p.CorrelationId), problem: p,
	}
	if p.Errors != nil {
		f.Fields = *p.Errors
	}
	return f
}

// JSON is the problem as the API answered it, or one made in its likeness.
func (f *Error) JSON() []byte {
	type likeness struct {
		Type          string                 `json:"type,omitempty"`
		Title         string                 `json:"title,omitempty"`
		Status        int64                  `json:"status,omitempty"`
		Detail        string                 `json:"detail"`
		Code          string                 `json:"code"`
		Remedy        string                 `json:"remedy,omitempty"`
		CorrelationID string                 `json:"correlation_id,omitempty"`
		Errors        []apiclient.FieldError `json:"errors,omitempty"`
		ExitCode      int                    `json:"exit_code"`
	}
	l := likeness{
		Detail: f.What, Code: f.Code, Remedy: f.Remedy, CorrelationID: f.Quote, Errors: f.Fields,
		ExitCode: f.Exit,
	}
	if f.problem != nil {
		l.Type, l.Title, l.Status = f.problem.Type, f.problem.Title, f.problem.Status
	}
	b, err := json.Marshal(l)
	if err != nil { // strings and numbers only
		panic(err)
	}
	return b
}

// Missing is something that does not exist, or that the caller must not know of.
func Missing(remedy, format string, args ...any) error {
	return New(NotFound, "not_found", remedy, format, args...)
}
