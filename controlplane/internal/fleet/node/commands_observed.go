package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Observed is how the machine of a node was seen from outside. The history
// stores its JSON form, so fields may be added but not renamed.
type Observed struct {
	Provider string    `json:"provider" doc:"Who showed it." example:"maas"`
	Status   string    `json:"status" doc:"What the provider called its state; empty: it did not know the machine." example:"Deployed"`
	Power    string    `json:"power" doc:"Whether it was on, as far as the provider knew." example:"on"`
	IPs      []string  `json:"addresses" nullable:"false" doc:"The addresses that the provider had for it."`
	Findings []string  `json:"findings" nullable:"false" doc:"In what it disagreed with the inventory, by type of finding; empty: in nothing." example:"released"`
	SeenAt   time.Time `json:"seen_at" doc:"When it was seen so first."`
}

// noted is what the history keeps of an observation. It holds nothing of the
// node itself, so it needs no lock and never hides a later state.
type noted struct {
	Observed Observed `json:"observed"`
}

// Note writes into the history of a node how its machine was seen, within the
// caller's transaction. The node itself does not change.
func Note(ctx context.Context, tx pgx.Tx, node id.Node, event, cause string, seen Observed) error {
	if seen.IPs == nil {
		seen.IPs = []string{}
	}
	if seen.Findings == nil {
		seen.Findings = []string{}
	}
	seen.SeenAt = seen.SeenAt.UTC()
	snapshot, err := json.Marshal(noted{seen})
	if err != nil {
		return fmt.Errorf("encode observation of node: %w", err)
	}
	who := auth.From(ctx)
	err = nodedb.New(tx).InsertEvent(ctx, nodedb.InsertEventParams{
		NodeID: node, Kind: string(KindObserved), Event: event, Cause: cause, ActorKind: string(who.Kind), ActorID: who.ID,
		CorrelationID: telemetry.Correlation(ctx), Snapshot: snapshot,
	})
	if err != nil {
		return fmt.Errorf("write observation of node: %w", err)
	}
	return nil
}

// observed reads how a node was last seen before a time, or until now if that
// is nil.
func (s *Service) observed(ctx context.Context, node id.Node, until *time.Time) (*Observed, error) {
	snapshot, err := s.reads.ObservedUntil(ctx, nodedb.ObservedUntilParams{NodeID: node, Until: until})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read observation of node: %w", err)
	}
	var n noted
	if err := json.Unmarshal(snapshot, &n); err != nil {
		return nil, fmt.Errorf("decode observation of node: %w", err)
	}
	return &n.Observed, nil
}
