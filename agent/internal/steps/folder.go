package steps

import (
	"errors"
	"fmt"
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

// openFolder opens a folder of the machine without following any symbolic
// link on the way: tenants may have put them there.
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

// openChild opens a folder in a folder. Between the look at it and its opening
// somebody may have exchanged it, so that both must be the same.
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

// maxDepth bounds the folders that are open at the same time. Deeper ones are
// moved to the top first.
const maxDepth = 64

// sweeper removes what is in a folder. It follows no symbolic links and
// crosses into no other file system.
type sweeper struct {
	top     *os.Root
	name    string // of the folder, for messages
	device  uint64
	mount   string
	keep    func(name string, info fs.FileInfo) bool // entries at the top that stay; nil keeps none
	stop    func() error
	raised  int // folders moved to the top
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
		raised, before := s.raised, s.entries
		s.residue = nil
		if err := s.empty(s.top, ".", 0); err != nil {
			return err
		}
		// Folders that came up are there for another round, as long as rounds help.
		if s.raised == raised || s.entries == before {
			return nil
		}
	}
}

func (s *sweeper) empty(at *os.Root, path string, depth int) error {
	entries, mount, err := readDir(at)
	if depth == 0 {
		s.mount = mount
	}
	if err == nil && mount != s.mount {
		err = errMount
	}
	if err != nil {
		s.left(path, err)
		return nil
	}
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
		// A folder that still holds residue or was raised cannot go yet.
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

// maxResidue bounds what is listed, not what is counted as done.
const maxResidue = 100

func (s *sweeper) left(path string, why error) {
	if len(s.residue) < maxResidue {
		s.residue = append(s.residue, fmt.Sprintf("%s: %v", printable(filepath.Join(s.name, path)), bare(why)))
	}
}

// bare takes the path out of a message that names it already.
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

// readDir also says which mount a folder was opened on. The device does not
// tell: a folder of the same file system may be mounted a second time.
func readDir(at *os.Root) (entries []fs.DirEntry, mount string, err error) {
	f, err := at.Open(".")
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if entries, err = f.ReadDir(-1); err != nil {
		return nil, "", err
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.FormatUint(uint64(f.Fd()), 10))
	if err != nil {
		return nil, "", fmt.Errorf("find out where it is mounted: %w", err)
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return entries, strings.TrimSpace(id), nil
		}
	}
	return nil, "", errors.New("the kernel does not say where it is mounted")
}

func stat(info fs.FileInfo) *syscall.Stat_t {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st
	}
	return &syscall.Stat_t{}
}

// removeTree removes a folder of the machine and everything in it, with the
// same care. The folder that it lies in is trusted: it is not one that tenants
// can write to. What is not there is no error.
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
