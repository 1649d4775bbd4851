package sanitize

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
)

// shown is a machine that shows disks without having any.
type shown struct {
	t    *testing.T
	root string
}

// disk adds a device to sysfs, at its place among the devices, with files.
func (s shown) disk(numbers, place string, files map[string]string) {
	s.t.Helper()
	dir := filepath.Join(s.root, "sys/devices", place)
	for name, content := range files {
		s.file(filepath.Join("sys/devices", place, name), content)
	}
	link := filepath.Join(s.root, "sys/dev/block", numbers)
	for _, err := range []error{os.MkdirAll(dir, 0o750), os.MkdirAll(filepath.Dir(link), 0o750), os.Symlink(dir, link)} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s shown) file(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

const ata = "pci0/ata1/host0/target0/0:0:0:0/block/"

// Disks that must not be touched are left alone, and the reason is given.
func TestDisksThatAreLeftAlone(t *testing.T) {
	t.Parallel()
	const share = "30 21 8:16 / /share1 rw - ext4 /dev/sdb rw"
	sdb := func(files map[string]string) func(shown) {
		return func(s shown) { s.disk("8:16", ata+"sdb", files) }
	}
	for name, c := range map[string]struct {
		mounts string
		build  func(shown)
		reason string
	}{
		"network":   {"30 21 0:40 / /share1 rw - nfs4 server:/x rw", func(shown) {}, "other machines"},
		"no device": {"30 21 0:41 / /share1 rw - tmpfs tmpfs rw", func(shown) {}, "no local block device"},
		"root disk": {
			"22 21 8:17 / /boot rw - ext4 /dev/sdb1 rw\n30 21 8:18 / /share1 rw - ext4 /dev/sdb2 rw",
			func(s shown) { sdbParts(s, nil) }, "sdb also carries /boot",
		},
		"bind mount":     {share + "\n31 21 8:16 /x /home/y rw - ext4 /dev/sdb rw", sdb(nil), "also carries /home/y"},
		"second mount":   {share + "\n31 21 8:16 / /mnt rw - ext4 /dev/sdb rw", sdb(nil), "also carries /mnt"},
		"stacked":        {share + "\n31 30 0:44 / /share1 rw - tmpfs t rw", sdb(nil), "more than one file system"},
		"mount in it":    {share + "\n31 30 0:44 / /share1/x rw - tmpfs t rw", sdb(nil), "/share1/x"},
		"a folder of it": {"30 21 8:16 /sub /share1 rw - ext4 /dev/sdb rw", sdb(nil), "only the folder /sub"},
		"system on LVM": {share + "\n31 21 252:0 / /var rw - xfs /dev/mapper/vg-var rw", func(s shown) {
			sdb(nil)(s)
			s.disk("252:0", "virtual/block/dm-0", nil)
			s.file("sys/devices/virtual/block/dm-0/slaves/x", "")
			_ = os.Remove(filepath.Join(s.root, "sys/devices/virtual/block/dm-0/slaves/x"))
			if err := os.Symlink(filepath.Join(s.root, "sys/devices", ata, "sdb"),
				filepath.Join(s.root, "sys/devices/virtual/block/dm-0/slaves/sdb")); err != nil {
				s.t.Fatal(err)
			}
		}, "also carries /var"},
		"member": {share, sdb(map[string]string{"holders/md0/x": ""}), "part of md0"},
		"part is member": {
			"30 21 8:18 / /share1 rw - ext4 /dev/sdb2 rw",
			func(s shown) { sdbParts(s, map[string]string{"holders/dm-3/x": ""}) }, "sdb1 is a part of dm-3",
		},
		"mapped": {
			"30 21 252:1 / /share1 rw - ext4 /dev/mapper/x rw",
			func(s shown) { s.disk("252:1", "virtual/block/dm-1", map[string]string{"slaves/sdb/x": ""}) }, "put together",
		},
		"RAID": {"30 21 9:0 / /share1 rw - ext4 /dev/md0 rw", func(s shown) {
			s.disk("9:0", "virtual/block/md0", map[string]string{"slaves/sdb/x": "", "slaves/sdc/x": ""})
		}, "sdb, sdc"},
		"iSCSI":         {share, func(s shown) { s.disk("8:16", "platform/host3/session1/target3/block/sdb", nil) }, "iscsi"},
		"fibre channel": {share, func(s shown) { s.disk("8:16", "pci0/host3/rport-1/target3/block/sdb", nil) }, "fc"},
		"NVMe by TCP": {"30 21 259:0 / /share1 rw - ext4 /dev/nvme0n1 rw", func(s shown) {
			s.disk("259:0", "virtual/nvme-fabrics/ctl/nvme0/nvme0n1", map[string]string{"device/transport": "tcp"})
		}, "nvme-tcp"},
		"read only":  {share, sdb(map[string]string{"ro": "1"}), "read only"},
		"partitions": {share, sdb(map[string]string{"sdb1/partition": "1"}), "has partitions"},
		"btrfs":      {"30 21 8:16 / /share1 rw - btrfs /dev/sdb rw", sdb(nil), "type btrfs"},
		"not there":  {"", func(shown) {}, "not mounted"},
		"no ext4":    {share, sdb(nil), "there is no ext4"},
	} {
		t.Run(name, func(t *testing.T) {
			s := shown{t: t, root: t.TempDir()}
			c.build(s)
			s.file("proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n"+c.mounts+"\n")
			s.file("etc/fstab", "UUID=x /share1 ext4 defaults 0 2\n/dev/vda / ext4 defaults 0 1\n")
			s.file("share1/x", "")
			s.file("dev/sdb", strings.Repeat("\x00", block))
			host := inspect.Machine{Host: hostexec.Host{Root: s.root}}
			mounts, err := host.Mounts()
			if err != nil {
				t.Fatal(err)
			}
			targets := Finder{Host: host.Host, Mounts: mounts, Table: host.FileTable()}.Targets(t.Context())
			if len(targets) != 1 || targets[0].Point != "/share1" || !strings.Contains(targets[0].Refused, c.reason) {
				t.Errorf("targets %+v, want %q", targets, c.reason)
			}
		})
	}
}

func sdbParts(s shown, first map[string]string) {
	files := map[string]string{"partition": "1"}
	for name, content := range first {
		files[name] = content
	}
	s.file("sys/devices/"+ata+"sdb/size", "4096")
	s.disk("8:17", ata+"sdb/sdb1", files)
	s.disk("8:18", ata+"sdb/sdb2", map[string]string{"partition": "2"})
}

func TestWhatADiskIs(t *testing.T) {
	s := shown{t: t, root: t.TempDir()}
	s.disk("259:0", "pci0/nvme/nvme0/nvme0n1", map[string]string{
		"device/serial": "S1 \n", "device/model": "Drive 7\x1b\n", "device/transport": "pcie\n", "wwid": "eui.01\n",
		"size": "8\n",
	})
	s.disk("259:1", "pci0/nvme/nvme0/nvme0n1/nvme0n1p3", map[string]string{"partition": "3\n"})
	s.disk("8:16", ata+"sdb", map[string]string{"device/vpd_pg80": "\x00\x80\x00\x04Z9K1", "device/model": "Spinner"})
	f := Finder{Host: hostexec.Host{Root: s.root}}
	for numbers, want := range map[string]Disk{
		"259:0": {
			Name: "nvme0n1", Node: "/dev/nvme0n1", Whole: "nvme0n1", Identity: "eui.01", Serial: "S1",
			Model: `Drive 7\x1b`, Transport: "nvme-pcie",
		},
		"259:1": {
			Name: "nvme0n1p3", Node: "/dev/nvme0n1p3", Whole: "nvme0n1", Identity: "eui.01 part 3", Serial: "S1",
			Model: `Drive 7\x1b`, Transport: "nvme-pcie", WholeBytes: 4096,
		},
		"8:16": {
			Name: "sdb", Node: "/dev/sdb", Whole: "sdb", Identity: "Z9K1", Serial: "Z9K1", Model: "Spinner",
			Transport: "ata",
		},
	} {
		want.Numbers = numbers
		if got, err := f.disk(numbers); err != nil || got != want {
			t.Errorf("%+v, %v, want\n%+v", got, err, want)
		}
		if err := f.Same(want); err != nil {
			t.Error(err)
		}
	}
	if err := f.Same(Disk{Numbers: "8:16", Name: "sdb", Serial: "other", Identity: "Z9K1"}); err == nil {
		t.Error("another disk is taken for the same")
	}
	if err := f.Same(Disk{Numbers: "8:32"}); err == nil {
		t.Error("a disk that is gone is taken for the same")
	}
}

func TestSharesAreOnlyThose(t *testing.T) {
	for point, want := range map[string]bool{
		"/share1": true, "/share12": true, "/share": false, "/share1/x": false,
		"/shares": false, "/mnt/share1": false, "/share1a": false,
	} {
		if IsShare(point) != want {
			t.Errorf("%s: %v", point, !want)
		}
	}
}

func TestFileSystemsThatCannotBeTold(t *testing.T) {
	super := make([]byte, block)
	for _, f := range []Filesystem{{Type: "ext4"}, {Type: "xfs"}, {Type: "btrfs"}, {Type: ""}} {
		if err := f.parse(super); err == nil {
			t.Errorf("%s is read from nothing", f.Type)
		}
	}
	binary.LittleEndian.PutUint16(super[1024+56:], 0xef53)
	if err := (&Filesystem{Type: "ext4"}).parse(super); err == nil {
		t.Error("an ext4 without blocks is read")
	}
}

func TestXFSComesBackWithItsNames(t *testing.T) {
	super := make([]byte, block)
	copy(super, "XFSB")
	copy(super[32:], "\x0f\x3a\x2c\x11\x5d\x2b\x4f\x6e\x9a\x7c\x11\x22\x33\x44\x55\x66")
	copy(super[108:], "gpuaas-s1")
	f := Filesystem{Type: "xfs"}
	if err := f.parse(super); err != nil {
		t.Fatal(err)
	}
	c := f.makeCommand("/dev/sdb")
	if want := []string{
		"-q", "-f", "-K", "-m", "uuid=" + diskUUID, "-L", diskLabel,
		"/dev/sdb",
	}; c.Program != "mkfs.xfs" || !slices.Equal(c.Args, want) {
		t.Errorf("%s %q", c.Program, c.Args)
	}
}

func TestOptionsOfMounts(t *testing.T) {
	flag, data := mountArguments(strings.Split("rw,nosuid,relatime,rw,seclabel,errors=remount-ro,stripe=8,stripe=8", ","))
	if flag != flags["nosuid"]|flags["relatime"] || data != "errors=remount-ro,stripe=8" {
		t.Errorf("%#x %q", flag, data)
	}
}

func FuzzFilesystem(f *testing.F) {
	f.Add("ext4", make([]byte, block))
	f.Fuzz(func(t *testing.T, kind string, super []byte) {
		if len(super) < block {
			return
		}
		fs := Filesystem{Type: kind}
		if fs.parse(super) == nil && len(fs.UUID) != 36 {
			t.Errorf("%+v", fs)
		}
	})
}
