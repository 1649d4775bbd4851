package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
)

// Account is the account that a session runs as.
type Account struct {
	Name     string
	UID, GID int
	Groups   []int // supplementary groups
	Home     string
	Shell    string
}

// groups leaves out the group of root, whatever the machine says.
func (a Account) groups() []uint32 {
	out := []uint32{}
	for _, g := range a.Groups {
		if g > 0 {
			out = append(out, uint32(g)) //nolint:gosec // above zero, and read as 32 bits
		}
	}
	return out
}

// Accounts knows the allocation users of the machine. For any other account it
// returns an *Error.
type Accounts interface {
	Lookup(name string) (Account, error)
}

// usersFolder holds a note for each account that the agent has made.
const usersFolder = "/var/lib/gpuaas/users"

// HostAccounts are the accounts of a machine that the agent has made.
type HostAccounts struct{ Host hostexec.Host }

// mark is the part of a note that matters here.
type mark struct {
	Username string `json:"username"`
	UID      int    `json:"uid"`
	Ready    bool   `json:"ready"` // false while the account is being made or removed
}

// Lookup implements Accounts.
func (h HostAccounts) Lookup(name string) (Account, error) {
	missing := &Error{
		Code: CodeUserMissing, Message: fmt.Sprintf("%s is not the user of an allocation on this node", name),
		Remedy: "provision the user first",
	}
	m, err := h.mark(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Account{}, missing
	}
	if err != nil {
		return Account{}, fmt.Errorf("read mark of account %s: %w", name, err)
	}
	if !m.Ready || m.Username != name {
		return Account{}, missing
	}
	accounts, err := (inspect.Machine{Host: h.Host}).Accounts()
	if err != nil {
		return Account{}, err
	}
	i := slices.IndexFunc(accounts, func(a inspect.Account) bool { return a.Name == name })
	if i < 0 {
		return Account{}, missing
	}
	a := accounts[i]
	if a.UID != m.UID {
		return Account{}, &Error{
			Code: CodeUserRefused, Message: fmt.Sprintf("account %s has uid %d, but was made with %d", name, a.UID, m.UID),
			Remedy: "somebody changed the account: look at it, then remove and provision it anew",
		}
	}
	groups, err := h.groups(name)
	if err != nil {
		return Account{}, err
	}
	shell := a.Shell
	if shell == "" {
		shell = "/bin/sh" // the meaning of an empty field
	}
	return Account{Name: name, UID: a.UID, GID: a.GID, Groups: groups, Home: a.Home, Shell: shell}, nil
}

func (h HostAccounts) mark(name string) (m mark, err error) {
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return m, fs.ErrNotExist
	}
	raw, err := os.ReadFile(h.Host.Path(filepath.Join(usersFolder, name+".json")))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(raw, &m)
}

// groups finds the groups that list a user as a member.
func (h HostAccounts) groups(name string) ([]int, error) {
	raw, err := os.ReadFile(h.Host.Path("/etc/group"))
	if err != nil {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	var out []int
	for line := range strings.Lines(string(raw)) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if len(fields) != 4 || !slices.Contains(strings.Split(fields[3], ","), name) {
			continue
		}
		if gid, err := strconv.ParseUint(fields[2], 10, 32); err == nil {
			out = append(out, int(gid))
		}
	}
	return out, nil
}
