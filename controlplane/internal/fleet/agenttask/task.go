package agenttask

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Request asks a node to do something.
type Request struct {
	Node   id.Node
	Type   string
	Params any // what the type wants, or its JSON; nil: none
	// IdempotencyKey makes a repeated request the same task; empty: each
	// request is a task of its own.
	IdempotencyKey string
	// AwaitWorkflow is the workflow that is signalled when the task has ended.
	AwaitWorkflow string
	Reason        string
	// Owner is the row that the task is given for. Reserved types need one.
	Owner Owner
}

// Owner is the row of whoever may give tasks of a reserved type: such a task
// exists only while the row lives and asks for it.
type Owner interface {
	// Owns refuses a task that the row does not ask for. It runs in the
	// transaction that gives the task; no node means all nodes of the fleet.
	Owns(ctx context.Context, tx pgx.Tx, node id.Node, typ string) error
}

// reserved are the types that nobody gives by request: their parameters decide
// whom a node believes or talks to. The text says what an operator does instead.
var reserved = map[string]string{
	agentwire.TypeUpdateVerifiers: "rotate the signer with: gpuaas signer rotate",
	agentwire.TypeTerminalOpen:    "open a terminal with: gpuaas terminal NODE",
}

// owned refuses a task of a reserved type that no row vouches for, and any task
// whose own row does not ask for it.
func (r Request) owned(ctx context.Context, tx pgx.Tx) error {
	if r.Owner != nil {
		return r.Owner.Owns(ctx, tx, r.Node, r.Type)
	}
	if remedy := reserved[r.Type]; remedy != "" {
		return fault.New(fault.Invalid, "node_task_type_reserved", "%s is only given by the control plane itself", r.Type).WithRemedy("%s", remedy)
	}
	return nil
}

// Task is something that a node is asked to do.
type Task struct {
	ID              id.NodeTask
	Node            id.Node
	Type            string
	Params          json.RawMessage // canonical
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
	RequestedBy     string
	Reason          string
	Correlation     string
	TraceParent     string
	SignerVersion   string
	Output          json.RawMessage
	Error           agentwire.TaskError // zero unless it ended badly
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

// Codes of errors that tasks end with without a word of the agent.
const (
	CodeNotFetched    = "node_task_not_fetched"
	CodeSilent        = "node_task_node_silent"
	CodeOverran       = "node_task_overran"
	CodeSuperseded    = "node_task_superseded"
	CodeOutputInvalid = "node_task_output_invalid"
	CodeCancelled     = "node_task_cancelled"
)

// Err is why a task did not succeed, as a fault; nil when it did. A task that
// expired may have had its effect: nobody heard.
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

// Decode reads the output of a task that succeeded.
func (r Result) Decode(into any) error {
	if err := json.Unmarshal(r.Output, into); err != nil {
		return fmt.Errorf("decode output of task %s (%s): %w", r.Task, r.Type, err)
	}
	return nil
}

func (t Task) result() Result {
	return Result{Task: t.ID, Type: t.Type, Status: t.Status, Attempt: t.Attempt, Output: t.Output, Error: t.Error}
}

// SignalName is the signal that tells a workflow that a task has ended.
func SignalName(task id.NodeTask) string { return "node-task-" + task.String() }

// expiry is until when an attempt that begins now may take.
func (t Task) expiry(from time.Time) time.Time {
	spec, _ := agentwire.Lookup(t.Type)
	if end := from.Add(spec.Window); end.Before(t.DeadlineAt) {
		return end
	}
	return t.DeadlineAt
}

// overran reports whether the present attempt has used up its time.
func (t Task) overran(now time.Time) bool {
	return t.DispatchedAt != nil && !now.Before(t.expiry(*t.DispatchedAt))
}

// envelope is the task as it is handed to its node, yet unsigned.
func (t Task) envelope(now time.Time) agentwire.Envelope {
	return agentwire.Envelope{
		TaskID: t.ID.String(), NodeID: t.Node.String(), Type: t.Type, Params: t.Params, Generation: t.Generation, Attempt: t.Attempt,
		IssuedAt: now.UTC(), ExpiresAt: t.expiry(now).UTC(), CorrelationID: t.Correlation, TraceParent: t.TraceParent,
	}
}

// ending is what a task ends with.
type ending struct {
	event     Event
	output    json.RawMessage
	err       agentwire.TaskError
	agent     string
	startedAt *time.Time
	refused   bool
}

// endingOf reads the result of an agent. A success whose output is not what the
// type promises is a failure: nobody can act on it.
func endingOf(t Task, r agentwire.ResultRequest) (ending, error) {
	e := ending{agent: stored(r.Build.Version, 64)}
	if !r.StartedAt.IsZero() {
		e.startedAt = &r.StartedAt
	}
	if r.Error != nil {
		e.err = agentwire.TaskError{Code: stored(r.Error.Code, 100), Message: stored(r.Error.Message, 4000), Remedy: stored(r.Error.Remedy, 1000)}
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
			e.event, e.err = Expire, agentwire.TaskError{Code: CodeOverran, Message: "the node stopped it because it took longer than its type allows"}
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
			Code: CodeOutputInvalid, Message: stored("the node reports success with an output that is not one of "+t.Type+": "+err.Error(), 4000),
			Remedy: "compare the versions of agent and control plane",
		}
	}
	return e
}

// same reports whether a task that has ended did so in this way.
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

// stored makes what an agent wrote fit for a text column.
func stored(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// hasNUL finds the one character that JSON can carry and the database cannot.
func hasNUL(document []byte) bool {
	canonical, err := agentwire.Canonical(document)
	return err == nil && strings.Contains(strings.ReplaceAll(string(canonical), `\\`, ""), `\u0000`)
}
