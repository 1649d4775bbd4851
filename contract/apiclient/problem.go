package apiclient

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// CodeNotTheAPI is the code of a Problem made here because the answer held
// none: something between the caller and the control plane answered, or the URL
// belongs to something else.
const CodeNotTheAPI = "not_the_api"

// Error makes a Problem the error of every call that was answered with a failure.
func (p *Problem) Error() string {
	if p.Detail == nil || *p.Detail == "" {
		return fmt.Sprintf("%s (%d %s)", p.Code, p.Status, p.Title)
	}
	return p.Code + ": " + *p.Detail
}

// CallError says that a call got no answer. Nobody knows whether it took
// effect.
type CallError struct {
	Method, URL string
	// IdempotencyKey makes repeating the call safe. It is empty if the call
	// changes nothing.
	IdempotencyKey string
	Attempts       int
	Err            error
}

// Error says which call it was.
func (e *CallError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Method, e.URL, e.Err)
}

// Unwrap is the failure underneath.
func (e *CallError) Unwrap() error { return e.Err }

// problemOf reads the problem that a failure was answered with.
func problemOf(resp *http.Response, body []byte) *Problem {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil && (kind == "application/problem+json" || kind == "application/json") {
		var p Problem
		if json.Unmarshal(body, &p) == nil && p.Code != "" {
			p.Status = int64(resp.StatusCode)
			return &p
		}
	}
	return foreignAnswer(resp.StatusCode, resp.Header, "this is not how the API answers")
}

// foreignAnswer is the problem for an answer that the API would not give.
func foreignAnswer(status int, header http.Header, why string) *Problem {
	kind := strings.TrimSpace(header.Get("Content-Type"))
	if kind == "" {
		kind = "no content type"
	}
	detail := fmt.Sprintf("the answer was %d %s (%s): %s", status, http.StatusText(status), kind, why)
	remedy := "check that the URL is that of the control plane and what stands between: a proxy, a sign-in page"
	if location := header.Get("Location"); location != "" && status/100 == 3 {
		detail = fmt.Sprintf("the answer was a redirection to %s, which is not followed: it could carry the token elsewhere",
			location)
		remedy = "use the URL of the control plane itself"
	}
	p := &Problem{
		Type: "urn:gpuaas:problem:" + CodeNotTheAPI, Title: http.StatusText(status), Status: int64(status),
		Code: CodeNotTheAPI, Detail: &detail, Remedy: &remedy,
	}
	if id := header.Get(headerCorrelation); id != "" {
		p.CorrelationId = &id
	}
	return p
}

// Answer is what every call that ends with WithResponse returns.
type Answer interface {
	StatusCode() int
	ContentType() string
	GetBody() []byte
}

// Read returns the JSON of an answer, unchanged. It is nil if the answer has no
// content.
func Read(a Answer, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	if a.StatusCode() == http.StatusNoContent {
		return nil, nil
	}
	if !json.Valid(a.GetBody()) {
		return nil, foreignAnswer(a.StatusCode(), http.Header{"Content-Type": {a.ContentType()}}, "the API answers in JSON")
	}
	return a.GetBody(), nil
}
