package steps

import (
	"context"
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
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return loginLock{h} }, agentwire.TypeLoginLock)

// loginLock locks the account with which the machine was set up at its first
// boot. The agent does that work now, so nobody needs the account any more.
type loginLock struct{ host }

// firstSystemless is the first uid that is no system account.
const firstSystemless = 1000

// sshdRule returns the file that admitted the account by password, in first
// boots of the old form.
func sshdRule(name string) string { return "/etc/ssh/sshd_config.d/10-gpuaas-" + name + ".conf" }

// keyFiles are where sshd looks for keys of an account, below its .ssh.
var keyFiles = []string{keysFile, keysFile + "2"}

// Check implements task.Handler.
func (h loginLock) Check(_ context.Context, t *task.Task) (any, bool, error) {
	p, err := params[agentwire.LoginLockParams](t)
	if err != nil {
		return nil, false, err
	}
	found, others, err := h.logins(p.Username)
	if err != nil || len(others) > 0 || len(found.open) > 0 {
		return nil, false, err
	}
	return agentwire.LoginLockOutput{Username: p.Username, Existed: found.exists, Searched: true, Closed: []string{}},
		true, nil
}

// Apply implements task.Handler.
func (h loginLock) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.LoginLockParams](t)
	if err != nil {
		return nil, err
	}
	found, others, err := h.logins(p.Username)
	if err != nil {
		return nil, err
	}
	out := agentwire.LoginLockOutput{
		Username: p.Username, Existed: found.exists, Searched: true,
		Closed: append([]string{}, found.open...),
	}
	for _, o := range others {
		out.Others = append(out.Others, o.name)
		for _, way := range o.open {
			out.Closed = append(out.Closed, o.name+": "+way)
		}
	}
	for _, l := range append([]login{found}, others...) {
		ended, err := h.close(ctx, t, l)
		out.ProcessesEnded += ended
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// login is an account that a machine was set up by, as it is now.
type login struct {
	inspect.Account
	name   string
	exists bool
	open   []string // what could still let somebody in, or make them root
}

// logins looks at the account that the control plane names, and for others that a
// first boot made: a site may call its deploy user otherwise since.
func (h loginLock) logins(name string) (named login, others []login, err error) {
	if named, err = h.look(name); err != nil {
		return named, nil, err
	}
	names, err := h.traces()
	if err != nil {
		return named, nil, err
	}
	for _, other := range names {
		_, tenant, err := h.marked(other)
		if err != nil {
			return named, nil, err
		}
		a, exists, err := h.lookup(other)
		if err != nil {
			return named, nil, err
		}
		if other == name || tenant || exists && a.UID < firstSystemless {
			continue // an account of the system is none of a first boot
		}
		l, err := h.look(other)
		if err != nil {
			return named, nil, err
		}
		others = append(others, l)
	}
	return named, others, nil
}

func (h loginLock) look(name string) (l login, err error) {
	l.name = name
	if l.Account, l.exists, err = h.account(name); err != nil {
		return l, err
	}
	l.open, err = h.open(name, l.Account, l.exists)
	return l, err
}

// traces are the names of accounts for which a first boot, or the agent, has left a
// rule.
func (h loginLock) traces() ([]string, error) {
	var names []string
	for _, rule := range []string{sudoersPath("*"), sshdRule("*")} {
		before, after, _ := strings.Cut(filepath.Base(rule), "*")
		entries, err := os.ReadDir(h.Host.Path(filepath.Dir(rule)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look for rules of first boots: %w", err)
		}
		for _, e := range entries {
			name, begins := strings.CutPrefix(e.Name(), before)
			name, ends := strings.CutSuffix(name, after)
			valid := agentwire.LoginLockParams{Username: name}.Validate() == nil
			if begins && ends && valid && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// close shuts an account, and says how many processes it ended.
func (h loginLock) close(ctx context.Context, t *task.Task, l login) (ended int, err error) {
	work := []struct {
		name string
		do   func() (string, error)
	}{
		{"password", func() (string, error) { return "", h.closeSSHD(ctx, l.name) }},
		{"lock", func() (string, error) { return "", h.lock(ctx, account{Username: l.name}, l.exists) }},
		{"processes", func() (message string, err error) {
			if l.exists {
				ended, err = h.endProcesses(ctx, l.UID)
			}
			return strconv.Itoa(ended) + " ended", err
		}},
		{"keys", func() (string, error) { return "", h.removeKeys(l.Account, l.exists) }},
		{"verify", func() (string, error) { return "", h.verifyClosed(l.name) }},
	}
	for _, w := range work {
		if err := step(t, w.name+" "+l.name, w.do); err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// account finds the account, and refuses one that no first boot makes.
func (h loginLock) account(name string) (a inspect.Account, exists bool, err error) {
	a, exists, err = h.lookup(name)
	if err != nil {
		return a, false, err
	}
	_, tenant, err := h.marked(name)
	switch {
	case err != nil:
		return a, false, err
	case tenant:
		return a, false, task.Fail("account_of_another_allocation", "account "+name+" belongs to an allocation",
			"deprovision it for that allocation", nil)
	case exists && a.UID < firstSystemless:
		return a, false, task.Fail("account_foreign",
			fmt.Sprintf("account %s has uid %d and belongs to the system", name, a.UID),
			"correct the deploy user of the site", nil)
	}
	return a, exists, nil
}

// open lists what could still admit somebody or make them root.
func (h loginLock) open(name string, a inspect.Account, exists bool) ([]string, error) {
	var open []string
	for _, path := range []string{sudoersPath(name), sshdRule(name)} {
		if _, err := os.Lstat(h.Host.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			open = append(open, path)
		}
	}
	if !exists {
		return open, nil
	}
	locked, err := h.locked(name)
	if err != nil {
		return nil, err
	}
	if !locked {
		open = append(open, "account")
	}
	keys, err := h.keys(a)
	return append(open, keys...), err
}

// locked says whether every way into the account is closed: its password is
// locked, and it has expired, which also closes keys.
func (h loginLock) locked(name string) (bool, error) {
	raw, err := os.ReadFile(h.Host.Path("/etc/shadow"))
	if err != nil {
		return false, fmt.Errorf("read shadow file: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) >= 8 && f[0] == name {
			return strings.HasPrefix(f[1], "!") && f[7] == "1", nil
		}
	}
	return false, nil
}

// homeOf opens the home of the account. It returns nil if there is none.
// Whoever had the login may have put links there for root to follow.
func (h loginLock) homeOf(a inspect.Account) (*os.Root, error) {
	home, err := openFolder(h.Host, a.Home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no home, no keys
	}
	if err != nil {
		return nil, task.Fail("home_unsafe", "the home of "+a.Name+" is not a folder of its own", "look at it by hand", err)
	}
	return home, nil
}

// keys lists the files in which sshd would look for keys of the account. If
// there is something else in place of the folder, it counts as one.
func (h loginLock) keys(a inspect.Account) ([]string, error) {
	home, err := h.homeOf(a)
	if err != nil || home == nil {
		return nil, err
	}
	defer home.Close()
	ssh, err := openChild(home, ".ssh")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, errLink):
		return []string{".ssh"}, nil
	case err != nil:
		return nil, fmt.Errorf("open .ssh of %s: %w", a.Name, err)
	}
	defer ssh.Close()
	var found []string
	for _, file := range keyFiles {
		if _, err := ssh.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			found = append(found, ".ssh/"+file)
		}
	}
	return found, nil
}

// removeKeys removes these files. It removes a link itself, not its target.
func (h loginLock) removeKeys(a inspect.Account, exists bool) error {
	if !exists {
		return nil
	}
	found, err := h.keys(a)
	if err != nil || len(found) == 0 {
		return err
	}
	home, err := h.homeOf(a)
	if err != nil || home == nil {
		return err
	}
	defer home.Close()
	for _, file := range found {
		if err := home.RemoveAll(file); err != nil {
			return fmt.Errorf("remove %s of %s: %w", file, a.Name, err)
		}
	}
	return nil
}

// closeSSHD removes the rule that admitted the account by password.
func (h loginLock) closeSSHD(ctx context.Context, name string) error {
	err := os.Remove(h.Host.Path(sshdRule(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove rule of sshd for %s: %w", name, err)
	}
	// If sshd does not run, it reads the change when it starts. The account is
	// locked in any case.
	_, err = h.Host.Do(ctx, hostexec.Command{Program: "systemctl", Args: []string{"try-reload-or-restart", "ssh.service"}})
	if ctx.Err() != nil {
		return fmt.Errorf("reload sshd: %w", err)
	}
	return nil
}

// verifyClosed checks the machine again, independently of what was done.
func (h loginLock) verifyClosed(name string) error {
	l, err := h.look(name)
	if err != nil {
		return err
	}
	if len(l.open) > 0 {
		return task.Fail("login_still_open", "account "+name+" still lets somebody in: "+strings.Join(l.open, ", "),
			"look at who makes it anew", nil)
	}
	return nil
}
