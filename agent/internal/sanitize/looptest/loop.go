// Package looptest gives tests real block devices over files, and fake machines
// that have them as data disks. It needs root.
package looptest

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/testkit"
)

// Loop is a loop device.
type Loop struct {
	Name    string
	Node    string
	Numbers string // major:minor
	Backing string // the file beneath it
}

const mebi = 1 << 20

// New attaches a file of random bytes until the end of the test.
func New(t testing.TB, size int64) *Loop {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	random := make([]byte, mebi)
	for at := int64(0); at < size; at += mebi {
		_, _ = rand.Read(random) // never fails
		if _, err := f.WriteAt(random[:min(mebi, size-at)], at); err != nil {
			t.Fatal(err)
		}
	}
	name := "loop" + strconv.Itoa(attach(t, f))
	numbers, err := os.ReadFile("/sys/block/" + name + "/dev")
	if err != nil {
		t.Fatal(err)
	}
	return &Loop{Name: name, Node: "/dev/" + name, Numbers: strings.TrimSpace(string(numbers)), Backing: path}
}

// attach takes a free loop device; somebody else may want the same one.
func attach(t testing.TB, backing *os.File) int {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("this test needs root and loop devices: %v", err)
	}
	defer control.Close()
	for range 100 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			t.Fatalf("no free loop device: %v", err)
		}
		dev, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		config := unix.LoopConfig{Fd: uint32(backing.Fd())} //nolint:gosec // descriptors are small
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, dev.Fd(), unix.LOOP_CONFIGURE, uintptr(unsafe.Pointer(&config)))
		if errno == unix.EBUSY {
			_ = dev.Close()
			continue
		}
		if errno != 0 {
			t.Fatal(errno)
		}
		t.Cleanup(func() {
			if err := errors.Join(unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0), dev.Close()); err != nil {
				t.Error(err)
			}
		})
		return n
	}
	t.Fatal("somebody takes every loop device")
	return 0
}

// Resize makes the device as large as its file is now.
func (l *Loop) Resize(t testing.TB, size int64) {
	t.Helper()
	if err := os.Truncate(l.Backing, size); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(l.Node, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		t.Fatal(err)
	}
}

// Ext4 makes a file system on the device.
func (l *Loop) Ext4(t testing.TB, uuid, label string) {
	t.Helper()
	_, err := hostexec.Host{}.Do(t.Context(),
		hostexec.Command{Program: "mkfs.ext4", Args: []string{"-q", "-F", "-m", "0", "-U", uuid, "-L", label, l.Node}})
	if err != nil {
		t.Fatal(err)
	}
}

// Machine prepares the folder of a fake machine for disks: with the sysfs of
// this machine, as in a container, and its programs that create file systems.
func Machine(t testing.TB, root string) {
	t.Helper()
	for link, to := range map[string]string{"sys": "/sys", "usr/sbin/mkfs.ext4": "/usr/sbin/mkfs.ext4"} {
		path := filepath.Join(root, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.Symlink(to, path)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "dev"), 0o750),
		os.MkdirAll(filepath.Join(root, "proc/self"), 0o750)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/self/uid_map"), []byte("0 1000000 1000000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Mount gives a fake machine the device, with its file system mounted. At the
// end of the test whatever is mounted there is unmounted. Mount returns the
// line of mountinfo as the machine would see it.
func (l *Loop) Mount(t testing.TB, root, point string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(l.Node, &st); err != nil {
		t.Fatal(err)
	}
	node, at := filepath.Join(root, l.Node), filepath.Join(root, point)
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(st.Rdev)); err != nil { //nolint:gosec // as the system call wants it
		t.Fatal(err)
	}
	if err := os.MkdirAll(at, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(node, at, "ext4", unix.MS_NOATIME|unix.MS_NODEV, ""); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	t.Cleanup(func() {
		if l.Mounted(t, root, point) {
			Unmount(t, at)
		}
	})
	return "90 21 " + l.Numbers + " / " + point + " rw,nodev,noatime - ext4 " + l.Node + " rw"
}

// Unmount asks for up to a minute: a program that another test starts at this
// moment has what this process had open, until it is executed.
func Unmount(t testing.TB, at string) {
	t.Helper()
	testkit.Succeeds(t, "unmount "+at, testkit.Patience, func() error { return unix.Unmount(at, 0) })
}

// Mounted says whether the device is mounted there.
func (l *Loop) Mounted(t testing.TB, root, point string) bool {
	t.Helper()
	var at, dev unix.Stat_t
	if err := errors.Join(unix.Stat(filepath.Join(root, point), &at), unix.Stat(l.Node, &dev)); err != nil {
		t.Fatal(err)
	}
	return at.Dev == dev.Rdev
}
