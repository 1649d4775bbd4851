package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
)

// act changes a run under its lock, and has its workflow look at it.
func (s *Service) act(ctx context.Context, of id.Operation,
	do func(ctx context.Context, tx pgx.Tx, o Operation) (Operation, error),
) (Operation, error) {
	var now Operation
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		o, err := lock(ctx, tx, of)
		if err != nil {
			return err
		}
		if now, err = do(ctx, tx, o); err != nil {
			return err
		}
		if err := nudge(ctx, tx, of); err != nil {
			return err
		}
		now, err = Get(ctx, tx, of)
		return err
	})
	return now, err
}

// nudge has the workflow of a run look at it, and starts one if none runs.
func nudge(ctx context.Context, tx pgx.Tx, of id.Operation) error {
	return outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{
		WorkflowID: workflowID(of), Name: SignalName, Payload: map[string]string{},
		Start: &outbox.WorkflowStart{Type: workflowType, ID: workflowID(of), Queue: queue, Input: Input{ID: of}},
	})
}

// Cancel stops a run: what waits is not begun, and nodes stop at the next safe point.
// One that was asked to stop already stays so.
func (s *Service) Cancel(ctx context.Context, of id.Operation, reason string) (Operation, error) {
	return s.act(ctx, of, func(ctx context.Context, tx pgx.Tx, o Operation) (Operation, error) {
		if o.Status.Ended() {
			return o, conflict(o, "is %s: there is nothing to cancel", o.Status)
		}
		if o.Cancel.At != nil {
			return o, nil
		}
		row, err := operationdb.New(tx).AskCancel(ctx, operationdb.AskCancelParams{
			ID: o.ID, CancelRequestedBy: auth.From(ctx).ID, CancelReason: reason,
		})
		now, err := found(row, err, of)
		if err != nil {
			return o, err
		}
		return now, record(ctx, tx, "operation.ask_cancel", now, reason, map[string]any{"prior_status": o.Status})
	})
}

// Pause has a run hand out nothing more. Nodes finish what they have.
func (s *Service) Pause(ctx context.Context, of id.Operation, reason string) (Operation, error) {
	return s.act(ctx, of, func(ctx context.Context, tx pgx.Tx, o Operation) (Operation, error) {
		switch {
		case o.Status.Ended() || o.Cancel.At != nil:
			return o, conflict(o, "has ended, or is being canceled: it cannot be paused")
		case o.Pause.At != nil:
			return o, nil
		}
		row, err := operationdb.New(tx).Pause(ctx, operationdb.PauseParams{
			ID: o.ID, PausedBy: auth.From(ctx).ID, PauseReason: reason,
		})
		now, err := found(row, err, of)
		if err != nil {
			return o, err
		}
		if err := record(ctx, tx, "operation.pause", now, reason, nil); err != nil {
			return now, err
		}
		return now, publish(ctx, tx, eventwire.OperationPaused, now, reason)
	})
}

// Unpause has a paused run go on. What failed so far does not stop it again.
func (s *Service) Unpause(ctx context.Context, of id.Operation, reason string) (Operation, error) {
	return s.act(ctx, of, func(ctx context.Context, tx pgx.Tx, o Operation) (Operation, error) {
		if o.Status.Ended() || o.Pause.At == nil {
			return o, conflict(o, "is not paused")
		}
		all, err := counted(ctx, tx, []Operation{o})
		if err != nil {
			return o, err
		}
		d, err := frozen(ctx, tx, o)
		if err != nil {
			return o, err
		}
		if err := s.mayGoOn(ctx, tx, all[0], d); err != nil {
			return o, err
		}
		row, err := operationdb.New(tx).Unpause(ctx, operationdb.UnpauseParams{
			ID: o.ID, Forgiven: all[0].Counts[TargetFailed], ResumedBy: auth.From(ctx).ID,
		})
		now, err := found(row, err, of)
		if err != nil {
			return o, err
		}
		return now, record(ctx, tx, "operation.unpause", now, reason, nil)
	})
}

