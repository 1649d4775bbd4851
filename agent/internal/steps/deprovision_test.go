package steps

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpuaas/agent/internal/inspect"
	"gpuaas/contract/agentwire"
)

func gone() agentwire.DeprovisionUserParams {
	return agentwire.DeprovisionUserParams{AllocationID: allocation, Username: "alice"}
}

func TestDeprovision(t *testing.T) {
	for _, kind := range []string{agentwire.TypeDeprovisionUser, agentwire.TypeRevokeUser} {
		t.Run(kind, func(t *testing.T) {
			b := provisioned(t)
			p := alice()
			p.Sudo = true
			b.job(agentwire.TypeProvisionUser, p).apply()
			b.terminals.open = map[string]string{"s1": "alice", "s2": "bob"}
			b.Write("/home/alice/data/model.bin", "x")
			b.Write("/var/spool/cron/crontabs/alice", "* * * * * true")
			b.Write("/var/mail/alice", "")
			b.Write("/proc/sysvipc/shm", "key shmid uid cuid\n0 42 20001 20001\n0 43 101 101\n")
			j := b.job(kind, gone())
			j.mustCheck(false)
			out := j.apply().(agentwire.DeprovisionUserOutput)
			if !out.Existed || !out.HomeRemoved || out.SessionsClosed != 1 {
				t.Errorf("output %+v", out)
			}
			j.mustCheck(true)
			if again := j.apply().(agentwire.DeprovisionUserOutput); again.Existed {
				t.Errorf("the second time: %+v", again)
			}
			for _, path := range []string{
				"/home/alice", "/etc/sudoers.d/gpuaas-alice", "/var/spool/cron/crontabs/alice",
				"/var/mail/alice", "/var/lib/gpuaas/users/alice.json",
			} {
				if b.Exists(path) {
					t.Errorf("%s remains", path)
				}
			}
			if strings.Contains(b.Read("/etc/passwd")+b.Read("/etc/group"), "alice") {
				t.Error("the account remains")
			}
			calls := b.Calls()[2:]
			want := []string{
				"usermod --lock --expiredate 1 --shell /usr/sbin/nologin alice", "loginctl disable-linger alice",
				"loginctl terminate-user alice",
				"ipcrm --shmem-id 42", "userdel alice", "groupdel alice",
			}
			if !slices.Equal(calls, want) {
				t.Errorf("calls %q, want %q", calls, want)
			}
		})
	}
}

func TestDeprovisionKeepsAHomeClosed(t *testing.T) {
	b := provisioned(t)
	p := gone()
	p.KeepHome = true
	b.Write("/home/alice/data", "x")
	if out := b.job(agentwire.TypeDeprovisionUser, p).apply().(agentwire.DeprovisionUserOutput); out.HomeRemoved {
		t.Errorf("output %+v", out)
	}
	info, err := os.Stat(b.Path("/home/alice"))
	if err != nil || info.Mode().Perm() != 0o700 || os.Geteuid() == 0 && stat(info).Uid != 0 ||
		b.Read("/home/alice/data") != "x" {
		t.Errorf("home %v, %v", info, err)
	}
}

func TestDeprovisionRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		params agentwire.DeprovisionUserParams
		code   string
	}{
		"an account of the site": {
			agentwire.DeprovisionUserParams{AllocationID: allocation, Username: "admin"},
			"account_foreign",
		},
		"an account of somebody else": {agentwire.DeprovisionUserParams{AllocationID: strings.Replace(allocation, "1", "2",
			1), Username: "alice"}, "account_of_another_allocation"},
	} {
		t.Run(name, func(t *testing.T) {
			b := provisioned(t)
			before := b.Read("/etc/passwd")
			j := b.job(agentwire.TypeDeprovisionUser, c.params)
			_, _, err := j.handler.Check(t.Context(), j.task)
			wantCode(t, err, c.code)
			j.applyFails(c.code)
			if b.Read("/etc/passwd") != before || !b.Exists("/home/alice") {
				t.Error("something was changed")
			}
		})
	}
}

