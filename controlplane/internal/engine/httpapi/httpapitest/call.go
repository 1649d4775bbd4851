// Package httpapitest lets the tests of a slice call its operations as clients
// do, and check the answers.
package httpapitest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// Request is one request of a client.
type Request struct {
	As      string // the token; empty for none
	Method  string
	Path    string
	Body    any                 // becomes JSON; nil for none
	IfMatch string              // the ETag; empty for none
	Key     string              // the idempotency key; if it is empty, a change gets a new one
	Change  func(*http.Request) // changes what is sent, for example adds a cookie
}

// Call sends a request to an API and returns its answer.
func Call(tb testing.TB, api http.Handler, request Request) Answer {
	tb.Helper()
	var payload io.Reader = http.NoBody
	if request.Body != nil {
		b, err := json.Marshal(request.Body)
		if err != nil {
			tb.Fatal(err)
		}
		payload = bytes.NewReader(b)
	}
	r := httptest.NewRequestWithContext(tb.Context(), request.Method, request.Path, payload)
	if request.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if request.Key == "" && request.Method != http.MethodGet {
		request.Key = id.NewString()
	}
	if request.As != "" {
		r.Header.Set("Authorization", "Bearer "+request.As)
	}
	if request.Key != "" {
		r.Header.Set("Idempotency-Key", request.Key)
	}
	if request.IfMatch != "" {
		r.Header.Set("If-Match", request.IfMatch)
	}
	if request.Change != nil {
		request.Change(r)
	}
	recorder := httptest.NewRecorder()
	api.ServeHTTP(recorder, r)
	return Answer{Status: recorder.Code, Header: recorder.Header(), Body: recorder.Body.Bytes()}
}

// Answer is what the API said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Decode reads the body, whatever the status.
func (a Answer) Decode(tb testing.TB, into any) {
	tb.Helper()
	if err := json.Unmarshal(a.Body, into); err != nil {
		tb.Fatalf("decode %s: %v", a.Body, err)
	}
}

// Into reads the body of an answer that must have a status.
func (a Answer) Into(tb testing.TB, status int, into any) {
	tb.Helper()
	if a.Status != status {
		tb.Fatalf("answer is %d %s, want %d", a.Status, a.Body, status)
	}
	a.Decode(tb, into)
}

// Problem is what a refusal says; it is empty for an answer that is none.
func (a Answer) Problem(tb testing.TB) (p httpapi.Problem) {
	tb.Helper()
	if a.Status >= http.StatusBadRequest {
		a.Decode(tb, &p)
	}
	return p
}

// Wants checks the status and the code of the problem, and that the problem
// rejects these fields. An answer that is no refusal has the code "".
func (a Answer) Wants(tb testing.TB, status int, code string, fields ...string) httpapi.Problem {
	tb.Helper()
	p := a.Problem(tb)
	if a.Status != status || p.Code != code {
		tb.Errorf("answer is %d %s, want %d %s", a.Status, a.Body, status, code)
	}
	for _, f := range fields {
		if !slices.ContainsFunc(p.Errors, func(e httpapi.FieldError) bool { return e.Field == f }) {
			tb.Errorf("no error about %s in %s", f, a.Body)
		}
	}
	return p
}

// Refused checks a refusal and that it contains these texts. A conflict must say
// what to do.
func (a Answer) Refused(tb testing.TB, status int, code string, says ...string) {
	tb.Helper()
	p := a.Wants(tb, status, code)
	if status == http.StatusConflict && p.Remedy == "" {
		tb.Errorf("no remedy in %s", a.Body)
	}
	for _, text := range says {
		if !bytes.Contains(a.Body, []byte(text)) {
			tb.Errorf("no %q in %s", text, a.Body)
		}
	}
}
