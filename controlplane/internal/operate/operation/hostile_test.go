package operation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/operation"
)

// A node whose tenant has root may report anything. It fails for itself, and keeps no
// other target and no cancel waiting.
func TestAHostileReportFailsItsOwnTargetOnly(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]string{
		"a status that there is not": `"status":"x"`,
		"more tries than there are":  `"status":"failed","attempts":3000000000`,
		"the year zero":              `"status":"failed","started_at":"0000-01-01T00:00:00Z"`,
		"less than no lines":         `"status":"failed","log_lines":-5`,
		"a step twice":               `"status":"failed"},{"id":"one","kind":"file.render","status":"succeeded"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			nodes := w.nodes(t, 2)
			ref := w.define(t, "web.prepare")
			o := w.submit(t, operation.Ask{
				Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
				Limits: operation.Limits{NoRamp: true, MaxFailures: 1},
			})
			all := w.fetch(t)
			w.result(t, all[0], agentwire.ResultSucceeded,
				map[string]any{"steps": json.RawMessage(`[{"id":"one","kind":"file.render",` + lie + `}]`)})
			w.report(t, all[1])
			wantStatus(t, w.settle(t, o.ID), operation.Failed, map[operation.TargetStatus]int32{
				operation.TargetFailed: 1, operation.TargetSucceeded: 1,
			})
		})
	}
}

// A target that had begun and must not go on stays failed. The run ends, and does not
// say that it succeeded.
func TestAResumeThatIsRefusedLeavesTheRunFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 2)
	ref := w.define(t, "web.prepare")
	w.failing("two", nodes[1])
	o := w.settle(t, w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{NoRamp: true},
	}).ID)
	wantStatus(t, o, operation.Failed, map[operation.TargetStatus]int32{
		operation.TargetFailed: 1, operation.TargetSucceeded: 1,
	})
	w.rented(t, nodes[1], "ann") // a tenant came meanwhile
	if _, err := w.service.Retry(w.ctx, o.ID, nil, "mended"); err != nil {
		t.Fatal(err)
	}
	o = w.settle(t, o.ID)
	wantStatus(t, o, operation.Failed, map[operation.TargetStatus]int32{
		operation.TargetFailed: 1, operation.TargetSucceeded: 1,
	})
	if got := w.targets(t, o.ID)[1]; got.Error.Code == "" || got.StepIndex != 1 {
		t.Errorf("it must say why it did not go on: %+v", got)
	}
}

// Of two targets that failed one is resumed. The other one does not count against it.
func TestARetryOfOneTargetIsNotPausedByTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 2)
	ref := w.define(t, "web.prepare")
	w.failing("two", nodes...)
	o := w.settle(t, w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{NoRamp: true},
	}).ID)
	wantStatus(t, o, operation.Failed, map[operation.TargetStatus]int32{operation.TargetFailed: 2})
	w.failing("none")
	only := []id.OperationTarget{w.targets(t, o.ID)[0].ID}
	if _, err := w.service.Retry(w.ctx, o.ID, only, "mended"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Failed, map[operation.TargetStatus]int32{
		operation.TargetFailed: 1, operation.TargetSucceeded: 1,
	})
}

// What a node sends counts in full: it cannot fill the database with what has no text,
// or with words where the name of a stream belongs.
func TestEveryLineOfALogCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, node, task := w.printing(t)
	odd := lines(1, 1, "one")
	odd.Lines[0].Stream = strings.Repeat("x", 1000)
	_, err := w.service.AppendLogs(t.Context(), node, task, odd)
	wantCode(t, "a line of no stream", err, "operation_logs_invalid")
	empty := lines(1, 1000, "one")
	for i := range empty.Lines {
		empty.Lines[i].Text = ""
	}
	if _, err := w.service.AppendLogs(t.Context(), node, task, empty); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, `SELECT sum(bytes) FROM operation_log_streams`); n < 64*1000 {
		t.Errorf("1,000 empty lines count %d bytes", n)
	}
}
