package apiclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// CodeNotTheAPI is the code of a Problem made here because the answer held none: something
// between the caller and the control plane answered, or the URL is of something else.
const CodeNotTheAPI = "not_the_api"

// Error makes a Problem the error of every call that was answered with a failure.
func (p *Problem) Error() string {
	if p.Detail == nil || *p.Detail == "" {
		return fmt.Sprintf("%s (%d %s)", p.Code, p.Status, p.Title)
	}
	return p.Code + ": " + *p.Detail
}

// CallError is a call that got no answer. Whether it took effect is not known.
type CallError struct {
	Method, URL string
	// IdempotencyKey makes repeating the call safe; empty when it changes nothing.
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
	return foreignAnswer(resp, "this is not how the API answers")
}

// NotTheAPI is the problem of a successful answer that the API would not have given.
func NotTheAPI(resp *http.Response) *Problem { return foreignAnswer(resp, "the API answers in JSON") }

func foreignAnswer(resp *http.Response, why string) *Problem {
	detail := fmt.Sprintf("the answer was %d %s (%s): %s", resp.StatusCode, http.StatusText(resp.StatusCode),
		contentTypeOr(resp, "no content type"), why)
	remedy := "check that the URL is that of the control plane and what stands between: a proxy, a sign-in page"
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode/100 == 3 {
		detail = fmt.Sprintf("the answer was a redirection to %s, which is not followed: it could carry the token elsewhere", location)
		remedy = "use the URL of the control plane itself"
	}
	p := &Problem{
		Type: "urn:gpuaas:problem:" + CodeNotTheAPI, Title: http.StatusText(resp.StatusCode), Status: int64(resp.StatusCode),
		Code: CodeNotTheAPI, Detail: &detail, Remedy: &remedy,
	}
	if id := resp.Header.Get(headerCorrelation); id != "" {
		p.CorrelationId = &id
	}
	return p
}

func contentTypeOr(resp *http.Response, otherwise string) string {
	if v := strings.TrimSpace(resp.Header.Get("Content-Type")); v != "" {
		return v
	}
	return otherwise
}

// Read is the JSON of an answer: it takes what a call of ClientInterface returns.
func Read(resp *http.Response, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it is in memory
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode == http.StatusNoContent {
		return nil, nil
	}
	if !json.Valid(body.Bytes()) {
		return nil, NotTheAPI(resp)
	}
	return body.Bytes(), nil
}
