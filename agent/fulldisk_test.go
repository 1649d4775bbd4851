package agent

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
	"gpuaas/testkit"
)

// fillDisk keeps files of this process from growing beyond the present size of
// the journal, until free is called.
func (r *rig) fillDisk() (free func()) {
	r.t.Helper()
	info, err := os.Stat(filepath.Join(r.root, "var/lib/gpuaas/journal/journal.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		r.t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE,
		&syscall.Rlimit{Cur: uint64(info.Size()) + 20, Max: before.Max}); err != nil {
		r.t.Fatal(err)
	}
	free = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			r.t.Fatal(err)
		}
	}
	r.t.Cleanup(free)
	return free
}

func TestAFullDiskStopsNewTasksAndLosesNoResult(t *testing.T) {
	r := newRig(t)
	release, entered := make(chan struct{}), make(chan struct{})
	drained := agentwire.DrainOutput{Draining: true, UsersRevoked: []string{}, UsersLeft: []string{}}
	a := r.start(map[string]task.Handler{agentwire.TypeDrain: scripted{apply: func(context.Context, *task.Task) (
		any, error,
	) {
		close(entered)
		<-release
		return drained, nil
	}}})
	running := r.Envelope(agentwire.TypeDrain, agentwire.DrainParams{}, nil)
	r.Deliver(running)
	<-entered
	free := r.fillDisk()

	refused := r.probe(nil)
	r.Deliver(refused)
	if got := r.Result(refused.TaskID); got.Status != agentwire.ResultFailed || got.Error.Code != "journal_unavailable" ||
		got.Error.Remedy == "" {
		t.Errorf("a task that cannot be written down: %+v, %+v", got, got.Error)
	}
	if n := counts(t, r.root, "begun"); n != 0 {
		t.Error("it was started nevertheless")
	}
	close(release)
	if got := r.Result(running.TaskID); got.Status != agentwire.ResultSucceeded ||
		string(got.Output) != asJSON(t, drained) {
		t.Errorf("a result that cannot be written down: %+v", got)
	}

	free()
	next := r.probe(nil)
	r.Deliver(next)
	if got := r.Result(next.TaskID); got.Status != agentwire.ResultSucceeded {
		t.Errorf("after there is space again: %+v", got)
	}
	testkit.Eventually(r.t, "results marked as sent", func() bool { return r.status().ResultsUnsent == 0 })
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	unfinished, unsent, damage, err := journal.Look(filepath.Join(r.root, "var/lib/gpuaas/journal"))
	if err != nil || unfinished+unsent+len(damage) > 0 {
		t.Errorf("on the disk: %d unfinished, %d unsent, damage %v, %v", unfinished, unsent, damage, err)
	}
}
