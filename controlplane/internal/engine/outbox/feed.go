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
// stopped.
type Feed struct {
	nats *NATS
	// longest is how long one reading lasts, so that clients reconnect now and
	// then.
	longest time.Duration
	turns   *turns
}

// The limits of one reading of the past, for a reader that may not see all of
// it: so many hidden events, and so long. Then the reading ends with a mark.
const (
	replayScan = 5000
	replayLast = 10 * time.Second
)

// NewFeed reads the stream to which n publishes.
func NewFeed(n *NATS) *Feed { return &Feed{nats: n, longest: 15 * time.Minute, turns: newTurns()} }

// FeedRequest says what a caller wants to read.
type FeedRequest struct {
	Resume bool   // continue after a position; otherwise only new events
	After  uint64 // the position
	Type   string // prefix of the wanted event types; empty: all
	// Reader returns who reads, as it is known at the moment of the call.
	Reader func() *auth.Principal
}

// Gap says that the reader missed events: the stream no longer holds what
// followed the requested position.
type Gap struct {
	RequestedAfter uint64 `json:"requested_after" doc:"The position that was to be continued."`
	ContinuesFrom  uint64 `json:"continues_from" doc:"The first position that the stream can still give."`
}

// Mark says how far a reading has come. It is sent at the beginning and the
// end.
type Mark struct {
	Position uint64 `json:"position" doc:"What to resume after if no event follows."`
}

// FeedItem is one message to a reader: an Event, a Mark, or a Gap instead of
// the first Mark if events are missing.
type FeedItem struct {
	Position uint64
	Event    *eventwire.Envelope
	Mark     *Mark
	Gap      *Gap
}

// Read tells a reader everything that it asked for and may see, until the
// context ends or tell fails. It returns nil when the reading has lasted long
// enough; the reader then resumes.
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
		// The mark moves the reader's position forward even if it may see few
		// events.
		err = tell(FeedItem{Position: last, Mark: &Mark{Position: last}})
	}
	return err
}

// follow reads until the context ends or the past has cost enough. It returns
// the last position that it saw.
func (f *Feed) follow(
	ctx context.Context, messages jetstream.MessagesContext, reader func() *auth.Principal, past *replay,
	tell func(FeedItem) error,
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

// subjects turns the prefix of a type into the subjects of all types that begin
// with it.
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

// start returns the first position to read. It returns a gap if the stream no
// longer holds the requested one, or does not hold it yet: then the stream was
// created again and counts from one.
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

// past returns the limits for reading the past. There are none if there is no
// past to read, or if the reader sees all of it. Each reader reads the past in
// one stream at a time.
func (f *Feed) past(ctx context.Context, reader *auth.Principal, consumer jetstream.Consumer) (*replay, error) {
	if reader.SeesAll(auth.EventRead) || consumer.CachedInfo().NumPending == 0 {
		return &replay{}, nil
	}
	leave, err := f.turns.wait(ctx, reader.ID)
	return &replay{leave: leave, until: time.Now().Add(replayLast), behind: 1}, err
}

// tenantWide are events without a project that members of a project see of its
// tenant, because they could read the same through the API. Only administrators
// of the tenant see the others.
var tenantWide = []eventwire.Type{
	eventwire.TenantCreated, eventwire.TenantUpdated, eventwire.TenantDisabled, eventwire.TenantEnabled,
	eventwire.MembershipChanged, eventwire.MembershipRemoved,
	eventwire.ReservationCreated, eventwire.ReservationCancelled,
}

// guarded are the events that somebody with a role on the platform sees only with
// a permission more, by the beginning of their types.
var guarded = map[string]auth.Permission{
	"user.": auth.UserRead, "membership.": auth.MemberRead, "service_account.": auth.ServiceAccountRead,
	"token.":  auth.UserRead,
	"signer.": auth.SignerRead,
}

// seesAs decides whether somebody with a role on the platform sees an event.
func seesAs(reader *auth.Principal, of eventwire.Type) bool {
	for prefix, permission := range guarded {
		if strings.HasPrefix(string(of), prefix) {
			return reader.SeesAll(permission)
		}
	}
	return true
}

// hiddenFrom lists the beginnings of the types of events that somebody with a role
// on the platform does not see.
func hiddenFrom(reader *auth.Principal) []string {
	out := []string{}
	for prefix, permission := range guarded {
		if !reader.SeesAll(permission) {
			out = append(out, prefix)
		}
	}
	return out
}

// sees decides who may see an event. People with a role on the platform see all
// but the guarded ones; administrators of a tenant see those of the tenant and
// its projects; members of a project see those of the project and the tenantWide
// ones.
func sees(reader *auth.Principal, e eventwire.Envelope) bool {
	if reader.SeesAll(auth.EventRead) {
		if seesAs(reader, e.EventType) {
			return true
		}
		own := *reader // the roles in tenants and projects remain
		own.Platform, reader = "", &own
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

// projectOf returns the project of an event. Older envelopes do not name it:
// then it is in the payload, or only those who see all of the tenant see the
// event.
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
