package agenttask

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
)

// Request asks a node to do something.
type Request struct {
	Node   id.Node
	Type   string
	Params any // parameters of the type, or their JSON; nil: none
	// IdempotencyKey makes a repeated request return the same task. If it is
	// empty, each request makes a task.
	IdempotencyKey string
	// AwaitWorkflow is the workflow that is signalled when the task has ended.
	AwaitWorkflow string
	// AwaitSignal is the name of that signal; empty: one that names the task.
	AwaitSignal string
	Reason      string
	// Class, Window and Patience are those of this task, where its parameters
	// decide them; zero: those of its type.
	Class            agentwire.Class
	Window, Patience time.Duration
	// Owner is the row for which the task is given. Reserved types need one.
	Owner Owner
}

// Owner is a row that may give tasks of a reserved type. Such a task can be
// given only while the row lives and asks for it.
type Owner interface {
	// Owns refuses a task that the row does not ask for. It runs in the
	// transaction that gives the task. A zero node means all nodes of the
	// fleet.
	Owns(ctx context.Context, tx pgx.Tx, node id.Node, typ string) error
}

// permitted refuses a task whose type needs a permission that the caller does
// not hold.
func permitted(ctx context.Context, typ string) error {
	spec, _ := agentwire.Lookup(typ) // a type that nobody knows is refused later
	needs := auth.Permission(spec.Needs)
	if needs == "" || auth.From(ctx).Decide(needs, auth.Target{}) == auth.Allowed {
		return nil
	}
	return fault.New(fault.Forbidden, "insufficient_permissions", "%s needs the permission %s", typ, needs).
		WithRemedy("ask an administrator of the platform to give the task")
}

// owned refuses a task of a reserved type without an owner, and any task that
// its owner does not ask for.
func (r Request) owned(ctx context.Context, tx pgx.Tx) error {
	if r.Owner != nil {
		return r.Owner.Owns(ctx, tx, r.Node, r.Type)
	}
	if spec, _ := agentwire.Lookup(r.Type); spec.Reserved != "" {
		return fault.New(fault.Invalid, "node_task_type_reserved", "%s is only given by the control plane itself",
			r.Type).WithRemedy("%s", spec.Reserved)
	}
	return nil
}

// Task is something that a node is asked to do.
type Task struct {
	ID              id.NodeTask
	Node            id.Node
	Type            string
	Params          json.RawMessage // in canonical form
	Status          Status
	Class           agentwire.Class
	Generation      int64
	Attempt         int
	MaxAttempts     int
	DeadlineAt      time.Time
	LeaseExpiresAt  *time.Time
	CancelRequested bool
	IdempotencyKey  string
	AwaitWorkflow   string
	AwaitSignal     string        // empty: one that names the task
	Window          time.Duration // of one attempt
	RequestedBy     string
	Reason          string
	Correlation     string
	TraceParent     string
	SignerVersion   string
	Output          json.RawMessage
	Error           agentwire.TaskError // zero unless the task failed
	AgentVersion    string
	CreatedAt       time.Time
	DispatchedAt    *time.Time
	StartedAt       *time.Time // by the clock of the node
	FinishedAt      *time.Time
}

// Result is how a task ended.
type Result struct {
	Task    id.NodeTask         `json:"task"`
	Type    string              `json:"type"`
	Status  Status              `json:"status"`
	Attempt int                 `json:"attempt"`
	Output  json.RawMessage     `json:"output,omitempty"`
	Error   agentwire.TaskError `json:"error"`
}

// Error codes of tasks that end without a result of the agent.
const (
	CodeNotFetched    = "node_task_not_fetched"
	CodeSilent        = "node_task_node_silent"
	CodeOverran       = "node_task_overran"
	CodeSuperseded    = "node_task_superseded"
	CodeOutputInvalid = "node_task_output_invalid"
	CodeCancelled     = "node_task_cancelled"
)

// Err says why a task did not succeed, as a fault. It is nil for a success. If
// a task expired, it may still have had its effect, because no result came.
func (r Result) Err() error {
	if r.Status == Succeeded {
		return nil
	}
	kind := fault.Conflict
	if r.Status == Expired && r.Error.Code != CodeNotFetched {
		kind = fault.Ambiguous
	}
	code := r.Error.Code
	if code == "" {
		code = "node_task_" + string(r.Status)
	}
	f := fault.New(kind, code, "task %s (%s) %s: %s", r.Task, r.Type, r.Status, r.Error.Message)
	if r.Error.Remedy != "" {
		f = f.WithRemedy("%s", r.Error.Remedy)
	}
	return f
}

