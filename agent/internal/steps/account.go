package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/task"
)

// account is the note that the agent made an account. An account without a note
// belongs to somebody else and is never touched. The note is written before the
// account is made and removed after the account is gone.
type account struct {
	AllocationID string    `json:"allocation_id"`
	Username     string    `json:"username"`
	UID          int       `json:"uid"`
	GID          int       `json:"gid"`
	Home         string    `json:"home"`
	Ready        bool      `json:"ready"` // false while it is being made or removed
	CreatedAt    time.Time `json:"created_at"`
}

func markPath(name string) string { return filepath.Join(usersFolder, name+".json") }

func (h host) mark(a account) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode mark of account %s: %w", a.Username, err)
	}
	if err := atomicfile.Write(h.Host.Path(markPath(a.Username)), raw, 0o600); err != nil {
		return fmt.Errorf("mark account %s: %w", a.Username, err)
	}
	return nil
}

func (h host) marked(name string) (a account, ok bool, err error) {
	raw, err := os.ReadFile(h.Host.Path(markPath(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return account{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		return account{}, false, fmt.Errorf("read mark of account %s: %w", name, err)
	}
	return a, true, nil
}

func (h host) unmark(name string) error {
	if err := os.Remove(h.Host.Path(markPath(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mark of account %s: %w", name, err)
	}
	return nil
}

// tenants lists the accounts that the agent has made.
func (h host) tenants() ([]account, error) {
	entries, err := os.ReadDir(h.Host.Path(usersFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list allocation users: %w", err)
	}
	var all []account
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		a, ok, err := h.marked(name)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, a)
		}
	}
	return all, nil
}

func (h host) lookup(name string) (inspect.Account, bool, error) {
	accounts, err := h.machine.Accounts()
	if err != nil {
		return inspect.Account{}, false, err
	}
	for _, a := range accounts {
		if a.Name == name {
			return a, true, nil
		}
	}
	return inspect.Account{}, false, nil
}

// standing is what is known of an account: the agent's note, and what the
// machine says.
type standing struct {
	mark   account
	marked bool
	there  inspect.Account
	exists bool
}

// ours looks at an account and refuses one that must not be touched for this
// allocation.
func (h host) ours(allocation, name string) (s standing, err error) {
	if s.mark, s.marked, err = h.marked(name); err != nil {
		return s, err
	}
	if s.there, s.exists, err = h.lookup(name); err != nil {
		return s, err
	}
	switch {
	case s.exists && !s.marked:
		return s, task.Fail("account_foreign", fmt.Sprintf("account %s was not made by this agent and is not touched", name),
			"choose another user name, or remove the account by hand", nil)
	case s.marked && s.mark.AllocationID != allocation:
		return s, task.Fail("account_of_another_allocation",
			fmt.Sprintf("account %s belongs to allocation %s", name, s.mark.AllocationID),
			"deprovision it for that allocation first", nil)
	case s.marked && s.exists && s.there.UID != s.mark.UID:
		return s, task.Fail("account_changed", fmt.Sprintf("account %s has uid %d, but was made with %d", name, s.there.UID,
			s.mark.UID),
			"somebody changed the account: look at it before removing it by hand", nil)
	}
	return s, nil
}

// chown gives a file to a user. It does nothing on a fake machine without root.
func (h host) chown(give func(uid, gid int) error, uid, gid int) error {
	err := give(uid, gid)
	if errors.Is(err, fs.ErrPermission) && !h.Host.Real() {
		return nil
	}
	return err
}
