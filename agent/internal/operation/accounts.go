package operation

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

type unixStat = syscall.Stat_t

// number finds the number of an account in a file of accounts: the third field
// of the line that begins with its name.
func number(file, name string) (int, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("read accounts: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) > 2 && fields[0] == name {
			n, err := strconv.Atoi(fields[2])
			if err != nil {
				return 0, fmt.Errorf("number of %s: %w", name, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("there is no account %q on this machine", name)
}

// userID finds the number of a user.
func (m machine) userID(name string) (int, error) { return number(m.Host.Path("/etc/passwd"), name) }

// groupID finds the number of a group.
func (m machine) groupID(name string) (int, error) { return number(m.Host.Path("/etc/group"), name) }
