package outbox

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
	"gpuaas/controlplane/internal/engine/postgres"
)

// Deliveries knows which messages have reached their destination.
type Deliveries struct{ DB *postgres.DB }

// Delivered reports whether every event of an aggregate has reached NATS.
func (d Deliveries) Delivered(ctx context.Context, aggregateKind, aggregateID string) (bool, error) {
	undelivered, err := outboxdb.New(d.DB).Undelivered(ctx,
		outboxdb.UndeliveredParams{AggregateKind: aggregateKind, AggregateID: aggregateID})
	if err != nil {
		return false, fmt.Errorf("look for undelivered events of %s %s: %w", aggregateKind, aggregateID, err)
	}
	return !undelivered, nil
}
