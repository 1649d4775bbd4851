package stack

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRestartAndBackupKeepData(t *testing.T) {
	o := Options{State: state(t)}
	s := startLasting(t, o)
	if err := put(t.Context(), s.Endpoints()); err != nil {
		t.Fatal(err)
	}
	var running, stopped bytes.Buffer
	backup(t, o.State, &running)
	stop(t, s)
	backup(t, o.State, &stopped)

	s = startLasting(t, o)
	if err := find(t.Context(), s.Endpoints()); err != nil {
		t.Error(err)
	}
	stop(t, s)
	for name, taken := range map[string]*bytes.Buffer{"running": &running, "stopped": &stopped} {
		t.Run("Backup of a stack that is "+name, func(t *testing.T) { restoreAndFind(t, taken) })
	}
}

func TestSecondLauncherIsToldWhoHoldsTheFolder(t *testing.T) {
	o := Options{State: state(t), Only: []Engine{NATS}}
	s := start(t, o)
	if err := s.Announce("https://127.0.0.1:8443"); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), o)
	var running *AlreadyRunning
	if !errors.As(err, &running) {
		t.Fatalf("second start gave %v, want AlreadyRunning", err)
	}
	if running.PID != os.Getpid() || running.Info != "https://127.0.0.1:8443" {
		t.Errorf("got %+v, want this process and its address", running)
	}
	stop(t, s)
	start(t, o)
}

