package agentrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/agentrun/internal/agentrundb"
)

func from(r agentrundb.AgentRun) Run {
	return Run{
		ID: r.ID, Node: r.NodeID, Hostname: r.Hostname, Mode: node.Delivery(r.Mode), Scenario: Scenario(r.Scenario),
		Safety: Safety(r.SafetyPolicy), Target: r.TargetVersion, Way: Way(r.Way), Brokered: r.BrokeredBecause,
		Status: Status(r.Status), Detail: r.Detail, Why: Problem{r.ErrorCode, r.ErrorMessage, r.ErrorRemedy},
		From: r.FromVersion, Generation: r.Generation, Certified: r.HadCertificate, Schedulable: r.WasSchedulable,
		Attempt: r.Attempt, Task: r.TaskID, Reinstalls: r.DecommissionID, PhaseAt: r.PhaseStartedAt,
		DeadlineAt: r.DeadlineAt, Reason: r.Reason, By: r.RequestedBy, ByName: r.RequestedByName,
		Correlation: r.CorrelationID, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, FinishedAt: r.FinishedAt,
		Version: r.Version,
	}
}

func save(ctx context.Context, q *agentrundb.Queries, r Run) (Run, error) {
	row, err := q.Save(ctx, agentrundb.SaveParams{
		ID: r.ID, Way: string(r.Way), BrokeredBecause: r.Brokered, Status: string(r.Status), Detail: r.Detail,
		ErrorCode: r.Why.Code, ErrorMessage: r.Why.Message, ErrorRemedy: r.Why.Remedy, Generation: r.Generation,
		HadCertificate: r.Certified, Attempt: r.Attempt, TaskID: r.Task, DecommissionID: r.Reinstalls,
		PhaseStartedAt: r.PhaseAt, DeadlineAt: r.DeadlineAt, FinishedAt: r.FinishedAt, FromVersion: r.From,
		WasSchedulable: r.Schedulable,
	})
	if err != nil {
		return r, fmt.Errorf("keep agent run: %w", err)
	}
	return from(row), nil
}

func found(row agentrundb.AgentRun, err error) (Run, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Run{}, missing()
	}
	if err != nil {
		return Run{}, fmt.Errorf("read agent run: %w", err)
	}
	return from(row), nil
}

// Get reads a run of a node.
func (s *Service) Get(ctx context.Context, n id.Node, of id.AgentRun) (Run, error) {
	r, err := found(agentrundb.New(s.DB).Run(ctx, of))
	if err == nil && r.Node != n {
		err = missing()
	}
	return r, err
}

// Latest reads the newest run of a node; nil: there was none.
func (s *Service) Latest(ctx context.Context, n id.Node) (*Run, error) {
	row, err := agentrundb.New(s.DB).Latest(ctx, n)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	r, err := found(row, err)
	return &r, err
}

// position is where the next page begins.
type position struct {
	At time.Time   `json:"at"`
	ID id.AgentRun `json:"id"`
}

// List lists the runs of a node, the newest first.
func (s *Service) List(ctx context.Context, n id.Node, page postgres.Slice[position]) ([]Run, error) {
	if _, err := node.Get(ctx, s.DB, n); err != nil {
		return nil, err
	}
	before := page.After.At
	if before.IsZero() {
		before = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	rows, err := agentrundb.New(s.DB).List(ctx, agentrundb.ListParams{
		NodeID: n, Before: before, BeforeID: page.After.ID.String(), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list agent runs: %w", err)
	}
	out := make([]Run, len(rows))
	for i, r := range rows {
		out[i] = from(r)
	}
	return out, nil
}

// record writes down in the transaction of a change what became of a run: for the audit
// log, for whoever follows, and at the node.
func record(ctx context.Context, tx pgx.Tx, r Run, action, reason string) error {
	result := audit.Success
	if r.Status == Parked {
		result = audit.Failure
	}
	if err := audit.Record(ctx, tx, audit.Entry{
		Action: "agent_run." + action, TargetKind: "agent_run", TargetID: r.ID.String(), Result: result, Reason: reason,
		Metadata: map[string]any{
			"node_id": r.Node, "hostname": r.Hostname, "mode": r.Mode, "scenario": r.Scenario, "safety_policy": r.Safety,
			"target_version": r.Target, "status": r.Status, "way": r.Way, "error_code": r.Why.Code,
		},
	}); err != nil {
		return err
	}
	if err := outbox.Append(ctx, tx, outbox.Event{
		Type: eventwire.AgentRunChanged, AggregateKind: "agent_run", AggregateID: r.ID.String(),
		Payload: eventwire.AgentRun{
			RunID: r.ID.String(), NodeID: r.Node.String(), Hostname: r.Hostname, Mode: string(r.Mode),
			Scenario: string(r.Scenario), Status: string(r.Status), Code: r.Why.Code,
		},
	}); err != nil {
		return err
	}
	switch r.Status {
	case Succeeded:
		return node.NoteDelivery(ctx, tx, r.Node, "delivered")
	case Parked:
		return node.NoteDelivery(ctx, tx, r.Node, "failed "+r.Why.Code)
	case Delivering:
		return node.NoteDelivery(ctx, tx, r.Node, "delivering")
	case Waiting, AwaitingOperator, Reimaging, Verifying, Cancelled:
	}
	return nil
}
