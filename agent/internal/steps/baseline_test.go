package steps

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/baseline"
	"gpuaas/contract/agentwire"
)

// known makes the control plane one that has the baseline of the machine.
func (b *bench) known() {
	b.t.Helper()
	if err := baseline.WriteState(b.deps.Host, baseline.State{Outcome: agentwire.BaselineKept, At: b.now}); err != nil {
		b.t.Fatal(err)
	}
}

// inventory is what the machine is like now, as a validation tells it.
func (b *bench) inventory() []agentwire.Entry {
	b.t.Helper()
	out := validated(b)
	if out.Inventory == nil {
		b.t.Fatal("a validation does not say what the installation is like")
	}
	if err := out.Inventory.Validate(); err != nil {
		b.t.Fatal(err)
	}
	return out.Inventory.Entries
}

func (b *bench) chown(path string, uid int) {
	b.t.Helper()
	if err := os.Lchown(b.Path(path), uid, uid); err != nil {
		b.t.Fatalf("this test needs root: %v", err)
	}
}

func (b *bench) chmod(path string, mode uint32) {
	b.t.Helper()
	if err := unix.Chmod(b.Path(path), mode); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) attribute(path, name string, value []byte) {
	b.t.Helper()
	if err := unix.Setxattr(b.Path(path), name, value, 0); err != nil {
		b.t.Fatalf("give %s the attribute %s: %v", path, name, err)
	}
}

// acl lets a user write, besides those who may anyway.
func acl(user uint32) []byte {
	raw := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{
		{1, 7, ^uint32(0)},
		{2, 7, user},
		{4, 5, ^uint32(0)},
		{16, 7, ^uint32(0)},
		{32, 5, ^uint32(0)},
	} {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(e[0]))
		raw = binary.LittleEndian.AppendUint16(raw, uint16(e[1]))
		raw = binary.LittleEndian.AppendUint32(raw, e[2])
	}
	return raw
}

// plain is a machine with what every installation has.
func plainMachine(t *testing.T) *bench {
	b := newBench(t)
	b.known()
	b.Write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
	b.Write("/etc/shadow", "root:*:1::::::\nadmin:!:1::::::\n")
	b.Write("/usr/bin/sudo", "sudo")
	b.chmod("/usr/bin/sudo", 0o4755)
	b.Write("/etc/systemd/system/ssh.service", "[Service]\n")
	b.Write("/root"+"/.ssh/authorized_keys", "ssh-ed25519 AAAA site\n")
	b.Write("/etc/cron.d/popularity", "0 0 * * * root true\n")
	for _, folder := range []string{
		"/var/crash", "/run/lock", "/var/spool/cron/crontabs", "/var/spool/cron/atjobs",
		"/srv/shared", "/data/set", "/home/admin/.ssh",
	} {
		b.Mkdir(folder)
	}
	b.Write("/proc/modules", "nvme 1 1 - Live 0x0\n")
	b.Write("/proc/sys/kernel/osrelease", "6.8.0-1\n")
	b.Write("/lib/modules/6.8.0-1/modules.dep", "kernel/drivers/nvme/nvme.ko: \nkernel/net/wireguard.ko:\n")
	b.Write("/proc/net/tcp", socketTable+"   0: 00000000:0016 00000000:0000 0A 0:0 0:0 0 0 0 100 1 0\n")
	b.Write("/proc/7/status", "Name:\tsshd\nState:\tS\nUid:\t0\t0\t0\t0\n")
	b.holds(7, "100")
	b.Write("/opt/gpuaas/agent/1.0/gpuaas-agent", "agent")
	b.Write("/opt/gpuaas/agent/1.0/gpuaas-gpu", "helper")
	if err := os.Symlink("1.0", b.Path("/opt/gpuaas/agent/current")); err != nil {
		t.Fatal(err)
	}
	return b
}

const socketTable = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func (b *bench) holds(pid int, socket string) {
	b.t.Helper()
	folder := "/proc/" + itoa(pid) + "/fd"
	b.Mkdir(folder)
	if err := os.Symlink("socket:["+socket+"]", b.Path(folder+"/3")); err != nil {
		b.t.Fatal(err)
	}
}

func itoa(n int) string { return string(rune('0' + n)) }

