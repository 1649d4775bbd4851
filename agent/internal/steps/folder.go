package steps

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gpuaas/agent/internal/hostexec"
)

var (
	errLink  = errors.New("it is a symbolic link or not a folder")
	errMount = errors.New("it is a mount point")
)

// openFolder opens a folder of the machine without following any symbolic link
// on the way: tenants may have put links there.
func openFolder(h hostexec.Host, path string) (*os.Root, error) {
	at, err := os.OpenRoot(h.Path("/"))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", h.Path("/"), err)
	}
	for part := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		next, err := openChild(at, part)
		_ = at.Close()
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		at = next
	}
	return at, nil
}

// openChild opens a folder in a folder. Somebody may exchange it between the
// check and the opening, so it makes sure that both saw the same folder.
func openChild(at *os.Root, name string) (*os.Root, error) {
	seen, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, fmt.Errorf("%s: %w", name, errLink)
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = fmt.Errorf("%s: %w", name, errLink)
	}
	if err != nil {
		_ = next.Close()
		return nil, err
	}
	return next, nil
}

// maxDepth limits how many folders are open at the same time. Deeper ones are
// moved to the top first.
const maxDepth = 64

// sweeper removes what is in a folder. It follows no symbolic links and enters
// no other file system.
type sweeper struct {
	top     *os.Root
	name    string // of the folder, for messages
	device  uint64
	mount   string
	keep    func(name string, info fs.FileInfo) bool // entries at the top that stay; nil keeps none
	stop    func() error
	raised  int // folders moved to the top
	crowded int // folders read in more than one batch
	entries int64
	bytes   int64
	residue []string
}

// sweep empties the folder.
func (s *sweeper) sweep() error {
	info, err := s.top.Stat(".")
	if err != nil {
		return fmt.Errorf("look at %s: %w", s.name, err)
	}
	s.device, s.mount = stat(info).Dev, ""
	for {
		raised, crowded, before := s.raised, s.crowded, s.entries
		s.residue = nil
		if err := s.empty(s.top, ".", 0); err != nil {
			return err
		}
		// Repeat while rounds help: for folders that were moved to the top, and
		// for entries that a folder did not show because it changed while it
		// was read.
		if s.raised == raised && s.crowded == crowded || s.entries == before {
			return nil
		}
	}
}

func (s *sweeper) empty(at *os.Root, path string, depth int) error {
	folder, mount, err := openList(at)
	if err != nil {
		s.left(path, err)
		return nil
	}
	defer folder.Close()
	if depth == 0 {
		s.mount = mount
	}
	if mount != s.mount {
		s.left(path, errMount)
		return nil
	}
	for n := 1; ; n++ {
		entries, err := folder.ReadDir(batch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			s.left(path, err)
			return nil
		}
		if n == 2 {
			s.crowded++
		}
		if err := s.removeAll(at, path, entries, depth); err != nil {
			return err
		}
	}
}

func (s *sweeper) removeAll(at *os.Root, path string, entries []fs.DirEntry, depth int) error {
	for _, e := range entries {
		if err := s.stop(); err != nil {
			return err
		}
		info, err := at.Lstat(e.Name())
		if err != nil || depth == 0 && s.keep != nil && s.keep(e.Name(), info) {
			continue // it went away by itself, or it stays
		}
		if err := s.remove(at, filepath.Join(path, e.Name()), info, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeper) remove(at *os.Root, path string, info fs.FileInfo, depth int) error {
	if stat(info).Dev != s.device {
		s.left(path, errMount)
		return nil
	}
	if info.IsDir() {
		if depth == maxDepth {
			s.raise(path)
			return nil
		}
		child, err := openChild(at, info.Name())
		if err != nil {
			s.left(path, err)
			return nil
		}
		err = s.empty(child, path, depth+1)
		_ = child.Close()
		if err != nil {
			return err
		}
	}
	if err := at.Remove(info.Name()); err != nil {
		// A folder that still holds residue or was raised cannot be removed
		// yet.
		if !info.IsDir() || !errors.Is(err, syscall.ENOTEMPTY) {
			s.left(path, err)
		}
		return nil
	}
	s.entries++
	if st := stat(info); info.Mode().IsRegular() && st.Nlink == 1 {
		s.bytes += st.Blocks * 512
	}
	return nil
}

// raise moves a folder that lies too deep to the top.
func (s *sweeper) raise(path string) {
	s.raised++
	if err := s.top.Rename(path, ".gpuaas-deep-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(s.raised)); err != nil {
		s.left(path, err)
	}
}

// maxResidue limits what is listed, not what is counted.
const maxResidue = 100

func (s *sweeper) left(path string, why error) {
	if len(s.residue) < maxResidue {
		s.residue = append(s.residue, fmt.Sprintf("%s: %v", printable(filepath.Join(s.name, path)), bare(why)))
	}
}

// bare removes the path from a message that names it already.
func bare(err error) error {
	var in *fs.PathError
	if errors.As(err, &in) {
		return in.Err
	}
	return err
}

// printable keeps names that tenants chose from breaking messages.
func printable(s string) string {
	if quoted := strconv.QuoteToASCII(s); quoted[1:len(quoted)-1] != s {
		return quoted
	}
	return s
}

// batch is how many entries of a folder are read at a time: tenants decide how
// many there are.
const batch = 4096

// openList opens a folder for reading and says on which mount it was opened.
// The device number is not enough: a folder of the same file system may be
// mounted a second time.
func openList(at *os.Root) (folder *os.File, mount string, err error) {
	folder, err = at.Open(".")
	if err != nil {
		return nil, "", err
	}
	mount, err = mountOf(folder)
	if err != nil {
		return nil, "", errors.Join(err, folder.Close())
	}
	return folder, mount, nil
}

func mountOf(f *os.File) (string, error) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.FormatUint(uint64(f.Fd()), 10))
	if err != nil {
		return "", fmt.Errorf("find out where it is mounted: %w", err)
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("the kernel does not say where it is mounted")
}

func stat(info fs.FileInfo) *syscall.Stat_t {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st
	}
	return &syscall.Stat_t{}
}

// removeTree removes a folder of the machine and everything in it, with the
// same care. Its parent folder must be one that tenants cannot write to. It is
// no error if the folder is not there.
func removeTree(h hostexec.Host, path string, stop func() error) (residue []string, err error) {
	parent, err := os.OpenRoot(h.Path(filepath.Dir(path)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open folder of %s: %w", path, err)
	}
	defer parent.Close()
	name := filepath.Base(path)
	info, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if info.IsDir() {
		top, err := openChild(parent, name)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		s := sweeper{top: top, name: path, stop: stop}
		err = s.sweep()
		_ = top.Close()
		if err != nil || len(s.residue) > 0 {
			return s.residue, err
		}
	}
	if err := parent.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []string{fmt.Sprintf("%s: %v", path, bare(err))}, nil
	}
	return nil, nil
}
