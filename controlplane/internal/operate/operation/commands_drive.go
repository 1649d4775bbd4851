package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/propagation"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
)

// Look is how a run stands after a turn.
type Look struct {
	Done    bool          // it has ended
	Moved   bool          // the turn changed something, or there is more to do at once
	Wait    time.Duration // at most until the next look
	Tasks   []id.NodeTask // that nodes work on
	Version int64         // of the row
	stop    []id.NodeTask // that shall stop
}

// Waits between two looks of a workflow at a run.
const (
	waitForNodes  = time.Minute
	waitForPeople = 10 * time.Minute
)

// turn settles what nodes have reported, hands out what may be handed out, and ends the
// run when nothing is left.
func (s *Service) turn(ctx context.Context, of id.Operation) (Look, error) {
	var look Look
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		look = Look{}
		o, err := lock(ctx, tx, of)
		if err != nil {
			return err
		}
		if o.Status.Ended() {
			look.Done = true
			return nil
		}
		ctx = caused(ctx, o)
		d, err := frozen(ctx, tx, o)
		if err != nil {
			return err
		}
		if look.Moved, err = s.settleEnded(ctx, tx, o, d); err != nil {
			return err
		}
		return s.advance(ctx, tx, o, d, &look)
	})
	if err != nil {
		return look, err
	}
	return look, s.stop(ctx, look.stop)
}

// advance does what follows from the states of the targets.
func (s *Service) advance(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition, look *Look) error {
	if a := o.Approval; a.awaited() && o.Cancel.At == nil {
		if time.Now().Before(*a.ExpiresAt) {
			look.Wait, look.Version = waitForPeople, o.Version
			return operationdb.New(tx).LookAgain(ctx, operationdb.LookAgainParams{
				ID: o.ID, Seconds: int64(waitForPeople / time.Second),
			})
		}
		return s.end(ctx, tx, o, look, Cancel, "operation_approval_expired", "nobody approved it in time")
	}
	if o.Cancel.At != nil {
		if _, err := operationdb.New(tx).EndWaiting(ctx, operationdb.EndWaitingParams{
			OperationID: o.ID, ErrorCode: "operation_canceled", ErrorMessage: "the run was canceled before its turn came",
		}); err != nil {
			return fmt.Errorf("end waiting targets of operation %s: %w", o.ID, err)
		}
	}
	all, err := counted(ctx, tx, []Operation{o})
	if err != nil {
		return err
	}
	o = all[0]
	if o, err = s.breaker(ctx, tx, o); err != nil {
		return err
	}
	if o.Pause.At == nil && o.Cancel.At == nil {
		var given bool
		if o, given, err = s.handOutMore(ctx, tx, o, d); err != nil {
			return err
		}
		look.Moved = look.Moved || given
	}
	if o.Counts[TargetWaiting]+o.Counts[TargetRunning] == 0 {
		event, code, message := o.verdict()
		return s.end(ctx, tx, o, look, event, code, message)
	}
	return s.wait(ctx, tx, o, look)
}

// wait says what a run waits for, and until when at most.
func (s *Service) wait(ctx context.Context, tx pgx.Tx, o Operation, look *Look) error {
	q := operationdb.New(tx)
	running, err := targetsFrom(q.Running(ctx, o.ID))
	if err != nil {
		return err
	}
	for _, t := range running {
		look.Tasks = append(look.Tasks, t.Task)
	}
	look.Wait = waitForNodes
	if look.stop, err = q.Left(ctx, o.ID); err != nil {
		return fmt.Errorf("look which allocations have ended: %w", err)
	}
	if o.Cancel.At != nil {
		look.stop = look.Tasks
	}
	if len(running) == 0 {
		look.Wait = waitForPeople
	}
	if err := q.LookAgain(ctx, operationdb.LookAgainParams{
		ID:      o.ID,
		Seconds: int64(look.Wait / time.Second),
	}); err != nil {
		return fmt.Errorf("note when to look at operation %s again: %w", o.ID, err)
	}
	look.Version = o.Version
	return nil
}

