package maas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

const (
	maxErrorBody = 64 << 10
	maxKept      = 1 << 20 // size of a buffer that is kept
	apiPath      = "api/2.0/"
)

// call is one request to the API.
type call struct {
	method  string
	path    string // below api/2.0/, already escaped
	op      string
	query   url.Values
	form    *form
	slow    bool // may return very many objects, or wait for a BMC
	once    bool // a read that is too costly to repeat
	private bool // its answer holds secrets
	open    bool // public and outside the API: the path lies below the region itself
}

func (k call) write() bool { return k.method != http.MethodGet }

func (k call) String() string {
	s := k.method + " " + k.path
	if k.op != "" {
		s += " op=" + k.op
	}
	return s
}

func (k call) secrets() []string {
	if k.form == nil {
		return nil
	}
	return k.form.secrets
}

// shown returns the part of a successful answer that may appear in a fault.
func (k call) shown(a answer) string {
	if k.private {
		return ""
	}
	return sanitise(a.body, k.secrets()...)
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do carries out a call: a write once, a read again if the failure was on the
// way. It returns only successful answers.
func (c *Client) do(ctx context.Context, k call) (answer, error) {
	for try := 0; ; try++ {
		a, err := c.try(ctx, k)
		if err == nil || try >= c.cfg.Retries || !repeatable(k, err) {
			return a, err
		}
		if !c.pause(ctx, err, try) {
			return a, err
		}
	}
}

// repeatable is the only place that allows a second try. A write qualifies only
// if MAAS said that its transaction collided and was rolled back.
func repeatable(k call, err error) bool {
	f, _ := fault.As(err)
	d, ok := DetailOf(err)
	if f == nil || !ok || f.Kind != fault.Unavailable {
		return false
	}
	if f.Code == CodeBusy {
		return true
	}
	if k.write() || k.once {
		return false
	}
	switch f.Code {
	case CodeUnreachable, CodeAnswerTruncated, CodeRackUnavailable:
		return true
	case CodeTokenInvalid:
		// If a kept connection turns out to be dead, the transport repeats a
		// read by itself with the old signature. MAAS then says that the nonce
		// was used.
		return strings.Contains(d.Snippet, nonceUsed)
	}
	return false
}

func (c *Client) pause(ctx context.Context, err error, try int) bool {
	wait := c.cfg.RetryWait << try
	wait = wait/2 + rand.N(wait) //nolint:gosec // jitter, not a secret
	if d, ok := DetailOf(err); ok {
		wait = max(wait, min(d.RetryAfter, 15*time.Second))
	}
	if deadline, ok := ctx.Deadline(); ok && wait > time.Until(deadline) {
		return false // the failure itself says more than the time limit
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.cfg.Clock.After(wait):
		return true
	}
}

func (c *Client) timeout(k call) time.Duration {
	switch {
	case k.write():
		return c.cfg.WriteTimeout
	case k.slow:
		return c.cfg.ListTimeout
	default:
		return c.cfg.ReadTimeout
	}
}

func (c *Client) try(ctx context.Context, k call) (answer, error) {
	var a answer
	err := c.exchange(ctx, k, func(resp *http.Response) (err error) {
		a, err = c.read(k, resp)
		return err
	})
	return a, err
}

// exchange sends a call and passes the answer to take, within the time of one
// try.
func (c *Client) exchange(ctx context.Context, k call, take func(*http.Response) error) (err error) {
	began := time.Now()
	release, err := c.cfg.Limiter.Acquire(ctx)
	c.meter.waited(began)
	if err != nil {
		return notSent(k, err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, c.timeout(k))
	defer cancel()
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := c.request(traced, k)
	if err != nil {
		return err
	}
	began = time.Now()
	defer func() { k.measure(ctx, began, err) }()
	resp, err := c.http.Do(req)
	c.meter.asked(began)
	if err != nil {
		return broken(k, err, sent.Load())
	}
	defer func() { _ = resp.Body.Close() }()
	c.noteDate(resp.Header)
	resp.Body = c.meter.body(resp.Body)
	return take(resp)
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	for _, part := range strings.Split(strings.TrimSuffix(k.path, "/"), "/") {
		if part == "" || part == "." || part == ".." { // such an id would lead to another path
			return nil, fault.New(fault.Invalid, CodeIDInvalid, "the id of the machine is empty or malformed")
		}
	}
	u := *c.base
	u.RawPath = u.Path + k.path
	if k.open {
		u.RawPath = strings.TrimSuffix(u.Path, apiPath) + k.path
	}
	path, err := url.PathUnescape(u.RawPath)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "maas_path", "the path of a MAAS call is malformed")
	}
	u.Path = path
	query := url.Values{}
	for name, values := range k.query {
		query[name] = values
	}
	if k.op != "" {
		query.Set("op", k.op)
	}
	u.RawQuery = query.Encode()
	var body io.Reader
	if k.form != nil {
		body = strings.NewReader(k.form.values.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, k.method, u.String(), body)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "maas_path", "a MAAS call cannot be built")
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", "application/json, text/plain")
	req.Header.Set("User-Agent", "gpuaas")
	if !k.open {
		req.Header.Set("Authorization", c.key.header(c.cfg.Clock.Now()))
	}
	return req, nil
}

