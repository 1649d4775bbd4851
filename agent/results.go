package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// maxLoose limits the results that are in no journal. Their tasks were never
// started, and are handed out again if the answer is lost.
const maxLoose = 256

// outgoing sends results to the control plane, however long that takes. It
// sends one at a time: after an outage a fleet must not send everything at
// once.
type outgoing struct {
	calls   calls
	journal *journal.Journal
	log     *slog.Logger
	hook    func(point string)

	mu    sync.Mutex
	queue []*delivery
	// sending is under way. again says that it must be sent once more.
	sending *delivery
	again   bool
	after   map[string]func()
	wake    chan struct{}
}

type delivery struct {
	task     string
	envelope agentwire.Envelope
	loose    *agentwire.ResultRequest // nil: it is in the journal
	due      time.Time
	wait     transport.Backoff
	replaced bool
}

// started says whether the journal has the task of this result.
func (d *delivery) started() bool { return d.loose == nil || d.replaced }

func newOutgoing(c calls, j *journal.Journal, log *slog.Logger) *outgoing {
	return &outgoing{calls: c, journal: j, log: log, after: map[string]func(){}, wake: make(chan struct{}, 1)}
}

// Journalled sends the result that is in the journal.
func (o *outgoing) Journalled(task string) { o.add(&delivery{task: task}) }

// Loose sends the result of a task that was not started.
func (o *outgoing) Loose(e agentwire.Envelope, result agentwire.ResultRequest) {
	o.add(&delivery{task: e.TaskID, envelope: e, loose: &result})
}

// Forget drops the result of a task that was not started, because now it is. A
// result that is being sent cannot be called back.
func (o *outgoing) Forget(task string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = slices.DeleteFunc(o.queue, func(q *delivery) bool { return q.task == task && !q.started() })
}

// After calls a function once the result of a task was delivered or given up.
func (o *outgoing) After(task string, call func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.after[task] = call
}

func (o *outgoing) add(d *delivery) {
	d.wait = transport.Backoff{First: time.Second, Most: time.Minute}
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.queue, func(q *delivery) bool { return q.task == d.task })
	switch {
	case i >= 0 && (d.loose != nil || !o.queue[i].started()):
		o.queue[i] = d
	case i >= 0 && o.queue[i] == o.sending:
		o.again = true
	case i >= 0:
		o.queue[i].due = time.Time{}
	default:
		o.queue = append(o.queue, d)
	}
	if loose := slices.IndexFunc(o.queue, func(q *delivery) bool { return q.loose != nil }); len(o.queue) > maxLoose &&
		loose >= 0 {
		o.queue = slices.Delete(o.queue, loose, loose+1)
	}
	o.signal()
}

// Kick tries everything again at once, because the control plane is back.
func (o *outgoing) Kick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.queue {
		if d.wait.Failures() > 0 {
			d.wait.Reset()
			d.due = time.Time{}
			o.signal()
		}
	}
}

func (o *outgoing) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Waiting counts the results that the control plane does not have.
func (o *outgoing) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// Run sends until the context ends.
func (o *outgoing) Run(ctx context.Context) {
	for {
		d, pause := o.next()
		if d == nil {
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-o.wake:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		o.send(ctx, d)
		if ctx.Err() != nil {
			return
		}
	}
}

// next returns the delivery that is due, or how long there is none.
func (o *outgoing) next() (*delivery, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pause := time.Hour
	for _, d := range o.queue {
		until := time.Until(d.due)
		if until <= 0 {
			o.sending, o.again = d, false
			return d, 0
		}
		pause = min(pause, until)
	}
	return nil, pause
}

func (o *outgoing) send(ctx context.Context, d *delivery) {
	result, known := o.content(d)
	if !known {
		o.settle(d)
		return
	}
	log := o.log.With("task_id", d.task, "status", result.Status)
	err := o.calls.Result(ctx, d.envelope, result)
	if err != nil && ctx.Err() != nil {
		return
	}
	switch code := transport.CodeOf(err); {
	case err == nil:
		if o.hook != nil {
			o.hook(pointSent)
		}
		o.settle(d)
	case code == agentwire.CodeTaskFinal, code == agentwire.CodeTaskNotYours:
		log.Warn("the control plane has no use for the result", "code", code, "error", err)
		o.settle(d)
	case unacceptable(err) && d.replaced:
		log.Error("the control plane accepts no result for this task", "error", err)
		o.settle(d)
	case unacceptable(err):
		log.Error("the control plane cannot accept the result", "error", err)
		o.replace(d, result, err)
	default:
		o.later(log, d, err)
	}
}

// content returns what is sent: the stored result under the newest attempt.
func (o *outgoing) content(d *delivery) (agentwire.ResultRequest, bool) {
	if d.loose != nil {
		return *d.loose, true
	}
	entry, ok := o.journal.Lookup(d.task)
	if !ok || entry.Result == nil {
		return agentwire.ResultRequest{}, false
	}
	result := *entry.Result
	d.envelope = entry.Envelope
	d.envelope.TaskID = d.task // even if the envelope was lost to damage
	result.Attempt = max(result.Attempt, entry.Envelope.Attempt)
	return result, true
}

func unacceptable(err error) bool {
	var e *transport.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Kind == transport.Refused && slices.Contains(
		[]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}, e.Status)
}

// replace sends a substitute that says at least that there was a result.
func (o *outgoing) replace(d *delivery, result agentwire.ResultRequest, err error) {
	result.Status, result.Output = agentwire.ResultFailed, nil
	result.Error = &agentwire.TaskError{
		Code:    "result_refused",
		Message: bounded("the control plane did not accept the result: "+err.Error(), maxMessage),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = nil
	d.loose, d.replaced = &result, true
}

func (o *outgoing) later(log *slog.Logger, d *delivery, err error) {
	var e *transport.Error
	asked := time.Duration(0)
	if errors.As(err, &e) {
		asked = e.RetryAfter
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = nil
	first := d.wait.Failures() == 0
	pause := d.wait.Next(asked)
	d.due = time.Now().Add(pause)
	if first {
		log.Warn("result not sent; it is kept and sent later", "error", err)
	}
}

// settle ends a delivery.
func (o *outgoing) settle(d *delivery) {
	if entry, ok := o.journal.Lookup(d.task); ok && d.started() && entry.Result != nil && !entry.Sent {
		if err := o.journal.Sent(d.task); err != nil {
			o.log.Error("journal not written; it is kept in memory and written later", "error", err)
		}
	}
	o.mu.Lock()
	if !o.again {
		o.queue = slices.DeleteFunc(o.queue, func(q *delivery) bool { return q == d })
	}
	o.sending = nil
	var after func()
	if d.started() {
		after = o.after[d.task]
		delete(o.after, d.task)
	}
	o.mu.Unlock()
	if after != nil {
		after()
	}
}
