package reconciliation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

func findingFrom(r reconciliationdb.ReconciliationFinding) Finding {
	return Finding{
		ID: r.ID, Site: r.SiteID, Node: r.NodeID, Type: Type(r.Type), Severity: Severity(r.Severity), Subject: r.Subject,
		Status:   Status(r.Status),
		SystemID: r.MaasSystemID, Hostname: r.Hostname, Expected: r.Expected, Observed: r.Observed, Message: r.Message,
		Details: r.Details,
		Looks:   r.Looks, Occurrence: r.Occurrence, Action: Action(r.Action), Withheld: r.Withheld, ActionNote: r.ActionNote,
		OpenedAt: r.OpenedAt, LastSeenAt: r.LastSeenAt, ConfirmedAt: r.ConfirmedAt, ActedAt: r.ActedAt,
		AcknowledgedAt: r.AcknowledgedAt, AcknowledgedBy: r.AcknowledgedBy, Acknowledgement: r.Acknowledgement,
		ClosedAt: r.ClosedAt, ClosedBecause: r.ClosedBecause,
	}
}

func findingsFrom(rows []reconciliationdb.ReconciliationFinding) []Finding {
	out := make([]Finding, len(rows))
	for i, r := range rows {
		out[i] = findingFrom(r)
	}
	return out
}

func runFrom(r reconciliationdb.ReconciliationRun) (Run, error) {
	run := Run{
		ID: r.ID, Site: r.SiteID, Trigger: Trigger(r.Trigger), Full: r.FullSweep, DryRun: r.DryRun, Node: r.NodeID,
		Resolution: Resolution(r.Resolution),
		Reason:     r.Reason, RequestedBy: r.RequestedBy, CorrelationID: r.CorrelationID, Outcome: Outcome(r.Outcome),
		ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage, ErrorRemedy: r.ErrorRemedy,
		RequestedAt: r.RequestedAt, BeganAt: r.BeganAt, EndedAt: r.EndedAt,
	}
	if err := json.Unmarshal(r.Report, &run.Report); err != nil {
		return run, fmt.Errorf("decode report of run: %w", err)
	}
	return run, nil
}

func runNotFound() error {
	return fault.New(fault.NotFound, "not_found", "there is no such run").WithRemedy("check the id; old runs are not kept")
}

// RunOf reads a run.
func (s *Service) RunOf(ctx context.Context, run id.ReconciliationRun) (Run, error) {
	row, err := s.reads.RunByID(ctx, run)
	if errors.Is(err, pgx.ErrNoRows) {
		return Run{}, runNotFound()
	}
	if err != nil {
		return Run{}, fmt.Errorf("read run: %w", err)
	}
	return runFrom(row)
}

type change struct {
	tx pgx.Tx
	*reconciliationdb.Queries
}

func (s *Service) inChange(ctx context.Context, fn func(ctx context.Context, c change) error) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return fn(ctx, change{tx: tx, Queries: reconciliationdb.New(tx)})
	})
}

// encode turns details into a JSON object for a row.
func encode(details any) (json.RawMessage, error) {
	b, err := json.Marshal(details)
	if err != nil {
		return nil, fmt.Errorf("encode details: %w", err)
	}
	if string(b) == "null" {
		return json.RawMessage("{}"), nil
	}
	return b, nil
}
