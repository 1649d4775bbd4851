package steps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"gpuaas/contract/agentwire"
)

const (
	key      = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB7Y3p0n8C0c6V1d2n5m4r3k2j1h0g9f8e7d6c5b4a39 somebody@example"
	otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII"
)

func alice() agentwire.ProvisionUserParams {
	return agentwire.ProvisionUserParams{
		AllocationID: allocation, Username: "alice", UID: 20001, GID: 20001,
		AuthorizedKeys: []string{key},
	}
}

func provisioned(t *testing.T) *bench {
	b := newBench(t)
	b.InstallAccounts()
	b.job(agentwire.TypeProvisionUser, alice()).apply()
	return b
}

func TestProvision(t *testing.T) {
	b := newBench(t)
	b.InstallAccounts()
	p := alice()
	p.Sudo = true
	j := b.job(agentwire.TypeProvisionUser, p)
	j.mustCheck(false)
	if out := j.apply().(agentwire.ProvisionUserOutput); !out.Created || out.Home != "/home/alice" || out.UID != 20001 {
		t.Errorf("output %+v", out)
	}
	j.mustCheck(true)
	if out := j.apply().(agentwire.ProvisionUserOutput); out.Created {
		t.Error("the second time says that it made the account")
	}
	if got := b.Read("/home/alice/.ssh/authorized_keys"); got != key+"\n" {
		t.Errorf("keys %q", got)
	}
	if got := b.Read("/etc/sudoers.d/gpuaas-alice"); got != "alice ALL=(ALL:ALL) NOPASSWD: ALL\n" {
		t.Errorf("rule %q", got)
	}
	for path, mode := range map[string]fs.FileMode{
		"/home/alice": 0o700, "/home/alice/.ssh": 0o700, "/home/alice/.ssh/authorized_keys": 0o600,
		"/etc/sudoers.d/gpuaas-alice": 0o440, "/var/lib/gpuaas/users/alice.json": 0o600,
	} {
		info, err := os.Stat(b.Path(path))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", path, info.Mode().Perm(), mode, err)
			continue
		}
		if owner := stat(info).Uid; os.Geteuid() == 0 && strings.HasPrefix(path, "/home") && owner != 20001 {
			t.Errorf("%s belongs to %d", path, owner)
		}
	}
	calls := strings.Join(b.Calls(), "\n")
	want := "groupadd --gid 20001 alice\nuseradd --uid 20001 --gid 20001 --create-home --home-dir /home/alice --shell " +
		"/bin/bash --password * --comment allocation " + allocation + " alice"
	if calls != want {
		t.Errorf("calls\n%s\nwant\n%s", calls, want)
	}
}

func TestProvisionBringsChangesAbout(t *testing.T) {
	b := provisioned(t)
	p := alice()
	p.AuthorizedKeys, p.Sudo = []string{key, otherKey}, true
	j := b.job(agentwire.TypeProvisionUser, p)
	j.mustCheck(false)
	j.apply()
	j.mustCheck(true)
	if got := b.Read("/home/alice/.ssh/authorized_keys"); got != key+"\n"+otherKey+"\n" {
		t.Errorf("keys %q", got)
	}
	p.AuthorizedKeys, p.Sudo = nil, false
	j = b.job(agentwire.TypeProvisionUser, p)
	j.mustCheck(false)
	j.apply()
	j.mustCheck(true)
	if b.Exists("/etc/sudoers.d/gpuaas-alice") || b.Read("/home/alice/.ssh/authorized_keys") != "" {
		t.Error("keys or sudo rule remain")
	}
}

func TestProvisionRefuses(t *testing.T) {
	other := strings.Replace(allocation, "1111", "9999", 1)
	for name, c := range map[string]struct {
		prepare func(b *bench, p *agentwire.ProvisionUserParams)
		code    string
	}{
		"an account of the site": {
			func(_ *bench, p *agentwire.ProvisionUserParams) { p.Username = "admin" },
			"account_foreign",
		},
		"an account of somebody else": {
			func(b *bench, p *agentwire.ProvisionUserParams) { p.AllocationID = other },
			"account_of_another_allocation",
		},
		"another uid": {
			func(b *bench, p *agentwire.ProvisionUserParams) { p.UID = 20009 },
			"account_changed",
		},
		"a uid in use": {
			func(b *bench, p *agentwire.ProvisionUserParams) { p.Username = "bob" },
			"uid_in_use",
		},
		"a node that is drained": {func(b *bench, p *agentwire.ProvisionUserParams) {
			b.job(agentwire.TypeDrain, agentwire.DrainParams{}).apply()
		}, "node_draining"},
		"an account with a changed uid": {func(b *bench, _ *agentwire.ProvisionUserParams) {
			b.Write("/etc/passwd", strings.Replace(b.Read("/etc/passwd"), ":20001:20001:", ":0:0:", 1))
		}, "account_changed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := provisioned(t)
			p := alice()
			c.prepare(b, &p)
			before := b.Read("/etc/passwd")
			b.job(agentwire.TypeProvisionUser, p).applyFails(c.code)
			if b.Read("/etc/passwd") != before {
				t.Error("accounts were changed")
			}
		})
	}
}

// Whatever program fails or is cut short, the next attempt succeeds.
func TestProvisionAfterAFailure(t *testing.T) {
	for program, code := range map[string]string{
		"groupadd": "account_not_created", "useradd": "account_not_created",
		"visudo": "sudo_rule_refused",
	} {
		t.Run(program, func(t *testing.T) {
			b := newBench(t)
			b.InstallAccounts()
			b.Install("/usr/sbin/visudo")
			p := alice()
			p.Sudo = true
			j := b.job(agentwire.TypeProvisionUser, p)
			b.Fail(program)
			j.applyFails(code)
			j.mustCheck(false)
			b.Heal(program)
			if program != "visudo" {
				j.cancelIn(program)
				j.mustCheck(false)
			}
			j.apply()
			j.mustCheck(true)
			if b.Exists("/etc/sudoers.d/gpuaas-alice.draft") {
				t.Error("the draft of the rule remains")
			}
		})
	}
}

