package onboarding

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
)

// Input says which onboarding to carry out.
type Input struct {
	ID id.Onboarding `json:"id"`
}

// BatchInput says which batch to carry out.
type BatchInput struct {
	ID id.OnboardingBatch `json:"id"`
}

// names are the names recorded in the histories of onboardings.
var names = job.WorkflowNames{
	Type: workflowType, Next: "NextOnboardingTurn", Lost: "LoseOnboardingStage",
	Wake:  "WakeOnboarding",
	Stage: func(stage string) string { return "onboarding." + stage },
}

const (
	workflowType      = "MaasNodeOnboardWorkflow"
	batchWorkflowType = "MaasNodeBatchOnboardWorkflow"
	admitActivity     = "AdmitOnboardingBatch"
	// turnSignal tells the workflow of a batch that there may be something to do.
	turnSignal = "turn"
)

// WorkflowID is the id of the workflow of an onboarding.
func WorkflowID(job id.Onboarding) string { return "onboarding-" + job.String() }

// Admitted is an onboarding that has a place; the workflow of its batch starts
// its workflow.
type Admitted struct {
	ID       id.Onboarding `json:"id"`
	Hostname string        `json:"hostname"`
}

// Admission is what the workflow of a batch does next.
type Admission struct {
	Start   []Admitted `json:"start,omitempty"`
	Waiting int        `json:"waiting"` // onboardings without a place
	Site    id.Site    `json:"site"`
}

// Workflow carries out an onboarding, turn by turn.
func Workflow(ctx workflow.Context, in Input) error {
	return names.Run(ctx, in.ID.String(), node.EnrolledSignal)
}

const (
	// lookAgain is how often the workflow of a batch looks without a signal.
	lookAgain = 15 * time.Minute
	// childrenPerRun limits how many children one run of a batch workflow
	// starts, so that its history stays small.
	childrenPerRun = 300
)

// BatchWorkflow starts the onboardings of a batch as they get places. It ends
// when none waits for a place; the onboardings go on without it.
func BatchWorkflow(ctx workflow.Context, in BatchInput) error {
	turn := workflow.GetSignalChannel(ctx, turnSignal)
	for started := 0; ; {
		var admitted Admission
		if err := durable.Insist(ctx, func(ctx workflow.Context) error {
			return workflow.ExecuteActivity(ctx, admitActivity, in.ID).Get(ctx, &admitted)
		}); err != nil {
			return err
		}
		all := startChildren(ctx, in.ID, admitted)
		started += len(admitted.Start)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case all && admitted.Waiting == 0:
			return nil
		case all && started >= childrenPerRun || workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			return workflow.NewContinueAsNewError(ctx, BatchWorkflow, in) // the next run looks first, so no signal is lost
		}
		if err := awaitTurn(ctx, turn); err != nil {
			return err
		}
	}
}

// awaitTurn waits for a signal that there may be something to do, or until it
// is time to look anyway.
func awaitTurn(ctx workflow.Context, turn workflow.ReceiveChannel) error {
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	var err error
	workflow.NewSelector(ctx).
		AddReceive(turn, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
		AddFuture(workflow.NewTimer(timerCtx, lookAgain), func(f workflow.Future) { err = f.Get(ctx, nil) }).
		Select(ctx)
	for turn.ReceiveAsync(nil) {
	}
	return err
}

// startChildren starts the workflows of onboardings and detaches them. A
// workflow that was started already is fine; one that was terminated before its
// onboarding began is started again. A workflow that cannot be started does not
// hold up the others: all is false then, and the next admission names it again.
func startChildren(ctx workflow.Context, batch id.OnboardingBatch, admitted Admission) (all bool) {
	starts := make([]workflow.Future, len(admitted.Start))
	for i, o := range admitted.Start {
		childCtx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID: WorkflowID(o.ID), ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
			TypedSearchAttributes: childMarks(ctx, batch, admitted.Site, o),
		})
		starts[i] = workflow.ExecuteChildWorkflow(childCtx, workflowType, Input{ID: o.ID}).GetChildWorkflowExecution()
	}
	all = true
	for i, start := range starts {
		err := start.Get(ctx, nil)
		var there *temporal.ChildWorkflowExecutionAlreadyStartedError
		if err != nil && !errors.As(err, &there) {
			workflow.GetLogger(ctx).Error("onboarding cannot be started", "onboarding_id", admitted.Start[i].ID, "error", err)
			all = false
		}
	}
	return all
}

// childMarks returns the search attributes of an onboarding in Temporal, or
// none if the batch has none because that Temporal does not know them.
func childMarks(ctx workflow.Context, batch id.OnboardingBatch, of id.Site, o Admitted) temporal.SearchAttributes {
	if workflow.GetTypedSearchAttributes(ctx).Size() == 0 {
		return temporal.SearchAttributes{}
	}
	mark := func(name, value string) temporal.SearchAttributeUpdate {
		return temporal.NewSearchAttributeKeyKeyword(name).ValueSet(value)
	}
	return temporal.NewSearchAttributes(
		mark(durable.MarkSite, of.String()), mark(durable.MarkHostname, o.Hostname), mark(durable.MarkBatch, batch.String()),
		mark(durable.MarkStatus, string(job.Pending)), mark(durable.MarkStage, table.First()),
	)
}
