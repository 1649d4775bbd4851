package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// HistoryEntry is one change of a node.
type HistoryEntry struct {
	Seq           int64
	OccurredAt    time.Time
	Kind          Kind
	Event         string
	From, To      Status // empty if the state did not change
	Cause         string
	ActorKind     auth.Kind
	ActorID       string
	CorrelationID string
}

// Source is the kind of actor that caused a change.
type Source string

// The sources: a person, a job, a finding of reconciliation, the agent of the
// node, or the control plane by itself.
const (
	ByOperator Source = "operator"
	ByWorkflow Source = "workflow"
	ByDrift    Source = "drift"
	ByAgent    Source = "agent"
	BySystem   Source = "system"
)

// sources lists them for the contract.
var sources = []Source{ByOperator, ByWorkflow, ByDrift, ByAgent, BySystem}

// Source derives from the actor what kind of actor caused the change.
func (e HistoryEntry) Source() Source {
	if e.ActorKind == auth.KindUser || e.ActorKind == auth.KindServiceAccount {
		return ByOperator
	}
	name := strings.TrimPrefix(e.ActorID, "system:")
	workflow, isWorkflow := strings.CutPrefix(name, "workflow:")
	switch {
	case name == "reconciliation", strings.HasPrefix(workflow, "reconcil"):
		return ByDrift
	case isWorkflow, name == "onboarding", name == "decommission":
		return ByWorkflow
	case strings.HasPrefix(name, "node:"):
		return ByAgent
	}
	return BySystem
}

// History lists changes of a node, newest first. It lists those before a
// sequence number (0: all) and until a time (nil: now).
func (s *Service) History(ctx context.Context, node id.Node, before int64, until *time.Time, limit int32) (
	[]HistoryEntry, error,
) {
	p := nodedb.ListEventsParams{NodeID: node, Until: until, PageSize: limit}
	if before > 0 {
		p.Before = &before
	}
	rows, err := s.reads.ListEvents(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list history of node: %w", err)
	}
	out := make([]HistoryEntry, len(rows))
	for i, r := range rows {
		out[i] = HistoryEntry{
			Seq: r.Seq, OccurredAt: r.OccurredAt, Kind: Kind(r.Kind), Event: r.Event, From: Status(r.FromStatus),
			To:    Status(r.ToStatus),
			Cause: r.Cause, ActorKind: auth.Kind(r.ActorKind), ActorID: r.ActorID, CorrelationID: r.CorrelationID,
		}
	}
	return out, nil
}

// NodeAt reads a node as it was at a time.
func (s *Service) NodeAt(ctx context.Context, node id.Node, at time.Time) (Node, error) {
	row, err := s.reads.SnapshotAt(ctx, nodedb.SnapshotAtParams{NodeID: node, At: at})
	if errors.Is(err, pgx.ErrNoRows) {
		n, err := s.Node(ctx, node)
		if err != nil {
			return Node{}, err
		}
		return Node{}, fault.New(fault.NotFound, "node_not_yet", "node %s did not exist at %s; it exists since %s",
			n.Hostname, at.UTC().Format(time.RFC3339), n.CreatedAt.UTC().Format(time.RFC3339)).
			WithRemedy("name a time after that")
	}
	if err != nil {
		return Node{}, fmt.Errorf("read history of node: %w", err)
	}
	var n Node
	if err := json.Unmarshal(row.Snapshot, &n); err != nil {
		return Node{}, fmt.Errorf("decode history of node: %w", err)
	}
	if n.Inspection = row.Inspection; string(n.Inspection) == "null" {
		n.Inspection = nil
	}
	n.Observed, err = s.observed(ctx, node, &at)
	return n, err
}
