package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/telemetry"
)

const problemType = "application/problem+json"

// Problem is the answer to every failure (RFC 9457).
type Problem struct { //nolint:errname // the name of the standard, and of the schema
	Type          string       `json:"type" format:"uri-reference" doc:"Names the kind of problem." example:"urn:gpuaas:problem:not_found"`
	Title         string       `json:"title" doc:"The status in words." example:"Not Found"`
	Status        int          `json:"status" doc:"The HTTP status." example:"404"`
	Detail        string       `json:"detail,omitempty" doc:"What happened, for people."`
	Code          string       `json:"code" doc:"What happened, for programs: it never changes." example:"not_found"`
	Remedy        string       `json:"remedy,omitempty" doc:"What to do about it."`
	CorrelationID string       `json:"correlation_id,omitempty" doc:"Ties this answer to log lines and audit entries."`
	Errors        []FieldError `json:"errors,omitempty" nullable:"false" doc:"The inputs that were rejected."`

	retryAfter time.Duration
}

// FieldError is one rejected input.
type FieldError struct {
	Field   string `json:"field" doc:"Where it stands in the request." example:"body.name"`
	Message string `json:"message" doc:"What is wrong with it."`
}

// Error makes a problem an error the framework can carry.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns that of problem documents, whatever the caller accepts.
func (p *Problem) ContentType(string) string { return problemType }

// GetHeaders returns the headers that belong to the problem.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	return h
}

// Codes whose status says more than the status of their kind.
const (
	codePreconditionRequired = "precondition_required"
	codeInvalidRequest       = "invalid_request"
	codeValidation           = "validation_error"
	codeBodyTooLarge         = "body_too_large"
	codeMediaType            = "unsupported_media_type"
	codeMethodNotAllowed     = "method_not_allowed"
	codeBodyTimeout          = "body_read_timeout"
	codeNotFound             = "not_found"
	codeTimeout              = "request_timed_out"
	codeInternal             = "internal"
)

var statusOfCode = map[string]int{
	codePreconditionRequired: http.StatusPreconditionRequired,
	codeInvalidRequest:       http.StatusBadRequest,
	codeBodyTooLarge:         http.StatusRequestEntityTooLarge,
	codeMediaType:            http.StatusUnsupportedMediaType,
	codeMethodNotAllowed:     http.StatusMethodNotAllowed,
	codeBodyTimeout:          http.StatusRequestTimeout,
}

var statusOfKind = map[fault.Kind]int{
	fault.Invalid:         http.StatusUnprocessableEntity,
	fault.Unauthenticated: http.StatusUnauthorized,
	fault.Forbidden:       http.StatusForbidden,
	fault.NotFound:        http.StatusNotFound,
	fault.Conflict:        http.StatusConflict,
	fault.Stale:           http.StatusPreconditionFailed,
	fault.RateLimited:     http.StatusTooManyRequests,
	fault.Unavailable:     http.StatusServiceUnavailable,
	fault.Ambiguous:       http.StatusGatewayTimeout,
	fault.Internal:        http.StatusInternalServerError,
}

// How long callers should wait: repeating at once would meet the same answer.
var retryOfKind = map[fault.Kind]time.Duration{
	fault.RateLimited: time.Second,
	fault.Unavailable: 5 * time.Second,
}

func statusOf(e *fault.Error) int {
	if status, ok := statusOfCode[e.Code]; ok {
		return status
	}
	return statusOfKind[e.Kind]
}

// retryLaterError is a failure that says when to try again.
type retryLaterError struct {
	fault *fault.Error
	after time.Duration
}

func (r *retryLaterError) Error() string { return r.fault.Error() }

func (r *retryLaterError) Unwrap() error { return r.fault }

// problem turns any error into what the caller may see, and logs the rest.
func (a *API) problem(ctx context.Context, err error) *Problem {
	p := problemOf(ctx, err)
	if p.Status >= http.StatusInternalServerError {
		level := slog.LevelError
		if p.Status != http.StatusInternalServerError {
			level = slog.LevelWarn
		}
		a.cfg.Logger.Log(ctx, level, "request failed", "code", p.Code, "error", err.Error(),
			"operation", exchangeFrom(ctx).operation)
	}
	return p
}

func problemOf(ctx context.Context, err error) *Problem {
	var done *Problem
	if errors.As(err, &done) {
		return done
	}
	p := describeFault(asFault(err))
	p.CorrelationID = telemetry.Correlation(ctx)
	var later *retryLaterError
	if errors.As(err, &later) {
		p.retryAfter = later.after
	}
	return p
}

func asFault(err error) *fault.Error {
	if e, ok := fault.As(err); ok {
		return e
	}
	if fault.KindOf(err) == fault.Ambiguous {
		return fault.New(fault.Ambiguous, codeTimeout,
			"the request was not finished in time; it may or may not have taken effect").
			WithRemedy("read the resource before repeating, or repeat with the same Idempotency-Key")
	}
	return fault.New(fault.Internal, codeInternal, "")
}

func describeFault(e *fault.Error) *Problem {
	status := statusOf(e)
	p := &Problem{
		Type:       "urn:gpuaas:problem:" + e.Code,
		Title:      http.StatusText(status),
		Status:     status,
		Detail:     e.Message,
		Code:       e.Code,
		Remedy:     e.Remedy,
		retryAfter: retryOfKind[e.Kind],
	}
	if e.Kind == fault.Internal { // even the message of an internal fault may reveal too much
		p.Detail = "something went wrong in the control plane"
		p.Remedy = "report it together with the correlation id"
		return p
	}
	for _, f := range e.Fields {
		p.Errors = append(p.Errors, FieldError{Field: f.Path, Message: f.Message})
	}
	return p
}

// useProblems makes the framework's own refusals look like ours. It sets global
// variables of the framework, so it runs once.
func useProblems() {
	huma.ValidateStrictCasing = true
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return refusal(context.Background(), status, msg, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return refusal(ctx.Context(), status, msg, errs)
	}
}

// refusal is the problem for a request that the framework refused before any
// handler saw it.
func refusal(ctx context.Context, status int, msg string, errs []error) *Problem {
	for _, err := range errs {
		if _, ok := fault.As(err); ok {
			return problemOf(ctx, err)
		}
	}
	var e *fault.Error
	switch status {
	case http.StatusUnprocessableEntity:
		e = fault.New(fault.Invalid, codeValidation, "the request has fields that cannot be accepted")
	case http.StatusBadRequest:
		e = fault.New(fault.Invalid, codeInvalidRequest, "the request cannot be read: %s", msg)
	case http.StatusUnsupportedMediaType:
		e = mediaTypeRefused()
	default:
		e = fault.New(fault.Internal, codeInternal, "")
	}
	p := describeFault(e.WithFields(fieldsOf(errs)...))
	p.CorrelationID = telemetry.Correlation(ctx)
	return p
}

// fieldsOf leaves out the rejected values, because one of them may be a secret.
func fieldsOf(errs []error) []fault.Field {
	out := make([]fault.Field, 0, len(errs))
	for _, err := range errs {
		var detail *huma.ErrorDetail
		if errors.As(err, &detail) {
			out = append(out, fault.Field{Path: detail.Location, Message: detail.Message})
		}
	}
	return out
}

// fail answers a request with a problem.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	writeProblem(w, a.problem(r.Context(), err))
}
