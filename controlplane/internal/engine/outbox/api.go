package outbox

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// outboxEvent is a message of the outbox. The contract calls it OutboxEvent.
type outboxEvent struct {
	EventID       id.Event    `json:"event_id"`
	Destination   string      `json:"destination" enum:"nats,temporal" doc:"where it is to be delivered"`
	EventType     string      `json:"event_type" doc:"event type, or workflow type of a workflow start"`
	AggregateKind string      `json:"aggregate_kind"`
	AggregateID   string      `json:"aggregate_id"`
	OrgID         *id.Org     `json:"org_id,omitempty"`
	ProjectID     *id.Project `json:"project_id,omitempty"`
	CorrelationID string      `json:"correlation_id"`
	Status        Status      `json:"status"`
	Attempts      int         `json:"attempts" doc:"how often delivery was tried"`
	LastError     string      `json:"last_error,omitempty"`
	CreatedAt     time.Time   `json:"created_at"`
}

func wire(e Entry) outboxEvent {
	out := outboxEvent{
		EventID: e.ID, Destination: e.Destination, EventType: e.Type, AggregateKind: e.AggregateKind,
		AggregateID:   e.AggregateID,
		CorrelationID: e.CorrelationID, Status: e.Status, Attempts: e.Attempts, LastError: e.LastError,
		CreatedAt: e.CreatedAt,
	}
	if !e.Org.IsZero() {
		out.OrgID = &e.Org
	}
	if !e.Project.IsZero() {
		out.ProjectID = &e.Project
	}
	return out
}

type listInput struct{ httpapi.Page }

type listOutput struct {
	Body httpapi.List[outboxEvent]
}

type requeueInput struct {
	EventID id.Event `path:"event_id"`
}

// Discarding says why an event is discarded.
type Discarding struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"why it shall not be delivered; kept in the audit log"`
}

type discardInput struct {
	EventID id.Event `path:"event_id"`
	Body    Discarding
}

type entryOutput struct{ Body outboxEvent }

type cursor struct {
	Before int64 `json:"b"`
}

type eventsInput struct {
	httpapi.LastEventID
	Type string `query:"type" maxLength:"100" doc:"only event types that begin so, such as tenant or tenant.created"`
}

// Register adds the operations of dead letters and the event feed.
func Register(api *httpapi.API, letters *DeadLetters, feed *Feed) {
	const tag = "Events"
	httpapi.Register(api, httpapi.Operation{
		ID: "list-failed-outbox-events", Method: http.MethodGet, Path: "/api/v1/admin/outbox/failed", Tag: tag,
		Summary:     "List outbox events that failed for good, newest first",
		Description: "Each waits for an operator, who requeues or discards it.",
		Access:      httpapi.Platform(auth.OutboxRead),
	}, letters.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "requeue-outbox-event", Method: http.MethodPost, Path: "/api/v1/admin/outbox/{event_id}/requeue", Tag: tag,
		Summary:     "Deliver a failed outbox event after all",
		Description: "It gets all its attempts again. Later events of the same aggregate may have been delivered before it.",
		Access:      httpapi.Platform(auth.OutboxManage),
	}, letters.requeue)
	httpapi.Register(api, httpapi.Operation{
		ID: "discard-outbox-event", Method: http.MethodPost, Path: "/api/v1/admin/outbox/{event_id}/discard", Tag: tag,
		Summary: "Give up a failed outbox event for ever",
		Access:  httpapi.Platform(auth.OutboxManage),
	}, letters.discard)
	httpapi.RegisterStream(api, httpapi.Operation{
		ID: "stream-events", Method: http.MethodGet, Path: "/api/v1/events", Tag: tag,
		Summary: "Follow what happens, as server-sent events",
		Description: "Holders of a role on the platform see every event, operators none about people and signers; administrators of a tenant those of the tenant " +
			"and its projects; " +
			"members of a project those of the project, and changes of the tenant and of its members. " +
			"The stream ends, with an event problem that says why, within 15 seconds of its caller losing token or permission. " +
			"Resume with Last-Event-ID: nothing is missed or repeated as long as the stream still holds it, which it does for " +
			"days; " +
			"otherwise the first event is gap. An event position tells how far the stream has come when there was nothing to " +
			"show. " +
			"The server ends the stream from time to time; resume then.",
		Access: httpapi.Anywhere(auth.EventRead),
	}, map[string]any{"event": eventwire.Envelope{}, "gap": Gap{}, "position": Mark{}}, feed.stream)
}

func (d *DeadLetters) list(ctx context.Context, in *listInput) (*listOutput, error) {
	var c cursor
	if _, err := in.After(&c); err != nil {
		return nil, err
	}
	entries, err := d.List(ctx, c.Before, in.Limit())
	if err != nil {
		return nil, err
	}
	page := httpapi.NewList(in.Page, entries, func(e Entry) any { return cursor{Before: e.Seq} })
	out := &listOutput{Body: httpapi.List[outboxEvent]{NextCursor: page.NextCursor}}
	for _, e := range page.Items {
		out.Body.Items = append(out.Body.Items, wire(e))
	}
	return out, nil
}

func (d *DeadLetters) requeue(ctx context.Context, in *requeueInput) (*entryOutput, error) {
	entry, err := d.Requeue(ctx, in.EventID)
	if err != nil {
		return nil, err
	}
	return &entryOutput{Body: wire(entry)}, nil
}

func (d *DeadLetters) discard(ctx context.Context, in *discardInput) (*entryOutput, error) {
	entry, err := d.Discard(ctx, in.EventID, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return &entryOutput{Body: wire(entry)}, nil
}

func (f *Feed) stream(ctx context.Context, in *eventsInput, send func(httpapi.Event) error) error {
	request := FeedRequest{Type: in.Type, Reader: func() *auth.Principal { return httpapi.Caller(ctx) }}
	if last := in.Last(); last != "" {
		after, err := strconv.ParseUint(last, 10, 63)
		if err != nil {
			return fault.New(fault.Invalid, "last_event_id_invalid", "Last-Event-ID is not an id that this feed gave out").
				WithRemedy("use the id of the last event as it was given, or leave it out").
				WithFields(fault.Field{Path: "header.Last-Event-ID", Message: "not a position of the event stream"})
		}
		request.Resume, request.After = true, after
	}
	return f.Read(ctx, request, func(item FeedItem) error {
		event := httpapi.Event{ID: strconv.FormatUint(item.Position, 10)}
		switch {
		case item.Event != nil:
			event.Name, event.Data = "event", item.Event
		case item.Gap != nil:
			event.Name, event.Data = "gap", item.Gap
		default:
			event.Name, event.Data = "position", item.Mark
		}
		return send(event)
	})
}