func TestPortsAreTheUsualThenTheLastThenAny(t *testing.T) {
	record, err := loadRecord(folder(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	usual := freePort(t)
	take := func() (int, *portBook) {
		book := &portBook{record: record}
		port, err := book.take("engine", usual)
		if err != nil {
			t.Fatal(err)
		}
		return port, book
	}

	blocker, err := net.Listen("tcp4", hostPort(usual))
	if err != nil {
		t.Fatal(err)
	}
	other, book := take()
	if other == usual {
		t.Fatalf("took port %d, which is in use", usual)
	}
	if same, second := take(); same == other {
		t.Errorf("two launchers took port %d", other)
	} else {
		second.release()
	}
	book.release()
	if err := record.setPort("engine", other); err != nil {
		t.Fatal(err)
	}
	last, book := take()
	if last != other {
		t.Errorf("took port %d, want %d of the last run", last, other)
	}
	book.release()

	if err := blocker.Close(); err != nil {
		t.Fatal(err)
	}
	free, book := take()
	if free != usual {
		t.Errorf("took port %d, want the usual %d", free, usual)
	}
	book.release()
}

// freePort returns a port outside the range of outgoing connections, so that
// parallel tests do not take it by accident.
func freePort(t *testing.T) int {
	t.Helper()
	record, err := loadRecord(folder(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	book := &portBook{record: record, avoidDefaults: true}
	defer book.release()
	port, err := book.take("free", 0)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestTakenDefaultPortsAreAvoided(t *testing.T) {
	for _, port := range []int{5543, 4222} {
		if blocker, err := net.Listen("tcp4", hostPort(port)); err == nil { // else somebody blocks it already
			defer blocker.Close()
		}
	}
	s, err := Start(t.Context(), Options{State: state(t), Only: []Engine{Postgres, NATS}})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	p := s.Endpoints()
	for _, url := range []string{p.PostgresURL, p.NATSURL} {
		if strings.Contains(url, ":5543") || strings.Contains(url, ":4222") {
			t.Errorf("took a port that is in use: %s", redacted(url))
		}
	}
	if err := errors.Join(putPostgres(t.Context(), p), putNATS(t.Context(), p)); err != nil {
		t.Error(err)
	}
}

func TestExternalServicesAreNotStarted(t *testing.T) {
	outside := Endpoints{
		TemporalAddress: "temporal.example:7233", TemporalNamespace: "prod",
		NATSURL: "nats://nats.example:4222", SecretsAddress: "https://vault.example",
	}
	s := start(t, Options{State: state(t), External: outside})
	got := s.Endpoints()
	if got.PostgresURL == "" {
		t.Error("PostgreSQL was not started")
	}
	got.PostgresURL, got.PostgresMigrateURL = "", ""
	if got != outside {
		t.Errorf("endpoints are %v, want %v", got, outside)
	}
	for _, e := range []Engine{Temporal, OpenBao} {
		if pid := s.PID(e); pid != 0 {
			t.Errorf("%s runs as process %d", e, pid)
		}
	}
}

func TestTemporalWorksBesideAnExternalDatabase(t *testing.T) {
	outside := Endpoints{PostgresURL: "postgres://db.example/app", PostgresMigrateURL: "postgres://db.example/app"}
	s := start(t, Options{State: state(t), External: outside, Only: []Engine{Temporal}})
	p := s.Endpoints()
	if p.PostgresURL != outside.PostgresURL {
		t.Errorf("database is %s, want the operator's", redacted(p.PostgresURL))
	}
	if err := putTemporal(t.Context(), p); err != nil {
		t.Error(err)
	}
}

func TestEnsureAddsAnEngine(t *testing.T) {
	s := start(t, Options{State: state(t), Only: []Engine{NATS}})
	if p := s.Endpoints(); p.Has(OpenBao) {
		t.Fatal("OpenBao runs although nobody asked")
	}
	if err := s.Ensure(t.Context(), OpenBao, NATS); err != nil {
		t.Fatal(err)
	}
	if err := putBao(t.Context(), s.Endpoints()); err != nil {
		t.Error(err)
	}
}

// Machines end side by side with the engines, and the folder is nobody else's until
// they have ended.
func TestMachinesStopSideBySideWithTheEngines(t *testing.T) {
	told := newProgress()
	o := Options{State: state(t), Only: []Engine{NATS}, Progress: told.report}
	s := start(t, o)
	err := s.Stop(t.Context(), func() {
		late := time.After(time.Minute)
		for step := (Progress{}); step.Engine != NATS || step.Phase != Stopped; {
			select {
			case step = <-told:
			case <-late:
				t.Error("NATS does not stop before the machines have")
				return
			}
		}
		var running *AlreadyRunning
		if _, err := Start(t.Context(), o); !errors.As(err, &running) {
			t.Errorf("the folder is given away while machines still stop: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, o)
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	dir := state(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Start(ctx, Options{State: dir, Throwaway: true, Progress: func(p Progress) {
		if p.Engine == Temporal && p.Phase == Starting {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("start gave %v, want context.Canceled", err)
	}
	if left := processesWhere(folder(dir).namedIn); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	start(t, Options{State: dir, Only: []Engine{NATS}})
}

func TestMissingServersAreExplained(t *testing.T) {
	t.Setenv("GPUAAS_SERVERS", "")
	t.Setenv("GPUAAS_CACHE", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), Options{State: state(t), Throwaway: true, Only: []Engine{OpenBao}})
	if err == nil || !strings.Contains(err.Error(), "tools/build-servers.sh") {
		t.Errorf("start gave %v, want what to do", err)
	}
}

func TestUnknownEngineIsRefused(t *testing.T) {
	_, err := Start(t.Context(), Options{State: state(t), Throwaway: true, Only: []Engine{"redis"}})
	if err == nil || !strings.Contains(err.Error(), `no engine "redis"`) {
		t.Errorf("start gave %v", err)
	}
}

func TestOldClusterAsksForItsVersion(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(data+"/PG_VERSION", []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := findPostgres(t.Context(), data)
	if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql-9") {
		t.Errorf("got %v, want which package to install", err)
	}
}

func TestRunReturnsTheExitCode(t *testing.T) {
	for want, command := range map[int][]string{
		0: {"true"},
		1: {"printenv", "GPUAAS_STACK_TEST_UNSET"},
	} {
		if code, err := Run(t.Context(), command); err != nil || code != want {
			t.Errorf("%v gave %d (%v), want %d", command, code, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, err := Run(ctx, []string{"sleep", "60"}); err != nil || code != 128+int(syscall.SIGTERM) {
		t.Errorf("an interrupted command gave %d (%v), want 143", code, err)
	}
}

func TestLargeLogIsSetAside(t *testing.T) {
	f, err := openFolder(state(t))
	if err != nil {
		t.Fatal(err)
	}
	path := f.path("logs", "nats.log")
	if err := os.WriteFile(path, make([]byte, logLimit+1), 0o600); err != nil {
		t.Fatal(err)
	}
	log, offset, err := openLog(f, NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	old, err := os.Stat(path + ".1")
	if err != nil || old.Size() != logLimit+1 || offset != 0 {
		t.Errorf("old log %v (%v), new one begins at %d; want the old one set aside", old, err, offset)
	}
}
