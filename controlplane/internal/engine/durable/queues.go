package durable

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// Work is the kind of work that a worker does.
type Work string

// The kinds of work.
const (
	WorkWorkflow Work = "workflow"
	WorkActivity Work = "activity"
)

// Queue says how much work waits for workers, and how many serve it.
type Queue struct {
	Name    string
	Work    Work
	Pollers int64         // workers that asked for work within the last minutes
	Backlog int64         // approximately
	Oldest  time.Duration // how long the oldest task has waited
}

// Queues asks Temporal how much work waits for workers.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	out := []Queue{}
	for _, of := range []struct {
		work Work
		kind enumspb.TaskQueueType
	}{{WorkWorkflow, enumspb.TASK_QUEUE_TYPE_WORKFLOW}, {WorkActivity, enumspb.TASK_QUEUE_TYPE_ACTIVITY}} {
		answer, err := c.temporal.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: c.cfg.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: TaskQueue}, TaskQueueType: of.kind,
			ReportStats: true,
		})
		if err != nil {
			return nil, c.classify(err)
		}
		out = append(out, Queue{
			Name: TaskQueue, Work: of.work, Pollers: int64(len(answer.GetPollers())),
			Backlog: answer.GetStats().GetApproximateBacklogCount(),
			Oldest:  answer.GetStats().GetApproximateBacklogAge().AsDuration(),
		})
	}
	return out, nil
}
