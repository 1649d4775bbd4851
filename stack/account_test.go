package stack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// testBinary is this program, which can be a launcher.
func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func servers(t *testing.T) string {
	t.Helper()
	path, err := findServers("")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ordinary is an unprivileged identity: nobody when the test is root, else
// whoever runs it.
func ordinary(t *testing.T) (*syscall.Credential, int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, os.Geteuid()
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, uid
}

func TestOrdinaryUserRunsTheStack(t *testing.T) {
	credential, uid := ordinary(t)
	home := filepath.Dir(state(t))
	for name, from := range map[string]string{"launcher": testBinary(t), "servers": servers(t)} {
		copyProgram(t, from, filepath.Join(home, name))
	}
	dir := filepath.Join(home, "theirs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, -1); err != nil {
		t.Fatal(err)
	}
	o := Options{State: filepath.Join(dir, "state"), Servers: filepath.Join(home, "servers"), Throwaway: true}
	for range 2 { // the second time on what the first one made
		l := startLauncher(t, filepath.Join(home, "launcher"), credential, o)
		l.await("all ready")
		record, err := loadRecord(folder(o.State))
		if err != nil {
			t.Fatal(err)
		}
		for e, pid := range record.pids() {
			if got := processStatus(t, pid, "Uid"); !strings.HasPrefix(got, strconv.Itoa(uid)) {
				t.Errorf("%s runs as user %s, want %d", e, got, uid)
			}
		}
		l.stop()
	}
}

func TestClusterOfAnotherUserIsRefused(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	mine := &account{name: "me", uid: uint32(os.Geteuid())}
	if err := mine.mustOwn(dir, info); err != nil {
		t.Errorf("my own folder: %v", err)
	}
	theirs := &account{name: "them", uid: uint32(os.Geteuid()) + 1}
	if err := theirs.mustOwn(dir, info); err == nil || !strings.Contains(err.Error(), "name another state folder") {
		t.Errorf("somebody else's folder: %v, want what to do", err)
	}
}

func TestDatabaseReachesAFolderBelowAClosedOne(t *testing.T) {
	closed := filepath.Join(filepath.Dir(state(t)), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{State: filepath.Join(closed, "deep", "state"), Only: []Engine{Postgres}})
	if err := putPostgres(t.Context(), s.Endpoints()); err != nil {
		t.Error(err)
	}
	if err := s.Kill(Postgres); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(Postgres); err != nil {
		t.Fatal(err)
	}
	if err := findPostgresRow(t.Context(), s.Endpoints()); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(closed)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the closed folder is now %v (%v)", info.Mode(), err)
	}
	wantCapabilities(t, s.PID(Postgres), 0)
}

// Somebody who took over the database uses it to read files of the machine. Its
// account reads only what everybody may, even below a closed folder.
func TestAttackTheDatabaseReadsFilesOfOthers(t *testing.T) {
	home := filepath.Dir(state(t))
	closed := filepath.Join(home, "closed")
	secret := filepath.Join(home, "shadow")
	if err := errors.Join(os.Mkdir(closed, 0o700), os.WriteFile(secret, []byte("canary"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{State: filepath.Join(closed, "state"), Only: []Engine{Postgres}})
	wantCapabilities(t, s.PID(Postgres), 0)
	files := []string{
		secret, "../../secrets/postgres-postgres",
		filepath.Join(closed, "state", "secrets", "postgres-postgres"),
	}
	if os.Geteuid() != 0 {
		files = nil // PostgreSQL is the owner of all of them
	}
	for _, file := range files {
		err := query(t.Context(), s.SuperuserURL(), "SELECT pg_read_file('"+file+"')")
		if err == nil || !strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("the database reads %s: %v", file, err)
		}
	}
}

func TestDatabaseHasNoPrivilegeWhereItNeedsNone(t *testing.T) {
	s := start(t, Options{State: state(t), Only: []Engine{Postgres}})
	pid := s.PID(Postgres)
	wantCapabilities(t, pid, 0)
	if uid := processStatus(t, pid, "Uid"); strings.HasPrefix(uid, "0\t") {
		t.Error("PostgreSQL runs as root")
	}
}

func wantCapabilities(t *testing.T, pid int, want uint64) {
	t.Helper()
	for _, set := range []string{"CapPrm", "CapEff", "CapAmb"} {
		got, err := strconv.ParseUint(processStatus(t, pid, set), 16, 64)
		if err != nil || got != want {
			t.Errorf("%s of process %d is %x (%v), want %x", set, pid, got, err, want)
		}
	}
}

func processStatus(t *testing.T, pid int, field string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("process %d has no %s", pid, field)
	return ""
}

// copyProgram puts a program where another user can run it.
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
