package durabletest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// Replay carries the workflow of a recorded history out again. It fails when the
// code of today would have decided otherwise anywhere: then workflows that are
// under way break.
func Replay(t *testing.T, path string, register func(worker.WorkflowReplayer)) {
	t.Helper()
	replayer := worker.NewWorkflowReplayer()
	register(replayer)
	if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, path); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// KeepHistory writes the history of a workflow that has ended into a file,
// without the name of the machine that it was recorded on.
func KeepHistory(t *testing.T, temporal client.Client, workflowID, path string) {
	t.Helper()
	text, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(historyOf(t, temporal, workflowID))
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(host), []byte("worker"))
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	anonymous(plain)
	if text, err = json.MarshalIndent(plain, "", " "); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

func historyOf(t *testing.T, temporal client.Client, workflowID string) *historypb.History {
	t.Helper()
	if err := temporal.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	events := temporal.GetWorkflowHistory(t.Context(), workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	history := &historypb.History{}
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		history.Events = append(history.Events, e)
	}
	return history
}

func anonymous(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if text, ok := inner.(string); ok && (key == "identity" || strings.Contains(text, "@")) {
				v[key] = "worker"
				continue
			}
			anonymous(inner)
		}
	case []any:
		for _, inner := range v {
			anonymous(inner)
		}
	}
}
