package durable_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWorkflowsCanBeFoundByTheirMarks(t *testing.T) {
	t.Parallel()
	access := stacktest.Temporal(t)
	c, err := durable.Open(durable.Config(access), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := client.Dial(access.Options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	marked := func() bool {
		m := start(t, "nobody-runs-it", "queue-"+id.NewString(), "wf-"+id.NewString(), nil)
		s, err := m.WorkflowStart()
		if err != nil {
			t.Fatal(err)
		}
		m.Body = encoded(t, outbox.WorkflowStart{
			Type: s.Type, ID: s.ID, Queue: s.Queue,
			Marks: map[string]string{durable.MarkHostname: "c07u31", durable.MarkBatch: ""},
		})
		if errs := (durable.Intents{Client: c}).Deliver(t.Context(), []outbox.Message{m}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		found, err := raw.DescribeWorkflow(t.Context(), s.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		host, ok := found.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(durable.MarkHostname))
		return ok && host == "c07u31"
	}
	if marked() {
		t.Error("a Temporal that was not told of marks was given some")
	}
	if err := c.EnsureMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Parts of Temporal learn of new marks after a while. Until then workflows
	// start without them.
	testkit.Eventually(t, "Temporal to use the marks", marked)
}
