// Package eventwire is what the control plane and the readers of its events
// agree on: the envelope, the event types with their payloads, and the NATS
// subjects. It depends only on the standard library, so that any program can
// import it.
//
// Payloads carry identifiers and names, never secrets. Within one major version
// of the envelope, fields are added, never renamed or removed: readers must
// ignore fields that they do not know.
package eventwire

import (
	"encoding/json"
	"time"
)

// Version is the version of the envelope and of the payloads within it.
const Version = "1.0"

// DefaultPrefix comes before every subject unless an operator configures
// another one.
const DefaultPrefix = "gpuaas"

// Headers of a message, beside Nats-Msg-Id, which holds the event id.
const (
	HeaderCorrelationID = "Correlation-Id"
	HeaderTraceParent   = "traceparent"
)

// Type names what happened: an aggregate and a verb in the past tense.
type Type string

// Envelope surrounds every event.
type Envelope struct {
	EventID       string          `json:"event_id" format:"uuid" doc:"the same for every copy of an event: readers drop what they have seen"`
	EventType     Type            `json:"event_type" doc:"what happened"`
	OccurredAt    time.Time       `json:"occurred_at" doc:"when it happened, in UTC"`
	Version       string          `json:"version" doc:"version of the envelope and its payload"`
	CorrelationID string          `json:"correlation_id" doc:"ties the event to the request that caused it"`
	OrgID         string          `json:"org_id,omitempty" format:"uuid" doc:"the tenant it concerns; absent for events of the platform"`
	ProjectID     string          `json:"project_id,omitempty" format:"uuid" doc:"the project of the tenant it concerns; absent for events of the tenant itself, and in events from before there was this field"`
	Payload       json.RawMessage `json:"payload" doc:"facts of the event"`
}

// Audience is whose events a kind of event can be.
type Audience string

// The audiences, from the widest view to the narrowest one. Whoever sees more sees the
// events of those below, too.
const (
	ToPlatform Audience = "platform" // never of a tenant: only the platform is told
	ToTenant   Audience = "tenant"   // of a tenant as a whole: none of its projects is told
	ToProject  Audience = "project"  // of a project, where it concerns one
)

// Definition is one event of the contract.
type Definition struct {
	Type        Type
	Audience    Audience
	Description string
	Payload     any // a zero value of the payload's struct
}

// Subject returns where an event is published, for example
// gpuaas.tenant.created.
func Subject(prefix string, t Type) string {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return prefix + "." + string(t)
}

// Subjects returns the pattern that matches the subjects of all events.
func Subjects(prefix string) string { return Subject(prefix, ">") }
