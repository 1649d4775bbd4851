package sanitize

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/sanitize/looptest"
	"gpuaas/contract/agentwire"
)

const (
	diskUUID  = "0f3a2c11-5d2b-4f6e-9a7c-112233445566"
	diskLabel = "gpuaas-s1"
)

// machine is a fake machine with a real data disk.
type machine struct {
	t      *testing.T
	root   string
	disk   *looptest.Loop
	info   string
	mu     sync.Mutex
	values map[string]string
	steps  []string
	saves  int
	killAt int
}

// sharedSize is that of the disk of a machine.
const sharedSize = 16 * mebi

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, root: t.TempDir(), disk: looptest.New(t, sharedSize), values: map[string]string{}}
	looptest.Machine(t, m.root)
	m.disk.Ext4(t, diskUUID, diskLabel)
	m.info = m.disk.Mount(t, m.root, "/share1")
	m.write("/share1/job/secret", strings.Repeat("tenant data ", 10_000))
	m.write("/etc/fstab", "UUID="+diskUUID+" /share1 ext4 defaults,nofail 0 2\n")
	m.write("/proc/self/mountinfo", "21 1 254:77 / / rw - ext4 /dev/root rw\n"+m.info+"\n")
	return m
}

func (m *machine) path(p string) string { return filepath.Join(m.root, p) }

func (m *machine) write(p, content string) {
	m.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(m.path(p)), 0o750),
		os.WriteFile(m.path(p), []byte(content), 0o600)); err != nil {
		m.t.Fatal(err)
	}
}

// cleaner makes a run of the same task, with what was saved.
func (m *machine) cleaner(minimum string) Cleaner {
	m.write("/proc/self/mountinfo", "21 1 254:77 / / rw - ext4 /dev/root rw\n")
	if m.disk.Mounted(m.t, m.root, "/share1") {
		m.write("/proc/self/mountinfo", "21 1 254:77 / / rw - ext4 /dev/root rw\n"+m.info+"\n")
	}
	host := inspect.Machine{Host: hostexec.Host{Root: m.root}}
	mounts, err := host.Mounts()
	if err != nil {
		m.t.Fatal(err)
	}
	return Cleaner{
		Finder: Finder{Host: host.Host, Mounts: mounts, Table: host.FileTable(), Minimum: minimum},
		Tool:   "gpuaas-agent 1", State: "/var/lib/gpuaas/disks", Poll: time.Millisecond,
		Foreign: func(uid int) bool { return uid >= 20000 },
		Clock:   func() time.Time { return noon },
		Save: func(key, value string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.saves++; m.saves == m.killAt {
				return errKilled
			}
			m.values[key] = value
			return nil
		},
		Recall: func(key string) string {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.values[key]
		},
		Report: func(point, status, message string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.steps = append(m.steps, point+" "+status+" "+message)
		},
	}
}

func (m *machine) run(c Cleaner) agentwire.DeviceSanitized {
	m.t.Helper()
	all, err := c.Run(m.t.Context())
	if err != nil || len(all) != 1 {
		m.t.Fatalf("%v, evidence %+v", err, all)
	}
	return all[0]
}

// anew makes the next run belong to another task.
func (m *machine) anew() { m.values = map[string]string{} }

