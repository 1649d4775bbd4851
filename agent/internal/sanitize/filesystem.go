package sanitize

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
)

// Filesystem is what is needed to create the same file system again, empty.
type Filesystem struct {
	Type      string   `json:"type"`
	UUID      string   `json:"uuid"`
	Label     string   `json:"label"`
	BlockSize int      `json:"block_size,omitempty"` // of ext4
	Reserved  float64  `json:"reserved,omitempty"`   // of ext4, in percent
	Options   []string `json:"options"`
	Mode      uint32   `json:"mode"` // of its top folder
	UID       int      `json:"uid"`
	GID       int      `json:"gid"`
}

func examineFilesystem(h hostexec.Host, m inspect.Mount, d Disk) (Filesystem, error) {
	f := Filesystem{Type: m.Type, Options: m.Options}
	info, err := os.Lstat(h.Path(m.Point))
	if err != nil {
		return f, fmt.Errorf("look at its top folder: %w", bare(err))
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return f, errors.New("its top folder has no owner")
	}
	f.Mode, f.UID, f.GID = st.Mode&0o7777, int(st.Uid), int(st.Gid)
	device, err := os.Open(h.Path(d.Node))
	if err != nil {
		return f, fmt.Errorf("open device: %w", bare(err))
	}
	defer device.Close()
	super := make([]byte, block)
	if _, err := device.ReadAt(super, 0); err != nil {
		return f, fmt.Errorf("read file system: %w", bare(err))
	}
	return f, f.parse(super)
}

// parse reads the first block of a file system.
func (f *Filesystem) parse(super []byte) error {
	switch f.Type {
	case "ext4":
		return f.parseExt4(super[1024:])
	case "xfs":
		if string(super[:4]) != "XFSB" {
			return errors.New("there is no xfs on the device")
		}
		f.UUID, f.Label = uuid(super[32:48]), name(super[108:120])
		return nil
	default:
		return fmt.Errorf("a file system of type %s could not be made anew as it was", f.Type)
	}
}

func (f *Filesystem) parseExt4(super []byte) error {
	if binary.LittleEndian.Uint16(super[56:]) != 0xef53 {
		return errors.New("there is no ext4 on the device")
	}
	count := func(low, high int) float64 {
		n := uint64(binary.LittleEndian.Uint32(super[low:]))
		if binary.LittleEndian.Uint32(super[96:])&0x80 != 0 { // 64bit
			n |= uint64(binary.LittleEndian.Uint32(super[high:])) << 32
		}
		return float64(n)
	}
	shift := binary.LittleEndian.Uint32(super[24:])
	blocks := count(4, 336)
	if shift > 6 || blocks == 0 {
		return errors.New("the ext4 on the device makes no sense")
	}
	f.BlockSize = 1024 << shift
	f.Reserved = math.Round(count(8, 340)/blocks*1000) / 10
	f.UUID, f.Label = uuid(super[104:120]), name(super[120:136])
	return nil
}

func uuid(p []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", p[:4], p[4:6], p[6:8], p[8:10], p[10:16])
}

func name(p []byte) string {
	p, _, _ = bytes.Cut(p, []byte{0})
	return string(p)
}

// makeCommand returns the program that creates the file system.
func (f *Filesystem) makeCommand(node string) hostexec.Command {
	c := hostexec.Command{Program: "mkfs." + f.Type, Timeout: 30 * time.Minute}
	switch f.Type {
	case "xfs":
		c.Args = []string{"-q", "-f", "-K", "-m", "uuid=" + f.UUID}
		if f.Label != "" {
			c.Args = append(c.Args, "-L", f.Label)
		}
	default:
		c.Args = []string{
			"-q", "-F", "-E", "nodiscard", "-b", strconv.Itoa(f.BlockSize),
			"-m", strconv.FormatFloat(f.Reserved, 'f', -1, 64), "-U", f.UUID, "-L", f.Label,
		}
	}
	c.Args = append(c.Args, node)
	return c
}

