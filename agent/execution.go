package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

const maxOutput = 512 << 10

// execution carries out one task.
type execution struct {
	x       *executor
	log     *slog.Logger
	resumed bool
	spec    agentwire.Spec
	params  agentwire.Params
	ctx     context.Context // ends with the task
	cancel  context.CancelCauseFunc
	expiry  *time.Timer
	news    chan struct{} // there are steps to report

	mu       sync.Mutex
	envelope agentwire.Envelope // of the newest attempt
	seq      int
	steps    []agentwire.Step // not reported yet
	minted   []agentwire.Credential
}

func newExecution(ctx context.Context, x *executor, v agentwire.Verified, resumed bool,
	told []agentwire.Step,
) *execution {
	// A task outlives the poll that brought it. The executor ends it.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &execution{
		x: x, resumed: resumed, spec: v.Spec, params: v.Params, ctx: ctx, cancel: cancel, envelope: v.Envelope,
		news: make(chan struct{}, 1), steps: told,
		log: x.log.With("task_id", v.TaskID, "task_type", v.Type, "correlation_id", v.CorrelationID),
	}
	for _, s := range told {
		r.seq = max(r.seq, s.Seq)
	}
	left := v.ExpiresAt.Sub(x.planeNow())
	if left <= 0 {
		cancel(errExpired) // at once, so that a resumed task knows from the start
	}
	r.expiry = time.AfterFunc(left, func() { cancel(errExpired) })
	return r
}

// supersede continues the task under a newer attempt.
func (r *execution) supersede(e agentwire.Envelope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.envelope = e
	for i := range r.steps {
		r.steps[i].Seq = i + 1
	}
	r.seq = len(r.steps)
	r.expiry.Reset(e.ExpiresAt.Sub(r.x.planeNow()))
}

func (r *execution) current() agentwire.Envelope {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.envelope
}

// untold says that there are steps to report. A task that was stopped and has
// none is not announced once more: its result follows.
func (r *execution) untold() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps) > 0 || r.ctx.Err() == nil
}

func (r *execution) carryOut() {
	defer r.cancel(nil)
	defer r.expiry.Stop()
	defer r.wipe()
	stop := r.keepLease()
	defer stop()
	if r.spec.ClassFor(r.params) != agentwire.ClassConcurrent {
		select {
		case r.x.slot <- struct{}{}:
			defer func() { <-r.x.slot }()
		case <-r.ctx.Done():
		}
	}
	started := r.x.now()
	output, err := r.attempt()
	result, finished := r.outcome(started, output, err)
	if !finished {
		return
	}
	stop()
	id := r.current().TaskID
	if errors.Is(err, task.ErrStop) {
		// Once the result is in the journal, a task that is delivered again
		// sends it.
		r.x.results.After(id, func() { r.x.finish(r.ctx, r.task()) })
	}
	r.x.noteJournal(r.x.journal.Finish(id, result))
	r.x.at(pointJournalled)
	if r.untold() {
		r.tell() // the last steps, before the result ends the task
	}
	r.log.Info("task finished", "status", result.Status, "error", result.Error, "took",
		r.x.now().Sub(started).Round(time.Millisecond).String())
	r.x.results.Journalled(id)
}

// attempt checks first and changes only what is not as wanted. If an
// interrupted task has expired, attempt only checks: the control plane decides
// whether it may still be done.
func (r *execution) attempt() (output any, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("handler panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = task.Fail("handler_panic", "the handler of "+r.spec.Type+" panicked: "+fmt.Sprint(p),
				"the log of the agent has the details; report it to the makers of gpuaas", nil)
		}
	}()
	ctx := r.ctx
	late := r.resumed && errors.Is(context.Cause(ctx), errExpired)
	if late {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
	} else if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	handler := r.x.handlers[r.spec.Type]
	t := r.task()
	output, done, err := handler.Check(ctx, t)
	if err != nil || done {
		return output, err
	}
	if late {
		return nil, errExpired
	}
	r.x.at(pointApply)
	output, err = handler.Apply(ctx, t)
	r.x.at(pointApplied)
	return output, err
}

func (r *execution) task() *task.Task {
	return &task.Task{
		Verified: agentwire.Verified{Envelope: r.current(), Spec: r.spec, Params: r.params}, Reporter: r,
		Credentials: r,
	}
}

// outcome turns what a handler returned into a result. There is no result if
// the task continues in another process, or if the control plane must decide.
func (r *execution) outcome(started time.Time, output any, err error) (result agentwire.ResultRequest, finished bool) {
	e := r.current()
	cause := context.Cause(r.ctx)
	switch {
	case err == nil, errors.Is(err, task.ErrStop):
		result = r.success(e, output)
	case errors.Is(err, task.ErrRestart):
		r.log.Info("task goes on after the agent has started anew")
		r.x.end(task.ErrRestart)
		return result, false
	case errors.Is(cause, errShutdown):
		r.log.Info("task interrupted by the end of the agent; the next start takes it up")
		return result, false
	case errors.Is(cause, errExpired) && r.resumed:
		r.log.Warn("interrupted task has expired and is given up; the control plane decides what comes next")
		r.x.noteJournal(r.x.journal.Abandon(e.TaskID))
		return result, false
	case errors.Is(cause, errCancelled), errors.Is(cause, errEnded):
		result = r.x.ended(e, agentwire.ResultCancelled, "cancelled", cause.Error(), "")
	case errors.Is(cause, errExpired):
		result = r.x.ended(e, agentwire.ResultFailed, "deadline_exceeded", "the task was stopped at its deadline: "+
			err.Error(), "look at the steps for what took so long, then ask for it again")
	default:
		result = r.failure(e, err)
	}
	result.StartedAt = started
	return result, true
}

func (r *execution) success(e agentwire.Envelope, output any) agentwire.ResultRequest {
	raw, err := json.Marshal(output)
	if err == nil && len(raw) > maxOutput {
		err = fmt.Errorf("it has %d bytes, more than %d", len(raw), maxOutput)
	}
	if err == nil {
		_, err = r.spec.DecodeOutput(raw)
	}
	if err != nil {
		return r.x.ended(e, agentwire.ResultFailed, "output_invalid",
			"the task was carried out, but its output cannot be sent: "+err.Error(), "report it to the makers of gpuaas")
	}
	amends, err := r.x.amendment(context.WithoutCancel(r.ctx), r.x.handlers[r.spec.Type], r.task())
	if err != nil {
		r.log.Error("what the task changed of the installation is not told; the next validation will name it", "error", err)
	}
	now := r.x.now()
	return agentwire.ResultRequest{
		Attempt: e.Attempt, Status: agentwire.ResultSucceeded, Output: raw, FinishedAt: now,
		Build: r.x.build, Amends: amends,
	}
}

func (r *execution) failure(e agentwire.Envelope, err error) agentwire.ResultRequest {
	code, remedy := "task_failed", ""
	var known *task.Error
	if errors.As(err, &known) {
		code, remedy = known.Code, known.Remedy
	}
	return r.x.ended(e, agentwire.ResultFailed, code, err.Error(), remedy)
}

// wipe erases the secrets of the task from memory.
func (r *execution) wipe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.minted {
		clear(c.Values)
	}
	r.minted = nil
}
