package agent

import (
	"context"
	"maps"
	"os"
	"runtime"
	"strconv"
	"time"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/operation"
	"gpuaas/agent/internal/steps"
	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// compiledIn returns the handlers of all tasks that run on the machine.
func (a *Agent) compiledIn() map[string]task.Handler {
	host := hostexec.Host{Root: a.config.Root}
	handlers := steps.Registry(steps.Deps{
		Host: host, GPU: gpuHelper(host), Terminals: a.terminals(host), Verifiers: a.trust.Verifiers().Set,
		Packages: a.client,
		Updates:  a.updates, LastPoll: a.health.lastContact, Clock: time.Now,
		Baseline: func(ctx context.Context, now agentwire.Inventory) error {
			_, err := handInventory(ctx, host, a.client, a.identity.Load(), now)
			return err
		},
	})
	resolver := &operation.Resolver{Host: host, Changed: a.changed}
	hostexec.EndLeftovers()
	a.operations = operation.New(operation.Deps{
		Host: host, Clock: time.Now, Resolver: resolver,
		Facts:    func(ctx context.Context) map[string]string { return a.machine.Capabilities(ctx).Facts },
		Registry: a.client.Registry,
		Logs:     operation.Logs{Send: a.client.Logs, Log: a.o.Log, Refused: logRefused},
	})
	handlers[agentwire.TypeOperationRun] = a.operations
	handlers[agentwire.TypeResolverConfig] = resolver
	return handlers
}

// logRefused says that the control plane will never take a log: it knows no such
// call, has no use for the task, or cannot read it. Other refusals pass.
func logRefused(err error) bool {
	code := transport.CodeOf(err)
	return unknownCall(err) || unacceptable(err) || code == agentwire.CodeTaskFinal || code == agentwire.CodeTaskNotYours
}

// able adds to what the machine is what this agent can do on it.
func (a *Agent) able(c agentwire.Capabilities) agentwire.Capabilities {
	c.StepKinds = operation.StepKinds()
	facts := map[string]string{
		agentwire.FactArchitecture: runtime.GOARCH, agentwire.FactProtocol: strconv.Itoa(agentwire.Protocol),
	}
	maps.Copy(facts, c.Facts)
	c.Facts = facts
	if a.operations == nil {
		return c
	}
	var err error
	if _, c.ResolverVersion, err = a.operations.Resolver.Current(); err != nil {
		a.o.Log.Error("resolver configuration not read", "error", err)
	}
	return c
}

// gpuHelper asks the drivers of the machine. One that is only a folder has no
// drivers; if the folder brings a program that answers for simulated GPUs, that
// one is asked.
func gpuHelper(host hostexec.Host) gpu.Helper {
	if _, err := host.Program(hostexec.SimulatedGPUs); err == nil && !host.Real() {
		return gpu.Helper{Path: hostexec.SimulatedGPUs, Runner: host}
	}
	return gpu.Helper{Path: "/opt/gpuaas/agent/current/gpuaas-gpu", Runner: host}
}

// heartbeat answers with the state of the agent.
type heartbeat struct{ a *Agent }

// Check implements task.Handler. An answer changes nothing.
func (h heartbeat) Check(context.Context, *task.Task) (any, bool, error) {
	_, err := os.Stat(h.a.config.DrainMarker())
	now := time.Now()
	return agentwire.HeartbeatOutput{
		Build: h.a.o.Build, Now: now.UTC(), UptimeSeconds: int64(now.Sub(h.a.started) / time.Second),
		TasksRunning: h.a.executor.Running() - 1, UnsentResults: h.a.results.Waiting(), Draining: err == nil,
	}, true, nil
}

// Apply implements task.Handler.
func (h heartbeat) Apply(context.Context, *task.Task) (any, error) { return nil, nil }
