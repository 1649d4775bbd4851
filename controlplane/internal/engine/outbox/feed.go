package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
)

// Feed reads the event stream for a caller, live and from where the caller
// left off.
type Feed struct {
	nats *NATS
	// longest is how long one reading lasts, so that connections are made anew.
	longest time.Duration
	turns   *turns
}

// What one reading of the past may cost for a reader who may not see all of it:
// so many events that it is not shown, and so long. Then it ends with a mark.
const (
	replayScan = 5000
	replayLast = 10 * time.Second
)

// NewFeed reads the stream that a NATS publishes to.
func NewFeed(n *NATS) *Feed { return &Feed{nats: n, longest: 15 * time.Minute, turns: newTurns()} }

// FeedRequest is what a caller wants to read.
type FeedRequest struct {
	Resume bool   // continue after a position; otherwise only what is new
	After  uint64 // the position
	Type   string // beginning of the event types wanted; empty for all
	// Reader is who reads, as it is known at the moment of asking.
	Reader func() *auth.Principal
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
	consumer, err := f.open(ctx, subjects, start)
	if err != nil {
		return err
	}
	past, err := f.past(ctx, r.Reader(), consumer)
	if err != nil {
		return nil // the reader left
	}
	defer past.over()
	messages, err := consumer.Messages()
	if err != nil {
		return unreachable(fmt.Errorf("read event stream: %w", err))
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
	last, err := f.follow(long, messages, r.Reader, past, tell)
	if err == nil && ctx.Err() == nil && last >= start {
		// A reader who may see little must not fall behind the stream.
		err = tell(FeedItem{Position: last, Mark: &Mark{Position: last}})
	}
	return err
}

// follow reads until the context ends, or the past has cost enough, and returns
// the last position it saw.
func (f *Feed) follow(
	ctx context.Context, messages jetstream.MessagesContext, reader func() *auth.Principal, past *replay, tell func(FeedItem) error,
) (last uint64, _ error) {
	for !past.spent() {
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
		past.behind = meta.NumPending
		var envelope eventwire.Envelope
		if err := json.Unmarshal(msg.Data(), &envelope); err != nil {
			f.nats.log.WarnContext(ctx, "event stream holds something that is no event", "position", last, "error", err)
			continue
		}
		if !sees(reader(), envelope) {
			past.hidden++
			continue
		}
		if err := tell(FeedItem{Position: last, Event: &envelope}); err != nil {
			return last, err
		}
	}
	return last, nil
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

func (f *Feed) open(ctx context.Context, subjects []string, start uint64) (jetstream.Consumer, error) {
	opening, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	consumer, err := f.nats.js.OrderedConsumer(opening, StreamName, jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: start,
		InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return nil, unreachable(fmt.Errorf("open event stream: %w", err))
	}
	return consumer, nil
}

// past is what a reading owes for what lies before it: nothing when nothing
// does, or when the reader sees all of it. Each reader reads the past in one
// stream at a time.
func (f *Feed) past(ctx context.Context, reader *auth.Principal, consumer jetstream.Consumer) (*replay, error) {
	if reader.SeesEverything() || consumer.CachedInfo().NumPending == 0 {
		return &replay{}, nil
	}
	leave, err := f.turns.wait(ctx, reader.ID)
	return &replay{leave: leave, until: time.Now().Add(replayLast), behind: 1}, err
}

// tenantWide are the events without a project that members of a project see of
// its tenant: what they could also read of it through the API. All others are
// for administrators of the tenant.
var tenantWide = []eventwire.Type{
	eventwire.TenantCreated, eventwire.TenantUpdated, eventwire.MembershipChanged, eventwire.MembershipRemoved,
}

// sees is the rule who may see an event: the platform's own people all,
// administrators of a tenant those of the tenant and its projects, members of a
// project those of the project and what is tenantWide.
func sees(reader *auth.Principal, e eventwire.Envelope) bool {
	if reader.SeesEverything() {
		return true
	}
	org, err := id.Parse[id.Org](e.OrgID)
	if err != nil || reader.Decide(auth.EventRead, auth.Target{Org: org}) != auth.Allowed {
		return false
	}
	if _, whole := reader.Tenants[org]; whole {
		return true
	}
	of := projectOf(e)
	if of == "" {
		return slices.Contains(tenantWide, e.EventType)
	}
	project, err := id.Parse[id.Project](of)
	return err == nil && reader.Decide(auth.EventRead, auth.Target{Org: org, Project: project}) == auth.Allowed
}

// projectOf is the project of an event. Events from before envelopes named it
// name it in their payload, or belong to those who see all of the tenant.
func projectOf(e eventwire.Envelope) string {
	if e.ProjectID != "" {
		return e.ProjectID
	}
	var old struct {
		ProjectID string `json:"project_id"`
	}
	if json.Unmarshal(e.Payload, &old) != nil {
		return ""
	}
	return old.ProjectID
}
