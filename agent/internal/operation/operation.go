// Package operation carries out operations on the machine: steps of declared
// kinds, in order, in one task. It is the runner of the task operation.run, and
// holds the kinds, one file each.
//
// The runner writes down in the agent's journal what it begins and what it has
// finished. Whatever kills the agent, a step that was finished is not done
// again, and one that was begun is looked at before anything is done. Secrets
// are held in memory only, are passed to steps as handles, and are taken out of
// everything that a step writes.
package operation

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

// Deps is what operations need of the agent.
type Deps struct {
	Host  hostexec.Host
	Clock func() time.Time
	// Facts are what the machine is, for the resolver.
	Facts func(ctx context.Context) map[string]string
	// Resolver holds the command profiles of abstract steps.
	Resolver *Resolver
	// Registry is the way to the platform's own registry. Nil except in an agent.
	Registry func() http.RoundTripper
	// Logs takes what steps write. Without Send nothing is kept.
	Logs Logs
	// Hook is called at points where tests kill the agent. Nil except there.
	Hook func(point string)
}

// Kind carries out one kind of step.
type Kind interface {
	// Check looks and changes nothing. If the node is as wanted already, Done is
	// true and Output the result. Otherwise Summary says what would change.
	Check(ctx context.Context, s *Step) (Look, error)
	// Apply makes the node as wanted. It may be called again after a crash at any
	// point; Check was called before.
	Apply(ctx context.Context, s *Step) (Result, error)
}

// Look is what Check saw.
type Look struct {
	Done    bool
	Output  any // if Done
	Summary string
}

// Result is what Apply did.
type Result struct {
	Output  any
	Changed bool
	Summary string
}

// Step is what a kind works on.
type Step struct {
	ID      string
	Kind    agentwire.StepKind
	Params  agentwire.StepParams
	Attempt int
	// Begun says that an earlier process began this step and nobody knows how
	// far it came.
	Begun bool

	run     *run
	index   int
	profile string // that an abstract step became
	match   string // the rule that chose it
}

// Checkpoint stores a value across crashes.
func (s *Step) Checkpoint(key, value string) error {
	return s.run.task.Reporter.Checkpoint(s.key("own/"+key), value)
}

// Recall returns a checkpoint. It is empty if there is none.
func (s *Step) Recall(key string) string { return s.run.task.Reporter.Recall(s.key("own/" + key)) }

// Secret returns what a handle stands for.
func (s *Step) Secret(handle agentwire.Secret) (string, error) { return s.run.secrets.open(handle) }

// Say writes a line of the log. Of a line that its program wrote over again and again,
// as for progress, it keeps what stood there in the end.
func (s *Step) Say(stream, text string) {
	if s.run.spool == nil {
		return
	}
	text = strings.TrimRight(s.run.secrets.redact(text), "\r")
	s.run.spool.add(s.ID, stream, text[strings.LastIndexByte(text, '\r')+1:], s.run.deps.Clock())
}

// point is where tests kill the agent.
func (s *Step) point(name string) {
	if s.run.deps.Hook != nil {
		s.run.deps.Hook(s.ID + ":" + name)
	}
}

// makers makes the kinds.
var makers = map[string]func(machine) Kind{}

// carries enters the kind of step that a file carries out.
func carries(kind string, maker func(machine) Kind) struct{} { //nolint:unparam // a variable needs a value
	makers[kind] = maker
	return struct{}{}
}

// machine is what every kind uses.
type machine struct{ Deps }

// StepKinds lists the kinds that this agent carries out.
func StepKinds() []string { return slices.Sorted(maps.Keys(makers)) }

// Failure is why a step failed.
type Failure struct { //nolint:errname // a word of operations
	agentwire.StepError
	// Output is evidence, in the form of the kind's output. It may be nil.
	Output any
	cause  error
}

func (f *Failure) Error() string {
	if f.cause != nil {
		return f.Message + ": " + f.cause.Error()
	}
	return f.Message
}

func (f *Failure) Unwrap() error { return f.cause }

// fail makes a Failure.
func fail(class, code, message, remedy string, cause error) *Failure {
	return &Failure{
		StepError: agentwire.StepError{Code: code, Class: class, Message: message, Remedy: remedy}, cause: cause,
	}
}

// params returns the parameters in their type.
func params[P any](s *Step) (*P, error) {
	p, ok := any(s.Params).(*P)
	if !ok {
		return nil, errors.New("step " + s.ID + " of the kind " + s.Kind.Kind + " has parameters of another kind")
	}
	return p, nil
}
