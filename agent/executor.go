package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gpuaas/agent/internal/enroll"
	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// calls are the calls that an executor makes for its tasks.
type calls interface {
	Result(ctx context.Context, e agentwire.Envelope, result agentwire.ResultRequest) error
	Progress(ctx context.Context, e agentwire.Envelope, progress agentwire.ProgressRequest) (
		agentwire.ProgressResponse, error)
	Mint(ctx context.Context, e agentwire.Envelope, request agentwire.MintRequest) (agentwire.Credential, error)
}

// Points at which tests kill the agent.
const (
	pointAccepted   = "accepted"
	pointApply      = "before-apply"
	pointApplied    = "after-apply"
	pointJournalled = "result-journalled"
	pointSent       = "result-sent"
)

// Reasons why the context of a task ends before the task does.
var (
	errShutdown  = task.ErrInterrupted
	errCancelled = errors.New("the control plane asked for the task to be stopped")
	errEnded     = errors.New("the control plane says that the task has ended")
	errExpired   = errors.New("the task has used up its time")
)

// executor decides what happens to a delivered task, and carries it out. It
// executes a task id once, however often and in whatever order the task is
// delivered. The journal ensures that across crashes.
type executor struct {
	node      string
	build     agentwire.Build
	calls     calls
	journal   *journal.Journal
	handlers  map[string]task.Handler
	verifiers *enroll.Verifiers
	now       func() time.Time
	skew      func() (time.Duration, bool)
	log       *slog.Logger
	renewal   time.Duration      // of leases
	hook      func(point string) // nil except in tests
	end       func(error)
	doubt     func() // called when the node does not know the key of a task
	results   *outgoing
	// amendment returns what a successful task changed of the installation.
	amendment func(ctx context.Context, h task.Handler, t *task.Task) (*agentwire.Amendment, error)

	// slot is held by the one task that changes the machine: tasks of the
	// classes exclusive and user never run side by side.
	slot chan struct{}

	mu      sync.Mutex
	running map[string]*execution
	closed  bool
	done    sync.WaitGroup
}

func (x *executor) at(point string) {
	if x.hook != nil {
		x.hook(point)
	}
}

// Take receives a task from the control plane.
func (x *executor) Take(ctx context.Context, e agentwire.Envelope) {
	x.mu.Lock()
	defer x.mu.Unlock()
	log := x.log.With("task_id", e.TaskID, "task_type", e.Type, "attempt", e.Attempt, "correlation_id", e.CorrelationID)
	verified, refusal := x.verify(e)
	if known, ok := x.journal.Lookup(e.TaskID); ok {
		x.again(log, known, e, refusal == nil)
		return
	}
	if refusal != nil {
		log.Warn("task refused", "reason", refusal.Reason, "detail", refusal.Detail)
		if refusal.Reason == agentwire.RefusedUnknownSigner && x.doubt != nil {
			x.doubt()
		}
		x.results.Loose(e, x.ended(e, agentwire.ResultRefused, string(refusal.Reason), refusal.Detail, ""))
		return
	}
	if err := x.journal.Accept(e); err != nil {
		log.Error("task not started: it cannot be written down", "error", err)
		x.results.Loose(e, x.ended(e, agentwire.ResultFailed, agentwire.CodeJournalUnavailable,
			"the task was not started, because the agent cannot write it down: "+err.Error(),
			"free space on the disk of the node, below "+x.journal.Folder()))
		return
	}
	x.results.Forget(e.TaskID)
	x.at(pointAccepted)
	log.Info("task accepted")
	x.start(ctx, verified, false)
}

func (x *executor) verify(e agentwire.Envelope) (agentwire.Verified, *agentwire.Refusal) {
	v, refusal := x.verifiers.Set().Verify(e, x.node, x.journal.Generation(), x.planeNow())
	if skew, known := x.skew(); known && skew.Abs() > agentwire.MaxSkew &&
		(refusal == nil || refusal.Reason == agentwire.RefusedExpired || refusal.Reason == agentwire.RefusedClockSkew) {
		return agentwire.Verified{}, skewRefusal(skew, x.now())
	}
	if _, ok := x.handlers[e.Type]; refusal == nil && !ok {
		refusal = &agentwire.Refusal{Reason: agentwire.RefusedUnknownType, Detail: "this agent has no handler of " + e.Type}
	}
	return v, refusal
}

// planeNow returns the time of the control plane's clock, which the times in a
// task refer to. Some of these times are shorter than the clocks may differ. A
// larger difference is not corrected: somebody must set the clock.
func (x *executor) planeNow() time.Time {
	if skew, known := x.skew(); known && skew.Abs() <= agentwire.MaxSkew {
		return x.now().Add(skew)
	}
	return x.now()
}

