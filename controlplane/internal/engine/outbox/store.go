package outbox

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
)

// Entry is a message of the outbox as an operator sees it.
type Entry struct {
	Seq           int64
	ID            id.Event
	Destination   string
	Type          string
	AggregateKind string
	AggregateID   string
	Org           id.Org
	Project       id.Project
	CorrelationID string
	Status        Status
	Attempts      int
	LastError     string
	CreatedAt     time.Time
}

func entryOf(r outboxdb.OutboxEvent) Entry {
	return Entry{
		Seq: r.Seq, ID: r.ID, Destination: r.Destination, Type: r.EventType, AggregateKind: r.AggregateKind,
		AggregateID: r.AggregateID, Org: r.OrgID, Project: r.ProjectID, CorrelationID: r.CorrelationID,
		Status:   Status(r.Status),
		Attempts: int(r.AttemptCount), LastError: r.LastError, CreatedAt: r.CreatedAt,
	}
}

func messagesOf(rows []outboxdb.OutboxEvent) []Message {
	batch := make([]Message, len(rows))
	for i, r := range rows {
		batch[i] = Message{
			ID: r.ID, Seq: r.Seq, Type: r.EventType, AggregateKind: r.AggregateKind, AggregateID: r.AggregateID,
			Org: r.OrgID, CorrelationID: r.CorrelationID, TraceParent: r.TraceParent,
			Attempt: int(r.AttemptCount) + 1, CreatedAt: r.CreatedAt, Body: r.Envelope,
		}
	}
	return batch
}
