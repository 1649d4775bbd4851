package region

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// RefusalError is a request that MAAS refuses, in MAAS's own form.
type RefusalError struct {
	Status     int
	Text       string
	Fields     map[string][]string // if set, the body is JSON
	Bare       bool                // JSON without a charset: raised outside the form layer
	Missing    bool                // the object does not exist: the framework answers
	RetryAfter int
}

// Error returns the text or the first field error.
func (r *RefusalError) Error() string {
	if r.Fields == nil {
		return fmt.Sprintf("%d %s", r.Status, r.Text)
	}
	var b strings.Builder
	for name, messages := range r.Fields {
		fmt.Fprintf(&b, "%s: %s; ", name, strings.Join(messages, " "))
	}
	return fmt.Sprintf("%d %s", r.Status, b.String())
}

func fieldError(name, message string) *RefusalError {
	return &RefusalError{Status: http.StatusBadRequest, Fields: map[string][]string{name: {message}}}
}

func bareFieldError(name, message string) *RefusalError {
	r := fieldError(name, message)
	r.Bare = true
	return r
}

func fieldErrors(fields map[string][]string) error {
	if len(fields) == 0 {
		return nil
	}
	return &RefusalError{Status: http.StatusBadRequest, Fields: fields}
}

func badRequest(format string, args ...any) *RefusalError {
	return &RefusalError{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) *RefusalError {
	return &RefusalError{Status: http.StatusConflict, Text: fmt.Sprintf(format, args...)}
}

func missing(kind string) *RefusalError {
	return &RefusalError{Status: http.StatusNotFound, Text: "No " + kind + " matches the given query.", Missing: true}
}

func forbidden() *RefusalError { return &RefusalError{Status: http.StatusForbidden} }

func adminOnly() *RefusalError {
	return &RefusalError{Status: http.StatusForbidden, Text: "This method is reserved for admin users."}
}

// powerFailure turns what the BMC said into the answer of the request that
// asked for it.
func powerFailure(err error) *RefusalError {
	var r *RefusalError
	if errors.As(err, &r) {
		return r
	}
	return &RefusalError{Status: http.StatusInternalServerError, Text: err.Error()}
}