// restored compares the file system with the former one.
func (m *machine) restored(mode os.FileMode, uid uint32) {
	m.t.Helper()
	if !m.disk.Mounted(m.t, m.root, "/share1") {
		m.t.Fatal("the disk is not mounted")
	}
	left, err := os.ReadDir(m.path("/share1"))
	if err != nil || len(left) != 1 || left[0].Name() != "lost+found" {
		m.t.Errorf("it holds %v, %v", left, err)
	}
	probe, err := exec.CommandContext(m.t.Context(), "blkid", "-p", "-o", "export", m.disk.Node).Output()
	if err != nil || !strings.Contains(string(probe), "UUID="+diskUUID+"\n") ||
		!strings.Contains(string(probe), "LABEL="+diskLabel+"\n") {
		m.t.Errorf("%v: %s", err, probe)
	}
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Stat(m.path("/share1"), &st), unix.Statfs(m.path("/share1"), &fs)); err != nil {
		m.t.Fatal(err)
	}
	if os.FileMode(st.Mode&0o7777) != mode || st.Uid != uid {
		m.t.Errorf("top folder has mode %o and owner %d", st.Mode&0o7777, st.Uid)
	}
	if fs.Flags&unix.ST_NOATIME == 0 || fs.Flags&unix.ST_NODEV == 0 {
		m.t.Errorf("mounted with %#x", fs.Flags)
	}
	raw, err := os.ReadFile(m.disk.Backing)
	made := Filesystem{Type: "ext4"}
	if err := made.parse(raw[:block]); err != nil || made.Reserved != 0 || made.BlockSize != 1024 {
		m.t.Errorf("file system %+v, %v", made, err)
	}
	if err != nil || strings.Contains(string(raw), "tenant data") {
		m.t.Errorf("the data is still on the disk (%v)", err)
	}
	if notes, _ := os.ReadDir(m.path("/var/lib/gpuaas/disks")); len(notes) > 0 {
		m.t.Errorf("notes %v", notes)
	}
}

func TestADataDiskIsErasedAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		uid  int
		mode uint32
		want os.FileMode
		owns uint32
	}{
		"of the system": {0, 0o1777, 0o1777, 0},
		"of a group":    {1234, 0o2770, 0o2770, 1234},
		"of a tenant":   {20001, 0o700, 0o755, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if err := errors.Join(os.Chown(m.path("/share1"), c.uid, c.uid), unix.Chmod(m.path("/share1"), c.mode)); err != nil {
				t.Fatal(err)
			}
			e := m.run(m.cleaner(agentwire.LevelClear))
			if e.Outcome != agentwire.OutcomeSanitized || !e.Verified || !e.FilesystemRestored || e.Method != string(ZeroOut) ||
				e.Device != m.disk.Node ||
				e.MountPoint != "/share1" || e.Transport != "loop" || e.Tool != "gpuaas-agent 1" || e.BytesCovered != sharedSize ||
				e.SampleBytes != sharedSize {
				t.Errorf("evidence %+v", e)
			}
			m.restored(c.want, c.owns)
			if !slices.ContainsFunc(m.steps, func(s string) bool { return strings.HasPrefix(s, "/share1 started verify: ") }) {
				t.Errorf("steps %q", m.steps)
			}
			// The same task again does nothing.
			m.write("/share1/new", "x")
			if again := m.run(m.cleaner(agentwire.LevelClear)); again != e {
				t.Errorf("again %+v", again)
			}
			if _, err := os.Stat(m.path("/share1/new")); err != nil {
				t.Error("the same task erased the disk again")
			}
		})
	}
}

func TestALevelThatCannotBeReachedDestroysNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	e := m.run(m.cleaner(agentwire.LevelPurge))
	if e.Outcome != agentwire.OutcomeRefused || e.Method != "" || e.CanariesPlanted != 0 {
		t.Errorf("evidence %+v", e)
	}
	has(t, e.Reason, "level purge", "not an NVMe device", "would only be clear")
	if _, err := os.Stat(m.path("/share1/job/secret")); err != nil {
		t.Error("something was destroyed")
	}
}

