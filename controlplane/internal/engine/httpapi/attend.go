package httpapi

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
)

const (
	// recheckEvery plus one round of checks keeps the promise that a stream or
	// terminal ends within 15 seconds of its caller losing access.
	recheckEvery = 5 * time.Second
	// recheckRound is the time limit of one round of checks, recheckOne of the
	// check of one token.
	recheckRound = 8 * time.Second
	recheckOne   = 3 * time.Second
	recheckAtOne = 8 // tokens that are checked at the same time
	// unverifiedFor is how long something goes on while nobody can tell whether
	// it still may: as long as a restart of the database takes.
	unverifiedFor = time.Minute
)

// Standing describes a stream or terminal: who it is for, and what must stay
// true for it to go on.
type Standing struct {
	Caller *auth.Principal
	// Again finds out again who the caller is. It fails as an Authenticator
	// does.
	Again func(ctx context.Context) (*auth.Principal, error)
	// May returns nil if the caller may still have it, or else the reason.
	May func(ctx context.Context, now *auth.Principal) error
	// End is called once, with the reason why it is over.
	End func(why error)
}

var (
	errStreamsClosed = fault.New(fault.Unavailable, "server_shutting_down", "the server is shutting down").
				WithRemedy("connect again with Last-Event-ID")
	errUnverified = fault.New(fault.Unavailable, "access_unverified",
		"nobody could tell for a minute whether this may go on").
		WithRemedy("connect again; /readyz says what is missing")
)

// Attend starts a stream or terminal, within the limits per caller and per
// process, and checks every few seconds whether its caller may still have it.
// The caller of Attend must call leave when it ends, also after End was called.
func (a *API) Attend(s Standing) (leave func(), err error) { return a.streams.enter(s) }

// streams holds all open streams of events and terminals.
type streams struct {
	perCaller, most int
	every           time.Duration
	logger          *slog.Logger

	mu      sync.Mutex
	closed  bool
	looking bool // a goroutine that checks is running
	open    map[*attended]struct{}
	count   map[string]int // by caller
}

type attended struct {
	Standing
	once     sync.Once
	verified time.Time // only the checking goroutine uses it
}

func (t *attended) end(why error) { t.once.Do(func() { t.End(why) }) }

func newStreams(cfg Config) *streams {
	return &streams{
		perCaller: cfg.Limits.StreamsPerCaller, most: cfg.Limits.Streams, every: cfg.Recheck, logger: cfg.Logger,
		open: map[*attended]struct{}{}, count: map[string]int{},
	}
}

func (s *streams) enter(standing Standing) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	caller := standing.Caller.ID
	switch {
	case s.closed:
		return nil, errStreamsClosed
	case s.count[caller] >= s.perCaller:
		return nil, fault.New(fault.RateLimited, "stream_limit_exceeded",
			"%d streams and terminals of this caller are open here", s.perCaller).
			WithRemedy(
				"close some of them, or follow more with one stream; limits.streams_per_caller sets how many there may be")
	case len(s.open) >= s.most:
		return nil, fault.New(fault.Unavailable, "streams_exhausted", "%d streams and terminals are open in this process",
			s.most).
			WithRemedy("try again in a moment, or another replica; limits.streams sets how many there may be")
	}
	t := &attended{Standing: standing, verified: time.Now()}
	s.open[t] = struct{}{}
	s.count[caller]++
	if !s.looking {
		s.looking = true
		go s.look()
	}
	return sync.OnceFunc(func() { s.leave(t) }), nil
}

func (s *streams) leave(t *attended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, t)
	if s.count[t.Caller.ID]--; s.count[t.Caller.ID] == 0 {
		delete(s.count, t.Caller.ID)
	}
}

func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for t := range s.open {
		t.end(errStreamsClosed)
	}
}

// look checks everything that is open, round after round, until nothing is.
func (s *streams) look() {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for range tick.C {
		groups := s.byToken()
		if groups == nil {
			return
		}
		s.round(groups)
	}
}

// byToken groups what the check of one token decides about. It returns nil if
// nothing is open.
func (s *streams) byToken() [][]*attended {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		s.looking = false
		return nil
	}
	var groups [][]*attended
	at := map[id.Token]int{}
	for t := range s.open {
		i, known := at[t.Caller.Token]
		if !known || t.Caller.Token.IsZero() {
			i = len(groups)
			at[t.Caller.Token], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

func (s *streams) round(groups [][]*attended) {
	ctx, cancel := context.WithTimeout(context.Background(), recheckRound)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(recheckAtOne)
	for _, of := range groups {
		group.Go(func() error {
			s.check(ctx, of)
			return nil
		})
	}
	_ = group.Wait() // none fails
}

func (s *streams) check(ctx context.Context, of []*attended) {
	ctx, cancel := context.WithTimeout(ctx, recheckOne)
	defer cancel()
	now, err := of[0].Again(ctx)
	for _, t := range of {
		verdict := err
		if verdict == nil {
			verdict = t.May(auth.With(ctx, now), now)
		}
		switch kind := fault.KindOf(verdict); {
		case verdict == nil:
			t.verified = time.Now()
		case kind == fault.Unauthenticated, kind == fault.Forbidden, kind == fault.NotFound:
			t.end(verdict)
		case time.Since(t.verified) > unverifiedFor:
			s.logger.Warn("a stream ends because its caller could not be checked", "principal", t.Caller.ID, "error", verdict)
			t.end(errUnverified)
		}
	}
}

type callerKey struct{}

// Caller returns who a stream is for, as last checked: roles can change while
// it lasts.
func Caller(ctx context.Context) *auth.Principal {
	if now, ok := ctx.Value(callerKey{}).(func() *auth.Principal); ok {
		return now()
	}
	return auth.From(ctx)
}
