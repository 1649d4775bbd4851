package rack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Login is how a payload admits somebody to a machine until it is a node.
type Login struct {
	HostKey string // private, in OpenSSH's form
	User    string
	Keys    string // lines of authorized_keys
}

// KeysFile is where a machine keeps the keys of an account.
func KeysFile(user string) string { return "/home/" + user + "/.ssh/authorized_keys" }

// userStep matches the line by which a layer makes an account.
var userStep = regexp.MustCompile(`(?m)^sh "\$1/file-[0-9]+" '([a-z0-9_-]+)' "\$1/(file-[0-9]+)"$`)

// ReadLogin finds the login in a payload, if there is one. Payloads of the old
// form have none of this kind.
func ReadLogin(payload []byte) (Login, bool, error) {
	c, err := parseCloudConfig(payload)
	if err != nil {
		return Login{}, false, err
	}
	layers, err := c.layers()
	if err != nil {
		return Login{}, false, err
	}
	for _, l := range layers {
		user, keys, found, err := c.account(l)
		if err != nil || found {
			return Login{HostKey: c.SSHKeys.Private, User: user, Keys: keys}, found && c.SSHKeys.Private != "", err
		}
	}
	return Login{}, false, nil
}

// account returns the account that a layer makes, if it makes one.
func (c cloudConfig) account(l layer) (user, keys string, found bool, err error) {
	steps, _, err := c.file(l.folder() + "/steps")
	if err != nil {
		return "", "", false, err
	}
	m := userStep.FindStringSubmatch(steps)
	if m == nil {
		return "", "", false, nil
	}
	keys, found, err = c.file(l.folder() + "/" + m[2])
	return m[1], keys, found, err
}

// firstUser is the number of the first account of people.
const firstUser = 1000

// makeUser makes the account of a layer below root.
func (c cloudConfig) makeUser(root string, l layer) error {
	user, keys, found, err := c.account(l)
	if err != nil || !found {
		return err
	}
	for file, line := range map[string]string{
		"etc/passwd": fmt.Sprintf("%s:x:%d:%d::/home/%[1]s:/bin/sh\n", user, firstUser, firstUser),
		"etc/group":  fmt.Sprintf("%s:x:%d:\n", user, firstUser),
		"etc/shadow": user + ":*:20000:0:99999:7:::\n",
	} {
		if err := addLine(filepath.Join(root, file), user, line); err != nil {
			return err
		}
	}
	if err := writeBelow(root, "/etc/sudoers.d/gpuaas-"+user, 0o440,
		[]byte(user+" ALL=(ALL) NOPASSWD:ALL\n")); err != nil {
		return err
	}
	return writeBelow(root, KeysFile(user), 0o600, []byte(keys))
}

// addLine adds a line that a file of accounts does not have yet.
func addLine(file, user, line string) error {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read accounts of machine: %w", err)
	}
	if strings.Contains("\n"+string(content), "\n"+user+":") {
		return nil
	}
	if err := os.WriteFile(file, append(content, line...), 0o644); err != nil { //nolint:gosec // a file of a host
		return fmt.Errorf("write accounts of machine: %w", err)
	}
	return nil
}