func (t Task) result() Result {
	return Result{Task: t.ID, Type: t.Type, Status: t.Status, Attempt: t.Attempt, Output: t.Output, Error: t.Error}
}

// SignalName names the signal that tells a workflow that a task has ended.
func SignalName(task id.NodeTask) string { return "node-task-" + task.String() }

// expiry is when an attempt that begins at from must end.
func (t Task) expiry(from time.Time) time.Time {
	if end := from.Add(t.Window); end.Before(t.DeadlineAt) {
		return end
	}
	return t.DeadlineAt
}

// overran reports whether the present attempt has used up its time.
func (t Task) overran(now time.Time) bool {
	return t.DispatchedAt != nil && !now.Before(t.expiry(*t.DispatchedAt))
}

// envelope is the task as it is handed to its node, before it is signed.
func (t Task) envelope(now time.Time) agentwire.Envelope {
	return agentwire.Envelope{
		TaskID: t.ID.String(), NodeID: t.Node.String(), Type: t.Type, Params: t.Params, Generation: t.Generation,
		Attempt:  t.Attempt,
		IssuedAt: now.UTC(), ExpiresAt: t.expiry(now).UTC(), CorrelationID: t.Correlation, TraceParent: t.TraceParent,
	}
}

// ending says how a task ends.
type ending struct {
	event     Event
	output    json.RawMessage
	err       agentwire.TaskError
	agent     string
	startedAt *time.Time
	refused   bool
	void      bool // the control plane found that the node was taken over; agents cannot say so
}

// endingOf reads the result of an agent. A success whose output does not fit
// the type counts as a failure, because nobody can use it.
func endingOf(t Task, r agentwire.ResultRequest) (ending, error) {
	e := ending{agent: stored(r.Build.Version, 64)}
	if !r.StartedAt.IsZero() {
		e.startedAt = &r.StartedAt
	}
	if r.Error != nil {
		e.err = agentwire.TaskError{
			Code: stored(r.Error.Code, 100), Message: stored(r.Error.Message, 4000),
			Remedy: stored(r.Error.Remedy, 1000),
		}
	}
	switch r.Status {
	case agentwire.ResultSucceeded:
		e.event, e.err = Succeed, agentwire.TaskError{}
	case agentwire.ResultFailed:
		e.event = Fail
	case agentwire.ResultRefused:
		e.event, e.refused = Fail, true
	case agentwire.ResultCancelled:
		e.event = Cancel
		if !t.CancelRequested {
			e.event, e.err = Expire, agentwire.TaskError{
				Code:    CodeOverran,
				Message: "the node stopped it because it took longer than its type allows",
			}
		}
	default:
		return e, fault.New(fault.Invalid, "node_task_result_invalid", "a task cannot end with status %q", r.Status)
	}
	if e.event != Succeed && e.err.Code == "" {
		e.err.Code = "node_task_" + r.Status
	}
	return e.withOutput(t, r.Output), nil
}

func (e ending) withOutput(t Task, raw json.RawMessage) ending {
	if len(raw) == 0 && e.event != Succeed {
		return e
	}
	spec, _ := agentwire.Lookup(t.Type)
	_, err := spec.DecodeOutput(raw)
	if err == nil && (len(raw) == 0 || hasNUL(raw)) {
		err = fault.New(fault.Invalid, CodeOutputInvalid, "absent, or it holds a NUL character")
	}
	switch {
	case err == nil:
		e.output = raw
	case e.event == Succeed:
		e.event = Fail
		e.err = agentwire.TaskError{
			Code: CodeOutputInvalid, Message: stored("the node reports success with an output that is not one of "+t.Type+": "+
				err.Error(), 4000),
			Remedy: "compare the versions of agent and control plane",
		}
	}
	return e
}

// same reports whether a task that has ended did so with this ending.
func (e ending) same(t Task) bool {
	next, err := Lifecycle.Next(Dispatched, e.event)
	return err == nil && t.Status == next && t.Error.Code == e.err.Code && equalJSON(t.Output, e.output)
}

func equalJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	ca, errA := agentwire.Canonical(a)
	cb, errB := agentwire.Canonical(b)
	return errA == nil && errB == nil && string(ca) == string(cb)
}

// stored makes text of an agent fit for a text column.
func stored(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// hasNUL finds NUL, the one character that JSON can carry and the database
// cannot.
func hasNUL(document []byte) bool {
	canonical, err := agentwire.Canonical(document)
	return err == nil && strings.Contains(strings.ReplaceAll(string(canonical), `\\`, ""), `\u0000`)
}
