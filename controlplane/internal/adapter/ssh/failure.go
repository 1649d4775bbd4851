package ssh

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"gpuaas/controlplane/internal/base/fault"
)

// The codes of the faults of this package.
const (
	CodeUnreachable    = "ssh_unreachable"      // no connection, or it broke
	CodeRefused        = "ssh_refused"          // the machine refuses the key or password
	CodeHostKeyChanged = "ssh_host_key_changed" // another machine answers
	CodeCommandFailed  = "ssh_command_failed"   // it ran and failed
)

// CommandError holds the details of a command that failed.
type CommandError struct {
	Command Command
	Status  int    // 0: a signal ended it
	Stderr  string // bounded, one line, without its input
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("%q ended with status %d: %s", string(e.Command), e.Status, e.Stderr)
}

func unreachable(address string, err error) error {
	return fault.Wrap(err, fault.Unavailable, CodeUnreachable, "no SSH connection to %s", address).
		WithRemedy("check that the machine runs, that its SSH server listens, and that nothing on the way blocks it")
}

// judge turns a broken handshake into a fault. The library has no type for a
// refused password, so judge compares its text and that of servers.
func judge(address, user string, err error) error {
	var network net.Error
	switch {
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, os.ErrDeadlineExceeded):
		return unreachable(address, err)
	case strings.Contains(err.Error(), "unable to authenticate"), strings.Contains(err.Error(), "authentication failures"):
		return fault.Wrap(err, fault.Unauthenticated, CodeRefused, "the SSH server at %s does not let %s in", address, user).
			WithRemedy("the first boot makes that account, and it is locked once the agent has enrolled: look at the records " +
				"of the first boot on the machine")
	}
	return unreachable(address, err)
}

func hostKeyChanged(address, pinned, seen string) error {
	return fault.New(fault.Conflict, CodeHostKeyChanged,
		"the SSH server at %s has the key %s, not %s as it should: another machine may be answering; nothing was sent to it",
		address, fingerprintOf(seen), fingerprintOf(pinned)).
		WithRemedy("find out whether the machine was reinstalled, or whether its address belongs to another one now")
}

// fingerprintOf returns the form in which people compare keys.
func fingerprintOf(line string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return "(unreadable)"
	}
	return ssh.FingerprintSHA256(key)
}

// failing turns the failure of a command into a fault.
func failing(address string, c Command, stderr string, err error) error {
	var exit *ssh.ExitError
	if !errors.As(err, &exit) {
		return unreachable(address, fmt.Errorf("run %q: %w", string(c), err))
	}
	detail := &CommandError{Command: c, Status: exit.ExitStatus(), Stderr: stderr}
	return fault.Wrap(detail, fault.Conflict, CodeCommandFailed, "a command on %s ended with status %d: %s", address,
		detail.Status, stderr).
		WithRemedy("log in to the machine and look what keeps it from working: %s", string(c))
}
