package sanitize

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/sanitize/looptest"
	"gpuaas/contract/agentwire"
)

// listed adds a disk to the list of all.
func (s shown) listed(numbers, place string, files map[string]string) {
	s.t.Helper()
	all := map[string]string{"dev": numbers + "\n", "size": "8192\n"}
	for name, content := range files {
		all[name] = content
	}
	s.disk(numbers, place, all)
	s.list(place)
}

func (s shown) list(place string) {
	s.t.Helper()
	link := filepath.Join(s.root, "sys/block", filepath.Base(place))
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o750),
		os.Symlink(filepath.Join(s.root, "sys/devices", place), link)); err != nil {
		s.t.Fatal(err)
	}
}

// node gives the machine a real device under a name.
func (s shown) node(name string, l *looptest.Loop) {
	s.t.Helper()
	var st unix.Stat_t
	if err := errors.Join(os.MkdirAll(filepath.Join(s.root, "dev"), 0o750), unix.Stat(l.Node, &st)); err != nil {
		s.t.Fatal(err)
	}
	if err := unix.Mknod(filepath.Join(s.root, "dev", name), unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
		s.t.Fatal(err)
	}
}

func (s shown) finder(mounts string) Finder {
	s.t.Helper()
	s.file("proc/self/mountinfo", mounts)
	host := inspect.Machine{Host: hostexec.Host{Root: s.root}}
	list, err := host.Mounts()
	if err != nil {
		s.t.Fatal(err)
	}
	return Finder{Host: host.Host, Mounts: list, Table: host.FileTable()}
}

