package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuaas/agent/internal/config"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// interrupted leaves what a first boot leaves that was interrupted in the layer of
// the agent, and returns the record and the folder of that layer.
func interrupted(t *testing.T, root, state string) (record, layer string) {
	t.Helper()
	folder := filepath.Join(root, agentwire.FirstBootFolder)
	layer = filepath.Join(folder, "layers", "30-"+agentwire.FirstBootAgentLayer)
	record = filepath.Join(folder, "30-"+agentwire.FirstBootAgentLayer+".json")
	for path, content := range map[string]string{
		filepath.Join(layer, "file-2"):                                       "Authorization: Bearer secret\n",
		filepath.Join(root, agentwire.FirstBootCredentials, "authorization"): "Authorization: Bearer secret\n",
		filepath.Join(folder, "layers", "40-roce-routing", "steps"):          "true\n",
		filepath.Join(folder, "lock"):                                        "",
		record: `{"layer":"agent-bootstrap","version":"1","digest":"d","state":"` + state +
			`","started_at":"2026-03-01T12:00:00Z","ended_at":null,"exit_code":null,"step":"","reason":""}` + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return record, layer
}

func gone(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// The machine has enrolled, so the layer did its work: the agent says so for whoever
// repeats the first boot, and takes the token away.
func TestAnInterruptedFirstBootIsSettled(t *testing.T) {
	for _, state := range []string{"started", "failed"} {
		r := newRig(t)
		record, layer := interrupted(t, r.root, state)
		r.start(nil)
		testkit.Eventually(t, "the layer is removed", func() bool {
			return gone(layer) && gone(filepath.Join(r.root, agentwire.FirstBootCredentials))
		})
		text, err := os.ReadFile(record)
		if err != nil || !strings.Contains(string(text), `"digest":"d","state":"succeeded"`) ||
			strings.Contains(string(text), `"ended_at":null`) {
			t.Errorf("%s: %s %v", state, text, err)
		}
		if other := filepath.Join(r.root, agentwire.FirstBootFolder, "layers", "40-roce-routing"); gone(other) {
			t.Error("another layer was removed")
		}
	}
}

func TestAFirstBootThatRunsIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	record, layer := interrupted(t, root, "started")
	before, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(filepath.Join(root, agentwire.FirstBootFolder, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if settled, err := settleFirstBoot(config.Config{Root: root}); settled || err != nil {
		t.Fatal(settled, err)
	}
	if after, err := os.ReadFile(record); string(after) != string(before) || gone(layer) {
		t.Error(string(after), err)
	}
}

func TestALayerThatWasNotBegunIsKept(t *testing.T) {
	root := t.TempDir()
	record, layer := interrupted(t, root, "started")
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	if settled, err := settleFirstBoot(config.Config{Root: root}); !settled || err != nil || gone(layer) {
		t.Fatal(settled, err)
	}
}
