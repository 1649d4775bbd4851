package firstboot_test

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bench is a machine whose disks are folders. The search path of the script
// holds nothing that could reach a real disk.
type bench struct {
	t              *testing.T
	state, bin     string
	fstab, records string
	mounts         string
}

//go:embed testdata/disk-stub.sh
var diskStub string

func newBench(t *testing.T) *bench {
	t.Helper()
	work := t.TempDir()
	b := &bench{
		t: t, state: filepath.Join(work, "state"), bin: filepath.Join(work, "bin"), fstab: filepath.Join(work, "fstab"),
		records: filepath.Join(work, "disks"), mounts: filepath.Join(work, "mnt"),
	}
	for _, d := range []string{b.state, b.bin, b.mounts} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"lsblk", "findmnt", "wipefs", "blkid", "mkfs.ext4", "mkfs.xfs", "mount", "mountpoint"} {
		if err := os.WriteFile(filepath.Join(b.bin, name), []byte(diskStub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"sh", "cat", "sed", "grep", "sort", "tr", "mv", "cp", "rm", "mkdir", "touch", "tail",
		"ls", "basename",
	} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(b.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.write(b.fstab, "UUID=root / ext4 defaults 0 1") // without an end of line
	b.write(filepath.Join(b.state, "root"), "/dev/nvme0n1p2")
	b.disk("nvme0n1", "part", "nvme0n1p1 nvme0n1p2", "tran", "nvme", "mount", "/boot/efi", "signature", "gpt")
	return b
}

func (b *bench) write(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// disk adds a disk with facts: part, tran, mount, signature, label, uuid, type, flags, kind.
func (b *bench) disk(name string, facts ...string) {
	b.t.Helper()
	folder := filepath.Join(b.state, "disk", name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(facts); i += 2 {
		b.write(filepath.Join(folder, facts[i]), facts[i+1]+"\n")
	}
}

func (b *bench) run(args ...string) (string, error) {
	b.t.Helper()
	script, err := filepath.Abs("scripts/disk-init.sh")
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.CommandContext(b.t.Context(), "/bin/sh", append([]string{script}, args...)...)
	cmd.Env = []string{"PATH=" + b.bin, "STUB_STATE=" + b.state}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (b *bench) init(args ...string) string {
	b.t.Helper()
	out, err := b.run(append(append([]string{"--destroy"}, args...), "ext4", b.fstab, b.mounts+"/", b.records)...)
	if err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	return out
}

// log returns everything that changed a disk since the last call.
func (b *bench) log() string {
	b.t.Helper()
	path := filepath.Join(b.state, "log")
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	b.write(path, "")
	return strings.ReplaceAll(string(text), b.mounts, "")
}

func (b *bench) expect(want ...string) {
	b.t.Helper()
	if got := strings.TrimSpace(b.log()); got != strings.Join(want, "\n") {
		b.t.Errorf("the script did\n%s\nand not\n%s", got, strings.Join(want, "\n"))
	}
}

func (b *bench) table() string {
	b.t.Helper()
	text, err := os.ReadFile(b.fstab)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), b.mounts, "")
}

func TestEmptyDisksBecomeShares(t *testing.T) {
	b := newBench(t)
	b.disk("nvme10n1", "tran", "nvme")
	b.disk("nvme2n1", "tran", "nvme")
	b.disk("sda", "tran", "sata")
	b.init()
	b.expect(
		"mkfs.ext4 -q -m 0 -L gpuaas-s1 /dev/nvme2n1", "mount /share1", "mkfs.ext4 -q -m 0 -L gpuaas-s2 /dev/nvme10n1",
		"mount /share2",
		"mkfs.ext4 -q -m 0 -L gpuaas-s3 /dev/sda", "mount /share3",
	)
	const options = " ext4 defaults,nofail,x-systemd.device-timeout=30s 0 2\n"
	want := "UUID=root / ext4 defaults 0 1\n" +
		"UUID=uuid-of-nvme2n1 /share1" + options + "UUID=uuid-of-nvme10n1 /share2" + options + "UUID=uuid-of-sda /share3" +
		options
	if got := b.table(); got != want {
		t.Errorf("fstab is\n%s", got)
	}
	for _, again := range [][]string{nil, {"--reformat"}} { // disks of this installation are always kept
		b.init(again...)
		b.expect()
	}
	if got := b.table(); got != want {
		t.Errorf("fstab is then\n%s", got)
	}

	// After a boot that did not mount, and with one more disk.
	if err := os.RemoveAll(filepath.Join(b.state, "mounted")); err != nil {
		t.Fatal(err)
	}
	b.disk("nvme1n1", "tran", "nvme")
	b.init("--reformat")
	b.expect("mount /share1", "mount /share2", "mount /share3", "wipefs -a /dev/nvme1n1",
		"mkfs.ext4 -q -m 0 -L gpuaas-s4 /dev/nvme1n1", "mount /share4")
}

// Disks that must not be touched, with what the script says about them.
func TestDisksThatAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		disk       string
		facts      []string
		says       string
		reformats  bool // --reformat gives it up
		reformatIs []string
	}{
		"root":       {"nvme0n1", nil, "root file system", false, nil},
		"mounted":    {"sdb", []string{"mount", "/data"}, "in use", false, nil},
		"swap":       {"sdb", []string{"mount", "[SWAP]"}, "in use", false, nil},
		"LVM":        {"sdb", []string{"kind", "lvm", "signature", "LVM2_member"}, "part of something else", false, nil},
		"RAID":       {"sdb", []string{"part", "sdb1", "kind", "raid1"}, "part of something else", false, nil},
		"removable":  {"sdb", []string{"flags", "1 0"}, "removable", false, nil},
		"read-only":  {"sdb", []string{"flags", "0 1"}, "read-only", false, nil},
		"USB":        {"sdb", []string{"tran", "usb"}, "attached by usb", false, nil},
		"iSCSI":      {"sdb", []string{"tran", "iscsi"}, "attached by iscsi", false, nil},
		"fabric":     {"sdb", []string{"tran", "fc"}, "attached by fc", false, nil},
		"compressed": {"zram0", nil, "no disk of the kinds", false, nil},
		"unreadable": {"sdb", []string{"broken", "yes"}, "holds data", true, []string{"wipefs -a /dev/sdb"}},
		"data": {
			"sdb",
			[]string{"signature", "ext4", "label", "photos"},
			"holds data", true,
			[]string{"wipefs -a /dev/sdb", "mkfs.ext4 -q -m 0 -L gpuaas-s1 /dev/sdb", "mount /share1"},
		},
		"partitions": {
			"sdb",
			[]string{"part", "sdb1 sdb2", "signature", "gpt"},
			"partitions", true,
			[]string{
				"wipefs -a /dev/sdb1", "wipefs -a /dev/sdb2", "wipefs -a /dev/sdb",
				"mkfs.ext4 -q -m 0 -L gpuaas-s1 /dev/sdb", "mount /share1",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.disk(c.disk, c.facts...)
			if out := b.init(); !strings.Contains(out, "/dev/"+c.disk+" is kept: ") || !strings.Contains(out, c.says) {
				t.Errorf("it says %s", out)
			}
			b.expect()
			if name == "unreadable" { // wipefs fails, and so does all
				if out, err := b.run("--destroy", "--reformat", "ext4", b.fstab, b.mounts, b.records); err == nil {
					t.Errorf("it says %s", out)
				}
			} else if out := b.init("--reformat"); strings.Contains(out, "/dev/"+c.disk+" is kept: ") == c.reformats {
				t.Errorf("with --reformat, it says %s", out)
			}
			b.expect(c.reformatIs...)
		})
	}
}

func TestSharesOfAnEarlierInstallation(t *testing.T) {
	old := []string{"label", "gpuaas-s2", "uuid", "old", "type", "ext4", "signature", "ext4"}
	t.Run("are kept", func(t *testing.T) {
		b := newBench(t)
		b.disk("sda")
		b.disk("sdb", old...)
		b.init()
		b.expect("mount /share2", "mkfs.ext4 -q -m 0 -L gpuaas-s1 /dev/sda", "mount /share1")
	})
	t.Run("are given up where data may be", func(t *testing.T) {
		b := newBench(t)
		b.disk("sdb", old...)
		b.init("--reformat")
		b.expect("wipefs -a /dev/sdb", "mkfs.ext4 -q -m 0 -L gpuaas-s1 /dev/sdb", "mount /share1")
	})
	t.Run("on a disk that is not meant", func(t *testing.T) {
		b := newBench(t)
		b.disk("sdb", append(old, "tran", "usb")...)
		b.init()
		b.expect()
	})
}

func TestDiskInitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bench)
		args    []string
		says    string
	}{
		"without destroy":     {nil, []string{"ext4", "F", "M", "R"}, "say --destroy"},
		"reformat alone":      {nil, []string{"--reformat", "ext4", "F", "M", "R"}, "say --destroy"},
		"without arguments":   {nil, []string{"--destroy", "ext4"}, "usage"},
		"another file system": {nil, []string{"--destroy", "ntfs", "F", "M", "R"}, "no file system"},
		"a root that is no disk": {
			func(b *bench) { b.write(filepath.Join(b.state, "root"), "rpool/ROOT/os") },
			[]string{"--destroy", "ext4", "F", "M", "R"},
			"cannot tell the disk",
		},
		"a root below no disk": {
			func(b *bench) { b.write(filepath.Join(b.state, "root"), "/dev/mapper/x") },
			[]string{"--destroy", "ext4", "F", "M", "R"},
			"cannot tell the disk",
		},
		"two with the same label": {func(b *bench) {
			b.disk("sdb", "label", "gpuaas-s1", "uuid", "a", "type", "ext4")
			b.disk("sdc", "label", "gpuaas-s1", "uuid", "b", "type", "ext4")
		}, []string{"--destroy", "ext4", "F", "M", "R"}, "two disks"},
		"a place that is taken": {
			func(b *bench) { b.write(b.fstab, "UUID=other "+b.mounts+"/share1 xfs defaults 0 2\n") },
			[]string{"--destroy", "ext4", "F", "M", "R"},
			"another disk",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.disk("sda")
			if c.prepare != nil {
				c.prepare(b)
			}
			for i, a := range c.args {
				if path, ok := map[string]string{"F": b.fstab, "M": b.mounts, "R": b.records}[a]; ok {
					c.args[i] = path
				}
			}
			if out, err := b.run(c.args...); err == nil || !strings.Contains(out, c.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
