package decommission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// errand is a task that a stage gives to the node's agent.
type errand struct {
	kind   string // type of the task
	params any
	// again distinguishes a second task of the same attempt from the first.
	again string
	// patience is how long the task may wait until the agent fetches it. If
	// zero, the profile decides.
	patience time.Duration
	// before, if set, runs in the transaction that creates the task.
	before func(ctx context.Context, tx pgx.Tx) error
}

// ask creates a task for the node, or finds the one it created before, and
// checks whether it has ended. If the task is still running, ask returns await,
// which the stage must return. It first stops tasks that an earlier pass left.
// If the task failed, the stage fails with its error.
func (s *Service) ask(ctx context.Context, d Decommission, w *bringup.Work, stage string, e errand) (t agenttask.Task,
	await *job.Await, err error,
) {
	var same, other *agenttask.Task
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := w.FenceIn(ctx, tx); err != nil {
			return err
		}
		if same, other, err = e.givenAlready(ctx, tx, d); err != nil || same == nil && other != nil {
			return err
		}
		if e.before != nil {
			if err := e.before(ctx, tx); err != nil {
				return err
			}
		}
		if same != nil {
			t, other = *same, nil
			return nil
		}
		t, err = s.tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: d.Node, Type: e.kind, Params: e.params, Reason: d.Reason,
			IdempotencyKey: fmt.Sprintf("%s/%s/%d.%d%s", d.WorkflowID, stage, w.Epoch, w.Attempt, e.again),
		})
		return err
	})
	switch {
	case err != nil:
		return t, nil, err
	case other != nil:
		await, err := s.giveUp(ctx, *other)
		return t, await, err
	}
	if t, err = s.linger(ctx, d, t, same == nil); err != nil {
		return t, nil, err
	}
	if !t.Status.Ended() {
		await, err := s.until(ctx, d, t, s.patienceOf(w, e))
		return t, await, err
	}
	return t, nil, ended(d, t)
}

// linger waits briefly for a task that was just created. If the task takes longer,
// its end signals the workflow.
func (s *Service) linger(ctx context.Context, d Decommission, t agenttask.Task, given bool) (agenttask.Task, error) {
	if given {
		var err error
		if t, err = agenttask.Linger(ctx, s.tasks, t, s.lingers); err != nil {
			return t, err
		}
	}
	if t.Status.Ended() {
		return t, nil
	}
	return s.tasks.TellWhenEnded(ctx, t.ID, d.WorkflowID)
}

// givenAlready looks for unfinished tasks of the operation: the one that this
// errand created, and one that an earlier pass through the stages left.
func (e errand) givenAlready(ctx context.Context, tx pgx.Tx, d Decommission) (same, other *agenttask.Task, err error) {
	tasks, err := agenttask.LiveOf(ctx, tx, d.Node, d.WorkflowID)
	for _, t := range tasks {
		if e.asks(t) {
			same = &t
		} else {
			other = &t
		}
	}
	return same, other, err
}

// giveUp stops a task and waits until it has ended. The operation no longer
// needs it, and the agent does one thing at a time.
func (s *Service) giveUp(ctx context.Context, t agenttask.Task) (*job.Await, error) {
	most := time.Second
	if t.Status == agenttask.Dispatched {
		most = agentwire.Lease
	}
	_, err := s.tasks.Cancel(ctx, t.ID, "the operation is at another stage by now")
	if err != nil && fault.KindOf(err) != fault.Conflict { // it has just ended
		return nil, err
	}
	return &job.Await{Signal: agenttask.SignalName(t.ID), Most: most}, nil
}

// asks says whether the errand created this task. It compares the parameters as
// well, because draining a node and lifting the drain are tasks of the same
// type.
func (e errand) asks(t agenttask.Task) bool {
	if t.Type != e.kind {
		return false
	}
	raw, err := json.Marshal(e.params)
	if err != nil {
		return false
	}
	canonical, err := agentwire.Canonical(raw)
	return err == nil && bytes.Equal(canonical, t.Params)
}

// until returns how long to wait for a task, or fails if the agent does not
// fetch it.
func (s *Service) until(ctx context.Context, d Decommission, t agenttask.Task, patience time.Duration) (*job.Await,
	error,
) {
	// The agent may continue for hours past the deadline, and every look costs.
	until, least := t.DeadlineAt.Add(agentwire.Lease), agentwire.Lease
	if t.Status == agenttask.Queued {
		least = time.Second
		if until = t.CreatedAt.Add(patience); !s.now().Before(until) {
			_, err := s.tasks.Cancel(ctx, t.ID, notFetched)
			if fault.KindOf(err) == fault.Conflict { // the task has just ended: look again
				return &job.Await{Signal: agenttask.SignalName(t.ID), Most: time.Second}, nil
			}
			if err != nil {
				return nil, err
			}
			return nil, unreachable(d, "its agent has not fetched the task %s within %s", t.Type, patience)
		}
		if d.Mode.releases() { // if somebody released the machine, nobody will ever fetch the task
			if soon := s.now().Add(time.Minute); soon.Before(until) {
				until = soon
			}
		}
	}
	return &job.Await{Signal: agenttask.SignalName(t.ID), Most: max(until.Sub(s.now()), least)}, nil
}

