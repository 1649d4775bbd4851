package durable

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/outbox"
)

// Starts delivers the workflow starts that transactions recorded. It belongs to
// the relay: an intent that was acknowledged outlives any outage of Temporal.
type Starts struct{ Client *Client }

// Deliver starts each workflow. A workflow that was started by an earlier
// attempt, or has even ended already, counts as delivered: its id is its key.
func (s Starts) Deliver(ctx context.Context, messages []outbox.Message) []error {
	errs := make([]error, len(messages))
	for i, m := range messages {
		errs[i] = s.Client.start(m.Context(ctx), m)
	}
	return errs
}

// startPatience bounds one start, so that a Temporal that hangs counts as away.
const startPatience = 5 * time.Second

func (c *Client) start(ctx context.Context, m outbox.Message) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	start, err := m.WorkflowStart()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "workflow_start_malformed", "the recorded start of workflow %s cannot be read", m.AggregateID)
	}
	_, err = c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: start.ID, TaskQueue: start.Queue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, start.Type, start.Input)
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	var invalid *serviceerror.InvalidArgument
	switch {
	case err == nil || errors.As(err, &started):
		return nil
	case errors.As(err, &invalid):
		return fault.Wrap(err, fault.Invalid, "workflow_start_refused", "Temporal refused to start workflow %s", start.ID)
	}
	return c.classify(err)
}
