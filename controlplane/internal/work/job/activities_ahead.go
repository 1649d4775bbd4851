package job

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/activity"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

// LeadBy has the jobs of a family that need no place carried out ahead of their
// workflows, by the same call that a workflow begins with. The row is fenced, so that
// a workflow that starts after all takes over where the job stands. Call it before
// the first job.
func (s *Rows[R, W]) LeadBy(ahead *outbox.Ahead, r *Runner[R, W]) {
	s.ahead, s.errand = ahead, r.errand
}

// beginFree lets jobs begin that need no place.
func (s *Rows[R, W]) beginFree(ctx context.Context, tx pgx.Tx, known map[string]carried, rows []jobdb.AdmitRow) error {
	if s.ahead == nil {
		return begin(ctx, tx, known, rows, false)
	}
	for _, r := range rows {
		j := jobOf(r)
		if err := s.ahead.Start(ctx, tx, known[r.Family].start(j), s.errand(j.ID)); err != nil {
			return err
		}
	}
	return nil
}

// aheadRun stands in the row in place of the run of a workflow.
const aheadRun = "ahead"

// errand carries a job out as far as it goes without waiting.
func (r *Runner[R, W]) errand(job string) outbox.Errand {
	return func(ctx context.Context) (outbox.Rest, error) {
		turn, err := r.NextTurn(ctx, job)
		switch {
		case err != nil:
			return outbox.Rest{}, err
		case turn.Do == durable.TurnLater: // the workflow would begin with the attempt that has to wait
			return outbox.Rest{Wait: turn.Wait}, nil
		}
		return outbox.Rest{Done: turn.Do == durable.TurnEnd}, nil
	}
}

// runOf names the execution that an activity belongs to.
func runOf(ctx context.Context) string {
	if !activity.IsActivity(ctx) {
		return aheadRun
	}
	return activity.GetInfo(ctx).WorkflowExecution.RunID
}

// deadlineOf is when an activity must have ended; zero: there is no limit.
func deadlineOf(ctx context.Context) time.Time {
	if !activity.IsActivity(ctx) {
		return time.Time{}
	}
	return activity.GetInfo(ctx).Deadline
}

func heartbeat(ctx context.Context) {
	if activity.IsActivity(ctx) {
		activity.RecordHeartbeat(ctx)
	}
}

// stopping is closed when this process ends.
func stopping(ctx context.Context) <-chan struct{} {
	if !activity.IsActivity(ctx) {
		return ctx.Done()
	}
	return activity.GetWorkerStopChannel(ctx)
}
