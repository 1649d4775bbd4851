package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// backUp makes a backup of a control plane that runs, and returns what restores it
// once it has ended: its state folder is lost, the data centre is not.
func backUp(t *testing.T, state string) (restore func()) {
	t.Helper()
	folder := t.TempDir()
	key, file := filepath.Join(folder, "key"), filepath.Join(folder, "backup")
	recipient := strings.TrimSpace(succeed(t, nil, "backup", "key", key))
	succeed(t, nil, "backup", "create", file, "--state", state, "--recipient", recipient)
	checkPrivate(t, key)
	checkPrivate(t, file)
	open := []string{"--key-file", key}
	_, said, code := command(t, nil, append([]string{"backup", "restore", file, "--state", state}, open...)...)
	if code == 0 || !strings.Contains(said, "is not empty") {
		t.Errorf("a restore over a running control plane: exit code %d: %s", code, said)
	}
	return func() {
		t.Helper()
		said := succeed(t, nil, append([]string{"backup", "verify", file}, open...)...)
		if !strings.Contains(said, "can be restored") || !strings.Contains(said, " 24 nodes") {
			t.Errorf("verify says %s", said)
		}
		elsewhere := filepath.Join(filepath.Dir(state), filepath.Base(state)+"-centre")
		t.Cleanup(func() { _ = os.RemoveAll(elsewhere) })
		must(t, os.Mkdir(elsewhere, 0o700))
		outside, err := filepath.Glob(filepath.Join(state, "[lr]a[bc]*")) // lab and rack
		must(t, err)
		for _, path := range outside {
			must(t, os.Rename(path, filepath.Join(elsewhere, filepath.Base(path))))
		}
		must(t, os.RemoveAll(state))
		succeed(t, nil, append([]string{"backup", "restore", file, "--state", state}, open...)...)
		for _, path := range outside {
			must(t, os.Rename(filepath.Join(elsewhere, filepath.Base(path)), path))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
