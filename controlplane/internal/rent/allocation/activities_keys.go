package allocation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// ReviewKeys drops keys that may not open allocations in use any more, of one page, and
// says what is left to review.
func (a *Activities) ReviewKeys(ctx context.Context, of Review) (left Review, err error) {
	return a.review(auth.With(ctx, auth.System("allocation-keys")), of)
}

// What a change of keys waits for, as its tenant reads it.
const (
	keysAsked  = "its node to apply the change"
	keysSilent = "its node, which does not answer"
)

// ChangeKeysOnNode has the node of an allocation open to its present keys only, unless
// it does, and says how that stands. An answer without a signal and without a failure
// is the end.
func (a *Activities) ChangeKeysOnNode(ctx context.Context, e KeyErrand) (Answer, error) {
	ctx = auth.With(ctx, auth.System("allocation-keys"))
	var task agenttask.Task
	needed := false
	err := a.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		of, tells, ok, err := keyringOf(ctx, tx, e)
		if err != nil || !ok {
			return err
		}
		// A review that ran before the change was recorded has not seen its keys.
		now, err := a.dropKeys(ctx, tx, of)
		if needed = now.opensTo(e); err != nil || !needed {
			return err
		}
		task, err = a.tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: of.Node, Owner: keeper(e), Reason: "keys of allocation " + of.ID.String(),
			IdempotencyKey: fmt.Sprintf("%s/%d.%d", of.keyTasks(), e.Revision, e.Try),
			Type:           agentwire.TypeProvisionUser, Params: of.account(tells),
		})
		return err
	})
	if kind := fault.KindOf(err); kind == fault.Conflict || kind == fault.NotFound {
		return a.keysLater(ctx, e, Failure{Code: fault.CodeOf(err)})
	}
	if err != nil || !needed {
		return Answer{}, err
	}
	if task, err = agenttask.Linger(ctx, a.tasks, task, lingers); err != nil {
		return Answer{}, err
	}
	if !task.Status.Ended() {
		if task, err = a.tasks.TellWhenEnded(ctx, task.ID, e.workflowID()); err != nil {
			return Answer{}, err
		}
		return Answer{
			Signal: agenttask.SignalName(task.ID),
			Most:   max(time.Until(task.DeadlineAt.Add(agentwire.Lease)), agentwire.Lease),
		}, a.noteKeys(ctx, e, keysSilent)
	}
	if task.Status != agenttask.Succeeded {
		return a.keysLater(ctx, e, Failure{Code: task.Error.Code})
	}
	return Answer{}, a.noteKeys(ctx, e, "")
}

// keysLater says that the node has to be asked again.
func (a *Activities) keysLater(ctx context.Context, e KeyErrand, f Failure) (Answer, error) {
	text := keysSilent
	if f.Code != agenttask.CodeNotFetched {
		text = "its node, which could not do it; it is asked again"
		a.logger.WarnContext(ctx, "a node does not change the keys of an allocation; it is asked again", "allocation_id", e.ID,
			"try", e.Try, "code", f.Code)
	}
	return Answer{Failure: f}, a.noteKeys(ctx, e, text)
}
