package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	streamType = "text/event-stream"
	// The control plane sends a sign of life every 15 s.
	silence           = 60 * time.Second
	streamFirstPause  = 500 * time.Millisecond
	streamLongest     = 30 * time.Second
	kindEvent         = "event"
	kindGap           = "gap"
	kindPosition      = "position"
	kindError         = "problem"
	retryAfterTooLong = 10 * time.Minute
)

// StreamRequest says what to follow.
type StreamRequest struct {
	// Type is the prefix of the wanted event types. Empty means all.
	Type string
	// After is the position to continue after. Empty means only new events.
	After string
	// Open, if set, opens another stream of the same form instead of that of
	// all events. after is nil at its beginning.
	Open func(ctx context.Context, after *string, edit RequestEditorFn) (*http.Response, error)
	// Interrupted, if set, is told why the stream is opened again and after
	// which pause.
	Interrupted func(why error, pause time.Duration)
	// Silence is how long nothing may arrive before the connection counts as dead.
	Silence time.Duration
	// Wait lets tests not wait.
	Wait WaitFunc
}

// StreamItem is one message of a stream: exactly one of Event, Gap and Mark is
// set.
type StreamItem struct {
	// Position is what to continue after.
	Position string
	// Raw is the data as it came.
	Raw   json.RawMessage
	Event *EventwireEnvelope
	// Gap says that events were lost: the control plane no longer holds them.
	Gap  *OutboxGap
	Mark *OutboxMark
}

// Stream tells everything that happens until the context ends, which is no
// error, or tell fails. If a stream breaks, it is opened again where it broke.
// Stream fails if it cannot be opened the first time, and with a *Problem if
// the control plane refuses to go on.
func Stream(ctx context.Context, client *Client, r StreamRequest, tell func(StreamItem) error) error {
	if r.Wait == nil {
		r.Wait = wait
	}
	if r.Silence <= 0 {
		r.Silence = silence
	}
	s := &follower{client: client, request: r, last: r.After, tell: tell}
	for failures := 0; ; failures++ {
		seen := s.count
		err := s.follow(ctx)
		var told *tellError
		if errors.As(err, &told) {
			return told.err
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller has seen enough
		}
		if final(err) || !s.opened {
			return err
		}
		if s.count > seen {
			failures = 0
		}
		pause := s.pause(failures)
		if r.Interrupted != nil {
			r.Interrupted(err, pause)
		}
		if r.Wait(ctx, pause) != nil {
			return nil //nolint:nilerr // as above
		}
	}
}

// final says that opening the stream again would be refused again.
func final(err error) bool {
	var p *Problem
	if !errors.As(err, &p) {
		return false
	}
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusRequestTimeout:
		return false
	}
	return true
}

type tellError struct{ err error }

func (e *tellError) Error() string { return e.err.Error() }

var errSilent = errors.New("the event stream fell silent")

// follower is a stream across its interruptions.
type follower struct {
	client  *Client
	request StreamRequest
	tell    func(StreamItem) error
	last    string
	asked   time.Duration // how long the sender wants us to wait
	count   int
	opened  bool
}

func (s *follower) pause(failures int) time.Duration {
	d := min(streamFirstPause<<min(failures, 10), streamLongest)
	if s.asked > 0 && s.asked < retryAfterTooLong {
		d = max(d, s.asked)
	}
	return d + rand.N(d/2+1) //nolint:gosec // chance, not secrecy
}

// follow reads one connection to its end, which is an error too.
func (s *follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.request.Silence, func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	in := newMessages(&pulse{from: resp.Body, felt: func() { watch.Reset(s.request.Silence) }})
	for {
		m, err := in.next()
		s.asked = in.retry
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return cause
		}
		if err != nil {
			return err
		}
		if err := s.take(m); err != nil {
			return err
		}
	}
}

func (s *follower) open(ctx context.Context) (*http.Response, error) {
	var after *string
	if s.last != "" {
		after = &s.last
	}
	open := s.request.Open
	if open == nil {
		open = s.all
	}
	resp, err := open(ctx, after, AsStream)
	if err != nil {
		return nil, err
	}
	if got := resp.Header.Get("Content-Type"); len(got) < len(streamType) || got[:len(streamType)] != streamType {
		_ = resp.Body.Close()
		return nil, foreignAnswer(resp.StatusCode, resp.Header, "an event stream was expected")
	}
	s.opened = true
	return resp, nil
}

// all opens the stream of all events.
func (s *follower) all(ctx context.Context, after *string, edit RequestEditorFn) (*http.Response, error) {
	params := &StreamEventsParams{LastEventID: after}
	if s.request.Type != "" {
		params.Type = &s.request.Type
	}
	return s.client.StreamEvents(ctx, params, edit)
}

func (s *follower) take(m message) error {
	item := StreamItem{Position: m.id, Raw: m.data}
	var into any
	switch m.name {
	case kindEvent:
		item.Event = &EventwireEnvelope{}
		into = item.Event
	case kindGap:
		item.Gap = &OutboxGap{}
		into = item.Gap
	case kindPosition:
		item.Mark = &OutboxMark{}
		into = item.Mark
	case kindError:
		p := &Problem{}
		if err := json.Unmarshal(m.data, p); err != nil {
			return fmt.Errorf("decode end of event stream: %w", err)
		}
		return p
	default:
		return nil // a later control plane may send more
	}
	if err := json.Unmarshal(m.data, into); err != nil {
		return &tellError{err: fmt.Errorf("decode %s at position %s: %w", m.name, m.id, err)}
	}
	if err := s.tell(item); err != nil {
		return &tellError{err: err}
	}
	s.last = m.id
	s.count++
	return nil
}

// pulse notices that something arrives, even comments.
type pulse struct {
	from io.Reader
	felt func()
}

func (p *pulse) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if n > 0 {
		p.felt()
	}
	return n, err
}

// AsStream asks for a stream: the answer is given to the caller as it comes, and not
// read to its end first.
func AsStream(_ context.Context, req *http.Request) error {
	req.Header.Set("Accept", streamType)
	return nil
}
