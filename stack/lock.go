package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// AlreadyRunning says that another launcher holds the state folder.
type AlreadyRunning struct { //nolint:errname // what it says reads better without "Error"
	State string // the folder
	PID   int    // the launcher that holds it
	Info  string // what it announced, usually the address of its console
}

func (e *AlreadyRunning) Error() string {
	where := ""
	if e.Info != "" {
		where = " at " + e.Info
	}
	return fmt.Sprintf("state folder %s is in use by process %d%s: use that one, stop it, or name another state folder",
		e.State, e.PID, where)
}

// lock is held by the kernel while the launcher lives, however it ends.
type lock struct{ file *os.File }

type holder struct {
	PID  int    `json:"pid"`
	Info string `json:"info,omitempty"`
}

func (f folder) acquire() (*lock, error) {
	file, err := os.OpenFile(f.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of state folder: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer file.Close()
		var other holder
		if b, err := io.ReadAll(file); err == nil {
			_ = json.Unmarshal(b, &other) // it is being rewritten: at least the folder is known
		}
		return nil, &AlreadyRunning{State: string(f), PID: other.PID, Info: other.Info}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock state folder %s: %w", f, err), file.Close())
	}
	l := &lock{file: file}
	if err := l.describe(""); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// describe rewrites the file in place, because a new file would not be locked.
func (l *lock) describe(info string) error {
	b, err := json.Marshal(holder{PID: os.Getpid(), Info: info})
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt(b, 0)
	}
	if err != nil {
		return fmt.Errorf("describe holder of state folder: %w", err)
	}
	return nil
}

func (l *lock) release() error { return l.file.Close() }
