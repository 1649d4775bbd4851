package agentrun

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/operate/agentrun/internal/agentrundb"
)

// Retry lets a parked run begin again, by what the table says for the node as it is by
// then.
func (s *Service) Retry(ctx context.Context, r Run, reason string) (Run, error) {
	rule, err := ruleOf(r.Scenario, r.Mode)
	if err == nil {
		err = rule.permitted(ctx)
	}
	if err != nil {
		return r, err
	}
	return s.act(ctx, r, Retry, reason, func(ctx context.Context, tx pgx.Tx, r *Run) error {
		deadline := s.Clock().Add(patienceBusy)
		r.Why, r.Detail, r.DeadlineAt = Problem{}, "it begins again", &deadline
		r.Attempt++
		return keepOff(ctx, tx, *r)
	})
}

// Cancel ends a run. What its agent has fetched goes to its end, and so does a
// decommission, which is cancelled by itself.
func (s *Service) Cancel(ctx context.Context, r Run, reason string) (Run, error) {
	return s.act(ctx, r, Cancel, reason, func(ctx context.Context, tx pgx.Tx, r *Run) error {
		now := s.Clock()
		r.Detail, r.DeadlineAt, r.FinishedAt = "somebody ended it: "+reason, nil, &now
		if err := s.Tasks.Withdraw(ctx, tx, r.Node, workflowID(r.ID), "the run was cancelled"); err != nil {
			return err
		}
		return letBack(ctx, tx, *r)
	})
}

// act changes a run, and tells its workflow.
func (s *Service) act(ctx context.Context, r Run, event Event, reason string,
	change func(ctx context.Context, tx pgx.Tx, r *Run) error,
) (Run, error) {
	err := s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := agentrundb.New(tx)
		var err error
		if r, err = found(q.LockRun(ctx, r.ID)); err != nil {
			return err
		}
		next, err := Lifecycle.Next(r.Status, event)
		if err != nil {
			return fault.New(fault.Conflict, "agent_run_wrong_status", "a run that is %s cannot be told to %s", r.Status, event).
				WithRemedy("see how it stands: gpuaas node agent %s", r.Hostname)
		}
		r.Status, r.PhaseAt = next, s.Clock()
		if err := change(ctx, tx, &r); err != nil {
			return err
		}
		if r, err = save(ctx, q, r); err != nil {
			return err
		}
		if err := record(ctx, tx, r, string(event), reason); err != nil {
			return err
		}
		return outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{
			WorkflowID: workflowID(r.ID), Name: signalName, Start: start(r.ID),
		})
	})
	return r, err
}