// again handles a task that is known already. A newer attempt replaces the
// older one, so that leases and results belong to the attempt that counts.
func (x *executor) again(log *slog.Logger, known journal.Entry, e agentwire.Envelope, sound bool) {
	if sound && e.Attempt > known.Envelope.Attempt {
		if err := x.journal.Accept(e); err != nil {
			log.Error("newer attempt not written down", "error", err)
		}
		if running, ok := x.running[e.TaskID]; ok {
			running.supersede(e)
		}
	}
	if known.Result == nil {
		log.Info("task delivered again while it is carried out")
		return
	}
	log.Info("task delivered again: its result is sent again", "status", known.Result.Status)
	x.results.Journalled(e.TaskID)
}

// Resume continues what the previous process left: results that were not sent,
// and tasks that were not finished.
func (x *executor) Resume(ctx context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resumeEnd(ctx) // first: it must know before a result is sent
	for _, e := range x.journal.Unsent() {
		x.results.Journalled(e.ID())
	}
	for _, entry := range x.journal.Unfinished() {
		log := x.log.With("task_id", entry.ID(), "task_type", entry.Envelope.Type, "attempt", entry.Envelope.Attempt,
			"correlation_id", entry.Envelope.CorrelationID)
		v, err := x.reread(entry)
		if err != nil {
			log.Error("unfinished task given up: this version of the agent cannot carry it out", "error", err)
			x.noteJournal(x.journal.Abandon(entry.ID()))
			continue
		}
		log.Info("unfinished task taken up")
		x.start(ctx, v, true)
	}
}

// reread returns a task of the journal. Its signature was verified before it
// was written there, perhaps with a key that has been replaced since.
func (x *executor) reread(entry journal.Entry) (agentwire.Verified, error) {
	spec, known := agentwire.Lookup(entry.Envelope.Type)
	if _, ok := x.handlers[entry.Envelope.Type]; !known || !ok {
		return agentwire.Verified{}, fmt.Errorf("there is no task type %q", entry.Envelope.Type)
	}
	params, err := spec.Decode(entry.Envelope.Params)
	return agentwire.Verified{Envelope: entry.Envelope, Spec: spec, Params: params}, err
}

// resumeEnd finishes the removal of the agent if it was interrupted between the
// result and the end. If the machine was enrolled again later, its generation
// is newer, and the agent stays.
func (x *executor) resumeEnd(ctx context.Context) {
	for _, entry := range x.journal.Finished() {
		if _, ends := x.handlers[entry.Envelope.Type].(task.Finisher); !ends ||
			entry.Result.Status != agentwire.ResultSucceeded || entry.Envelope.Generation < x.journal.Generation() {
			continue
		}
		v, err := x.reread(entry)
		if err != nil {
			continue
		}
		r := newExecution(ctx, x, v, true, nil)
		r.expiry.Stop()
		if entry.Sent {
			go x.finish(ctx, r.task())
			continue
		}
		x.results.After(entry.ID(), func() { x.finish(ctx, r.task()) })
	}
}

// finish lets a task do what must wait until its result was sent, and ends the
// agent.
func (x *executor) finish(ctx context.Context, t *task.Task) {
	if f, ok := x.handlers[t.Type].(task.Finisher); ok {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
		defer cancel()
		if err := f.Finish(ctx, t); err != nil {
			x.log.Error("task not finished completely after its result was sent", "task_id", t.TaskID, "error", err)
		}
	}
	x.end(task.ErrStop)
}

// start must be called with the lock held.
func (x *executor) start(ctx context.Context, v agentwire.Verified, resumed bool) {
	if x.closed {
		return // the next process finds it in the journal
	}
	entry, _ := x.journal.Lookup(v.TaskID)
	r := newExecution(ctx, x, v, resumed, entry.Steps)
	x.running[v.TaskID] = r
	x.done.Go(func() {
		r.carryOut()
		x.mu.Lock()
		delete(x.running, v.TaskID)
		x.mu.Unlock()
	})
}

// Running counts the tasks that run or wait for their turn.
func (x *executor) Running() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.running)
}

// Close interrupts running tasks. Unfinished ones stay in the journal for the
// next process.
func (x *executor) Close(grace time.Duration) {
	x.mu.Lock()
	x.closed = true
	for _, r := range x.running {
		r.cancel(errShutdown)
	}
	x.mu.Unlock()
	over := make(chan struct{})
	go func() {
		x.done.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(grace):
		x.log.Warn("tasks did not stop in time and are left to the next start", "running", x.Running())
	}
}

// ended makes a result without an output.
func (x *executor) ended(e agentwire.Envelope, status, code, message, remedy string) agentwire.ResultRequest {
	now := x.now()
	return agentwire.ResultRequest{
		Attempt: e.Attempt, Status: status, Error: &agentwire.TaskError{
			Code: code, Message: bounded(message, maxMessage),
			Remedy: remedy,
		},
		StartedAt: now, FinishedAt: now, Build: x.build,
	}
}

func (x *executor) noteJournal(err error) {
	if err != nil {
		x.log.Error("journal not written; it is kept in memory and written later", "error", err)
	}
}

const (
	maxMessage = 4000
	finishTime = 5 * time.Minute
)

func bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
