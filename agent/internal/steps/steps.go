// Package steps carries out the tasks of the catalog on the machine, one file
// per type. A handler looks first, changes only what is not as wanted, can be
// repeated after a crash at any point, and says honestly what it could not do.
package steps

import (
	"context"
	"fmt"
	"io"
	"time"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/update"
	"gpuaas/contract/agentwire"
)

// Where the agent keeps its files on the machine.
const (
	unitName    = "gpuaas-node-agent.service"
	unitFile    = "/etc/systemd/system/" + unitName
	optFolder   = "/opt/gpuaas"
	etcFolder   = "/etc/gpuaas"
	stateFolder = "/var/lib/gpuaas"
	logFolder   = "/var/log/gpuaas"
	usersFolder = stateFolder + "/users"
	drainFile   = stateFolder + "/drain.json"
)

// GPU looks at graphics processors and overwrites their memory.
type GPU interface {
	Inspect(ctx context.Context) (gpu.Report, error)
	Scrub(ctx context.Context, uuids []string, progress func(gpu.Phase)) (gpu.ScrubReport, error)
}

// Terminals holds the interactive sessions of the machine.
type Terminals interface {
	Open(ctx context.Context, p agentwire.TerminalOpenParams) error
	Close(session string) (existed bool)
	CloseUser(name string) (closed int)
	CloseAll() (closed int)
	Count() int
}

// Packages fetches agent packages from the control plane.
type Packages interface {
	Package(ctx context.Context, version string) (io.ReadCloser, error)
}

// Deps is what the handlers need. All fields are required.
type Deps struct {
	Host      hostexec.Host
	GPU       GPU
	Terminals Terminals
	// Verifiers returns the set in use.
	Verifiers func() agentwire.VerifierSet
	Packages  Packages
	Updates   *update.Store
	// LastPoll returns when the control plane was last reached.
	LastPoll func() time.Time
	// Baseline hands over the inventory of an installation that had no tenant
	// yet.
	Baseline func(ctx context.Context, now agentwire.Inventory) error
	Clock    func() time.Time
}

// makers makes the handlers, by task type.
var makers = map[string]func(host) task.Handler{}

// handles enters the handler of task types. Each handler does so in its own
// file, in a variable without a name, which needs a value.
func handles(maker func(host) task.Handler, types ...string) struct{} { //nolint:unparam // see above
	for _, t := range types {
		makers[t] = maker
	}
	return struct{}{}
}

// Registry returns the handlers by task type, except those of heartbeat and
// verifiers, which belong to the loop because they are about its state, and
// those of operations, which have a package of their own.
func Registry(d Deps) map[string]task.Handler {
	h := newHost(d)
	handlers := make(map[string]task.Handler, len(makers))
	for t, maker := range makers {
		handlers[t] = maker(h)
	}
	return handlers
}

// host is what every handler uses.
type host struct {
	Deps
	machine inspect.Machine
	kill    func(m inspect.Machine, pid, uid int) error
}

func newHost(d Deps) host {
	return host{Deps: d, machine: inspect.Machine{Host: d.Host, GPUs: d.GPU}, kill: killProcess}
}

// params returns the parameters in their type. The loop has decoded them, so a
// different type is a mistake in the registry.
func params[P any](t *task.Task) (*P, error) {
	p, ok := any(t.Params).(*P)
	if !ok {
		return nil, fmt.Errorf("task %s of type %s has parameters of type %T", t.TaskID, t.Type, t.Params)
	}
	return p, nil
}

// step reports a step around work.
func step(t *task.Task, name string, work func() (message string, err error)) error {
	t.Reporter.Step(name, "started", "")
	message, err := work()
	if err != nil {
		t.Reporter.Step(name, "failed", err.Error())
		return err
	}
	t.Reporter.Step(name, "succeeded", message)
	return nil
}
