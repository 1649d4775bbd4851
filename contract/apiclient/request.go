package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/oapi-codegen/runtime"
)

// Client has a method per operation of the API. Those that end with WithResponse read the whole
// answer; the others give it as a stream, which whoever called closes. New makes one.
type Client struct {
	base *url.URL
	http *caller
}

// RequestEditorFn changes a request before it is sent.
type RequestEditorFn func(ctx context.Context, req *http.Request) error

// Response is the answer to a call that succeeded; every other answer is the error of the call.
type Response[T any] struct {
	HTTP *http.Response
	Body []byte
	// JSON is the body, read; nil when the answer is not JSON.
	JSON *T
}

// StatusCode is the status of the answer.
func (r *Response[T]) StatusCode() int { return r.HTTP.StatusCode }

// ContentType is what the answer says it is.
func (r *Response[T]) ContentType() string { return r.HTTP.Header.Get("Content-Type") }

// GetBody is the answer as it came.
func (r *Response[T]) GetBody() []byte { return r.Body }

// request is what a method of the client puts together; it remembers its first failure.
type request struct {
	method, path string
	queries      []string
	headers      http.Header
	body         io.Reader
	err          error
}

func newRequest(method, path string, params ...any) *request {
	r := &request{method: method, headers: http.Header{}}
	styled := make([]any, len(params))
	for i, p := range params {
		styled[i] = r.styled("simple", "", p, false, runtime.ParamLocationPath)
	}
	r.path = fmt.Sprintf(path, styled...)
	return r
}

func (r *request) query(name string, value any, explode bool) {
	if given(value) {
		r.queries = append(r.queries, r.styled("form", name, value, explode, runtime.ParamLocationQuery))
	}
}

func (r *request) header(name string, value any) {
	if given(value) {
		r.headers.Set(name, r.styled("simple", name, value, false, runtime.ParamLocationHeader))
	}
}

func (r *request) json(value any) {
	body, err := json.Marshal(value)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("write request: %w", err)
	}
	r.body = bytes.NewReader(body)
	r.headers.Set("Content-Type", "application/json")
}

func (r *request) styled(style, name string, value any, explode bool, where runtime.ParamLocation) string {
	text, err := runtime.StyleParamWithOptions(style, explode, name, value,
		runtime.StyleParamOptions{ParamLocation: where})
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("write parameter %s: %w", name, err)
	}
	return text
}

// given says that there is a value: what the contract leaves to the caller is a pointer or a list.
func given(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice || !v.IsNil()
}

// do sends a request and gives the answer to whoever reads and closes it.
func (c *Client) do(ctx context.Context, r *request, edit []RequestEditorFn) (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	at, err := c.base.Parse("." + r.path)
	if err != nil {
		return nil, fmt.Errorf("parse path %s: %w", r.path, err)
	}
	at.RawQuery = strings.Join(r.queries, "&")
	req, err := http.NewRequestWithContext(ctx, r.method, at.String(), r.body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = r.headers
	for _, change := range edit {
		if err := change(ctx, req); err != nil {
			return nil, err
		}
	}
	return c.http.Do(req)
}

// call sends a request and reads the answer.
func call[T any](ctx context.Context, c *Client, r *request, edit []RequestEditorFn) (*Response[T], error) {
	return whole[T](c.do(ctx, r, edit)) //nolint:bodyclose // whole closes it
}

// whole reads the whole of an answer and closes it.
func whole[T any](answer *http.Response, err error) (*Response[T], error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	out := &Response[T]{HTTP: answer}
	if out.Body, err = io.ReadAll(answer.Body); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if strings.Contains(out.ContentType(), "json") {
		out.JSON = new(T)
		if err := json.Unmarshal(out.Body, out.JSON); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
	}
	return out, nil
}