// read reads the answer within its limit. It cuts off an error page, however
// long it is.
func (c *Client) read(k call, resp *http.Response) (answer, error) {
	a := answer{status: resp.StatusCode, header: resp.Header}
	limit := c.cfg.MaxAnswer
	if a.status >= http.StatusMultipleChoices {
		limit = maxErrorBody
	}
	body, err := readUpTo(resp, limit+1)
	a.body = body[:min(int64(len(body)), limit)]
	if a.status >= http.StatusMultipleChoices {
		return a, c.judge(k, a) // the part of an error page that arrived is enough
	}
	if err != nil {
		return a, cutShort(k, a, err)
	}
	if int64(len(body)) > limit {
		return a, tooLarge(k, a, limit)
	}
	if looksLikeHTML(a) {
		return a, c.judge(k, a)
	}
	return a, nil
}

// scratch holds buffers that have grown to the size of an answer.
var scratch = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func readUpTo(resp *http.Response, limit int64) ([]byte, error) {
	buf := scratch.Get().(*bytes.Buffer) //nolint:forcetypeassert // nothing else is put there
	buf.Reset()
	_, err := buf.ReadFrom(io.LimitReader(resp.Body, limit))
	if buf.Cap() > maxKept {
		return buf.Bytes(), err
	}
	defer keep(buf)
	return bytes.Clone(buf.Bytes()), err
}

// keep returns a buffer to the pool, unless a listing has made it huge.
func keep(buf *bytes.Buffer) {
	if buf.Cap() <= maxKept {
		scratch.Put(buf)
	}
}

// decode reads the JSON of an answer.
func decode[T any](k call, a answer) (T, error) {
	var out T
	buf := scratch.Get().(*bytes.Buffer) //nolint:forcetypeassert // nothing else is put there
	defer keep(buf)
	if err := json.Unmarshal(prune(buf, a.body, shapeFor(reflect.TypeFor[T]())), &out); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && syntax.Offset >= int64(len(a.body)) {
			return out, cutShort(k, a, err)
		}
		return out, invalidAnswer(k, a, err)
	}
	return out, nil
}

// fetch reads one typed object.
func fetch[T any](ctx context.Context, c *Client, k call) (T, error) {
	k.method = http.MethodGet
	a, err := c.do(ctx, k)
	if err != nil {
		var zero T
		return zero, err
	}
	return decode[T](k, a)
}

// send makes a write that returns one typed object.
func send[T any](ctx context.Context, c *Client, k call) (T, error) {
	if k.method == "" {
		k.method = http.MethodPost
	}
	if k.form == nil {
		k.form = newForm()
	}
	a, err := c.do(ctx, k)
	if err != nil {
		var zero T
		return zero, err
	}
	return decode[T](k, a)
}

// command makes a write whose answer does not matter.
func (c *Client) command(ctx context.Context, k call) error {
	if k.method == "" {
		k.method = http.MethodPost
	}
	if k.form == nil && k.method != http.MethodDelete {
		k.form = newForm()
	}
	_, err := c.do(ctx, k)
	return err
}

func isNull(b []byte) bool { return string(bytes.TrimSpace(b)) == "null" }

func number(id int64) string { return strconv.FormatInt(id, 10) }
