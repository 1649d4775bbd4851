package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/steps"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// compiledIn are the handlers of everything that happens on the machine.
func (a *Agent) compiledIn() map[string]task.Handler {
	host := hostexec.Host{Root: a.config.Root}
	return steps.Registry(steps.Deps{
		Host: host, GPU: gpuHelper(host), Terminals: a.terminals(host), Verifiers: a.verifiers.Set, Packages: a.client,
		Updates: a.updates, LastPoll: a.health.lastContact, Clock: time.Now,
		Baseline: func(ctx context.Context, now agentwire.Inventory) error {
			_, err := handInventory(ctx, host, a.client, a.identity.Load(), now)
			return err
		},
	})
}

func gpuHelper(host hostexec.Host) gpu.Helper {
	return gpu.Helper{Path: "/opt/gpuaas/agent/current/gpuaas-gpu", Runner: host}
}

// heartbeat answers, with the state of the agent.
type heartbeat struct{ a *Agent }

// Check implements task.Handler: an answer changes nothing.
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

// updateVerifiers uses another set of task verifiers. An older set is not
// taken over: the answer is the version in use.
type updateVerifiers struct{ a *Agent }

// Check implements task.Handler.
func (h updateVerifiers) Check(_ context.Context, t *task.Task) (any, bool, error) {
	p, ok := t.Params.(*agentwire.UpdateVerifiersParams)
	if !ok {
		return nil, false, fmt.Errorf("parameters of type %T", t.Params)
	}
	version := h.a.verifiers.Version()
	return agentwire.UpdateVerifiersOutput{Version: version}, version >= p.Set.Version, nil
}

// Apply implements task.Handler.
func (h updateVerifiers) Apply(_ context.Context, t *task.Task) (any, error) {
	p, ok := t.Params.(*agentwire.UpdateVerifiersParams)
	if !ok {
		return nil, fmt.Errorf("parameters of type %T", t.Params)
	}
	if _, err := h.a.verifiers.Adopt(p.Set); err != nil {
		return nil, task.Fail("verifiers_not_written", "the verifier set could not be written", "free space on the disk of the node", err)
	}
	h.a.changed()
	return agentwire.UpdateVerifiersOutput{Version: h.a.verifiers.Version()}, nil
}
