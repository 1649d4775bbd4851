package durable

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/outbox"
)

// Intents delivers the starts, signals and cancellations of workflows that
// transactions recorded. The relay calls it, so a recorded intent outlives any
// outage of Temporal.
type Intents struct{ Client *Client }

// Deliver carries out each intent. If an earlier attempt started the workflow,
// it counts as delivered even if the workflow has ended: its id is the key.
func (s Intents) Deliver(ctx context.Context, messages []outbox.Message) []error {
	errs := make([]error, len(messages))
	for i, m := range messages {
		errs[i] = s.Client.deliver(m.Context(ctx), m)
	}
	return errs
}

// patience is the time limit of one call. A Temporal that hangs counts as away.
const patience = 5 * time.Second

func (c *Client) deliver(ctx context.Context, m outbox.Message) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	switch m.Type {
	case outbox.WorkflowCancelType:
	case outbox.WorkflowSignalType:
		return c.signal(ctx, m)
	default:
		return c.start(ctx, m)
	}
	var cancel outbox.WorkflowCancel
	if err := json.Unmarshal(m.Body, &cancel); err != nil {
		return fault.Wrap(err, fault.Internal, "workflow_cancel_malformed",
			"the recorded cancellation of workflow %s cannot be read", m.AggregateID)
	}
	return c.cancel(ctx, cancel.ID)
}

func (c *Client) start(ctx context.Context, m outbox.Message) error {
	start, err := m.WorkflowStart()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "workflow_start_malformed", "the recorded start of workflow %s cannot be read",
			m.AggregateID)
	}
	err = c.marking(start.Marks, func(marks temporal.SearchAttributes) error {
		_, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: start.ID, TaskQueue: start.Queue, TypedSearchAttributes: marks,
			WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			WorkflowExecutionErrorWhenAlreadyStarted: true,
		}, start.Type, start.Input)
		return err
	})
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

// signal sends a signal to a workflow. If the workflow has ended or never
// existed, there is nobody to tell, unless the signal says how to start it.
func (c *Client) signal(ctx context.Context, m outbox.Message) error {
	signal, err := m.WorkflowSignal()
	if err != nil {
		return fault.Wrap(err, fault.Internal, "workflow_signal_malformed",
			"the recorded signal for workflow %s cannot be read", m.AggregateID)
	}
	if start := signal.Start; start != nil {
		err = c.marking(start.Marks, func(marks temporal.SearchAttributes) error {
			_, err := c.temporal.SignalWithStartWorkflow(ctx, signal.WorkflowID, signal.Name, signal.Payload,
				client.StartWorkflowOptions{
					ID: start.ID, TaskQueue: start.Queue, TypedSearchAttributes: marks,
					WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
				}, start.Type, start.Input)
			return err
		})
	} else {
		err = c.temporal.SignalWorkflow(ctx, signal.WorkflowID, "", signal.Name, signal.Payload)
	}
	var gone *serviceerror.NotFound
	var invalid *serviceerror.InvalidArgument
	switch {
	case err == nil || errors.As(err, &gone):
		return nil
	case errors.As(err, &invalid):
		return fault.Wrap(err, fault.Invalid, "workflow_signal_refused", "Temporal refused signal %s of workflow %s",
			signal.Name, signal.WorkflowID)
	}
	return c.classify(err)
}