// breaker pauses a run of which more targets failed than it may cost, while there is
// something left to hand out.
func (s *Service) breaker(ctx context.Context, tx pgx.Tx, o Operation) (Operation, error) {
	failed := o.Counts[TargetFailed] - o.Forgiven
	if failed <= o.Limits.MaxFailures || o.Pause.At != nil || o.Cancel.At != nil || o.Counts[TargetWaiting] == 0 {
		return o, nil
	}
	reason := fmt.Sprintf("%s failed, and it was to pause after more than %d", several(failed, "node"),
		o.Limits.MaxFailures)
	row, err := operationdb.New(tx).Pause(ctx, operationdb.PauseParams{
		ID: o.ID, PausedBy: auth.From(ctx).ID, PauseReason: reason,
	})
	now, err := found(row, err, o.ID)
	if err != nil {
		return o, err
	}
	now.Counts = o.Counts
	if err := record(ctx, tx, "operation.pause", now, reason, map[string]any{"breaker": true}); err != nil {
		return now, err
	}
	return now, publish(ctx, tx, eventwire.OperationPaused, now, reason)
}

// verdict says how a run ends whose targets all have ended.
func (o Operation) verdict() (event Event, code, message string) {
	total := int32(0)
	for _, n := range o.Counts {
		total += n
	}
	failed, canceled, done := o.Counts[TargetFailed], o.Counts[TargetCanceled], o.Counts[TargetSucceeded]
	switch {
	case failed > 0:
		message = fmt.Sprintf("%d of %s failed", failed, several(total, "target"))
		if canceled > 0 {
			message += fmt.Sprintf("; %d stopped when it was canceled", canceled)
		}
		return Fail, "operation_targets_failed", message
	case o.Cancel.At != nil:
		message = fmt.Sprintf("%d of %s done when it was canceled", done, several(total, "target"))
		return Cancel, "operation_canceled", message
	case canceled > 0:
		return Cancel, "operation_targets_canceled", fmt.Sprintf("%d of %s stopped", canceled, several(total, "target"))
	case done == 0:
		message = "nothing could be done on any of " + several(total, "target")
		return Fail, "operation_no_fitting_target", message
	}
	return Succeed, "", ""
}

// end ends a run, and tells why.
func (s *Service) end(ctx context.Context, tx pgx.Tx, o Operation, look *Look, event Event, code,
	message string,
) error {
	if event == Cancel {
		if _, err := operationdb.New(tx).EndWaiting(ctx, operationdb.EndWaitingParams{
			OperationID: o.ID, ErrorCode: code, ErrorMessage: message,
		}); err != nil {
			return fmt.Errorf("end waiting targets of operation %s: %w", o.ID, err)
		}
	}
	now, err := move(ctx, tx, o, event, code, message)
	if err != nil {
		return err
	}
	look.Done, look.Moved = true, true
	measure(ctx, now)
	told := map[Event]eventwire.Type{
		Succeed: eventwire.OperationCompleted, Fail: eventwire.OperationFailed, Cancel: eventwire.OperationCanceled,
	}
	if err := record(ctx, tx, "operation."+string(event), now, message, map[string]any{
		"error_code": code, "targets": now.Counts,
	}); err != nil {
		return err
	}
	return publish(ctx, tx, told[event], now, message)
}

// move takes an edge of the lifecycle, and counts the targets.
func move(ctx context.Context, tx pgx.Tx, o Operation, event Event, code, message string) (Operation, error) {
	now, err := moved(ctx, tx, o, event, code, message)
	if err != nil {
		return o, err
	}
	all, err := counted(ctx, tx, []Operation{now})
	if err != nil {
		return now, err
	}
	return all[0], nil
}

// moved is the only function that takes an edge of the lifecycle, resuming apart.
func moved(ctx context.Context, tx pgx.Tx, o Operation, event Event, code, message string) (Operation, error) {
	next, err := Lifecycle.Next(o.Status, event)
	if err != nil {
		return o, err
	}
	row, err := operationdb.New(tx).Move(ctx, operationdb.MoveParams{
		ID: o.ID, ToStatus: string(next), Ends: next.Ended(), ErrorCode: code, ErrorMessage: message,
	})
	return found(row, err, o.ID)
}

// frozen reads the version that a run was made of, whatever became of it since.
func frozen(ctx context.Context, tx pgx.Tx, o Operation) (definition.Definition, error) {
	v, err := definition.Get(ctx, tx, o.Ref)
	if err == nil && v.Digest != o.Digest {
		err = fault.New(fault.Internal, "operation_definition_changed",
			"%s is not the document that operation %s was made of",
			o.Ref, o.ID)
	}
	return v.Definition, err
}

