package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/auth"
	"gpuaas/controlplane/internal/fault"
)

// Feed reads the event stream for a caller, live and from where the caller
// left off.
type Feed struct {
	nats *NATS
	// longest is how long one reading lasts. What a caller may see is decided
	// when it begins, so it must not last for ever.
	longest time.Duration
}

// NewFeed reads the stream that a NATS publishes to.
func NewFeed(n *NATS) *Feed { return &Feed{nats: n, longest: 15 * time.Minute} }

// FeedRequest is what a caller wants to read.
type FeedRequest struct {
	Resume bool   // continue after a position; otherwise only what is new
	After  uint64 // the position
	Type   string // beginning of the event types wanted; empty for all
	Reader *auth.Principal
}

// Gap says that events were lost to the reader: the stream no longer holds what
// followed the position asked for.
type Gap struct {
	RequestedAfter uint64 `json:"requested_after" doc:"The position that was to be continued."`
	ContinuesFrom  uint64 `json:"continues_from" doc:"The first position that the stream can still give."`
}

// Mark says how far a reading has come, at its beginning and its end.
type Mark struct {
	Position uint64 `json:"position" doc:"What to resume after if no event follows."`
}

// FeedItem is one thing that a reader is told: an Event, a Mark, or a Gap
// instead of the first Mark when events are missing.
type FeedItem struct {
	Position uint64
	Event    *eventwire.Envelope
	Mark     *Mark
	Gap      *Gap
}

// Read tells a reader everything it asked for and may see, until the context
// ends or tell fails. It returns nil when the reading has lasted long enough;
// the reader then resumes.
func (f *Feed) Read(ctx context.Context, r FeedRequest, tell func(FeedItem) error) error {
	subjects, err := f.subjects(r.Type)
	if err != nil {
		return err
	}
	start, gap, err := f.start(ctx, r)
	if err != nil {
		return err
	}
	messages, err := f.open(ctx, subjects, start)
	if err != nil {
		return err
	}
	defer messages.Stop()
	if gap != nil {
		err = tell(FeedItem{Position: start - 1, Gap: gap})
	} else {
		err = tell(FeedItem{Position: start - 1, Mark: &Mark{Position: start - 1}})
	}
	if err != nil {
		return err
	}
	long, cancel := context.WithTimeout(ctx, f.longest)
	defer cancel()
	last, err := f.follow(long, messages, sees(r.Reader), tell)
	if err == nil && ctx.Err() == nil && last >= start {
		// A reader who may see little must not fall behind the stream.
		err = tell(FeedItem{Position: last, Mark: &Mark{Position: last}})
	}
	return err
}

// follow reads until the context ends and returns the last position it saw.
func (f *Feed) follow(ctx context.Context, messages jetstream.MessagesContext, visible func(eventwire.Envelope) bool, tell func(FeedItem) error) (last uint64, _ error) {
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil {
			return last, nil //nolint:nilerr // the reader left, or has read long enough
		}
		if err != nil {
			return last, unreachable(fmt.Errorf("read event stream: %w", err))
		}
		meta, err := msg.Metadata()
		if err != nil {
			return last, fmt.Errorf("read position of event: %w", err)
		}
		last = meta.Sequence.Stream
		var envelope eventwire.Envelope
		if err := json.Unmarshal(msg.Data(), &envelope); err != nil {
			f.nats.log.WarnContext(ctx, "event stream holds something that is no event", "position", last, "error", err)
			continue
		}
		if !visible(envelope) {
			continue
		}
		if err := tell(FeedItem{Position: last, Event: &envelope}); err != nil {
			return last, err
		}
	}
}

// subjects turns the beginning of a type into the subjects of all types that
// begin so.
func (f *Feed) subjects(prefix string) ([]string, error) {
	if prefix == "" {
		return []string{eventwire.Subjects(f.nats.cfg.Prefix)}, nil
	}
	var subjects []string
	for _, d := range eventwire.Events() {
		if strings.HasPrefix(string(d.Type), prefix) {
			subjects = append(subjects, eventwire.Subject(f.nats.cfg.Prefix, d.Type))
		}
	}
	if subjects == nil {
		return nil, fault.New(fault.Invalid, "event_type_unknown", "no event type begins with %q", prefix).
			WithRemedy("use the beginning of an event type, such as tenant or tenant.created").
			WithFields(fault.Field{Path: "query.type", Message: "no event type begins so"})
	}
	return subjects, nil
}

// start is the first position to read, with a gap when the one asked for is no
// longer held, or not yet: then the stream was made anew and counts from one.
func (f *Feed) start(ctx context.Context, r FeedRequest) (uint64, *Gap, error) {
	state, err := f.nats.state(ctx)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case !r.Resume:
		return state.LastSeq + 1, nil, nil
	case r.After+1 < state.FirstSeq, r.After > state.LastSeq:
		first := max(state.FirstSeq, 1)
		return first, &Gap{RequestedAfter: r.After, ContinuesFrom: first}, nil
	default:
		return r.After + 1, nil, nil
	}
}

func (f *Feed) open(ctx context.Context, subjects []string, start uint64) (jetstream.MessagesContext, error) {
	opening, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	consumer, err := f.nats.js.OrderedConsumer(opening, StreamName, jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: start,
		InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return nil, unreachable(fmt.Errorf("open event stream: %w", err))
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, unreachable(fmt.Errorf("read event stream: %w", err))
	}
	return messages, nil
}

// sees is the rule who may see an event: the platform's own people all, others
// those of their tenants.
func sees(reader *auth.Principal) func(eventwire.Envelope) bool {
	if reader.SeesEverything() {
		return func(eventwire.Envelope) bool { return true }
	}
	mine := map[string]bool{}
	for _, org := range reader.OrgsWith(auth.EventRead) {
		mine[org.String()] = true
	}
	return func(e eventwire.Envelope) bool { return e.OrgID != "" && mine[e.OrgID] }
}
