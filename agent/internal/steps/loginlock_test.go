package steps

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
)

// setUp is a machine as a first boot left it; one of the old form has a
// password.
func setUp(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.InstallAccounts()
	b.Install("/usr/bin/systemctl")
	b.Write("/etc/passwd",
		"root:x:0:0:root:/root:/bin/sh\nmail:x:8:8::/var/mail:/bin/sh\ndeploy:x:1000:1000::/home/deploy:/bin/bash\n")
	b.Write("/etc/shadow",
		"root:*:19000:0:99999:7:::\nmail:*:19000:0:99999:7:::\ndeploy:$6$salt$hash:19000:0:99999:7:::\n")
	b.Write("/home/deploy/.ssh/authorized_keys", "ssh-ed25519 AAAA deploy\n")
	b.Write("/srv/victim/.ssh/authorized_keys", "ssh-ed25519 AAAA root\n")
	b.Write("/etc/sudoers.d/gpuaas-deploy", "deploy ALL=(ALL) NOPASSWD:ALL\n")
	b.Write("/etc/ssh/sshd_config.d/10-gpuaas-deploy.conf", "Match User deploy\n  PasswordAuthentication yes\n")
	return b
}

// Whoever learnt the deploy login, by its key or by the password of the old
// form, cannot use it once the agent is there.
func TestAttackTheDeployLoginIsUsedAfterEnrolment(t *testing.T) {
	b := setUp(t)
	j := b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "deploy"})
	j.mustCheck(false)
	out := j.apply().(agentwire.LoginLockOutput)
	want := []string{
		"/etc/sudoers.d/gpuaas-deploy", "/etc/ssh/sshd_config.d/10-gpuaas-deploy.conf", "account",
		".ssh/authorized_keys",
	}
	if !out.Existed || !slices.Equal(out.Closed, want) {
		t.Errorf("output %+v", out)
	}
	for _, path := range []string{
		"/home/deploy/.ssh/authorized_keys", "/etc/sudoers.d/gpuaas-deploy",
		"/etc/ssh/sshd_config.d/10-gpuaas-deploy.conf",
	} {
		if b.Exists(path) {
			t.Errorf("%s remains", path)
		}
	}
	if got := b.Read("/etc/shadow"); !strings.Contains(got, "deploy:!$6$salt$hash:19000:0:99999:7::1:") {
		t.Errorf("passwords\n%s", got)
	}
	if !slices.Contains(b.Calls(), "usermod --lock --expiredate 1 --shell /usr/sbin/nologin deploy") {
		t.Errorf("calls %q", b.Calls())
	}
	j.mustCheck(true)
	if again := j.apply().(agentwire.LoginLockOutput); len(again.Closed) != 0 {
		t.Errorf("the second time: %+v", again)
	}
}

func TestALoginThatCannotBeLocked(t *testing.T) {
	b := setUp(t)
	b.Fail("usermod")
	b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "deploy"}).applyFails("account_not_locked")
	b.Heal("usermod")
	if err := os.Remove(b.Path("/usr/sbin/usermod")); err != nil {
		t.Fatal(err)
	}
	b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "deploy"}).applyFails("account_not_locked")
	b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "mail"}).applyFails("account_foreign")
}

func TestALoginThatIsNotThere(t *testing.T) {
	b := setUp(t)
	b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "deploy"}).apply()
	j := b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "nobody-here"})
	j.mustCheck(true)
	if out := j.apply().(agentwire.LoginLockOutput); out.Existed || !out.Searched || len(out.Closed)+len(out.Others) != 0 {
		t.Errorf("output %+v", out)
	}
}

// A site that calls its deploy user otherwise since leaves no old account open:
// whoever learnt its password or key finds it shut. Rules of tenants and of the
// system are none of a first boot.
func TestAttackARenamedDeployUserLeavesTheOldAccountOpen(t *testing.T) {
	b := setUp(t)
	b.Write("/etc/sudoers.d/gpuaas-mail", "mail ALL=(ALL) NOPASSWD:ALL\n")
	b.Write("/etc/sudoers.d/gpuaas-alice", "alice ALL=(ALL) NOPASSWD:ALL\n")
	b.Write("/var/lib/gpuaas/users/alice.json",
		`{"allocation_id":"a","username":"alice","uid":2000,"gid":2000,"home":"/home/alice","ready":true}`)
	j := b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "renamed"})
	j.mustCheck(false)
	out := j.apply().(agentwire.LoginLockOutput)
	if out.Existed || !out.Searched || !slices.Equal(out.Others, []string{"deploy"}) ||
		!slices.Contains(out.Closed, "deploy: account") {
		t.Errorf("output %+v", out)
	}
	if got := b.Read("/etc/shadow"); !strings.Contains(got, "deploy:!$6$salt$hash:19000:0:99999:7::1:") {
		t.Errorf("passwords\n%s", got)
	}
	for path, remains := range map[string]bool{
		"/home/deploy/.ssh/authorized_keys": false, "/etc/sudoers.d/gpuaas-deploy": false,
		"/etc/ssh/sshd_config.d/10-gpuaas-deploy.conf": false,
		"/etc/sudoers.d/gpuaas-mail":                   true, "/etc/sudoers.d/gpuaas-alice": true,
	} {
		if b.Exists(path) != remains {
			t.Errorf("%s remains: %v", path, !remains)
		}
	}
	j.mustCheck(true)
}

// The account of an allocation is no deploy login, whatever a site says.
func TestALoginOfAnAllocationIsNotLocked(t *testing.T) {
	b := provisioned(t)
	b.Write("/etc/shadow", "alice:*:19000:0:99999:7:::\n")
	b.job(agentwire.TypeProvisionUser, alice()).apply()
	b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "alice"}).applyFails(
		"account_of_another_allocation")
}

// Links that somebody left for root are removed and not followed.
func TestAttackALinkInTheHomeOfTheDeployLogin(t *testing.T) {
	for name, lay := range map[string]string{"folder": "/home/deploy/.ssh", "file": "/home/deploy/.ssh/authorized_keys"} {
		t.Run(name, func(t *testing.T) {
			b := setUp(t)
			to := b.Path("/srv/victim/.ssh")
			if name == "file" {
				to = filepath.Join(to, "authorized_keys")
			}
			if err := os.RemoveAll(b.Path(lay)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, b.Path(lay)); err != nil {
				t.Fatal(err)
			}
			j := b.job(agentwire.TypeLoginLock, agentwire.LoginLockParams{Username: "deploy"})
			j.mustCheck(false)
			j.apply()
			j.mustCheck(true)
			if b.Exists(lay) || b.Read("/srv/victim/.ssh/authorized_keys") == "" {
				t.Error("the link is there, or was followed")
			}
		})
	}
}
