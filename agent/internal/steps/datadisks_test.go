package steps

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/sanitize/looptest"
	"gpuaas/contract/agentwire"
)

// spare gives a machine a disk, sdb, that nothing mounts.
func spare(t *testing.T, b *bench, serial string) *looptest.Loop {
	t.Helper()
	disk := looptest.New(t, 16<<20)
	const place = "/sys/devices/pci0/ata1/block/sdb"
	b.Write("/proc/self/mountinfo", "21 1 254:77 / / rw - ext4 /dev/root rw\n")
	b.Write(place+"/dev", disk.Numbers+"\n")
	b.Write(place+"/size", "32768\n")
	b.Write(place+"/device/serial", serial+"\n")
	b.Write("/dev/x", "")
	var st unix.Stat_t
	if err := unix.Stat(disk.Node, &st); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(b.Path("/sys/block"), 0o750), os.MkdirAll(b.Path("/sys/dev/block"), 0o750),
		os.MkdirAll(b.Path("/usr/sbin"), 0o750), os.Symlink("/usr/sbin/mkfs.ext4", b.Path("/usr/sbin/mkfs.ext4")),
		os.Symlink(b.Path(place), b.Path("/sys/block/sdb")),
		os.Symlink(b.Path(place), b.Path("/sys/dev/block/"+disk.Numbers)),
		unix.Mknod(b.Path("/dev/sdb"), unix.S_IFBLK|0o600, int(st.Rdev)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

func lookedAt(t *testing.T, b *bench) agentwire.DataDisk {
	t.Helper()
	seen, done := b.job(agentwire.TypeDataDisks, agentwire.DataDisksParams{Action: agentwire.DataDisksLook}).check()
	out, ok := seen.(agentwire.DataDisksOutput)
	if !done || !ok || len(out.Disks) != 1 {
		t.Fatalf("looked and saw %+v", out)
	}
	return out.Disks[0]
}

// What is on a disk that was blank when the node joined, a tenant left.
func TestADiskThatWasBlankWhenTheNodeJoinedIsErased(t *testing.T) {
	b := newBench(t)
	spare(t, b, "S-1")
	p := agentwire.StorageCleanupParams{Scope: "local", Disks: "sanitize", BlankAtJoin: []string{"S-2"}}
	unknown := b.job(agentwire.TypeStorageCleanup, p).apply().(agentwire.StorageCleanupOutput)
	if len(unknown.Devices) != 1 || unknown.Devices[0].Outcome != agentwire.OutcomeRefused {
		t.Fatalf("a disk that was not known to be blank: %+v", unknown.Devices)
	}
	p.BlankAtJoin = []string{"S-1"}
	out := b.job(agentwire.TypeStorageCleanup, p).apply().(agentwire.StorageCleanupOutput)
	if d := out.Devices[0]; d.Outcome != agentwire.OutcomeSanitized || !d.Verified ||
		d.VerifiedBy != agentwire.VerifiedByZeroes || d.MountPoint != "" || len(out.Residue) != 0 {
		t.Fatalf("evidence %+v, residue %q", d, out.Residue)
	}
	if d := lookedAt(t, b); d.State != agentwire.DataDiskBlank {
		t.Errorf("afterwards it is %+v", d)
	}
	if v := validated(b); !v.Clean {
		t.Errorf("validation %+v", v)
	}
}

func TestDataDisksAreInitializedLater(t *testing.T) {
	b := newBench(t)
	disk := spare(t, b, "S-1")
	if d := lookedAt(t, b); d.State != agentwire.DataDiskHoldsData || d.Serial != "S-1" || d.Device != "/dev/sdb" {
		t.Fatalf("it is %+v", d)
	}
	initialize := func(destroy bool) agentwire.DataDisk {
		p := agentwire.DataDisksParams{Action: agentwire.DataDisksInitialize, Destroy: destroy}
		j := b.job(agentwire.TypeDataDisks, p)
		out := j.apply().(agentwire.DataDisksOutput)
		j.mustCheck(true)
		if len(out.Disks) != 1 {
			t.Fatalf("disks %+v", out.Disks)
		}
		return out.Disks[0]
	}
	if d := initialize(false); d.State != agentwire.DataDiskHoldsData || b.Exists("/share1") {
		t.Fatalf("a disk with data is touched without being asked to: %+v", d)
	}
	t.Cleanup(func() { looptest.Unmount(t, b.Path("/share1")) })
	b.Write("/etc/fstab", "UUID=1 / ext4 defaults 0 1")
	if d := initialize(true); d.State != agentwire.DataDiskInitialized || d.MountPoint != "/share1" {
		t.Fatalf("initialized %+v", d)
	}
	if !disk.Mounted(t, b.Root, "/share1") || b.Exists("/share1/x") {
		t.Error("it is not mounted")
	}
	table := b.Read("/etc/fstab")
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 2 ||
		lines[0] != "UUID=1 / ext4 defaults 0 1" || !strings.Contains(lines[1], " /share1 ext4 defaults,nofail") {
		t.Errorf("fstab %q", table)
	}
}

// After a reboot, another disk may have the name of one that the task had begun with.
func TestADiskIsNotTakenForTheOneThatHadItsNameBefore(t *testing.T) {
	b := newBench(t)
	spare(t, b, "S-1")
	b.job(agentwire.TypeStorageCleanup, agentwire.StorageCleanupParams{
		Scope: "local", Disks: "sanitize", BlankAtJoin: []string{"S-1"},
	}).apply()
	j := b.job(agentwire.TypeDataDisks, agentwire.DataDisksParams{Action: agentwire.DataDisksInitialize})
	first := j.apply().(agentwire.DataDisksOutput).Disks[0]
	looptest.Unmount(t, b.Path("/share1"))
	if first.State != agentwire.DataDiskInitialized {
		t.Fatalf("a blank disk: %+v", first)
	}
	made := b.Read("/etc/fstab")
	b.Write("/etc/fstab", "")
	b.Write("/sys/devices/pci0/ata1/block/sdb/device/serial", "S-2\n")
	other := j.apply().(agentwire.DataDisksOutput).Disks[0]
	if other.Serial != "S-2" || other.State != agentwire.DataDiskHoldsData || b.Read("/etc/fstab") != "" {
		looptest.Unmount(t, b.Path("/share1"))
		t.Errorf("a disk with data is touched without being asked to: %+v", other)
	}
	b.Write("/sys/devices/pci0/ata1/block/sdb/device/serial", "S-1\n")
	again := j.apply().(agentwire.DataDisksOutput).Disks[0]
	looptest.Unmount(t, b.Path("/share1"))
	if again.State != agentwire.DataDiskInitialized || b.Read("/etc/fstab") != made {
		t.Errorf("what was begun is not ended: %+v", again)
	}
}
