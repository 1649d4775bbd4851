// Package task is the interface between the agent's loop and its handlers: what
// a handler gets, and what it must offer.
package task

import (
	"context"
	"errors"

	"gpuaas/contract/agentwire"
)

// Handler carries out one type of task. The loop calls Check first. If Check
// says that everything is as wanted already, the loop does not call Apply. Both
// may be called again after a crash at any point, so Apply must be safe to
// repeat.
type Handler interface {
	// Check looks and changes nothing. If done is true, output is the result.
	Check(ctx context.Context, t *Task) (output any, done bool, err error)
	// Apply makes the machine as wanted.
	Apply(ctx context.Context, t *Task) (output any, err error)
}

// Finisher is a Handler that has something left to do after its result was
// sent. The loop then calls Finish, before it ends because of ErrStop.
type Finisher interface {
	Finish(ctx context.Context, t *Task) error
}

// Amender is a Handler whose work changes what a baseline of the installation
// describes. The loop asks it after the task has succeeded, and sends the
// answer with the result.
type Amender interface {
	Amends(ctx context.Context, t *Task) ([]agentwire.Entry, error)
}

// Task is what a handler works on.
type Task struct {
	agentwire.Verified
	// Reporter is told the steps. The journal keeps them, and the next sign of
	// life sends them.
	Reporter Reporter
	// Credentials returns secrets under the identity of this task.
	Credentials Credentials
}

// Reporter takes the steps of a task.
type Reporter interface {
	// Step reports a step: status started, succeeded, failed or skipped.
	Step(name, status, message string)
	// Checkpoint stores a value across crashes, for example what is done
	// already.
	Checkpoint(key, value string) error
	// Recall returns a checkpoint. It is empty if there is none.
	Recall(key string) string
}

// Credentials mints credentials.
type Credentials interface {
	Mint(ctx context.Context, credentialType string, intent map[string]string) (agentwire.Credential, error)
}

// StepCredentials mints credentials for one step of an operation.
type StepCredentials interface {
	MintForStep(ctx context.Context, operation, step, credentialType string, intent map[string]string) (
		agentwire.Credential, error)
}

// Error is a failure with a code that the control plane can act on.
type Error struct {
	Code    string
	Message string
	Remedy  string
	cause   error
}

func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.cause }

// Fail makes an Error.
func Fail(code, message, remedy string, cause error) error {
	return &Error{Code: code, Message: message, Remedy: remedy, cause: cause}
}

// ErrInterrupted is why the context of a task ends when the agent itself ends.
// The next process finds the task in the journal and goes on.
var ErrInterrupted = errors.New("the agent ends")

// ErrRestart is returned by Apply if the result can be known only after the
// agent has been started again, for example after it updated itself. The loop
// stops; the next process finds the task in the journal and calls Check again.
var ErrRestart = errors.New("the agent must start anew to finish this task")

// ErrStop is returned by Apply together with an output if the agent must end
// for good after the result was sent, for example after its removal.
var ErrStop = errors.New("the agent ends after this task")