func zeroed(t *testing.T, size int64) *looptest.Loop {
	t.Helper()
	l := looptest.New(t, size)
	if err := os.WriteFile(l.Backing, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

const scsi = "pci0/ata2/host1/target1/1:0:0:0/block/"

func TestDisksThatNothingMountsAreNamed(t *testing.T) {
	s := shown{t: t, root: t.TempDir()}
	s.listed("254:0", "pci0/virtio1/block/vda", nil)
	s.listed("8:0", scsi+"sda", nil)
	s.disk("8:1", scsi+"sda/sda1", map[string]string{"partition": "1"})
	s.listed("8:16", scsi+"sdb", map[string]string{"ro": "1"})
	s.listed("8:32", scsi+"sdc", nil)
	s.listed("8:48", scsi+"sdd", nil)
	s.listed("8:64", "pci0/usb2/block/sde", map[string]string{"ro": "1"})
	s.listed("8:80", "pci0/usb2/block/sdf", map[string]string{"size": "0"})
	s.listed("8:96", "platform/host3/session1/target3/block/sdg", nil)
	s.listed("8:112", "pci0/0000:65:00.0/host4/target4:2:0/4:2:0:0/block/sdh", nil) // of a RAID controller
	s.listed("7:0", "virtual/block/loop0", nil)
	s.listed("252:0", "virtual/block/zram0", nil)
	s.listed("253:0", "virtual/block/dm-0", nil)
	s.listed("11:0", scsi+"sr0", nil)
	s.listed("259:0", "pci0/nvme/nvme0/nvme0n1", map[string]string{"device/transport": "pcie"})
	s.listed("259:1", "pci0/nvme/nvme0/nvme0c0n1", map[string]string{"device/transport": "pcie", "hidden": "1"})
	s.listed("259:2", "virtual/nvme-fabrics/ctl/nvme1/nvme1n1", map[string]string{"device/transport": "tcp"})
	s.listed("8:128", scsi+"sdi", nil)
	s.listed("8:144", scsi+"sdj", nil)
	if err := os.MkdirAll(filepath.Join(s.root, "sys/devices/virtual/block/dm-0/slaves"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.root, "sys/devices", scsi, "sdi"),
		filepath.Join(s.root, "sys/devices/virtual/block/dm-0/slaves/sdi")); err != nil {
		t.Fatal(err)
	}
	f := s.finder("21 1 254:0 / / rw - ext4 /dev/vda rw\n22 21 8:1 / /boot/efi rw - vfat /dev/sda1 rw\n23 21 8:32 / " +
		"/share1 rw - ext4 /dev/sdc rw\n" +
		"24 21 8:48 / /srv rw - ext4 /dev/sdd rw\n25 21 253:0 / /var rw - ext4 /dev/mapper/var rw\n")
	var got []string
	for _, u := range f.Unclaimed([]Target{{Disk: Disk{Whole: "sdj"}}}) {
		got = append(got, u.Disk.Name)
		if mounted := u.Disk.Name == "sdd"; mounted != (u.Refused != "") || mounted && !strings.Contains(u.Refused, "/srv") {
			t.Errorf("%s: refused %q", u.Disk.Name, u.Refused)
		}
	}
	if want := "nvme0n1 sdb sdd sdh"; strings.Join(got, " ") != want {
		t.Errorf("unclaimed %q, want %q", got, want)
	}
	s.file("proc/self/uid_map", "         0          0 4294967295\n")
	if len(f.Unclaimed(nil)) == 0 {
		t.Error("a machine that is no container has no disks")
	}
	s.file("proc/self/uid_map", "         0    1000000 1000000000\n")
	if all := f.Unclaimed(nil); len(all) > 0 {
		t.Errorf("a container has the disks %+v", all)
	}
}

// A tenant with root unmounts a disk and removes it from /etc/fstab, or writes
// to one that was never mounted.
func TestADiskThatIsNotMountedIsLookedAtAndNotErased(t *testing.T) {
	t.Parallel()
	const size = 8 * mebi
	for name, c := range map[string]struct {
		write   int64 // where there is something; negative: nowhere
		outcome string
		reason  string
	}{
		"blank": {-1, agentwire.OutcomeBlank, "zero"},
		"at the start": {
			0, agentwire.OutcomeRefused,
			"not mounted: not erased, and it is not blank: what is at 0 is not zero",
		},
		"in the middle": {5*mebi + 17, agentwire.OutcomeRefused, "what is at 5242880 is not zero"},
		"at the end":    {size - 1, agentwire.OutcomeRefused, "not blank"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			l := zeroed(t, size)
			s := shown{t: t, root: m.root}
			if err := os.Remove(filepath.Join(m.root, "sys")); err != nil {
				t.Fatal(err)
			}
			s.listed(l.Numbers, scsi+"sdb", map[string]string{"device/model": "Spinner", "serial": "Z1"})
			s.file("proc/self/uid_map", "")
			s.file("etc/fstab", "")
			s.node("sdb", l)
			if c.write >= 0 {
				f, err := os.OpenFile(l.Node, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				_, err = f.WriteAt([]byte("x"), c.write)
				if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			cleaner := m.cleaner("")
			cleaner.Mounts = cleaner.Mounts[:1]
			before, err := os.ReadFile(l.Backing)
			if err != nil {
				t.Fatal(err)
			}
			e := m.run(cleaner)
			has(t, e.Reason, c.reason)
			blank := c.outcome == agentwire.OutcomeBlank
			if e.Outcome != c.outcome || e.Verified != blank || e.Device != "/dev/sdb" || e.MountPoint != "" ||
				e.Serial != "Z1" || e.SizeBytes != size ||
				e.SamplesRead != 8 || e.SampleBytes != size || e.Level != "" || e.Method != "" ||
				(e.VerifiedBy == agentwire.VerifiedByZeroes) != blank {
				t.Errorf("evidence %+v", e)
			}
			if after, err := os.ReadFile(l.Backing); err != nil || string(after) != string(before) {
				t.Errorf("the disk was written to (%v)", err)
			}
			if again := m.run(cleaner); again != e {
				t.Errorf("again %+v", again)
			}
		})
	}
}

func TestADiskThatCannotBeReadIsNotBlank(t *testing.T) {
	s := shown{t: t, root: t.TempDir()}
	s.listed("8:16", scsi+"sdb", nil)
	f := s.finder("21 1 254:0 / / rw - ext4 /dev/vda rw\n")
	all := f.Unclaimed(nil)
	if len(all) != 1 {
		t.Fatalf("unclaimed %+v", all)
	}
	e := f.Judge(t.Context(), all[0], "", func() time.Time { return noon })
	has(t, e.Reason, "could not be looked at")
	if e.Outcome != agentwire.OutcomeRefused || e.Verified {
		t.Errorf("evidence %+v", e)
	}
}

// Evidence about a partition is not evidence about its disk.
func TestAPartitionIsErasedOnlyWhenTheRestOfItsDiskIsBlank(t *testing.T) {
	t.Parallel()
	for name, blank := range map[string]bool{"blank": true, "not blank": false} {
		t.Run(name, func(t *testing.T) {
			s := shown{t: t, root: t.TempDir()}
			data, other := looptest.New(t, 16*mebi), zeroed(t, 4*mebi)
			data.Ext4(t, diskUUID, diskLabel)
			if !blank {
				other = looptest.New(t, 4*mebi)
			}
			s.file("sys/devices/"+scsi+"sdb/size", "2097152\n")
			s.disk(data.Numbers, scsi+"sdb/sdb1", map[string]string{"partition": "1", "dev": data.Numbers})
			s.disk(other.Numbers, scsi+"sdb/sdb2", map[string]string{"partition": "2", "dev": other.Numbers})
			s.list(scsi + "sdb")
			s.node("sdb1", data)
			s.node("sdb2", other)
			s.file("share1/x", "")
			targets := s.finder("21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 " + data.Numbers +
				" / /share1 rw - ext4 /dev/sdb1 rw\n").Targets(t.Context())
			if len(targets) != 1 || (targets[0].Refused == "") != blank || !blank &&
				!strings.Contains(targets[0].Refused, "sdb2, which is not mounted and not blank") {
				t.Fatalf("targets %+v", targets)
			}
			if e := targets[0].Evidence(""); e.WholeBytes != 1<<30 {
				t.Errorf("evidence %+v", e)
			}
		})
	}
}
