package steps

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/sanitize/looptest"
	"gpuaas/contract/agentwire"
)

func TestCleanupOfDisks(t *testing.T) {
	b := newBench(t)
	looptest.Machine(t, b.Root)
	disk := looptest.New(t, 16<<20)
	disk.Ext4(t, "0f3a2c11-5d2b-4f6e-9a7c-112233445566", "gpuaas-s1")
	b.Write("/proc/self/mountinfo", "21 1 254:77 / / rw - ext4 /dev/root rw\n"+disk.Mount(t, b.Root, "/share1")+
		"\n31 21 0:40 / /share2 rw - nfs4 s:/x rw\n")
	b.Write("/share1/job/x", "tenant data")
	b.Write("/share2/of-everybody", "x")
	b.Write("/tmp/x", "x")
	if err := os.Chown(b.Path("/share1/job/x"), 20001, 20001); err != nil {
		t.Fatal(err)
	}
	if out := validated(b); out.Clean {
		t.Error("a file of a tenant on a disk is not found")
	}

	j := b.job(agentwire.TypeStorageCleanup,
		agentwire.StorageCleanupParams{Scope: "all", Disks: "sanitize", MinimumLevel: "purge", Scratch: []string{"/share2"}})
	out := j.apply().(agentwire.StorageCleanupOutput)
	if len(out.Devices) != 2 || out.Devices[0].Outcome != "refused" || out.Devices[1].Outcome != "refused" ||
		!b.Exists("/share1/job/x") || b.Exists("/tmp/x") || len(out.Residue) != 3 {
		t.Errorf("output %+v", out)
	}

	j = b.job(agentwire.TypeStorageCleanup, agentwire.StorageCleanupParams{Scope: "local", Disks: "sanitize"})
	out = j.apply().(agentwire.StorageCleanupOutput)
	j.mustCheck(true)
	d := out.Devices[0]
	if d.Outcome != "sanitized" || !d.Verified || !d.FilesystemRestored || d.Tool != "gpuaas-agent 1.0" ||
		!d.StartedAt.Equal(b.now) || d.SizeBytes != 16<<20 {
		t.Errorf("evidence %+v", d)
	}
	if b.Exists("/share1/job") || !b.Exists("/share2/of-everybody") || !disk.Mounted(t, b.Root, "/share1") {
		t.Error("the wrong disk was erased")
	}
	if len(out.Residue) != 1 || !strings.HasPrefix(out.Residue[0], "/share2: refused: a nfs4 file system") {
		t.Errorf("residue %q", out.Residue)
	}
	if !slices.ContainsFunc(j.steps.lines, func(
		l string,
	) bool {
		return strings.HasPrefix(l, "sanitize /share1 started erase: ")
	}) {
		t.Errorf("steps %q", j.steps.lines)
	}
	// Disks are not touched unless somebody asks for it.
	b.Write("/share1/new", "x")
	out = b.job(agentwire.TypeStorageCleanup, local()).apply().(agentwire.StorageCleanupOutput)
	if len(out.Devices) != 0 || !b.Exists("/share1/new") {
		t.Errorf("output %+v", out)
	}
}

// A disk that was unmounted and removed from /etc/fstab is not forgotten,
// neither by the cleanup nor by the validation.
func TestADiskThatNothingMountsKeepsANodeUnclean(t *testing.T) {
	b := newBench(t)
	disk := looptest.New(t, 4<<20)
	device := b.Path("/sys/devices/pci0/ata1/block/sdb")
	b.Write("/proc/self/mountinfo", "21 1 254:77 / / rw - ext4 /dev/root rw\n")
	b.Write("/sys/devices/pci0/ata1/block/sdb/dev", disk.Numbers+"\n")
	b.Write("/sys/devices/pci0/ata1/block/sdb/size", "8192\n")
	b.Write("/dev/x", "")
	var st unix.Stat_t
	if err := unix.Stat(disk.Node, &st); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(b.Path("/sys/block"), 0o750), os.MkdirAll(b.Path("/sys/dev/block"), 0o750),
		os.Symlink(device, b.Path("/sys/block/sdb")), os.Symlink(device, b.Path("/sys/dev/block/"+disk.Numbers)),
		unix.Mknod(b.Path("/dev/sdb"), unix.S_IFBLK|0o600, int(st.Rdev)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	params := agentwire.StorageCleanupParams{Scope: "local", Disks: "sanitize"}
	out := b.job(agentwire.TypeStorageCleanup, params).apply().(agentwire.StorageCleanupOutput)
	if len(out.Devices) != 1 || out.Devices[0].Outcome != agentwire.OutcomeRefused || len(out.Residue) != 1 ||
		!strings.HasPrefix(out.Residue[0], "/dev/sdb: refused: not mounted") {
		t.Errorf("output %+v", out)
	}
	if v := validated(b); v.Clean || v.Findings[0].Kind != "disks" || v.Findings[0].Subject != "/dev/sdb" {
		t.Errorf("validation %+v", v)
	}

	if err := os.WriteFile(disk.Backing, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out = b.job(agentwire.TypeStorageCleanup, params).apply().(agentwire.StorageCleanupOutput)
	if len(out.Devices) != 1 || out.Devices[0].Outcome != agentwire.OutcomeBlank || len(out.Residue) != 0 {
		t.Errorf("output %+v", out)
	}
	v := validated(b)
	if !v.Clean || !slices.ContainsFunc(v.Checked, func(c agentwire.CheckedKind) bool {
		return c.Kind == "disks" && c.Result == "clean" &&
			strings.Contains(c.Detail, "1 disks that are not mounted are blank")
	}) {
		t.Errorf("validation %+v", v)
	}
}
