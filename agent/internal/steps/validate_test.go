package steps

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gpuaas/agent/internal/gpu"
	"gpuaas/contract/agentwire"
)

func validated(b *bench, allowed ...string) agentwire.ValidateCleanOutput {
	b.t.Helper()
	out, done := b.job(agentwire.TypeValidateClean, agentwire.ValidateCleanParams{AllowedUsers: allowed}).check()
	if !done {
		b.t.Fatal("a look is all there is to do")
	}
	return out.(agentwire.ValidateCleanOutput)
}

func TestACleanMachine(t *testing.T) {
	b := newBench(t)
	b.Write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n22 21 0:5 / /mnt/site rw - ext4 /dev/vdb "+
		"rw\n23 21 0:6 / /home rw - ext4 /dev/vdc rw\n24 21 0:7 / /run/user/1000 rw - tmpfs tmpfs rw,uid=1000\n25 21 0:8 / "+
		"/share1 rw - ext4 /dev/vdd rw\n26 21 0:9 / /share2 rw - nfs s:/x rw\n")
	b.Write("/etc/fstab", "/dev/vdb /mnt/site ext4 defaults 0 0\nUUID=1 /share1 ext4 defaults 0 2\n")
	b.Write("/share1/lost+found/x", "x")
	b.Mkdir("/share2")
	b.Write("/proc/1/status", "Name:\tinit\nState:\tS\nUid:\t0\t0\t0\t0\n")
	b.Write("/proc/2/status", "Name:\tdynamic\nState:\tS\nUid:\t61200\t61200\t61200\t61200\n")
	b.Write("/proc/3/status", "Name:\tzombie\nState:\tZ (zombie)\nUid:\t20001\t20001\t20001\t20001\n")
	b.Write("/proc/sysvipc/shm", "key shmid uid cuid\n0 42 101 101\n")
	b.gpu.report = gpu.Report{
		Vendor: gpu.NVIDIA,
		GPUs:   []gpu.GPU{{UUID: "GPU-1", MemoryTotal: 1 << 37, MemoryUsed: 600 << 20}},
	}
	out := validated(b)
	if !out.Clean || len(out.Findings) != 0 || len(out.Checked) != 10 {
		t.Errorf("output %+v", out)
	}
	for _, c := range out.Checked {
		if c.Result != "clean" {
			t.Errorf("%+v", c)
		}
	}
	details := map[string]string{
		"users": "4 accounts, 0 homes, 0 notes of allocation users", "processes": "2 processes", "mounts": "6 mounts",
		"ipc":   "1 System V objects, 0 entries of shared memory",
		"tmp":   "2 entries in /tmp, /var/tmp, /scratch",
		"disks": "3 entries in /share1; shared with other machines and not looked at: /share2",
		"files": "15 files on /, /home, /mnt/site, /run/user/1000, /share1; shared with other machines and not looked at: " +
			"/share2", "gpu_memory": "1 GPUs", "gpu_processes": "1 GPUs", "terminals": "0 sessions",
	}
	for _, c := range out.Checked {
		if c.Detail != details[c.Kind] {
			t.Errorf("%s: %q, want %q", c.Kind, c.Detail, details[c.Kind])
		}
	}
}

// In a container the options of a mount name users of the host: what looks like
// a tenant there is root here, and the reverse.
func TestUsersOfMountsAreThoseOfTheMachine(t *testing.T) {
	b := newBench(t)
	b.Write("/proc/self/uid_map", "         0     100000      65536\n")
	b.Write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n22 21 0:7 / /run rw - tmpfs none "+
		"rw,uid=100000,gid=100000\n23 21 0:8 / /dev/x rw - tmpfs none rw,uid=20001\n")
	if out := validated(b); !out.Clean {
		t.Errorf("findings %+v", out.Findings)
	}
	b.Write("/proc/self/mountinfo",
		"21 1 254:0 / / rw - ext4 /dev/vda rw\n22 21 0:7 / /opt/t rw - tmpfs none rw,uid=120001\n")
	if out := validated(b); out.Clean || out.Findings[0].Subject != "/opt/t" {
		t.Errorf("output %+v", out)
	}
}

