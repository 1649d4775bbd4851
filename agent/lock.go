package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse says that another agent works on the same state.
var ErrInUse = errors.New("another agent is running on this machine")

// lock is a lock of the kernel: it ends with the process, however that ends. It
// is a lock on the open file, so others can ask about it without taking it.
type lock struct{ file *os.File }

// Commands of fcntl that package syscall does not name.
const (
	ofdGetLock = 36
	ofdSetLock = 37
)

func wholeFile() *syscall.Flock_t { return &syscall.Flock_t{Type: syscall.F_WRLCK} }

func acquire(path string) (*lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = syscall.FcntlFlock(f.Fd(), ofdSetLock, wholeFile())
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		holder, _ := os.ReadFile(path)
		err = fmt.Errorf("%w: process %s holds %s", ErrInUse, strings.TrimSpace(string(holder)), path)
		return nil, errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("lock state folder: %w", errors.Join(err, f.Close()))
	}
	// The process id is for people to read; the lock does not depend on it.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &lock{file: f}, nil
}

func (l *lock) release() { _ = l.file.Close() }

// held says whether an agent runs on the state. It only asks: taking the lock
// would keep an agent from starting.
func held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	asked := wholeFile()
	return syscall.FcntlFlock(f.Fd(), ofdGetLock, asked) == nil && asked.Type != syscall.F_UNLCK
}