func TestADiskInUseIsLeftAlone(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	f, err := os.Open(m.path("/share1/job/secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e := m.run(m.cleaner(""))
	has(t, e.Reason, "in use")
	if e.Outcome != agentwire.OutcomeRefused || !m.disk.Mounted(t, m.root, "/share1") {
		t.Errorf("evidence %+v", e)
	}
}

// A second mount that the list does not show, for example in another namespace:
// the kernel does not let the device be opened.
func TestADiskThatIsMountedElsewhereIsMountedAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	elsewhere := t.TempDir()
	if err := unix.Mount(m.path("/share1"), elsewhere, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer looptest.Unmount(t, elsewhere)
	e := m.run(m.cleaner(""))
	has(t, e.Reason, "busy")
	if e.Outcome != agentwire.OutcomeRefused || !m.disk.Mounted(t, m.root, "/share1") {
		t.Errorf("evidence %+v", e)
	}
	if _, err := os.Stat(m.path("/share1/job/secret")); err != nil {
		t.Error("something was destroyed")
	}
}

// A use that shows only by the name of a device counts too.
func TestADiskWithAnotherUseIsLeftAlone(t *testing.T) {
	t.Parallel()
	for use, reason := range map[string]string{"swap": "used for swap", "btrfs": "also carries /data"} {
		m := newMachine(t)
		if use == "swap" {
			m.write("/proc/swaps", "Filename Type Size Used Priority\n"+m.disk.Node+" partition 1 0 -2\n")
		} else {
			m.info += "\n91 21 0:50 / /data rw - btrfs " + m.disk.Node + " rw"
		}
		e := m.run(m.cleaner(""))
		has(t, e.Reason, reason)
		if e.Outcome != agentwire.OutcomeRefused || !m.disk.Mounted(t, m.root, "/share1") {
			t.Errorf("evidence %+v", e)
		}
	}
}

// The agent is killed at every point where it stores something. The same task
// succeeds in every case, and so does another task.
func TestDisksSurviveCrashes(t *testing.T) {
	t.Parallel()
	for _, another := range []bool{false, true} {
		for killAt := 1; killAt <= 7; killAt++ {
			m := newMachine(t)
			m.killAt = killAt
			if _, err := m.cleaner("").Run(t.Context()); !errors.Is(err, errKilled) {
				t.Fatalf("killed at save %d of %d: %v", killAt, m.saves, err)
			}
			if another {
				m.anew()
			}
			e := m.run(m.cleaner(""))
			if e.Outcome != agentwire.OutcomeSanitized || !e.Verified || !e.FilesystemRestored ||
				e.CanariesPlanted != canaryCount {
				t.Errorf("killed at save %d (another task: %v): %+v", killAt, another, e)
			}
			m.restored(0o755, 0)
		}
	}
}

func TestADiskThatLiesFailsAndIsFoundAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.cleaner("")
	c.Open = func(path string, d Disk) (OpenDevice, error) {
		b, err := Open(path, d)
		return liar{&loop{Block: b, Loop: m.disk}}, err
	}
	e := m.run(c)
	if e.Outcome != agentwire.OutcomeFailed || e.Verified || e.CanariesFound != canaryCount || !e.FilesystemRestored {
		t.Errorf("evidence %+v", e)
	}
	m.anew()
	if e := m.run(m.cleaner("")); e.Outcome != agentwire.OutcomeSanitized {
		t.Errorf("evidence %+v", e)
	}
}

func TestWithoutTheProgramTheDiskIsErasedAndNotRestored(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	program := m.path("/usr/sbin/mkfs.ext4")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	e := m.run(m.cleaner(""))
	has(t, e.Reason, "not put back", "not installed")
	if e.Outcome != agentwire.OutcomeSanitized || e.FilesystemRestored || m.disk.Mounted(t, m.root, "/share1") {
		t.Errorf("evidence %+v", e)
	}
	if err := os.Symlink("/usr/sbin/mkfs.ext4", program); err != nil {
		t.Fatal(err)
	}
	m.anew()
	if e := m.run(m.cleaner("")); e.Outcome != agentwire.OutcomeSanitized || !e.FilesystemRestored {
		t.Errorf("the next time %+v", e)
	}
	m.restored(0o755, 0)
}

func TestTheWorkOnDisksCanBeStopped(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := m.cleaner("")
	report := c.Report
	c.Report = func(point, status, message string) {
		report(point, status, message)
		if strings.HasPrefix(message, "erase") {
			cancel()
		}
	}
	if _, err := c.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	m.anew()
	if e := m.run(m.cleaner("")); !e.Verified || !e.FilesystemRestored {
		t.Errorf("evidence %+v", e)
	}
	m.restored(0o755, 0)
}

func TestAnotherDeviceInItsPlaceIsNotTouched(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.killAt = 2
	if _, err := m.cleaner("").Run(t.Context()); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	m.values["disks"] = strings.Replace(m.values["disks"], m.disk.Backing, "/elsewhere", 1)
	e := m.run(m.cleaner(""))
	has(t, e.Reason, "another device")
	if e.Outcome != agentwire.OutcomeRefused {
		t.Errorf("evidence %+v", e)
	}
}
