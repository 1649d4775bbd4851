// Package fault is the one vocabulary of failure: a small set of kinds, each
// with a stable code, a message for people and, where there is one, a remedy.
//
// The kind alone decides what a failure means to a caller: package httpapi
// turns it into a status, package durable into a retry decision. No other
// package decides either.
package fault

import (
	"context"
	"errors"
	"fmt"
)

// Kind says what a failure means, independent of where it happened.
type Kind string

// The kinds. Ambiguous is the important one: the effect may or may not have
// happened, so automation must look before it does anything else.
const (
	Invalid         Kind = "invalid"         // the request can never succeed as written
	Unauthenticated Kind = "unauthenticated" // nobody we know is asking
	Forbidden       Kind = "forbidden"       // known, but not allowed
	NotFound        Kind = "not_found"       // does not exist, or must not be known to exist
	Conflict        Kind = "conflict"        // the present state does not allow it
	Stale           Kind = "stale"           // based on a version that is no longer the newest
	RateLimited     Kind = "rate_limited"    // too many requests of this caller
	Unavailable     Kind = "unavailable"     // proven not accepted; safe to repeat later
	Ambiguous       Kind = "ambiguous"       // cannot be proven done or not done
	Internal        Kind = "internal"        // a defect of ours
)

// Kinds lists every kind, for tests that must cover them all.
var Kinds = []Kind{
	Invalid, Unauthenticated, Forbidden, NotFound, Conflict, Stale, RateLimited, Unavailable, Ambiguous, Internal,
}

// Field is one rejected input.
type Field struct {
	Path    string `json:"field"`
	Message string `json:"message"`
}

// Error is a failure with a kind. Code is stable and for programs, Message is
// for people; neither may ever hold a secret.
type Error struct {
	Kind    Kind
	Code    string
	Message string
	Remedy  string
	Fields  []Field
	cause   error
}

// New makes a failure of a kind.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes a failure of a kind from an outside error. The cause is for logs:
// it is part of Error(), and never shown to a client.
func Wrap(cause error, kind Kind, code, format string, args ...any) *Error {
	e := New(kind, code, format, args...)
	e.cause = cause
	return e
}

// WithRemedy adds what to do about it.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	c := *e
	c.Remedy = fmt.Sprintf(format, args...)
	return &c
}

// WithFields adds the rejected inputs.
func (e *Error) WithFields(fields ...Field) *Error {
	c := *e
	c.Fields = append(append([]Field(nil), e.Fields...), fields...)
	return &c
}

// Error is for logs and for whoever runs the program. It holds everything,
// including the remedy.
func (e *Error) Error() string {
	text := e.Code + ": " + e.Message
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is compare by code, so that a sentinel matches its copies.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Kind == e.Kind
}

// As finds the failure in an error chain.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// KindOf returns the kind of any error. An error that nobody classified is a
// defect, except for a context that ended, which proves nothing about the
// effect.
func KindOf(err error) Kind {
	if e, ok := As(err); ok {
		return e.Kind
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Ambiguous
	}
	return Internal
}

// CodeOf returns the stable code of any error.
func CodeOf(err error) string {
	if e, ok := As(err); ok {
		return e.Code
	}
	return string(KindOf(err))
}