// caused makes a run the cause of what its workflow does.
func caused(ctx context.Context, o Operation) context.Context {
	ctx = telemetry.WithCorrelation(auth.With(ctx, auth.System("operation")), o.Correlation)
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{eventwire.HeaderTraceParent: o.TraceParent})
}

// settleEnded settles the targets whose tasks have ended.
func (s *Service) settleEnded(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition) (bool, error) {
	q := operationdb.New(tx)
	running, err := targetsFrom(q.Running(ctx, o.ID))
	if err != nil || len(running) == 0 {
		return false, err
	}
	of := make(map[id.NodeTask]Target, len(running))
	tasks := make([]id.NodeTask, len(running))
	for i, t := range running {
		of[t.Task], tasks[i] = t, t.Task
	}
	ended, err := agenttask.Ended(ctx, tx, tasks)
	if err != nil || len(ended) == 0 {
		return false, err
	}
	all := make([]settlement, len(ended))
	rows := []stepRow{}
	for i, task := range ended {
		all[i] = settle(o, d, of[task.ID], task)
		rows = append(rows, all[i].steps...)
	}
	raw, err := json.Marshal(rows)
	if err != nil {
		return false, fmt.Errorf("encode steps of operation %s: %w", o.ID, err)
	}
	if err := q.InsertSteps(ctx, operationdb.InsertStepsParams{OperationID: o.ID, Steps: raw}); err != nil {
		return false, fmt.Errorf("insert steps of operation %s: %w", o.ID, err)
	}
	if raw, err = json.Marshal(artifactsOf(rows)); err != nil {
		return false, fmt.Errorf("encode artifacts of operation %s: %w", o.ID, err)
	}
	if err := q.InsertArtifacts(ctx, operationdb.InsertArtifactsParams{OperationID: o.ID, Artifacts: raw}); err != nil {
		return false, fmt.Errorf("insert artifacts of operation %s: %w", o.ID, err)
	}
	for i := range all {
		if err := s.settleOne(ctx, tx, o, d, &all[i]); err != nil {
			return false, err
		}
		measureTarget(ctx, o, all[i])
	}
	return true, progress(ctx, tx, o, all)
}

// settleOne records how a target ended, or gives it the task that follows.
func (s *Service) settleOne(ctx context.Context, tx pgx.Tx, o Operation, d definition.Definition, a *settlement) error {
	if a.next != noFollowUp && o.Cancel.At == nil {
		a.target.StepIndex = a.index
		refused, err := s.follow(ctx, tx, o, d, a)
		if err != nil {
			return err
		}
		switch refused.Code {
		case "":
			a.status = TargetRunning
			return nil
		case codePaused: // it goes on with the run
			a.status, a.trouble = TargetWaiting, Trouble{}
			return hold(ctx, tx, a)
		}
		a.trouble.Message += "; it was given nothing more: " + refused.Message
	}
	if a.status == TargetCanceled && o.Cancel.At == nil && !a.target.Allocation.IsZero() {
		a.trouble = Trouble{
			Code: "allocation_ended", Class: agentwire.FailureCancelled, Message: "the allocation of the node has ended",
		}
	}
	if err := operationdb.New(tx).EndTarget(ctx, operationdb.EndTargetParams{
		ID: a.target.ID, Status: string(a.status), StepIndex: a.index, Changed: a.changed, ErrorCode: a.trouble.Code,
		ErrorClass: a.trouble.Class, ErrorMessage: a.trouble.Message, ErrorRemedy: a.trouble.Remedy,
	}); err != nil {
		return fmt.Errorf("end target %s: %w", a.target.ID, err)
	}
	return nil
}

// hold has a target wait with the rest of its steps until its run goes on.
func hold(ctx context.Context, tx pgx.Tx, a *settlement) error {
	if err := operationdb.New(tx).Hold(ctx, operationdb.HoldParams{
		ID: a.target.ID, StepIndex: a.index, Changed: a.changed,
	}); err != nil {
		return fmt.Errorf("have target %s wait: %w", a.target.ID, err)
	}
	return nil
}

// stop asks nodes to stop what they do for a run. Each is told in a transaction of its
// own: nodes report while this happens, and lock their tasks first.
func (s *Service) stop(ctx context.Context, tasks []id.NodeTask) error {
	for _, t := range tasks {
		if _, err := s.tasks.Cancel(ctx, t, "the run was canceled, or the allocation of the node has ended"); err != nil && fault.KindOf(err) != fault.Conflict {
			return err
		}
	}
	return nil
}