// Approve lets a run begin that must be approved. Whoever asked for it or resumed it
// cannot: four eyes are those of two people.
func (s *Service) Approve(ctx context.Context, of id.Operation, reason string) (Operation, error) {
	return s.act(ctx, of, func(ctx context.Context, tx pgx.Tx, o Operation) (Operation, error) {
		who := auth.From(ctx)
		switch {
		case o.Status.Ended() || !o.Approval.awaited() || o.Cancel.At != nil:
			return o, conflict(o, "does not wait for an approval")
		case time.Now().After(*o.Approval.ExpiresAt):
			return o, conflict(o, "waited for its approval too long").WithRemedy("run it again: gpuaas operation again %s", o.ID)
		case who.ID == o.By || slices.Contains(o.ResumedBy, who.ID):
			return o, fault.New(fault.Forbidden, "operation_own_approval",
				"whoever asked for a run, or resumed it, cannot approve it").
				WithRemedy("ask somebody else with the role %s", o.Approval.Role)
		case who.Kind != auth.KindUser:
			return o, fault.New(fault.Forbidden, "operation_approval_by_people", "only people approve runs, and %s is none",
				who.Name).WithRemedy("ask somebody with the role %s", o.Approval.Role)
		case !holds(who, o.Approval.Role, o.on()):
			return o, fault.New(fault.Forbidden, "insufficient_permissions", "operation %s must be approved by a %s", o.ID,
				o.Approval.Role).WithRemedy("ask somebody with that role")
		}
		row, err := operationdb.New(tx).Approve(ctx, operationdb.ApproveParams{
			ID: o.ID, ApprovedBy: who.ID, ApprovedByName: who.Name,
		})
		now, err := found(row, err, of)
		if err != nil {
			return o, err
		}
		return now, record(ctx, tx, "operation.approve", now, reason, map[string]any{"role": o.Approval.Role})
	})
}

// ranks are the roles that may approve, the weakest first: a stronger one of the same
// side may approve for it.
var ranks = []auth.Role{
	auth.ProjectMember, auth.ProjectAdmin, auth.TenantAdmin, auth.Operator, auth.PlatformAdmin,
}

// holds reports whether somebody holds a role on a target, or a stronger one. An
// operator stands for the platform, and not for a tenant.
func holds(who *auth.Principal, role auth.Role, on auth.Target) bool {
	rank := func(r auth.Role) int {
		for i, of := range ranks {
			if of == r {
				return i
			}
		}
		return -1
	}
	has := who.RoleOn(on)
	if has == auth.Operator && role != auth.Operator {
		return false
	}
	return rank(has) >= rank(role) && rank(role) >= 0
}

// Retry resumes a run: targets that failed, were stopped, skipped or never reached wait
// again, each at the step where it stopped. With targets only these do. A run that is
// paused goes on with them.
func (s *Service) Retry(ctx context.Context, of id.Operation, targets []id.OperationTarget, reason string) (Operation,
	error,
) {
	return s.act(ctx, of, func(ctx context.Context, tx pgx.Tx, o Operation) (Operation, error) {
		paused := o.Status == Running && o.Pause.At != nil
		if !paused {
			if _, err := Lifecycle.Next(o.Status, Resume); err != nil {
				return o, conflict(o, "is %s: only what failed, was canceled or is paused can be resumed", o.Status)
			}
		}
		v, err := definition.ForRun(ctx, tx, o.Ref)
		if err != nil {
			return o, err // it was retired since
		}
		q := operationdb.New(tx)
		n, err := revive(ctx, tx, o, targets)
		if err != nil {
			return o, err
		}
		metadata := map[string]any{"targets": n, "prior_status": o.Status}
		// What stays failed does not count against those that go on.
		all, err := counted(ctx, tx, []Operation{o})
		if err != nil {
			return o, err
		}
		if err := s.mayGoOn(ctx, tx, all[0], v.Definition); err != nil {
			return o, err
		}
		forgiven := all[0].Counts[TargetFailed]
		if paused {
			row, err := q.Unpause(ctx, operationdb.UnpauseParams{ID: o.ID, Forgiven: forgiven, ResumedBy: auth.From(ctx).ID})
			now, err := found(row, err, of)
			return now, errors.Join(err, record(ctx, tx, "operation.retry", now, reason, metadata))
		}
		p := operationdb.ResumeParams{ID: o.ID, Forgiven: forgiven, ResumedBy: auth.From(ctx).ID}
		if o.Approval.Role != "" {
			end := time.Now().Add(approvalLasts)
			p.ApprovalExpiresAt = &end
		}
		row, err := q.Resume(ctx, p)
		now, err := found(row, err, of)
		if err != nil {
			return o, err
		}
		if err := record(ctx, tx, "operation.retry", now, reason, metadata); err != nil {
			return now, err
		}
		return now, publish(ctx, tx, eventwire.OperationRequested, now, "it is resumed where it stopped")
	})
}