func TestWithoutAGPUItIsSaidSo(t *testing.T) {
	b := newBench(t)
	out := validated(b)
	results := map[string]string{}
	for _, c := range out.Checked {
		results[c.Kind] = c.Result
	}
	if !out.Clean || results["gpu_memory"] != "not_applicable" || results["gpu_processes"] != "not_applicable" ||
		results["mounts"] != "not_applicable" || results["disks"] != "not_applicable" {
		t.Errorf("output %+v", out)
	}
}

// deep nests folders until no path leads to the last.
func deep(b *bench, path string) {
	b.t.Helper()
	at, err := os.OpenRoot(b.Path(path))
	name := strings.Repeat("d", 250)
	for range 20 {
		if err == nil {
			err = at.Mkdir(name, 0o755)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		next, failed := at.OpenRoot(name)
		err = errors.Join(failed, at.Close())
		at = next
	}
	if err = errors.Join(err, at.Close()); err != nil {
		b.t.Fatal(err)
	}
}

func TestEveryKindOfResidueIsFound(t *testing.T) {
	tenant := func(b *bench, path string) {
		b.Write(path, "x")
		if err := os.Chown(b.Path(path), 20001, 20001); err != nil {
			b.t.Fatalf("this test needs root: %v", err)
		}
	}
	mount := func(line string) func(*bench) {
		return func(b *bench) { b.Write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n"+line+"\n") }
	}
	for name, c := range map[string]struct {
		leave   func(b *bench)
		kind    string
		subject string
	}{
		"account": {func(b *bench) {
			b.Write("/etc/passwd", "root:x:0:0::/root:/bin/sh\nmallory:x:20001:20001::/home/m:/bin/sh\n")
		}, "users", "mallory"},
		"second root": {
			func(b *bench) { b.Write("/etc/passwd", "root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/root:/bin/sh\n") },
			"users", "toor",
		},
		"half removed": {
			func(b *bench) { b.Write("/var/lib/gpuaas/users/alice.json", `{"username":"alice","uid":20001}`) },
			"users", "alice",
		},
		"home": {func(b *bench) { tenant(b, "/home/old") }, "users", "/home/old"},
		"sudo rule": {
			func(b *bench) { b.Write("/etc/sudoers.d/gpuaas-alice", "x") }, "users",
			"/etc/sudoers.d/gpuaas-alice",
		},
		"no accounts": {func(b *bench) { _ = os.Remove(b.Path("/etc/passwd")) }, "users", "users"},
		"process": {func(b *bench) {
			b.Write("/proc/77/status", "Name:\tminer\nState:\tR\nUid:\t20001\t20001\t20001\t20001\n")
		}, "processes", "77"},
		"setuid process": {
			func(b *bench) { b.Write("/proc/78/status", "Name:\tx\nState:\tR\nUid:\t20001\t0\t0\t0\n") },
			"processes", "78",
		},
		"process in a space": {func(b *bench) {
			b.Write("/proc/79/status", "Name:\tx\nState:\tR\nUid:\t165536\t165536\t165536\t165536\n")
		}, "processes", "79"},
		"weka": {mount("30 21 0:40 / /mnt/w rw - wekafs a/b rw"), "mounts", "/mnt/w"},
		"fuse": {
			mount("30 21 0:40 / /opt/x rw - fuse.sshfs h:/ rw,user_id=20001,group_id=20001"), "mounts",
			"/opt/x",
		},
		"runtime folder":  {mount("30 21 0:40 / /run/user/20001 rw - tmpfs tmpfs rw"), "mounts", "/run/user/20001"},
		"mount in a home": {mount(`30 21 0:40 / /home/a\040b rw - nfs s:/x rw`), "mounts", "/home/a b"},
		"System V memory": {
			func(b *bench) { b.Write("/proc/sysvipc/shm", "key shmid uid cuid\n0 42 0 20001\n") }, "ipc",
			"shm 42",
		},
		"POSIX memory":   {func(b *bench) { tenant(b, "/dev/shm/sem.x") }, "ipc", "/dev/shm/sem.x"},
		"temporary file": {func(b *bench) { tenant(b, "/tmp/a/b/c") }, "tmp", "/tmp/a/b/c"},
		"scratch":        {func(b *bench) { tenant(b, "/scratch/x") }, "tmp", "/scratch/x"},
		"scratch is a link": {func(b *bench) {
			tenant(b, "/opt/elsewhere/x")
			if err := os.Symlink("opt/elsewhere", b.Path("/scratch")); err != nil {
				b.t.Fatal(err)
			}
		}, "tmp", "/scratch"},
		"scratch is a file": {func(b *bench) { b.Write("/scratch", "x") }, "tmp", "/scratch"},
		"a folder too deep": {func(b *bench) { deep(b, "/tmp") }, "tmp", ""},
		"file on a disk":    {func(b *bench) { tenant(b, "/share1/job/x") }, "disks", "/share1/job/x"},
		"disk is not there": {
			func(b *bench) { b.Write("/etc/fstab", "UUID=1 /share7 ext4 defaults 0 2\n") }, "disks",
			"/share7",
		},
		"disk is a link": {func(b *bench) {
			if err := os.Symlink("opt", b.Path("/share9")); err != nil {
				b.t.Fatal(err)
			}
		}, "disks", "/share9"},
		"unreadable homes": {func(b *bench) { _ = os.Remove(b.Path("/home")); b.Write("/home", "x") }, "users", "users"},
		"GPU memory": {func(b *bench) {
			b.gpu.report = gpu.Report{
				Vendor: gpu.NVIDIA,
				GPUs:   []gpu.GPU{{UUID: "GPU-1", MemoryTotal: 1 << 37, MemoryUsed: 2 << 30}},
			}
		}, "gpu_memory", "GPU-1"},
		"GPU without driver": {func(b *bench) {
			b.gpu.report = gpu.Report{
				Vendor:      gpu.NVIDIA,
				Unreachable: []string{"0000:18:00.0"},
			}
		}, "gpu_memory", "0000:18:00.0"},
		"GPU process": {func(b *bench) {
			b.gpu.report = gpu.Report{
				Vendor: gpu.NVIDIA,
				GPUs:   []gpu.GPU{{UUID: "GPU-1", Processes: []gpu.Process{{PID: 9, Kind: "compute"}}}},
			}
		}, "gpu_processes", "9"},
		"a helper that broke": {func(b *bench) { b.gpu.inspectErr = errors.New("crashed") }, "gpu_memory", "gpu_memory"},
		"session":             {func(b *bench) { b.terminals.open["s"] = "alice" }, "terminals", "sessions"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.leave(b)
			out := validated(b)
			if out.Clean || len(out.Findings) == 0 || out.Findings[0].Kind != c.kind || c.subject != "" &&
				out.Findings[0].Subject != c.subject || out.Findings[0].Detail == "" {
				t.Errorf("findings %+v", out.Findings)
			}
			for _, k := range out.Checked {
				if k.Kind == c.kind && k.Result != "findings" {
					t.Errorf("%+v", k)
				}
			}
		})
	}
}

func TestAllowedUsersAreNoResidue(t *testing.T) {
	b := provisioned(t)
	b.Write("/proc/77/status", "Name:\tbash\nState:\tS\nUid:\t20001\t20001\t20001\t20001\n")
	b.terminals.open["s"] = "alice"
	if out := validated(b, "alice"); !out.Clean {
		t.Errorf("output %+v", out)
	}
	if out := validated(b); out.Clean {
		t.Errorf("output %+v", out)
	}
}

func TestNamesOfTenantsDoNotBreakTheReport(t *testing.T) {
	b := newBench(t)
	b.Write("/tmp/a\nb\x1b[2J", "x")
	if err := os.Chown(b.Path("/tmp/a\nb\x1b[2J"), 20001, 20001); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	if out := validated(b); strings.ContainsAny(out.Findings[0].Subject, "\n\x1b") {
		t.Errorf("subject %q", out.Findings[0].Subject)
	}
}

// A machine full of residue gives a limited report and no clean verdict.
func TestFindingsAreBounded(t *testing.T) {
	b := newBench(t)
	b.Write("/etc/passwd", "root:x:0:0::/root:/bin/sh\n"+strings.Repeat("m:x:20001:20001::/:/bin/sh\n", 5000))
	b.terminals.open["s"] = "alice"
	out := validated(b)
	if out.Clean || len(out.Findings) != maxFindings || out.Checked[8].Result != "findings" {
		t.Errorf("%d findings, last check %+v", len(out.Findings), out.Checked[8])
	}
}
