package agenttask_test

import (
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/telemetry/telemetrytest"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

func TestEndsOfTasksAreMeasured(t *testing.T) {
	scraper, w := telemetrytest.New(t), newWorld(t)
	done := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.fetch(t, done)
	w.clock.pass(10 * time.Second)
	for range 2 { // the second result is the same one, and ends nothing
		if err := w.queue.Result(t.Context(), done.Node, done.ID,
			succeeded(t, 1, agentwire.DrainOutput{Draining: true})); err != nil {
			t.Fatal(err)
		}
	}
	refused := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.fetch(t, refused)
	result := agentwire.ResultRequest{Attempt: 1, Status: "refused", Error: &agentwire.TaskError{Code: "bad_signature"}}
	if err := w.queue.Result(t.Context(), refused.Node, refused.ID, result); err != nil {
		t.Fatal(err)
	}
	if _, err := w.commands.Cancel(w.ctx, w.ask(t, w.node(t), agentwire.TypeDrain).ID, "not needed"); err != nil {
		t.Fatal(err)
	}
	if err := agenttask.ObserveStats(w.db); err != nil {
		t.Fatal(err)
	}
	scraper.Wants(t,
		`gpuaas_node_tasks_ended_total{outcome="succeeded",type="node.drain"} 1`,
		`gpuaas_node_tasks_ended_total{outcome="refused",type="node.drain"} 1`,
		`gpuaas_node_tasks_ended_total{outcome="cancelled",type="node.drain"} 1`,
		`gpuaas_node_task_duration_seconds_bucket{outcome="succeeded",type="node.drain",le="5"} 0`,
		`gpuaas_node_task_duration_seconds_bucket{outcome="succeeded",type="node.drain",le="15"} 1`,
		`gpuaas_node_tasks{status="queued"} 0`)
}
