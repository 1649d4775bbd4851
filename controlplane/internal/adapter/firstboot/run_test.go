package firstboot_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/firstboot"
)

// record is what the runner writes about a layer.
type record struct {
	Layer, Version, Digest, State, Step, Reason string
	StartedAt                                   string  `json:"started_at"`
	EndedAt                                     *string `json:"ended_at"`
	ExitCode                                    *int    `json:"exit_code"`
}

// store does with a bundle what cloud-init does, in another folder.
func store(t *testing.T, folder string, b firstboot.Bundle) {
	t.Helper()
	for path, content := range unpack(t, b) {
		path = filepath.Join(folder, strings.TrimPrefix(path, firstboot.Folder))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func boot(t *testing.T, folder string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(folder, "run")).CombinedOutput()
	return string(out), err
}

func parse(t *testing.T, text string) record {
	t.Helper()
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

func recorded(t *testing.T, folder, place string) record {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, place+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(b))
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", path, err)
	}
}

func lines(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func TestTheFirstLayerThatFailsStopsTheBoot(t *testing.T) {
	folder, work := t.TempDir(), t.TempDir()
	mark := func(name string) []string { return []string{"sh", "-c", `echo x >>"$0"`, filepath.Join(work, name)} }
	first := firstboot.Layer{Name: "first", Version: "1.0", Commands: [][]string{mark("first")}}
	second := firstboot.Layer{Name: "second", Version: "2.0", Commands: [][]string{
		mark("second"), {
			"sh", "-c", `[ -e "$0" ] || { echo "it's \"broken\" \\ here ü" >&2; exit 7; }`,
			filepath.Join(work, "repaired"),
		}, mark("after"),
	}}
	third := firstboot.Layer{Name: "third", Version: "3.0", Commands: [][]string{mark("third")}}
	b := compose(t, first, second, third)
	store(t, folder, b)

	out, err := boot(t, folder)
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 1 ||
		!strings.Contains(out, "layer second, version 2.0, failed with 7") {
		t.Fatalf("%v: %s", err, out)
	}
	if r := recorded(t, folder, "01-first"); r.State != "succeeded" || r.Layer != "first" || r.Version != "1.0" ||
		r.Digest != b.Layers[0].Digest || *r.ExitCode != 0 || r.EndedAt == nil {
		t.Errorf("first: %+v", r)
	}
	r := recorded(t, folder, "02-second")
	if r.State != "failed" || r.Version != "2.0" || *r.ExitCode != 7 || !strings.HasPrefix(r.Step, "run sh -c [ -e") ||
		!strings.HasSuffix(r.Reason, `it's "broken" \ here`) {
		t.Errorf("second: %+v", r)
	}
	gone(t, filepath.Join(folder, "03-third.json"))
	gone(t, filepath.Join(folder, "layers", "01-first"))
	gone(t, filepath.Join(work, "third"))
	gone(t, filepath.Join(work, "after"))
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}

	if err := os.WriteFile(filepath.Join(work, "repaired"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to do
		if out, err := boot(t, folder); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for name, want := range map[string]int{"first": 1, "second": 2, "after": 1, "third": 1} {
			if got := lines(t, filepath.Join(work, name)); got != want {
				t.Errorf("%s ran %d times, not %d", name, got, want)
			}
		}
	}
	if r := recorded(t, folder, "02-second"); r.State != "succeeded" || r.Reason != "" {
		t.Errorf("second: %+v", r)
	}

	// Another version of a layer is another layer. Stored secrets are deleted
	// in any case.
	third.Version = "3.1"
	store(t, folder, compose(t, first, second, third))
	if out, err := boot(t, folder); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if lines(t, filepath.Join(work, "first")) != 1 || lines(t, filepath.Join(work, "third")) != 2 {
		t.Error("not the layer that changed ran, and it alone")
	}
	left, err := os.ReadDir(filepath.Join(folder, "layers"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestALayerThatWasCutOffIsBegunAgain(t *testing.T) {
	folder, work := t.TempDir(), t.TempDir()
	// The runner is the parent of the shell that runs the steps.
	l := firstboot.Layer{Name: "cut", Version: "1", Commands: [][]string{
		{
			"sh", "-c", `echo x >>"$0"; [ -e "$0.again" ] || { touch "$0.again"; kill -9 $(ps -o ppid= -p $PPID); }`,
			filepath.Join(work, "ran"),
		},
	}}
	store(t, folder, compose(t, l))
	if _, err := boot(t, folder); err == nil {
		t.Fatal("the runner was not cut off")
	}
	if r := recorded(t, folder, "01-cut"); r.State != "started" || r.EndedAt != nil || r.ExitCode != nil {
		t.Errorf("record %+v", r)
	}
	if out, err := boot(t, folder); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r := recorded(t, folder, "01-cut"); r.State != "succeeded" || lines(t, filepath.Join(work, "ran")) != 2 {
		t.Errorf("record %+v", r)
	}
}

// A rescue layer runs after a failure, and the rest once that is fixed.
func TestARescueLayerIsCarriedOutAfterAFailure(t *testing.T) {
	folder, work := t.TempDir(), t.TempDir()
	mark := func(name string) []string { return []string{"sh", "-c", `echo x >>"$0"`, filepath.Join(work, name)} }
	store(t, folder, compose(t,
		firstboot.Layer{Name: "fails", Version: "1", Commands: [][]string{{"test", "-e", filepath.Join(work, "repaired")}}},
		firstboot.Layer{Name: "before", Version: "1", Commands: [][]string{mark("before")}},
		firstboot.Layer{Name: "account", Version: "1", Commands: [][]string{mark("account")}, Rescue: true},
		firstboot.Layer{Name: "after", Version: "1", Commands: [][]string{mark("after")}},
	))
	if out, err := boot(t, folder); err == nil {
		t.Fatalf("it succeeds: %s", out)
	}
	ran := func(want map[string]int) {
		t.Helper()
		for name, n := range want {
			if got := lines(t, filepath.Join(work, name)); got != n {
				t.Errorf("%s ran %d times, not %d", name, got, n)
			}
		}
	}
	ran(map[string]int{"before": 0, "account": 1, "after": 0})
	if recorded(t, folder, "01-fails").State != "failed" || recorded(t, folder, "03-account").State != "succeeded" {
		t.Error("the records do not tell")
	}
	gone(t, filepath.Join(folder, "02-before.json"))
	gone(t, filepath.Join(folder, "04-after.json"))
	if err := os.WriteFile(filepath.Join(work, "repaired"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := boot(t, folder); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ran(map[string]int{"before": 1, "account": 1, "after": 1})
}