// Whatever somebody leaves on a machine to come back, to listen or to get more
// rights is in what the next validation tells, and was not in the baseline.
func TestAttackWhatAUserPlantsIsToldToTheControlPlane(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(b *bench)
		kind  string
		want  string // in the name of the entry
	}{
		"a setuid copy of a shell in a temporary folder": {func(b *bench) {
			b.Write("/var/tmp/.x/sh", "shell")
			b.chmod("/var/tmp/.x/sh", 0o4755)
		}, agentwire.EntrySetID, "/var/tmp/.x/sh"},
		"a setgid program on a data file system": {func(b *bench) {
			b.Write("/data/set/run", "program")
			b.chmod("/data/set/run", 0o2755)
		}, agentwire.EntrySetID, "/data/set/run"},
		"another sudo": {func(b *bench) {
			b.Write("/usr/bin/sudo", "mine")
			b.chmod("/usr/bin/sudo", 0o4755)
		}, agentwire.EntrySetID, "/usr/bin/sudo"},
		"a capability": {func(b *bench) {
			b.Write("/usr/local/bin/dump", "program")
			b.attribute("/usr/local/bin/dump", "security.capability",
				[]byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
		}, agentwire.EntryCapability, "/usr/local/bin/dump"},
		"an ACL on a shared folder": {func(b *bench) {
			b.attribute("/srv/shared", "system.posix_acl_access", acl(1500))
		}, agentwire.EntryACL, "/srv/shared"},
		"an at job": {
			func(b *bench) { b.Write("/var/spool/cron/atjobs/a00001", "#!/bin/sh\n") }, agentwire.EntryAt,
			"/var/spool/cron/atjobs/a00001",
		},
		"a cron spool": {
			func(b *bench) { b.Write("/var/spool/cron/crontabs/daemon", "* * * * * x\n") },
			agentwire.EntryCron, "/var/spool/cron/crontabs/daemon",
		},
		"a changed job": {
			func(b *bench) { b.Write("/etc/cron.d/popularity", "* * * * * root /x\n") }, agentwire.EntryCron,
			"/etc/cron.d/popularity",
		},
		"a file in crash": {func(b *bench) { b.Write("/var/crash/data", "x") }, agentwire.EntrySpool, "/var/crash/data"},
		"a file in lock": {
			func(b *bench) { b.Write("/run/lock/data", "x"); b.chown("/run/lock/data", 1500) },
			agentwire.EntrySpool, "/run/lock/data",
		},
		"a key for root": {func(b *bench) {
			b.Write("/root"+"/.ssh/authorized_keys", "ssh-ed25519 AAAA site\nssh-ed25519 BBBB me\n")
		}, agentwire.EntryKey, "/root" + "/.ssh/authorized_keys "},
		"a key for others": {
			func(b *bench) { b.Write("/home/admin/.ssh/authorized_keys2", "ssh-ed25519 BBBB me\n") },
			agentwire.EntryKey, "/home/admin/.ssh/authorized_keys2 ",
		},
		"a unit": {
			func(b *bench) { b.Write("/etc/systemd/system/x.service", "[Service]\n") }, agentwire.EntryUnit,
			"/etc/systemd/system/x.service",
		},
		"a timer of users": {
			func(b *bench) { b.Write("/etc/systemd/user/x.timer", "[Timer]\n") }, agentwire.EntryUnit,
			"/etc/systemd/user/x.timer",
		},
		"a drop-in": {func(b *bench) {
			b.Write("/etc/systemd/system/ssh.service.d/x.conf", "[Service]\nExecStartPre=/x\n")
		}, agentwire.EntryUnit, "/etc/systemd/system/ssh.service.d/x.conf"},
		"a way past sshd": {
			func(b *bench) { b.Write("/etc/ssh/sshd_config", "PermitRootLogin yes\n") }, agentwire.EntryUnit,
			"/etc/ssh/sshd_config",
		},
		"a rule of sshd": {
			func(b *bench) { b.Write("/etc/ssh/sshd_config.d/00.conf", "AuthorizedKeysFile /x\n") },
			agentwire.EntryUnit, "/etc/ssh/sshd_config.d/00.conf",
		},
		"a rule of PAM": {
			func(b *bench) { b.Write("/etc/pam.d/sshd", "auth sufficient pam_permit.so\n") },
			agentwire.EntryUnit, "/etc/pam.d/sshd",
		},
		"an environment": {
			func(b *bench) { b.Write("/etc/environment", "LD_PRELOAD=/x.so\n") }, agentwire.EntryUnit,
			"/etc/environment",
		},
		"a profile": {
			func(b *bench) { b.Write("/etc/profile.d/x.sh", "/x\n") }, agentwire.EntryUnit,
			"/etc/profile.d/x.sh",
		},
		"a rule of sudo": {
			func(b *bench) { b.Write("/etc/sudoers.d/x", "daemon ALL=(ALL) NOPASSWD:ALL\n") },
			agentwire.EntryUnit, "/etc/sudoers.d/x",
		},
		"another modprobe": {func(b *bench) {
			b.Write("/etc/modprobe.d/x.conf", "install dummy /x\n")
		}, agentwire.EntryUnit, "/etc/modprobe.d/x.conf"},
		"a preloaded library": {
			func(b *bench) { b.Write("/etc/ld.so.preload", "/x.so\n") }, agentwire.EntryPreload,
			"/etc/ld.so.preload",
		},
		"an account": {func(b *bench) {
			b.Write("/etc/passwd", b.Read("/etc/passwd")+"sysd:x:1500:1500::/var/lib/sysd:/bin/sh\n")
		}, agentwire.EntryAccount, "sysd"},
		"a password": {func(b *bench) { b.Write("/etc/shadow", "root:$6$x:1::::::\n") }, agentwire.EntryPassword, "root"},
		"a group": {
			func(b *bench) { b.Write("/etc/group", b.Read("/etc/group")+"mine:x:1500:\n") }, agentwire.EntryGroup,
			"mine",
		},
		"a member": {func(b *bench) { b.Write("/etc/group", "root:x:0:daemon\n") }, agentwire.EntryMember, "root:daemon"},
		"a module": {func(b *bench) { b.Write("/proc/modules", "evil 1 1 - Live 0x0\n") }, agentwire.EntryModule, "evil"},
		"an agent": {
			func(b *bench) { b.Write("/opt/gpuaas/agent/1.0/gpuaas-agent", "mine") }, agentwire.EntryAgent,
			"/opt/gpuaas/agent/1.0/gpuaas-agent",
		},
		"a stranger": {
			func(b *bench) { b.Write("/opt/x", "x"); b.chown("/opt/x", 40000) }, agentwire.EntryForeign,
			"/opt/x",
		},
		"a namespace": {
			func(b *bench) { b.Write("/opt/x", "x"); b.chown("/opt/x", 165536) }, agentwire.EntryForeign,
			"/opt/x",
		},
		"a listening daemon": {func(b *bench) {
			b.Write("/proc/net/tcp", b.Read("/proc/net/tcp")+"   1: 00000000:0539 00000000:0000 0A 0:0 0:0 0 1500 0 200 1 0\n")
			b.Write("/proc/9/status", "Name:\tbackdoor\nState:\tS\nUid:\t1500\t1500\t1500\t1500\n")
			b.holds(9, "200")
		}, agentwire.EntrySocket, "tcp 1337 on the network by backdoor"},
	} {
		t.Run(name, func(t *testing.T) {
			b := plainMachine(t)
			before := b.inventory()
			if again := b.inventory(); !slices.Equal(before, again) {
				t.Fatalf("a machine that nobody touched differs from itself: %v, %v", before, again)
			}
			c.plant(b)
			var fresh []agentwire.Entry
			for _, e := range b.inventory() {
				if !slices.Contains(before, e) {
					fresh = append(fresh, e)
				}
			}
			if !slices.ContainsFunc(fresh, func(e agentwire.Entry) bool {
				return e.Kind == c.kind && strings.HasPrefix(e.Name, c.want) && !e.Packaged
			}) {
				t.Errorf("new are %+v, and no %s %s", fresh, c.kind, c.want)
			}
		})
	}
}

