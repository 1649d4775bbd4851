package allocation

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

const (
	provisionType = "ProvisionAllocation"
	releaseType   = "ReleaseAllocation"
	queue         = durable.TaskQueue
)

// Input names the allocation that a workflow is about.
type Input struct {
	ID id.Allocation `json:"id"`
}

// Errand is something that the node of an allocation is asked for.
type Errand struct {
	ID        id.Allocation `json:"id"`
	What      string        `json:"what"`
	Placement int32         `json:"placement"` // the how manieth node it is on, from 1
}

// The errands, in their order: the node shows that it is ready, and makes the
// account.
const (
	errandProbe   = "probe"
	errandAccount = "account"
)

var errands = []string{errandProbe, errandAccount}

// Answer is how an errand stands.
type Answer struct {
	// Signal tells that it has ended; empty: it has.
	Signal  string        `json:"signal,omitempty"`
	Most    time.Duration `json:"most,omitempty"` // to wait for the signal
	Failure Failure       `json:"failure"`        // zero: it went well
}

// Trouble is what stood in the way of an allocation on one node.
type Trouble struct {
	At string `json:"at"` // the errand
	Failure
}

// Provision makes an allocation usable. It ends well whatever happens: the row says
// what became of it.
func Provision(ctx workflow.Context, in Input) error {
	var a *Activities
	var placement int32 // zero: there is nothing to do
	err := durable.Insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, a.BeginProvisioning, in.ID).Get(ctx, &placement)
	})
	for err == nil && placement > 0 {
		trouble := visit(ctx, in.ID, placement)
		err = durable.Insist(ctx, func(ctx workflow.Context) error {
			return workflow.ExecuteActivity(ctx, a.SettleProvisioning, in.ID, placement, trouble).Get(ctx, &placement)
		})
	}
	return err
}

// visit goes through the errands on one node, and says which failed.
func visit(ctx workflow.Context, of id.Allocation, placement int32) Trouble {
	for _, what := range errands {
		if f := run(ctx, Errand{ID: of, What: what, Placement: placement}); f.Code != "" {
			return Trouble{At: what, Failure: f}
		}
	}
	return Trouble{}
}

// run has the node do an errand and waits for its end.
func run(ctx workflow.Context, e Errand) Failure {
	var a *Activities
	asking := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second, ScheduleToCloseTimeout: 15 * time.Minute,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second,
		},
	})
	for {
		var answer Answer
		if err := workflow.ExecuteActivity(asking, a.AskNode, e).Get(ctx, &answer); err != nil {
			return failureOf(err)
		}
		if answer.Signal == "" {
			return answer.Failure
		}
		if err := await(ctx, answer); err != nil {
			return failureOf(err)
		}
	}
}

// await waits until what was asked for has ended, or until it is time to look.
func await(ctx workflow.Context, answer Answer) error {
	wait, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimer(wait, answer.Most)
	workflow.NewSelector(ctx).AddFuture(timer, func(workflow.Future) {}).
		AddReceive(workflow.GetSignalChannel(ctx, answer.Signal), func(c workflow.ReceiveChannel, _ bool) {
			c.Receive(ctx, nil)
		}).
		AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).Select(ctx)
	stop()
	return ctx.Err()
}

// CodeCancelled is the code of an allocation that was ended before it was active.
const CodeCancelled = "cancelled_by_user"

func failureOf(err error) Failure {
	if temporal.IsCanceledError(err) {
		return Failure{Code: CodeCancelled, Reason: "its end was asked for before it was active"}
	}
	err = durable.FromTemporal(err)
	f := Failure{Code: fault.CodeOf(err), Reason: "the control plane could not ask the node; see the worker's log"}
	if known, ok := fault.As(err); ok {
		f.Reason, f.Remedy = known.Message, known.Remedy
	}
	return f
}

// Leave has the node of an allocation cleaned that has ended.
func Leave(ctx workflow.Context, in Input) error {
	var a *Activities
	return durable.Insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, a.RequestCleanup, in.ID).Get(ctx, nil)
	})
}
