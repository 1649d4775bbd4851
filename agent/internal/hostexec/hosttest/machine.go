// Package hosttest makes fake machines for tests: a folder with the files of a
// Linux host. Its programs are the test binary under other names.
package hosttest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/testkit"
)

// Machine is a fake machine.
type Machine struct {
	t    *testing.T
	Root string
}

// New makes a machine with a few accounts and none of the programs.
func New(t *testing.T) *Machine {
	t.Helper()
	m := &Machine{t: t, Root: t.TempDir()}
	m.Write("/etc/passwd",
		"root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/usr/sbin:/usr/sbin/nologin\nadmin:x:1000:1000::/home/admin:/bin/bash\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n")
	m.Write("/etc/group", "root:x:0:\nadmin:x:1000:admin\nnogroup:x:65534:\n")
	for _, dir := range []string{"/home", "/tmp", "/var/tmp", "/etc/sudoers.d", "/var/lib/gpuaas", "/proc"} {
		m.Mkdir(dir)
	}
	return m
}

// Host returns the machine as the agent sees it.
func (m *Machine) Host() hostexec.Host { return hostexec.Host{Root: m.Root} }

// Path returns where a path of the machine is.
func (m *Machine) Path(p string) string { return filepath.Join(m.Root, p) }

// Mkdir makes a folder.
func (m *Machine) Mkdir(p string) {
	m.t.Helper()
	if err := os.MkdirAll(m.Path(p), 0o750); err != nil {
		m.t.Fatal(err)
	}
}

// Write makes a file.
func (m *Machine) Write(p, content string) {
	m.t.Helper()
	m.Mkdir(filepath.Dir(p))
	if err := os.WriteFile(m.Path(p), []byte(content), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// Read gives the content of a file.
func (m *Machine) Read(p string) string {
	m.t.Helper()
	raw, err := os.ReadFile(m.Path(p))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(raw)
}

// Exists says whether something is there.
func (m *Machine) Exists(p string) bool {
	_, err := os.Lstat(m.Path(p))
	return err == nil
}

// Install puts programs on the machine, by their paths.
func (m *Machine) Install(paths ...string) {
	m.t.Helper()
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range paths {
		m.Mkdir(filepath.Dir(p))
		if err := os.Symlink(self, m.Path(p)); err != nil {
			m.t.Fatal(err)
		}
	}
}

// InstallAccounts installs the programs that make and remove accounts.
func (m *Machine) InstallAccounts() {
	m.t.Helper()
	m.Install("/usr/sbin/groupadd", "/usr/sbin/groupdel", "/usr/sbin/useradd", "/usr/sbin/userdel", "/usr/sbin/usermod",
		"/usr/bin/loginctl", "/usr/bin/ipcrm")
}

// Fail makes a program end with a status and a message.
func (m *Machine) Fail(program string) { m.Write("/stub/fail/"+program, "") }

// Heal undoes Fail and Hang.
func (m *Machine) Heal(program string) {
	m.t.Helper()
	for _, kind := range []string{"fail", "hang"} {
		if err := os.RemoveAll(m.Path("/stub/" + kind + "/" + program)); err != nil {
			m.t.Fatal(err)
		}
	}
}

// Hang makes a program wait until it is ended.
func (m *Machine) Hang(program string) { m.Write("/stub/hang/"+program, "") }

// Say makes a program print something.
func (m *Machine) Say(program, text string) { m.Write("/stub/say/"+program, text) }

// Calls returns the command lines of programs so far, without their folders.
func (m *Machine) Calls() []string {
	m.t.Helper()
	f, err := os.Open(m.Path("/stub/calls"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	var calls []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		calls = append(calls, lines.Text())
	}
	return calls
}

// AwaitCall waits until a program was started.
func (m *Machine) AwaitCall(prefix string) {
	m.t.Helper()
	testkit.Succeeds(m.t, "a call of "+prefix, testkit.Patience, func() error {
		for _, c := range m.Calls() {
			if strings.HasPrefix(c, prefix) {
				return nil
			}
		}
		return fmt.Errorf("calls so far: %v", m.Calls())
	})
}
