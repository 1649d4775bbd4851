package operation

import (
	"context"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
)

// Activities are what the workflow of a run calls. Each may be repeated.
type Activities struct{ *Service }

// RegisterWorker adds the workflow and its activity to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: workflowType})
	w.RegisterActivity((&Activities{s}).DriveOperation)
}

// A drive looks for what nodes report again and again, ever less often, and gives up
// its place after a while.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 100 * time.Millisecond
	longestDrive = 15 * time.Second
)

// DriveOperation takes turns with a run until it has ended, or until nothing has
// happened for a moment: nodes are quick, and every signal to a workflow costs more
// than a few looks. Then it asks to be told.
func (a *Activities) DriveOperation(ctx context.Context, of id.Operation) (Turn, error) {
	began, moved := time.Now(), time.Now()
	for pause := firstPause; ; {
		look, err := a.turn(ctx, of)
		switch {
		case fault.KindOf(err) == fault.NotFound:
			return Turn{Done: true}, nil // there is nothing to take turns with
		case err != nil:
			return Turn{}, err
		case look.Done:
			return Turn{Done: true}, nil
		case look.Moved && time.Since(began) < longestDrive:
			pause, moved = firstPause, time.Now()
			continue
		case look.Moved:
			return Turn{}, nil
		case len(look.Tasks) == 0:
			return Turn{Wait: look.Wait}, nil
		}
		for news := false; !news; pause = min(2*pause, longestPause) {
			if time.Since(moved) > a.linger || time.Since(began) > longestDrive {
				return a.ask(ctx, of, look)
			}
			if news, err = a.news(ctx, of, look, pause); err != nil {
				return Turn{}, err
			}
		}
	}
}

// news waits a moment, and says whether a node has reported or somebody has changed the
// run.
func (a *Activities) news(ctx context.Context, of id.Operation, look Look, pause time.Duration) (bool, error) {
	if err := rest(ctx, pause); err != nil {
		return false, err
	}
	ended, err := agenttask.Ended(ctx, a.db, look.Tasks)
	if err != nil || len(ended) > 0 {
		return true, err
	}
	version, err := operationdb.New(a.db).RowVersion(ctx, of)
	return version != look.Version, err
}

// rest waits, and lets others work meanwhile.
func rest(ctx context.Context, pause time.Duration) error {
	defer outbox.Aside(ctx)()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// ask has the workflow told when a node reports. If one did meanwhile, it looks again.
func (a *Activities) ask(ctx context.Context, of id.Operation, look Look) (Turn, error) {
	live, err := a.tasks.TellWhenEachEnded(ctx, look.Tasks, workflowID(of), SignalName)
	if err != nil {
		return Turn{}, err
	}
	if live < len(look.Tasks) {
		return Turn{}, nil
	}
	return Turn{Wait: look.Wait}, nil
}
