package sanitize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/atomicfile"
)

// wiped is how much is zeroed at both ends of a disk: tables of partitions and
// what volume managers write lie there.
const wiped = 1 << 20

// NewShare is the file system that makes a data disk of a disk.
func NewShare(number int, uuid string) Filesystem {
	return Filesystem{
		Type: "ext4", UUID: uuid, Label: fmt.Sprintf("gpuaas-s%d", number), BlockSize: block, Options: []string{"rw"},
		Mode: 0o755,
	}
}

// Initialize makes a data disk of a disk that nothing uses, which DESTROYS what is
// on it: it creates the file system of the target, enters it into /etc/fstab and
// mounts it. It may be repeated for the same target.
func (f Finder) Initialize(ctx context.Context, t Target) error {
	if err := errors.Join(f.Same(t.Disk), f.Erasable(t.Disk), Unmount(f.Host, t)); err != nil {
		return err
	}
	if err := f.wipeEnds(t.Disk); err != nil {
		return err
	}
	if err := os.MkdirAll(f.Host.Path(t.Point), 0o755); err != nil { //nolint:gosec // users go through it
		return fmt.Errorf("make mount point: %w", err)
	}
	if err := Restore(ctx, f.Host, t, func(int) bool { return false }); err != nil {
		return err
	}
	return f.enter(t)
}

// wipeEnds removes what tells the kernel of partitions, and makes it forget them.
func (f Finder) wipeEnds(d Disk) error {
	dev, err := Open(f.Host.Path(d.Node), d)
	if err != nil {
		return err
	}
	if dev.Size() < smallest {
		return errors.Join(fmt.Errorf("it has only %d bytes", dev.Size()), dev.Close())
	}
	err = errors.Join(dev.Zero(0, wiped), dev.Zero(dev.Size()-wiped, wiped), dev.Settle())
	if parts, _ := filepath.Glob(f.Host.Path("/sys/block/" + d.Name + "/*/partition")); err == nil && len(parts) > 0 {
		err = unix.IoctlSetInt(dev.fd(), unix.BLKRRPART, 0)
	}
	if err != nil {
		err = fmt.Errorf("wipe the ends of the disk: %w", err)
	}
	return errors.Join(err, dev.Close())
}

// enter makes the data disk come back at every boot. A machine starts without it
// if it is gone.
func (f Finder) enter(t Target) error {
	const table = "/etc/fstab"
	raw := text(f.Host.Path(table))
	line := fmt.Sprintf("UUID=%s %s %s defaults,nofail,x-systemd.device-timeout=30s 0 2\n", t.Filesystem.UUID, t.Point,
		t.Filesystem.Type)
	if strings.Contains(raw, line) {
		return nil
	}
	if raw != "" && !strings.HasSuffix(raw, "\n") {
		raw += "\n"
	}
	if err := atomicfile.Write(f.Host.Path(table), []byte(raw+line), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", table, err)
	}
	return nil
}
