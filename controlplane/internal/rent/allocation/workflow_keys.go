package allocation

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

const (
	reviewType = "ReviewAllocationKeys"
	keysType   = "ChangeAllocationKeys"
)

// Review names what changed: a key that was removed, or a person whose rights did. The
// zero one is about all keys and people. What follows is how far it has come.
type Review struct {
	Key  id.SSHKey `json:"key,omitzero"`
	User id.User   `json:"user,omitzero"`

	After  id.Allocation `json:"after,omitzero"` // those up to this one were looked at
	Failed bool          `json:"failed,omitempty"`
	Try    int           `json:"try,omitempty"` // the how manieth time, from 0
}

// ReviewKeys drops keys that may not open allocations in use any more. It looks at all
// of them again where one could not be looked at.
func ReviewKeys(ctx workflow.Context, of Review) error {
	var a *Activities
	for range keyRounds {
		var left Review
		if err := durable.Insist(ctx, func(ctx workflow.Context) error {
			return workflow.ExecuteActivity(ctx, a.ReviewKeys, of).Get(ctx, &left)
		}); err != nil {
			return err
		}
		of = left
		switch {
		case !of.After.IsZero():
		case !of.Failed:
			return nil
		default:
			if err := workflow.Sleep(ctx, pauseAfter(of.Try)); err != nil {
				return err
			}
			of.Failed, of.Try = false, of.Try+1
		}
	}
	return workflow.NewContinueAsNewError(ctx, reviewType, of)
}

// KeyErrand is one change of the keys of an allocation, and the how manieth time its
// node is asked for it, from 0.
type KeyErrand struct {
	ID       id.Allocation `json:"id"`
	Revision int32         `json:"revision"`
	Try      int           `json:"try,omitempty"`
}

func (e KeyErrand) workflowID() string { return fmt.Sprintf("allocation-keys-%s-%d", e.ID, e.Revision) }

const (
	// keyRounds is after how many looks a workflow begins a new history.
	keyRounds            = 200
	keyPause, keyLongest = 5 * time.Second, 10 * time.Minute
)

// pauseAfter is how long to wait after a try that failed: twice as long as after the
// one before, up to a limit.
func pauseAfter(try int) time.Duration { return min(keyPause<<min(try, 10), keyLongest) }

// ChangeKeys has the node of an allocation open to its present keys only. It goes on
// until the node has done so, the allocation has ended, or the keys changed again.
func ChangeKeys(ctx workflow.Context, e KeyErrand) error {
	var a *Activities
	for range keyRounds {
		var answer Answer
		err := durable.Insist(ctx, func(ctx workflow.Context) error {
			return workflow.ExecuteActivity(ctx, a.ChangeKeysOnNode, e).Get(ctx, &answer)
		})
		switch {
		case err != nil:
			return err
		case answer.Signal != "":
			err = await(ctx, answer)
		case answer.Failure.Code != "":
			err = workflow.Sleep(ctx, pauseAfter(e.Try))
			e.Try++
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, keysType, e)
}
