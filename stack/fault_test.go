package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gpuaas/testkit"
)

func TestKilledEngineComesBack(t *testing.T) {
	steps := newProgress()
	s := start(t, Options{State: state(t), Progress: steps.report})
	before := s.Endpoints()
	if err := put(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	for _, e := range []Engine{OpenBao, Temporal, Postgres} {
		pid := s.PID(e)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill %s: %v", e, err)
		}
		steps.await(t, e, Restarting)
		steps.await(t, e, Ready)
		if s.PID(e) == pid {
			t.Errorf("%s is still process %d", e, pid)
		}
	}
	if after := s.Endpoints(); after != before {
		t.Errorf("endpoints changed from %v to %v", before, after)
	}
	// Temporal may need a moment to find its database again. Resume waits until
	// it answers, and does nothing if it runs.
	if err := s.Resume(Temporal); err != nil {
		t.Fatal(err)
	}
	if err := find(t.Context(), before); err != nil {
		t.Error(err)
	}
}

func TestKillHoldsUntilResume(t *testing.T) {
	s := start(t, Options{State: state(t)})
	p := s.Endpoints()
	if err := put(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		engine Engine
		find   func(context.Context, Endpoints) error
	}{
		{NATS, findNATS}, {OpenBao, findBao}, {Temporal, findTemporal}, {Postgres, findPostgresRow},
	} {
		if err := s.Kill(c.engine); err != nil {
			t.Fatal(err)
		}
		if err := c.find(t.Context(), p); err == nil {
			t.Errorf("%s answers although it was killed", c.engine)
		}
		if err := s.Resume(c.engine); err != nil {
			t.Fatal(err)
		}
		if err := c.find(t.Context(), p); err != nil {
			t.Errorf("after resume: %v", err)
		}
	}
}

func TestKilledLauncherTakesItsChildrenAlong(t *testing.T) {
	closed := filepath.Join(filepath.Dir(state(t)), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"all":                            {State: state(t)},
		"database below a closed folder": {State: filepath.Join(closed, "state"), Only: []Engine{Postgres}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Servers, o.Throwaway = servers(t), true
			l := startLauncher(t, testBinary(t), nil, o)
			l.await("all ready")
			children := func() []int { return processesWhere(folder(o.State).namedIn) }
			if len(children()) == 0 {
				t.Fatal("the launcher has no children")
			}
			l.kill()
			testkit.Eventually(t, "the processes to end with their launcher", func() bool { return len(children()) == 0 })
		})
	}
}

func TestKilledLauncherLosesNoData(t *testing.T) {
	o := Options{State: state(t)}
	s := start(t, o)
	if err := put(t.Context(), s.Endpoints()); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	l := startLauncher(t, testBinary(t), nil, Options{State: o.State, Servers: servers(t), Throwaway: true})
	l.await("all ready")
	l.kill()
	s = start(t, o)
	if err := find(t.Context(), s.Endpoints()); err != nil {
		t.Error(err)
	}
}

// The first start is cut short at every step that makes something, in one state
// folder, and must succeed in the end.
func TestFirstStartSurvivesKillsAtEveryStep(t *testing.T) {
	o := Options{State: state(t), Servers: servers(t), Throwaway: true}
	for _, step := range []string{
		"nats ready",
		"bao starting initialising",
		"bao starting making mounts",
		"postgres starting making the database cluster",
		"postgres starting making roles",
		"postgres ready",
		"temporal starting making database temporal",
		"temporal starting making database temporal_visibility",
	} {
		l := startLauncher(t, testBinary(t), nil, o)
		l.await(step)
		l.kill()
		killChildren(o.State)
	}
	for _, tables := range []int{1, 5, 20} {
		l := startLauncher(t, testBinary(t), nil, o)
		l.await("temporal starting making database temporal_visibility")
		awaitTables(t, o.State, tables)
		l.kill()
		killChildren(o.State)
	}
	s := start(t, Options{State: o.State})
	if err := put(t.Context(), s.Endpoints()); err != nil {
		t.Error(err)
	}
	for _, e := range []Engine{Temporal, OpenBao} {
		if s.folder.unfinished(e).present() {
			t.Errorf("%s is still marked as unfinished", e)
		}
	}
}

// killChildren gives the children of a killed launcher no time for an orderly
// end.
func killChildren(state string) {
	for _, pid := range processesWhere(folder(state).namedIn) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// awaitTables waits until half of Temporal's schema is made.
func awaitTables(t *testing.T, state string, n int) {
	t.Helper()
	f := folder(state)
	record, err := loadRecord(f)
	if err != nil {
		t.Fatal(err)
	}
	password, err := f.secret("postgres-" + superuser)
	if err != nil {
		t.Fatal(err)
	}
	p := &postgres{port: record.port("postgres"), passwords: map[string]string{superuser: password}}
	count := fmt.Sprintf("SELECT 1 / (count(*) / %d) FROM pg_tables WHERE schemaname = 'public'", n)
	testkit.Succeeds(t, "Temporal to make tables", testkit.Patience, func() error {
		return query(t.Context(), p.url(superuser, password, temporalDatabase), count)
	})
}

// If a process id in the record belongs to another process now, that one is
// left alone.
func TestForeignProcessIsNotALeftover(t *testing.T) {
	dir := state(t)
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	record, err := loadRecord(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := record.setPID(Temporal, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	start(t, Options{State: dir, Only: []Engine{NATS}}) // would wait for us to end
}

func TestSweepRemovesOnlyDeadFolders(t *testing.T) {
	live := start(t, Options{State: ThrowawayFolder("-sweep"), Only: []Engine{NATS}})
	t.Cleanup(func() { _ = os.RemoveAll(ThrowawayFolder("-sweep")) })
	l := startLauncher(t, testBinary(t), nil, Options{State: state(t), Throwaway: true, Only: []Engine{NATS}})
	dead := fmt.Sprintf("%s/%s%d", throwawayParent(), throwawayPrefix, l.cmd.Process.Pid)
	if err := os.MkdirAll(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := SweepThrowaways(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); err != nil {
		t.Errorf("the folder of a living process was removed: %v", err)
	}
	l.kill()
	if err := SweepThrowaways(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a dead process is still there (%v)", err)
	}
	if _, err := os.Stat(string(live.folder)); err != nil {
		t.Errorf("the folder of this process was removed: %v", err)
	}
}