// patienceOf returns how long a task may wait until the agent fetches it.
func (s *Service) patienceOf(w *bringup.Work, e errand) time.Duration {
	switch {
	case s.patience > 0:
		return s.patience
	case e.patience > 0:
		return e.patience
	}
	return time.Duration(w.Profile.Policy.AgentTimeoutSeconds) * time.Second
}

// notFetched is the reason with which tasks of unresponsive nodes are
// cancelled.
const notFetched = "the node did not fetch it in time"

func unreachable(d Decommission, format string, args ...any) *job.Failure {
	f := codeUnreachable.Failed("node %s does not answer: %s", d.Hostname, fmt.Sprintf(format, args...))
	if d.Mode == Reactivate {
		f.Remedy = "an agent that was kept out for more than a day has no valid certificate any more: gpuaas node bootstrap " + d.Hostname + " --recovery, run that on the machine, then retry"
	}
	return f
}

// ended returns why a finished task failed, or nil if it succeeded.
func ended(d Decommission, t agenttask.Task) error {
	err := t.Result().Err()
	if err == nil {
		return nil
	}
	var f *job.Failure
	switch {
	case t.Status == agenttask.Expired:
		f = unreachable(d, "task %s expired: %s", t.Type, or(t.Error.Message, t.Error.Code))
		if t.Error.Code != agenttask.CodeNotFetched {
			f.Called(codeAgentLost).Details = map[string]any{"may_have_had_its_effect": true}
		}
	case t.Status == agenttask.Cancelled && t.Error.Message == notFetched: // by an earlier execution of this attempt
		f = unreachable(d, "its agent has not fetched the task %s in time", t.Type)
	case t.Status == agenttask.Cancelled:
		f = codeTaskCancelled.Failed("the task %s of node %s was cancelled: %s", t.Type, d.Hostname, t.Error.Message).
			ForGood().Because(err)
	default:
		code := codeTaskFailed
		if t.Error.Code != "" {
			code = job.CodeNamed(t.Error.Code)
		}
		f = code.FailedAs(codeTaskFailed.Class, "%s on node %s: %s", t.Type, d.Hostname, t.Error.Message).Because(err).
			With("%s", or(t.Error.Remedy, codeTaskFailed.Remedy))
	}
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details["task_id"], f.Details["task_type"], f.Details["task_status"] = t.ID, t.Type, t.Status
	return f
}

// output decodes the result of a successful task.
func output[T any](t agenttask.Task) (T, error) {
	var out T
	if err := json.Unmarshal(t.Output, &out); err != nil {
		return out, codeTaskOutput.Failed("what task %s (%s) brought cannot be read", t.ID, t.Type).ForGood().Because(err)
	}
	return out, nil
}

// seen is the evidence of a task, with the ids needed to look the task up.
type seen struct {
	TaskID       string          `json:"task_id"`
	TaskType     string          `json:"task_type"`
	AgentVersion string          `json:"agent_version"`
	Generation   int64           `json:"generation,omitempty"` // generation of the node that got the task
	AskedAt      time.Time       `json:"asked_at"`
	StartedAt    *time.Time      `json:"started_at,omitempty"`
	FinishedAt   *time.Time      `json:"finished_at,omitempty"`
	Output       json.RawMessage `json:"output"`
}

func seenOf(t agenttask.Task) seen {
	return seen{
		TaskID: t.ID.String(), TaskType: t.Type, AgentVersion: t.AgentVersion, Generation: t.Generation,
		AskedAt: t.CreatedAt.UTC(), StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, Output: t.Output,
	}
}

func witnessed(kind string, t agenttask.Task) []job.Evidence {
	return []job.Evidence{{Kind: kind, Value: seenOf(t)}}
}

// askedAt returns when the task behind a result was created. The task may not
// have seen anything that happened on the node after that.
func askedAt(result job.Result) (time.Time, bool) {
	for _, e := range result.Evidence {
		if s, ok := e.Value.(seen); ok {
			return s.AskedAt, true
		}
	}
	return time.Time{}, false
}
