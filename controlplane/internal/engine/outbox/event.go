package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/telemetry"
)

// The destinations of messages.
const (
	DestinationNATS     = "nats"
	DestinationTemporal = "temporal"
)

// Event is something that happened to an aggregate. Readers of the event stream
// are told.
type Event struct {
	ID            id.Event // zero: Append gives it one
	Type          eventwire.Type
	AggregateKind string
	AggregateID   string
	Org           id.Org // zero for events of the platform
	// Project is the project that the event belongs to; zero: the tenant
	// itself.
	Project id.Project
	Payload any // the payload struct that eventwire.Events lists for the type
}

// WorkflowStart is a workflow to start. The id makes the start idempotent. The
// input must be encodable as JSON and must not hold a secret.
type WorkflowStart struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Queue string `json:"queue"`
	Input any    `json:"input"`
	// Marks are the attributes by which the workflow can be found in Temporal,
	// if Temporal keeps them; see durable.Marks.
	Marks map[string]string `json:"marks,omitempty"`
}

// WorkflowCancelType is the message type of a cancellation. A start carries the
// type of its workflow.
const WorkflowCancelType = "workflow.cancel"

// WorkflowCancel is the body of a cancellation.
type WorkflowCancel struct {
	ID string `json:"id"`
}

// WorkflowSignalType is the message type of a signal.
const WorkflowSignalType = "workflow.signal"

// WorkflowSignal is a signal to a workflow. The payload must be encodable as
// JSON and must not hold a secret.
type WorkflowSignal struct {
	WorkflowID string `json:"workflow_id"`
	Name       string `json:"name"`
	Payload    any    `json:"payload"`
	// Start is the workflow to start if none with this id runs, for a job whose
	// row outlives the memory of Temporal. Its input is JSON.
	Start *WorkflowStart `json:"start,omitempty"`
}

// Message is what a Deliverer carries to its destination.
type Message struct {
	ID            id.Event // the same at every attempt
	Seq           int64
	Type          string // event type or workflow type
	AggregateKind string
	AggregateID   string
	Org           id.Org
	CorrelationID string
	TraceParent   string
	Attempt       int // 1 at the first
	CreatedAt     time.Time
	Body          json.RawMessage // an eventwire.Envelope, a WorkflowStart, WorkflowCancel or WorkflowSignal
}

// Context adds the correlation id and the trace of whoever appended the
// message.
func (m Message) Context(ctx context.Context) context.Context {
	ctx = telemetry.WithCorrelation(ctx, m.CorrelationID)
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{eventwire.HeaderTraceParent: m.TraceParent})
}

// WorkflowStart decodes the body of a message for Temporal. Its input is a
// json.RawMessage, which Temporal's JSON converter passes on unchanged.
func (m Message) WorkflowStart() (WorkflowStart, error) {
	var raw struct {
		WorkflowStart
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(m.Body, &raw); err != nil {
		return WorkflowStart{}, fmt.Errorf("decode workflow start: %w", err)
	}
	raw.WorkflowStart.Input = raw.Input
	return raw.WorkflowStart, nil
}

// WorkflowSignal decodes the body of a message for Temporal. Its payload is a
// json.RawMessage.
func (m Message) WorkflowSignal() (WorkflowSignal, error) {
	var raw struct {
		WorkflowSignal
		Payload json.RawMessage `json:"payload"`
		Start   json.RawMessage `json:"start"`
	}
	if err := json.Unmarshal(m.Body, &raw); err != nil {
		return WorkflowSignal{}, fmt.Errorf("decode workflow signal: %w", err)
	}
	raw.WorkflowSignal.Payload = raw.Payload
	if len(raw.Start) > 0 {
		start, err := Message{Body: raw.Start}.WorkflowStart()
		if err != nil {
			return WorkflowSignal{}, err
		}
		raw.WorkflowSignal.Start = &start
	}
	return raw.WorkflowSignal, nil
}

var definitions = func() map[eventwire.Type]eventwire.Definition {
	of := map[eventwire.Type]eventwire.Definition{}
	for _, d := range eventwire.Events() {
		of[d.Type] = d
	}
	return of
}()

// validate refuses an event that breaks the published contract.
func (e Event) validate() error {
	want, known := definitions[e.Type]
	switch {
	case !known:
		return fault.New(fault.Internal, "event_type_unknown", "event type %q is not in the contract", e.Type)
	case reflect.TypeOf(e.Payload) != reflect.TypeOf(want.Payload):
		return fault.New(fault.Internal, "event_payload_mismatch", "event %s carries %T, its contract says %T", e.Type,
			e.Payload, want.Payload)
	case e.AggregateKind == "" || e.AggregateID == "":
		return fault.New(fault.Internal, "event_aggregate_missing", "event %s names no aggregate", e.Type)
	case e.Org.IsZero() && !e.Project.IsZero():
		return fault.New(fault.Internal, "event_tenant_missing", "event %s names a project without its tenant", e.Type)
	case !e.Project.IsZero() && want.Audience != eventwire.ToProject,
		!e.Org.IsZero() && want.Audience == eventwire.ToPlatform:
		return fault.New(fault.Internal, "event_audience_exceeded", "event %s is told to a %s at most", e.Type, want.Audience)
	}
	return nil
}

func (e Event) envelope(eventID id.Event, correlationID string, now time.Time) (json.RawMessage, error) {
	payload, err := json.Marshal(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("encode payload of %s: %w", e.Type, err)
	}
	envelope := eventwire.Envelope{
		EventID: eventID.String(), EventType: e.Type, OccurredAt: now.UTC(), Version: eventwire.Version,
		CorrelationID: correlationID, Payload: payload,
	}
	if !e.Org.IsZero() {
		envelope.OrgID = e.Org.String()
	}
	if !e.Project.IsZero() {
		envelope.ProjectID = e.Project.String()
	}
	body, err := json.Marshal(envelope)
	if err != nil {
		return nil, fmt.Errorf("encode envelope of %s: %w", e.Type, err)
	}
	return body, nil
}

const partitions = 16

// aggregateHash names an aggregate in the lock table and chooses its partition.
func aggregateHash(kind, aggregateID string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "outbox\x00%s\x00%s", kind, aggregateID) // a hash never fails
	return h.Sum64()
}

func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[eventwire.HeaderTraceParent]
}