// make creates the file system. If an earlier agent was killed, a program that
// it started may still be running; nobody else can use the device until it
// ends.
func (f *Filesystem) make(ctx context.Context, h hostexec.Host, d Disk) (err error) {
	for range 3 {
		if err = awaitFree(ctx, h.Path(d.Node), d); err != nil {
			return err
		}
		_, err = h.Do(ctx, f.makeCommand(h.Path(d.Node)))
		if err == nil || ctx.Err() != nil || errors.Is(err, hostexec.ErrNoProgram) {
			return err
		}
	}
	return err
}

// patience is how long to wait for such a program to release the device.
const patience = 2 * time.Minute

func awaitFree(ctx context.Context, path string, d Disk) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		dev, err := Open(path, d)
		if err == nil {
			return dev.Close()
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-bounded.Done():
			return err
		case <-tick.C:
		}
	}
}

// flags of mount(2), by their names in mountinfo.
var flags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"sync":    unix.MS_SYNCHRONOUS,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME,
	"dirsync":     unix.MS_DIRSYNC, "lazytime": unix.MS_LAZYTIME,
}

// shownOnly lists options that the kernel shows but does not accept.
var shownOnly = []string{"rw", "seclabel", "nosymfollow"}

func mountArguments(options []string) (flag uintptr, data string) {
	var rest []string
	for _, o := range options {
		if f, ok := flags[o]; ok {
			flag |= f
		} else if !slices.Contains(shownOnly, o) && !slices.Contains(rest, o) {
			rest = append(rest, o)
		}
	}
	return flag, strings.Join(rest, ",")
}

// Unmount unmounts the file system of a target. It is no error if it is not
// mounted at its point.
func Unmount(h hostexec.Host, t Target) error {
	var st unix.Stat_t
	point := h.Path(t.Point)
	if err := unix.Lstat(point, &st); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look at mount point: %w", err)
	}
	if t.Disk.Numbers != fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)) {
		return nil
	}
	// A program that the agent starts at this moment has what the agent had open
	// until it is executed: a file system is in use if it still is a second later.
	err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW)
	for began := time.Now(); errors.Is(err, unix.EBUSY) && time.Since(began) < time.Second; {
		time.Sleep(20 * time.Millisecond) // the kernel tells nobody when a file system is free
		err = unix.Unmount(point, unix.UMOUNT_NOFOLLOW)
	}
	if errors.Is(err, unix.EBUSY) {
		return errors.New("the file system is in use: end the processes that use it")
	}
	if err != nil {
		return fmt.Errorf("unmount: %w", err)
	}
	return nil
}

// Remount mounts the file system of a target again, as it was.
func Remount(h hostexec.Host, t Target) error {
	flag, data := mountArguments(t.Filesystem.Options)
	source, point := h.Path(t.Disk.Node), h.Path(t.Point)
	err := unix.Mount(source, point, t.Filesystem.Type, flag, data)
	if errors.Is(err, unix.EINVAL) && data != "" {
		// An option that the kernel shows but does not accept must not leave
		// the disk unmounted.
		err = unix.Mount(source, point, t.Filesystem.Type, flag, "")
	}
	if err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// Restore creates the file system of a target again and mounts it. foreign says
// which owners of its top folder do not return.
func Restore(ctx context.Context, h hostexec.Host, t Target, foreign func(uid int) bool) error {
	f := t.Filesystem
	if err := f.make(ctx, h, t.Disk); err != nil {
		return fmt.Errorf("make file system: %w", err)
	}
	if err := Remount(h, t); err != nil {
		return err
	}
	if foreign(f.UID) {
		f.UID, f.GID, f.Mode = 0, 0, 0o755
	}
	point := h.Path(t.Point)
	// Chmod comes last: a change of the owner clears special bits.
	if err := os.Lchown(point, f.UID, f.GID); err != nil {
		return fmt.Errorf("give top folder its owner: %w", err)
	}
	if err := unix.Chmod(point, f.Mode); err != nil {
		return fmt.Errorf("give top folder its mode: %w", err)
	}
	return nil
}