func TestDeprovisionAfterAFailure(t *testing.T) {
	for program, code := range map[string]string{
		"usermod": "account_not_locked", "userdel": "account_not_removed",
		"groupdel": "account_not_removed", "ipcrm": "ipc_remains",
	} {
		t.Run(program, func(t *testing.T) {
			b := provisioned(t)
			b.Write("/proc/sysvipc/sem", "key semid uid cuid\n0 7 20001 20001\n")
			j := b.job(agentwire.TypeDeprovisionUser, gone())
			b.Fail(program)
			j.applyFails(code)
			j.mustCheck(false)
			// A half-removed account takes no session and no second user.
			b.job(agentwire.TypeTerminalOpen, session("alice")).applyFails("user_not_provisioned")
			b.Heal(program)
			j.cancelIn(program)
			j.apply()
			j.mustCheck(true)
		})
	}
}

// A file system mounted in the home is not emptied, and the home stays marked.
func TestDeprovisionStopsAtMounts(t *testing.T) {
	b := provisioned(t)
	b.Mkdir("/elsewhere")
	b.Write("/elsewhere/file", "precious")
	b.Mkdir("/home/alice/mnt")
	bind(t, b.Path("/elsewhere"), b.Path("/home/alice/mnt"))
	j := b.job(agentwire.TypeDeprovisionUser, gone())
	failure := j.applyFails("home_remains")
	if !strings.Contains(failure.Message, "/home/alice/mnt") || b.Read("/elsewhere/file") != "precious" {
		t.Errorf("message %q", failure.Message)
	}
	j.mustCheck(false)
}

// bind mounts a folder a second time: only root can.
func bind(t *testing.T, from, at string) {
	t.Helper()
	if err := syscall.Mount(from, at, "", syscall.MS_BIND, ""); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// Processes of a real user on this machine are ended, with their children;
// those of others are not.
func TestProcessesOfAUserAreEnded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can become somebody else")
		return
	}
	const uid = 27431
	h := host{Deps: Deps{}, machine: inspect.Machine{}, kill: killProcess}
	if left, err := h.processesOf(uid); err != nil || len(left) > 0 {
		t.Fatalf("somebody uses uid %d: %v, %v", uid, left, err)
	}
	sleeper := startSleeper(t, uid)
	bystander := startSleeper(t, uid+1)
	ended, err := h.endProcesses(t.Context(), uid)
	if err != nil || ended != 1 {
		t.Errorf("%d ended, %v", ended, err)
	}
	if state, err := sleeper.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%v, %v", state, err)
	}
	if err := h.kill(h.machine, bystander.Pid, uid); err != nil {
		t.Error(err)
	}
	// Whichever came first ended it.
	if err := bystander.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if state, err := bystander.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the process of another user: %v, %v", state, err)
	}
}

func startSleeper(t *testing.T, uid uint32) *os.Process {
	t.Helper()
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "600"},
		&os.ProcAttr{Dir: "/", Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		_, _ = p.Wait()
	})
	return p
}

func TestProcessesThatDoNotEndAreAFailure(t *testing.T) {
	b := provisioned(t)
	b.Write("/proc/4242/status", "Name:\tstuck\nState:\tD (disk sleep)\nUid:\t20001\t20001\t20001\t20001\n")
	h := b.host()
	h.kill = func(inspect.Machine, int, int) error { return nil }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended, err := h.endProcesses(ctx, 20001)
	wantCode(t, err, "processes_remain")
	if ended != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", ended, err)
	}
	if _, err := h.endProcesses(t.Context(), 0); err == nil {
		t.Error("the processes of root were about to be ended")
	}
}

func TestTheSliceOfAUserIsKilled(t *testing.T) {
	b := newBench(t)
	kill := "/sys/fs/cgroup/user.slice/user-20001.slice/cgroup.kill"
	b.Write(kill, "")
	b.host().killSlice(20001)
	if b.Read(kill) != "1" {
		t.Error("not killed")
	}
}