// The user owns the home and may have laid traps for root in it.
func TestProvisionFollowsNoLinksInHomes(t *testing.T) {
	b := provisioned(t)
	b.Mkdir("/etc/of-root")
	if err := os.RemoveAll(b.Path("/home/alice/.ssh")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../etc/of-root", b.Path("/home/alice/.ssh")); err != nil {
		t.Fatal(err)
	}
	j := b.job(agentwire.TypeProvisionUser, alice())
	j.mustCheck(false)
	b.Write("/home/alice/.ssh.replaced/x", "a folder is in the way")
	j.applyFails("home_unsafe")
	if err := os.RemoveAll(b.Path("/home/alice/.ssh.replaced")); err != nil {
		t.Fatal(err)
	}
	// The link is moved aside: what it leads to no longer lets anybody in.
	j.apply()
	j.mustCheck(true)
	if b.Exists("/etc/of-root/authorized_keys") {
		t.Error("a key was written for root")
	}
	if to, err := os.Readlink(b.Path("/home/alice/.ssh.replaced")); err != nil || to != "../../etc/of-root" {
		t.Errorf("the link is gone: %s, %v", to, err)
	}
	// A link in place of the file is replaced, not followed.
	if err := os.Remove(b.Path("/home/alice/.ssh/authorized_keys")); err != nil {
		t.Fatal(err)
	}
	b.Write("/home/target", "untouched")
	if err := os.Symlink("../../target", b.Path("/home/alice/.ssh/authorized_keys")); err != nil {
		t.Fatal(err)
	}
	j.mustCheck(false)
	j.apply()
	j.mustCheck(true)
	if b.Read("/home/target") != "untouched" {
		t.Error("the link was followed")
	}
}

// The real programs of this machine accept these arguments, on the files of the
// fake one.
func TestProvisionWithTheRealPrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can run the programs for accounts")
		return
	}
	b := newBench(t)
	b.InstallAccounts()
	b.Write("/stub/real", "")
	b.Write("/etc/shadow", "root:*:19000:0:99999:7:::\n")
	b.Write("/etc/gshadow", "root:*::\n")
	p := alice()
	j := b.job(agentwire.TypeProvisionUser, p)
	j.apply()
	j.mustCheck(true)
	line := fmt.Sprintf("alice:x:20001:20001:allocation %s:/home/alice:/bin/bash\n", allocation)
	if got := b.Read("/etc/passwd"); !strings.HasSuffix(got, line) {
		t.Errorf("accounts\n%s", got)
	}
	if got := b.Read("/etc/shadow"); !strings.Contains(got, "alice:*:") {
		t.Errorf("passwords\n%s", got)
	}
	removal := b.job(agentwire.TypeDeprovisionUser,
		agentwire.DeprovisionUserParams{AllocationID: allocation, Username: "alice"})
	removal.mustCheck(false)
	if out := removal.apply().(agentwire.DeprovisionUserOutput); !out.Existed || !out.HomeRemoved {
		t.Errorf("output %+v", out)
	}
	removal.mustCheck(true)
	for _, file := range []string{"/etc/passwd", "/etc/group", "/etc/shadow"} {
		if strings.Contains(b.Read(file), "alice") {
			t.Errorf("%s still holds alice:\n%s", file, b.Read(file))
		}
	}
}

// The user's own keys file must not fill the memory or hold up the agent; it is
// replaced.
func TestKeysThatAreATrap(t *testing.T) {
	const huge = 256 << 20
	for name, lay := range map[string]func(path string) error{
		"huge": func(path string) error { return os.Truncate(path, huge) },
		"pipe": func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"link": func(path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.Symlink("authorized_keys2", path))
		},
		"open": func(path string) error { return os.Chmod(path, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			b := provisioned(t)
			if err := lay(b.Path("/home/alice/.ssh/authorized_keys")); err != nil {
				t.Fatal(err)
			}
			j := b.job(agentwire.TypeProvisionUser, alice())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			j.mustCheck(false)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > huge/4 {
				t.Errorf("the check took %d bytes of memory", took)
			}
			j.apply()
			j.mustCheck(true)
			if got := b.Read("/home/alice/.ssh/authorized_keys"); got != key+"\n" {
				t.Errorf("keys %q", got)
			}
		})
	}
}

// useradd writes the account before it makes the home. An agent that was killed
// in between finds the account and must still make the home.
func TestProvisionMendsTheHome(t *testing.T) {
	for name, leave := range map[string]func(home string) error{
		"missing":        os.RemoveAll,
		"open to others": func(home string) error { return os.Chmod(home, 0o755) },
		"of root": func(home string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(home, 0o755) // only root can give files away
			}
			return os.Chown(home, 0, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := provisioned(t)
			home := b.Path("/home/alice")
			if err := leave(home); err != nil {
				t.Fatal(err)
			}
			j := b.job(agentwire.TypeProvisionUser, alice())
			j.mustCheck(false)
			j.apply()
			j.mustCheck(true)
			info, err := os.Stat(home)
			if err != nil || info.Mode().Perm() != 0o700 || os.Geteuid() == 0 &&
				(stat(info).Uid != 20001 || stat(info).Gid != 20001) {
				t.Errorf("home %v, %v", info, err)
			}
		})
	}
}
