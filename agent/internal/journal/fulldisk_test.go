package journal

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"gpuaas/contract/agentwire"
)

// limitFiles keeps files of this process from growing beyond a size, as a full
// disk would, until lift is called.
func limitFiles(t *testing.T, size int64) (lift func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(size), Max: before.Max}))
	lift = func() { must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }
	t.Cleanup(lift)
	return lift
}

func TestAFullDiskStopsNewTasksAndLosesNoResult(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.Accept(envelope("running", 1)))
	// Room for half a record: what a full disk leaves of a write.
	lift := limitFiles(t, j.size+50)

	if err := j.Accept(envelope("new", 1)); err == nil {
		t.Fatal("a task was accepted that is not on the disk")
	}
	if _, ok := j.Lookup("new"); ok {
		t.Error("a task that could not be written is believed")
	}
	if err := j.Checkpoint("running", "k", "v"); err == nil {
		t.Error("a checkpoint is believed that is not on the disk")
	}
	if err := j.Finish("running", result(agentwire.ResultSucceeded)); err == nil {
		t.Error("nobody is told that the result is not on the disk")
	}
	if u := j.Unsent(); len(u) != 1 || u[0].ID() != "running" {
		t.Errorf("the result is not known to the running agent: %+v", u)
	}
	if got := open(t, dir); len(got.Unfinished()) != 1 || len(got.Damage()) > 0 {
		t.Errorf("on the disk: %+v, damage %v", got.Unfinished(), got.Damage())
	}

	lift()
	must(t, j.Accept(envelope("next", 1))) // writes the backlog too
	got := open(t, dir)
	if u := got.Unsent(); len(u) != 1 || u[0].ID() != "running" || len(got.Damage()) > 0 {
		t.Errorf("after there is space again: unsent %+v, damage %v", u, got.Damage())
	}
	if _, ok := got.Lookup("new"); ok {
		t.Error("a refused task came back to life")
	}
}

func TestAFolderThatCannotBeUsedIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file, "n", fixed); err == nil {
		t.Fatal("a file was taken for a folder")
	}
}
