package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
)

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args  string
		uuids int
		fails string
	}{
		{"inspect", 0, ""},
		{"scrub", 0, ""},
		{"scrub --gpu GPU-1 --gpu GPU-2", 2, ""},
		{"", 0, "no command"},
		{"wipe", 0, "unknown command"},
		{"scrub GPU-1", 0, "unexpected argument"},
		{"scrub --gpu", 0, "needs an argument"},
		{"inspect --gpu GPU-1", 0, "not defined"},
	} {
		_, uuids, err := parse(strings.Fields(c.args))
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) || len(uuids) != c.uuids {
			t.Errorf("%q: %v, %v", c.args, uuids, err)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestExitStatuses(t *testing.T) {
	var out, messages bytes.Buffer
	if rc := run(t.Context(), []string{"version"}, &out, &messages); rc != exitDone ||
		!strings.Contains(out.String(), version) {
		t.Errorf("version: %d, %q", rc, out.String())
	}
	if rc := run(t.Context(), []string{"nonsense"}, &out, &messages); rc != exitUsage ||
		!strings.Contains(messages.String(), "usage:") {
		t.Errorf("nonsense: %d, %q", rc, messages.String())
	}
	if rc := run(t.Context(), []string{"version"}, brokenPipe{}, &messages); rc != exitBroken {
		t.Errorf("broken pipe: %d", rc)
	}
}

// What the environment asks of the driver must be gone where the driver looks:
// in the C library.
func TestTheEnvironmentDoesNotReachTheDriver(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "nothing")
	for _, entry := range os.Environ() { // to have all of it back in the end
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	lib, err := dl.Open("libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	var getenv func(string) string
	if err := lib.Bind(&getenv, "getenv"); err != nil {
		t.Fatal(err)
	}
	if got := getenv("CUDA_VISIBLE_DEVICES"); got != "nothing" {
		t.Fatalf("the C library has %q: the test sees nothing", got)
	}
	setEnvironment()
	if got := getenv("CUDA_VISIBLE_DEVICES"); got != "" {
		t.Errorf("CUDA_VISIBLE_DEVICES is still %q", got)
	}
	if got := getenv("CUDA_MODULE_LOADING"); got != "EAGER" {
		t.Errorf("CUDA_MODULE_LOADING is %q", got)
	}
}

// The recorded outputs are the contract with the agent, whose tests decode the
// same files: each line is exactly what the types here print.
func TestRecordedOutputsAreThoseOfTheTypes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			line = bytes.TrimSpace(line)
			var kind struct {
				Type string `json:"type"`
			}
			if err := json.Unmarshal(line, &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			v := map[string]any{"report": &report{}, "phase": &phase{}, "result": &scrubReport{}}[kind.Type]
			if v == nil {
				t.Fatalf("%s: type %q", file, kind.Type)
			}
			if err := json.Unmarshal(line, v); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			again, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(line, again) {
				t.Errorf("%s:\n%s\nis printed as\n%s", file, line, again)
			}
		}
	}
}