// revive has targets wait again, and says how many. Targets that nobody reaches any more,
// because their allocation has ended, refuse a request that names them, or has no other.
func revive(ctx context.Context, tx pgx.Tx, o Operation, targets []id.OperationTarget) (int64, error) {
	q, only := operationdb.New(tx), texts(targets)
	n, err := q.Revive(ctx, operationdb.ReviveParams{OperationID: o.ID, Targets: only})
	if err != nil {
		return 0, fmt.Errorf("revive targets of operation %s: %w", o.ID, err)
	}
	if n > 0 && (len(only) == 0 || int(n) == len(only)) {
		return n, nil
	}
	gone, err := q.Unreachable(ctx, operationdb.UnreachableParams{OperationID: o.ID, Targets: only})
	if err != nil {
		return 0, fmt.Errorf("look which allocations of operation %s have ended: %w", o.ID, err)
	}
	if len(gone) > 0 {
		return 0, fault.New(fault.Conflict, "allocation_ended",
			"the allocation through which operation %s reached %s has ended", o.ID, strings.Join(gone, ", ")).
			WithRemedy("run it on what the project has now: gpuaas operation again %s", o.ID)
	}
	return 0, conflict(o, "has no such target that could be resumed")
}

// Again is the request that a run was made by, for a new run that is linked to it. The
// version is the same; targets are resolved anew from the same words.
func (s *Service) Again(ctx context.Context, o Operation, reason string) (Operation, error) {
	var of Selector
	if err := decode(o.Selector, &of); err != nil {
		return Operation{}, err
	}
	return s.Submit(ctx, Ask{
		Owner: o.Owner, Ref: definition.Ref{Type: o.Ref.Type, Version: o.Ref.Version}, Inputs: o.Inputs, Targets: of,
		Limits: Limits{
			MaxConcurrency: o.Limits.MaxConcurrency, MaxFailures: o.Limits.MaxFailures, NoRamp: !o.Limits.Ramp,
		},
		OnlyPlan: o.OnlyPlan, Reason: reason, Trigger: o.Trigger, AgainOf: o.ID,
	})
}

// Runs tells those who end allocations that runs on the node end with them.
type Runs struct{}

// LeaveNode stops what operations do on a node, in the transaction of whoever takes it
// away from its tenant.
func (Runs) LeaveNode(ctx context.Context, tx pgx.Tx, of id.Node, reason string) error {
	return (agenttask.Commands{}).Withdraw(ctx, tx, of, tasksOf, reason)
}

// forgottenAfter is how long after its time a run counts as forgotten.
const forgottenAfter = 2 * time.Minute

// Tend has runs looked at that nobody looks at any more. Any number of replicas may
// run it.
func (s *Service) Tend(ctx context.Context) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := operationdb.New(tx).Forgotten(ctx, int64(forgottenAfter/time.Second))
		if err != nil {
			return fmt.Errorf("look for operations that nobody looks at: %w", err)
		}
		for _, r := range rows {
			s.logger.WarnContext(ctx, "the workflow of an operation is gone; it is started again", "operation_id", r.ID)
			if err := nudge(telemetry.WithCorrelation(ctx, r.CorrelationID), tx, r.ID); err != nil {
				return err
			}
		}
		return nil
	})
}