// An account with the rights of root is found, also where it is called like one
// that is allowed.
func TestAttackAnAllowedNameWithTheRightsOfRoot(t *testing.T) {
	b := plainMachine(t)
	b.Write("/etc/passwd", b.Read("/etc/passwd")+"deploy:x:0:0::/home/deploy:/bin/sh\n")
	out := b.job(agentwire.TypeValidateClean,
		agentwire.ValidateCleanParams{AllowedUsers: []string{"deploy"}}).apply().(agentwire.ValidateCleanOutput)
	if !slices.ContainsFunc(out.Findings, func(f agentwire.CleanFinding) bool {
		return f.Kind == "users" && f.Subject == "deploy" && strings.HasSuffix(f.Detail, "with the rights of root")
	}) {
		t.Errorf("findings %+v", out.Findings)
	}
}

// Files of a tenant are found wherever they lie: on every local file system, by
// owner and by group, also when the account is long gone.
func TestAttackFilesOfATenantAreFoundOnAllFileSystems(t *testing.T) {
	for _, place := range []string{
		"/var/crash/core", "/run/lock/mine", "/opt/cache/x", "/dev/shm/x", "/data/set/x",
		"/var/spool/cron/atjobs/a1", "/srv/shared/x",
	} {
		t.Run(place, func(t *testing.T) {
			b := plainMachine(t)
			b.Write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n22 21 254:9 / /data rw - xfs /dev/vdb "+
				"rw\n23 21 0:5 / /dev/shm rw - tmpfs tmpfs rw\n24 21 254:0 /srv /mnt rw - ext4 /dev/vda rw\n25 21 0:9 / /net rw "+
				"- nfs s:/x rw\n")
			b.Write("/etc/fstab", "/srv /mnt none bind 0 0\n")
			b.Write(idsFile, `[{"uid":20001,"gid":20007,"username":"alice","allocation_id":"a"}]`)
			if out := validated(b); !out.Clean {
				t.Fatalf("findings %+v", out.Findings)
			}
			b.Write(place, "x")
			if err := os.Chown(b.Path(place), 0, 20007); err != nil {
				t.Fatalf("this test needs root: %v", err)
			}
			b.Write("/net/x", "x")
			b.chown("/net/x", 20001)
			out := validated(b)
			if out.Clean || len(out.Findings) != 1 || out.Findings[0].Subject != place {
				t.Errorf("findings %+v, want one about %s", out.Findings, place)
			}
		})
	}
}

