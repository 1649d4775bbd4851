package operation

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

// place is a file in a folder that is held open, so that nobody can exchange
// the folder meanwhile.
type place struct {
	folder *os.File
	name   string
	path   string // for messages
}

func (p place) close() { _ = p.folder.Close() }

// noLinks lets the kernel follow nothing on the way to a file.
const noLinks = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// errDenied says that a file is not to be touched.
var errDenied = errors.New("path denied")

// reach opens the folder of a file. It follows no symbolic link, and goes
// through no folder that somebody other than root can change. If create is true,
// it makes the folders that are missing.
func reach(h hostexec.Host, file string, create bool) (place, error) {
	at, err := os.OpenFile(h.Path("/"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return place{}, fmt.Errorf("open the root of the machine: %w", err)
	}
	dir, name := path.Split(file)
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		next, err := enter(at, part, create)
		_ = at.Close()
		if err != nil {
			return place{}, fmt.Errorf("folder %s of %s: %w", part, file, err)
		}
		at = next
	}
	return place{folder: at, name: name, path: file}, nil
}

func enter(at *os.File, name string, create bool) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: noLinks}
	fd, err := unix.Openat2(int(at.Fd()), name, how)
	if errors.Is(err, unix.ENOENT) && create {
		if err := unix.Mkdirat(int(at.Fd()), name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("make it: %w", err)
		}
		fd, err = unix.Openat2(int(at.Fd()), name, how)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("it is a symbolic link or not a folder: %w", errDenied)
	case err != nil:
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil {
		err = trusted(info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// trusted refuses folders that others than root can change: they could
// exchange what is in them at any moment.
func trusted(info fs.FileInfo) error {
	st, ok := info.Sys().(*unixStat)
	if !ok {
		return errors.New("its owner cannot be seen")
	}
	if int(st.Uid) != 0 && int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others than root can change it: %w", errDenied)
	}
	return nil
}

// content is what is at a place.
type content struct {
	exists   bool
	bytes    []byte
	uid, gid int
	mode     os.FileMode
}

// open opens what is at the place for reading. What is no ordinary file is refused;
// what is not there is fs.ErrNotExist.
func (p place) open() (*os.File, *unixStat, error) {
	fd, err := unix.Openat2(int(p.folder.Fd()), p.name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: noLinks,
	})
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, nil, fmt.Errorf("%s is a symbolic link: %w", p.path, errDenied)
	case err != nil:
		return nil, nil, fmt.Errorf("open %s: %w", p.path, err)
	}
	return ordinary(os.NewFile(uintptr(fd), p.path))
}

// ordinary closes a file and refuses it, unless it is an ordinary one with one name.
func ordinary(f *os.File) (*os.File, *unixStat, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("look at %s: %w", f.Name(), err), f.Close())
	}
	st, ok := info.Sys().(*unixStat)
	if !ok || !info.Mode().IsRegular() || st.Nlink > 1 {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s is not an ordinary file, or has several names: %w", f.Name(), errDenied)
	}
	return f, st, nil
}

// read returns what is at the place.
func (p place) read() (content, error) {
	f, st, err := p.open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{}, nil
	case err != nil:
		return content{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 4*agentwire.MaxFileBytes+1))
	if err != nil {
		return content{}, fmt.Errorf("read %s: %w", p.path, err)
	}
	if len(raw) > 4*agentwire.MaxFileBytes {
		return content{}, fmt.Errorf("%s is larger than a step replaces: %w", p.path, errDenied)
	}
	return content{exists: true, bytes: raw, uid: int(st.Uid), gid: int(st.Gid), mode: permissions(st)}, nil
}

func permissions(st *unixStat) os.FileMode { return os.FileMode(st.Mode & 0o777) }

// beside opens a file of the step's own next to the place, which outlives the step. One
// that was given to another account already, by a step that died then, is begun anew:
// that account may have it open.
func (p place) beside(suffix string) (*os.File, error) {
	f, st, err := p.openBeside(suffix, 0)
	if err != nil || int(st.Uid) == os.Geteuid() {
		return f, err
	}
	_ = f.Close()
	if err := p.dropBeside(suffix); err != nil {
		return nil, err
	}
	f, _, err = p.openBeside(suffix, unix.O_EXCL)
	return f, err
}

func (p place) openBeside(suffix string, more uint64) (*os.File, *unixStat, error) {
	name := p.ownName(suffix)
	fd, err := unix.Openat2(int(p.folder.Fd()), name, &unix.OpenHow{
		Flags: unix.O_RDWR | unix.O_CREAT | unix.O_NONBLOCK | unix.O_CLOEXEC | more, Mode: 0o600, Resolve: noLinks,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open %s beside %s: %w", name, p.path, err)
	}
	return ordinary(os.NewFile(uintptr(fd), name))
}

func (p place) ownName(suffix string) string { return ".gpuaas-" + p.name + suffix }

// putInPlace makes a file beside the place the one at the place.
func (p place) putInPlace(suffix string) error {
	if err := unix.Renameat(int(p.folder.Fd()), p.ownName(suffix), int(p.folder.Fd()), p.name); err != nil {
		return fmt.Errorf("rename what was written to %s: %w", p.path, err)
	}
	return p.sync()
}

// dropBeside removes a file beside the place.
func (p place) dropBeside(suffix string) error {
	err := unix.Unlinkat(int(p.folder.Fd()), p.ownName(suffix), 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s beside %s: %w", p.ownName(suffix), p.path, err)
	}
	return nil
}

// write replaces the file. A reader finds either the old content or the new
// one, with its owner and mode.
func (p place) write(c content) error {
	temporary := p.ownName("")
	if err := p.dropBeside(""); err != nil {
		return err
	}
	fd, err := unix.Openat2(int(p.folder.Fd()), temporary, &unix.OpenHow{
		Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC, Mode: 0o600, Resolve: noLinks,
	})
	if err != nil {
		return fmt.Errorf("write beside %s: %w", p.path, err)
	}
	f := os.NewFile(uintptr(fd), temporary)
	_, err = f.Write(c.bytes)
	if os.Geteuid() == 0 {
		err = errors.Join(err, f.Chown(c.uid, c.gid))
	}
	if err = errors.Join(err, f.Chmod(c.mode), f.Sync(), f.Close()); err == nil {
		err = p.putInPlace("")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", p.path, err), p.dropBeside(""))
	}
	return nil
}

func (p place) remove() error {
	if err := unix.Unlinkat(int(p.folder.Fd()), p.name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", p.path, err)
	}
	return p.sync()
}

// sync makes the names in the folder survive a loss of power.
func (p place) sync() error {
	fd, err := unix.Openat2(int(p.folder.Fd()), ".", &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: noLinks,
	})
	if err != nil {
		return fmt.Errorf("open folder of %s: %w", p.path, err)
	}
	f := os.NewFile(uintptr(fd), filepath.Dir(p.path))
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync folder of %s: %w", p.path, err)
	}
	return nil
}
