package inspect

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Account is one line of /etc/passwd.
type Account struct {
	Name     string
	UID, GID int
	Home     string
	Shell    string
}

// Accounts lists the accounts of the machine.
func (m Machine) Accounts() ([]Account, error) {
	raw, err := os.ReadFile(m.Host.Path("/etc/passwd"))
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	return parseAccounts(string(raw)), nil
}

// Group finds the id of a group by its name.
func (m Machine) Group(name string) (gid int, ok bool) {
	return findGroup(m.text("/etc/group"), name)
}

// GroupOf finds the name of a group by its id.
func (m Machine) GroupOf(gid int) (name string, ok bool) {
	for line := range strings.Lines(m.text("/etc/group")) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) >= 3 && fields[2] == strconv.Itoa(gid) {
			return fields[0], true
		}
	}
	return "", false
}

// parseAccounts skips lines that are no accounts, as the system does.
func parseAccounts(text string) []Account {
	var accounts []Account
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if len(fields) != 7 || fields[0] == "" || strings.HasPrefix(fields[0], "#") {
			continue
		}
		uid, errUID := strconv.ParseUint(fields[2], 10, 32)
		gid, errGID := strconv.ParseUint(fields[3], 10, 32)
		if errUID != nil || errGID != nil {
			continue
		}
		accounts = append(accounts, Account{Name: fields[0], UID: int(uid), GID: int(gid), Home: fields[5], Shell: fields[6]})
	}
	return accounts
}

func findGroup(text, name string) (int, bool) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if len(fields) < 3 || fields[0] != name {
			continue
		}
		if gid, err := strconv.ParseUint(fields[2], 10, 32); err == nil {
			return int(gid), true
		}
	}
	return 0, false
}

// OwnUID translates a user id of the host system into one of this machine. They
// differ in a container: the options of some mounts name ids of the host.
func (m Machine) OwnUID(outer int) (uid int, ok bool) {
	table := m.text("/proc/self/uid_map")
	if strings.TrimSpace(table) == "" {
		return outer, true
	}
	for line := range strings.Lines(table) {
		var inside, outside, count int
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && outer >= outside && outer-outside < count {
			return inside + outer - outside, true
		}
	}
	return 0, false
}
