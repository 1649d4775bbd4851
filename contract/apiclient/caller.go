package apiclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// WaitFunc waits, or returns the error of a context that ended.
type WaitFunc func(ctx context.Context, d time.Duration) error

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

const (
	firstPause   = 250 * time.Millisecond
	longestPause = 30 * time.Second // if the control plane wants more time, the caller is told
)

// caller carries out requests: it signs them, repeats them where that is safe,
// and turns every failure into a Problem or a CallError.
type caller struct {
	cfg  Config
	http *http.Client
}

// Do carries a request out.
func (c *caller) Do(req *http.Request) (*http.Response, error) {
	key := c.sign(req)
	safe := key != "" || req.Method == http.MethodGet || req.Method == http.MethodHead
	for attempt := 1; ; attempt++ {
		resp, err := c.attempt(req)
		if err == nil {
			return resp, nil
		}
		pause, worthwhile := again(req, err, attempt)
		if safe && worthwhile && attempt < c.cfg.Attempts {
			if c.cfg.Retrying != nil {
				c.cfg.Retrying(err, pause)
			}
			if c.cfg.Wait(req.Context(), pause) == nil {
				continue
			}
		}
		if problem := (*Problem)(nil); errors.As(err, &problem) {
			return nil, problem
		}
		return nil, &CallError{Method: req.Method, URL: req.URL.Redacted(), IdempotencyKey: key, Attempts: attempt, Err: err}
	}
}

// sign adds what every request carries and returns the key of a change.
func (c *caller) sign(req *http.Request) string {
	set := func(name, value string) {
		if value != "" && req.Header.Get(name) == "" {
			req.Header.Set(name, value)
		}
	}
	if c.cfg.Token != "" {
		set("Authorization", "Bearer "+c.cfg.Token)
	}
	set("User-Agent", c.cfg.UserAgent)
	set("Accept", "application/json, application/problem+json")
	set(headerCorrelation, randomID())
	if req.Method == http.MethodGet || req.Method == http.MethodHead || req.Header.Get("Authorization") == "" {
		return "" // the control plane keeps no keys of anonymous callers
	}
	set(headerKey, c.cfg.IdempotencyKey)
	set(headerKey, randomID())
	return req.Header.Get(headerKey)
}

const codeInProgress = "idempotency_in_progress"

// again says whether a failure may be gone next time, and when to try.
func again(req *http.Request, err error, attempt int) (time.Duration, bool) {
	if req.Context().Err() != nil || req.Body != nil && req.GetBody == nil {
		return 0, false
	}
	if hopeless(err) {
		return 0, false
	}
	pause := firstPause << (attempt - 1)
	var refusal *refusedError
	if errors.As(err, &refusal) {
		switch refusal.problem.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		default:
			// An earlier try of ours may still be running under the same key.
			if refusal.problem.Code != codeInProgress {
				return 0, false
			}
		}
		if refusal.after > longestPause {
			return 0, false
		}
		pause = max(pause, refusal.after)
	}
	// Callers that failed together must not come back together.
	return pause + rand.N(pause/2+1), true //nolint:gosec // chance, not secrecy
}

// hopeless says that somebody has to change something first.
func hopeless(err error) bool {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	return errors.As(err, &certificate) || errors.As(err, &name) && name.IsNotFound
}

// refusedError is a problem, with the time of the next try.
type refusedError struct {
	problem *Problem
	after   time.Duration
}

func (r *refusedError) Error() string { return r.problem.Error() }

func (r *refusedError) Unwrap() error { return r.problem }

// attempt sends a request once. It reads answers completely, so that one that
// breaks off counts as none, except for streams.
func (c *caller) attempt(req *http.Request) (*http.Response, error) {
	if isStream(req) {
		resp, err := c.send(req)
		if err != nil || resp.StatusCode == http.StatusOK {
			return resp, err
		}
		return c.whole(resp)
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), c.cfg.Timeout,
		fmt.Errorf("no answer within %s: %w", c.cfg.Timeout, context.DeadlineExceeded))
	defer cancel()
	resp, err := c.send(req.WithContext(ctx))
	if err == nil {
		resp, err = c.whole(resp)
	}
	if err != nil && req.Context().Err() != nil {
		return nil, req.Context().Err()
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return resp, err
}

func (c *caller) send(req *http.Request) (*http.Response, error) {
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, fmt.Errorf("read request again: %w", err)
		}
		req.Body = body
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // CallError names the call again
			err = wrapped.Err
		}
		return nil, err
	}
	return resp, nil
}

func (c *caller) whole(resp *http.Response) (*http.Response, error) {
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > largestAnswer {
		return nil, fmt.Errorf("the answer is larger than %d bytes", largestAnswer)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, &refusedError{problem: problemOf(resp, body), after: retryAfter(resp)}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 24*60*60)) * time.Second
}

func isStream(req *http.Request) bool { return req.Header.Get("Accept") == streamType }