// Whoever got the ids of somebody who was here before would own what is left.
func TestAttackIdsOfATenantAreNotGivenToTheNext(t *testing.T) {
	b := newBench(t)
	b.InstallAccounts()
	b.job(agentwire.TypeProvisionUser, agentwire.ProvisionUserParams{
		AllocationID: allocation, Username: "alice",
		UID: 20001, GID: 20002,
	}).apply()
	b.job(agentwire.TypeDeprovisionUser, agentwire.DeprovisionUserParams{
		AllocationID: allocation,
		Username:     "alice",
	}).apply()
	const other = "99999999-2222-3333-4444-555555555555"
	for _, p := range []agentwire.ProvisionUserParams{
		{AllocationID: other, Username: "mallory", UID: 20001, GID: 20010},
		{AllocationID: other, Username: "mallory", UID: 20010, GID: 20002},
		{AllocationID: other, Username: "mallory", UID: 20002, GID: 20010},
		{AllocationID: other, Username: "alice", UID: 20001, GID: 20002},
	} {
		if failure := b.job(agentwire.TypeProvisionUser, p).applyFails("id_used_before"); !strings.Contains(failure.Remedy,
			"20003") {
			t.Errorf("remedy %q", failure.Remedy)
		}
	}
	b.job(agentwire.TypeProvisionUser, agentwire.ProvisionUserParams{
		AllocationID: other, Username: "mallory", UID: 20003,
		GID: 20003,
	}).apply()
	b.job(agentwire.TypeProvisionUser, agentwire.ProvisionUserParams{
		AllocationID: allocation, Username: "alice",
		UID: 20001, GID: 20002,
	}).apply()
}

