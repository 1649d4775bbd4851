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
// zero one is about all keys and people.
type Review struct {
	Key  id.SSHKey `json:"key,omitzero"`
	User id.User   `json:"user,omitzero"`
}

// ReviewKeys drops keys that may not open allocations in use any more.
func ReviewKeys(ctx workflow.Context, of Review) error {
	var a *Activities
	return durable.Insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, a.ReviewKeys, of).Get(ctx, nil)
	})
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
	// keyRounds is after how many looks the workflow begins a new history.
	keyRounds            = 200
	keyPause, keyLongest = 5 * time.Second, 10 * time.Minute
)

// ChangeKeys has the node of an allocation open to its present keys only. It goes on
// until the node has done so, the allocation has ended, or the keys changed again.
func ChangeKeys(ctx workflow.Context, e KeyErrand) error {
	var a *Activities
	pause := keyPause
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
			e.Try++
			err = workflow.Sleep(ctx, pause)
			pause = min(2*pause, keyLongest)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, keysType, e)
}