// What a user left in folders that nothing empties goes with the account.
func TestLeftoversGoWithTheAccount(t *testing.T) {
	b := newBench(t)
	b.InstallAccounts()
	b.job(agentwire.TypeProvisionUser, agentwire.ProvisionUserParams{
		AllocationID: allocation, Username: "alice",
		UID: 20001, GID: 20001,
	}).apply()
	for _, folder := range spools {
		b.Write(folder+"/mine", "x")
		b.chown(folder+"/mine", 20001)
		b.Write(folder+"/theirs", "x")
	}
	notes := []string{
		"/var/log/journal/1/user-20001.journal", "/var/log/journal/1/user-20001@2-3.journal",
		"/var/lib/sudo/lectured/alice", "/run/sudo/ts/20001",
	}
	for _, path := range append(notes, "/var/log/journal/1/user-200010.journal", "/var/log/journal/1/system.journal") {
		b.Write(path, "x")
	}
	b.job(agentwire.TypeDeprovisionUser, agentwire.DeprovisionUserParams{
		AllocationID: allocation,
		Username:     "alice",
	}).apply()
	for _, path := range notes {
		if b.Exists(path) {
			t.Errorf("%s is there", path)
		}
	}
	if !b.Exists("/var/log/journal/1/user-200010.journal") || !b.Exists("/var/log/journal/1/system.journal") {
		t.Error("journals of others are gone")
	}
	for _, folder := range spools {
		if b.Exists(folder+"/mine") || !b.Exists(folder+"/theirs") {
			t.Errorf("%s: mine is there: %t, theirs is there: %t", folder, b.Exists(folder+"/mine"), b.Exists(folder+"/theirs"))
		}
	}
}

// A control plane that never asked for a baseline is not told of one, and after
// a tenant was there none is taken.
func TestABaselineIsTakenOnlyBeforeTenants(t *testing.T) {
	b := newBench(t)
	if out := validated(b); out.Inventory != nil {
		t.Error("an older control plane is told what it does not know")
	}
	b.known()
	if validated(b); len(b.handed) != 1 {
		t.Errorf("a validation before the first tenant hands over %d baselines", len(b.handed))
	}
	if _, ok, err := Baseline(b.deps); !ok || err != nil {
		t.Errorf("a machine without tenants has a baseline: %t, %v", ok, err)
	}
	b.InstallAccounts()
	b.job(agentwire.TypeProvisionUser, agentwire.ProvisionUserParams{
		AllocationID: allocation, Username: "alice",
		UID: 20001, GID: 20001,
	}).apply()
	b.job(agentwire.TypeDeprovisionUser, agentwire.DeprovisionUserParams{
		AllocationID: allocation,
		Username:     "alice",
	}).apply()
	if validated(b); len(b.handed) != 1 {
		t.Error("a validation after a tenant hands over a baseline")
	}
	if _, ok, err := Baseline(b.deps); ok || err != nil {
		t.Errorf("a machine that had a tenant has a baseline: %t, %v", ok, err)
	}
}

// What a package brought unchanged says so: modules in use, set-id files, units.
func TestWhatPackagesBroughtIsMarked(t *testing.T) {
	b := plainMachine(t)
	b.Write("/var/lib/dpkg/info/sudo.md5sums", "d338b3f0f405eb5e51c8cc1e5ca66f02  bin/sudo\n") // of "sudo"
	b.Write("/var/lib/dpkg/status",
		"Package: popularity\nConffiles:\n /etc/cron.d/popularity 00000000000000000000000000000000\n")
	b.Write("/etc/ssh/sshd_config", "sudo")
	b.Write("/var/lib/ucf/hashfile", "d338b3f0f405eb5e51c8cc1e5ca66f02  /etc/ssh/sshd_config\n")
	b.Write("/etc/security/opasswd", "x")
	b.Write("/etc/sudoers.d/x", "sudo")
	b.Write("/var/lib/ucf/hashfile", b.Read("/var/lib/ucf/hashfile")+
		"d338b3f0f405eb5e51c8cc1e5ca66f02  /etc/sudoers.d/x\n")
	for _, e := range b.inventory() {
		if e.Kind == agentwire.EntrySetID && !e.Packaged || e.Kind == agentwire.EntryCron && e.Packaged ||
			e.Name == "/etc/ssh/sshd_config" && !e.Packaged || e.Name == "/etc/security/opasswd" ||
			e.Name == "/etc/sudoers.d/x" && e.Packaged {
			t.Errorf("%+v", e)
		}
	}
	if out := validated(b); !slices.Equal(out.Inventory.Covers, agentwire.LaterPlaces) {
		t.Errorf("it covers %v", out.Inventory.Covers)
	}
}
