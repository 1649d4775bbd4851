package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return provision{h} }, agentwire.TypeProvisionUser)

// provision makes the account of an allocation.
type provision struct{ host }

func homeOf(name string) string { return "/home/" + name }

func sudoersPath(name string) string { return "/etc/sudoers.d/gpuaas-" + name }

// Check implements task.Handler.
func (h provision) Check(_ context.Context, t *task.Task) (any, bool, error) {
	p, err := params[agentwire.ProvisionUserParams](t)
	if err != nil {
		return nil, false, err
	}
	s, err := h.ours(p.AllocationID, p.Username)
	if err != nil {
		return nil, false, err
	}
	if !s.mark.Ready || !s.exists || s.there.UID != p.UID || s.there.GID != p.GID || s.there.Home != homeOf(p.Username) {
		return nil, false, nil
	}
	if !h.homeIs(p) || !h.keysAre(p) || !h.sudoIs(p) || !h.handoverIs(p) {
		return nil, false, nil
	}
	return h.output(p, false), true, nil
}

// Apply implements task.Handler.
func (h provision) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.ProvisionUserParams](t)
	if err != nil {
		return nil, err
	}
	s, err := h.ours(p.AllocationID, p.Username)
	if err != nil {
		return nil, err
	}
	if err := h.admit(p, s); err != nil {
		return nil, err
	}
	if err := h.noteIDs(p); err != nil {
		return nil, err
	}
	mark := s.mark
	if !s.marked {
		mark = account{
			AllocationID: p.AllocationID, Username: p.Username, UID: p.UID, GID: p.GID, Home: homeOf(p.Username),
			CreatedAt: h.Clock(),
		}
		if err := h.mark(mark); err != nil {
			return nil, err
		}
	}
	work := []struct {
		name string
		do   func() (string, error)
	}{
		{"account", func() (string, error) { return "", h.create(ctx, p, s.exists) }},
		{"keys", func() (string, error) { return strconv.Itoa(len(p.AuthorizedKeys)) + " keys", h.writeKeys(p) }},
		{"sudo", func() (string, error) { return strconv.FormatBool(p.Sudo), h.writeSudo(ctx, p) }},
		{"handover", func() (string, error) { return "", h.writeHandover(p) }},
	}
	for _, w := range work {
		if err := step(t, w.name, w.do); err != nil {
			return nil, err
		}
	}
	mark.Ready = true
	if err := h.mark(mark); err != nil {
		return nil, err
	}
	return h.output(p, !s.exists), nil
}

func (h provision) output(p *agentwire.ProvisionUserParams, created bool) agentwire.ProvisionUserOutput {
	return agentwire.ProvisionUserOutput{
		Username: p.Username, UID: p.UID, GID: p.GID, Home: homeOf(p.Username),
		Created: created, LoginChecked: h.canLogIn(p),
	}
}

// admit says why an account cannot be made here and now.
func (h provision) admit(p *agentwire.ProvisionUserParams, s standing) error {
	if h.draining() {
		return task.Fail("node_draining", "the node is being drained and takes no new users",
			"lift the drain, or choose another node", nil)
	}
	if s.marked && (s.mark.UID != p.UID || s.mark.GID != p.GID) {
		return task.Fail("account_changed", fmt.Sprintf("account %s was made with uid %d and gid %d", p.Username, s.mark.UID,
			s.mark.GID),
			"deprovision it before it gets other ids", nil)
	}
	accounts, err := h.machine.Accounts()
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if a.UID == p.UID && a.Name != p.Username {
			return task.Fail("uid_in_use", fmt.Sprintf("uid %d belongs to account %s", p.UID, a.Name),
				"choose another uid, or remove that account", nil)
		}
	}
	return h.fresh(p)
}

func (h provision) create(ctx context.Context, p *agentwire.ProvisionUserParams, exists bool) error {
	if _, ok := h.machine.GroupOf(p.GID); !ok {
		if _, err := h.Host.Do(ctx, hostexec.Command{
			Program: "groupadd",
			Args:    []string{"--gid", strconv.Itoa(p.GID), p.Username},
		}); err != nil {
			return task.Fail("account_not_created", "the group of "+p.Username+" could not be made",
				"look at the message of groupadd", err)
		}
	}
	if exists {
		return h.ownHome(p) // an earlier attempt may have been cut short
	}
	// The password is not empty but impossible: "!" would also lock logins with
	// a key where PAM is not used.
	args := []string{
		"--uid", strconv.Itoa(p.UID), "--gid", strconv.Itoa(p.GID), "--create-home", "--home-dir", homeOf(p.Username),
		"--shell", "/bin/bash", "--password", "*", "--comment", "allocation " + p.AllocationID, p.Username,
	}
	if _, err := h.Host.Do(ctx, hostexec.Command{Program: "useradd", Args: args}); err != nil {
		return task.Fail("account_not_created", "account "+p.Username+" could not be made", "look at the message of useradd",
			err)
	}
	return h.ownHome(p)
}

const homeMode = fs.FileMode(0o700)

// homeIs says whether the home is there, closed to others, and owned by the
// user.
func (h provision) homeIs(p *agentwire.ProvisionUserParams) bool {
	info, err := os.Lstat(h.Host.Path(homeOf(p.Username)))
	if err != nil || !info.IsDir() || info.Mode().Perm() != homeMode {
		return false
	}
	if os.Geteuid() != 0 && !h.Host.Real() {
		return true // a fake machine without root cannot give files away
	}
	return int(stat(info).Uid) == p.UID && int(stat(info).Gid) == p.GID
}

// ownHome makes the home if useradd did not, closes it to others and gives it
// to the user.
func (h provision) ownHome(p *agentwire.ProvisionUserParams) error {
	homes, err := os.OpenRoot(h.Host.Path(filepath.Dir(homeOf(p.Username))))
	if err != nil {
		return fmt.Errorf("open folder of homes: %w", err)
	}
	defer homes.Close()
	if err := homes.Mkdir(p.Username, homeMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make home of %s: %w", p.Username, err)
	}
	home, err := openChild(homes, p.Username)
	if err != nil {
		return task.Fail("home_unsafe", "the home of "+p.Username+" is not a folder of its own", "remove it and try again",
			err)
	}
	defer home.Close()
	if err := home.Chmod(".", homeMode); err != nil {
		return fmt.Errorf("close home of %s: %w", p.Username, err)
	}
	if err := h.chown(func(u, g int) error { return home.Chown(".", u, g) }, p.UID, p.GID); err != nil {
		return fmt.Errorf("give home to %s: %w", p.Username, err)
	}
	return nil
}

func keysText(p *agentwire.ProvisionUserParams) string {
	if len(p.AuthorizedKeys) == 0 {
		return ""
	}
	return strings.Join(p.AuthorizedKeys, "\n") + "\n"
}

// home opens the home of the user, who may have put links there for root to
// follow.
func (h provision) home(p *agentwire.ProvisionUserParams) (*os.Root, error) {
	homes, err := os.OpenRoot(h.Host.Path(filepath.Dir(homeOf(p.Username))))
	if err != nil {
		return nil, fmt.Errorf("open folder of homes: %w", err)
	}
	defer homes.Close()
	home, err := openChild(homes, p.Username)
	if err != nil {
		return nil, fmt.Errorf("open home of %s: %w", p.Username, err)
	}
	return home, nil
}

func (h provision) ssh(p *agentwire.ProvisionUserParams, missing bool) (*os.Root, error) {
	return h.folder(p, ".ssh", missing)
}

// folder opens a folder in the home of the user. missing says whether to create
// it. What the user put in its place, a link for example, is moved aside then:
// otherwise a key that was taken away would go on where the link leads.
func (h provision) folder(p *agentwire.ProvisionUserParams, name string, missing bool) (*os.Root, error) {
	home, err := h.home(p)
	if err != nil {
		return nil, err
	}
	defer home.Close()
	if missing {
		if seen, err := home.Lstat(name); err == nil && !seen.IsDir() {
			if err := home.Rename(name, name+".replaced"); err != nil {
				return nil, task.Fail("home_unsafe", "what "+p.Username+" put in place of "+name+" cannot be moved aside",
					"remove it and try again", err)
			}
		}
		if err := home.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make %s of %s: %w", name, p.Username, err)
		}
		if err := h.chown(func(u, g int) error { return home.Lchown(name, u, g) }, p.UID, p.GID); err != nil {
			return nil, fmt.Errorf("give %s to %s: %w", name, p.Username, err)
		}
	}
	out, err := openChild(home, name)
	if err != nil {
		return nil, task.Fail("home_unsafe", "the "+name+" of "+p.Username+" is not a folder of its own",
			"remove it and try again", err)
	}
	return out, nil
}

const keysFile = "authorized_keys"

// keysAre compares the keys.
func (h provision) keysAre(p *agentwire.ProvisionUserParams) bool {
	ssh, err := h.ssh(p, false)
	if err != nil {
		return false
	}
	defer ssh.Close()
	return holds(ssh, keysFile, keysText(p))
}

// holds says whether a file of the user has exactly this text. The user owns the
// file: it may have any size, or be replaced by something that never ends.
func holds(folder *os.Root, name, wanted string) bool {
	raw, mode, err := readSmall(folder, name, len(wanted))
	return err == nil && mode == 0o600 && string(raw) == wanted
}

// readSmall reads a regular file of the user that has at most so many bytes.
func readSmall(folder *os.Root, name string, most int) ([]byte, fs.FileMode, error) {
	seen, err := folder.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !seen.Mode().IsRegular() || seen.Size() > int64(most) {
		return nil, 0, fmt.Errorf("%s is no plain file, or too large", name)
	}
	f, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !os.SameFile(seen, info) {
		return nil, 0, errors.Join(err, fmt.Errorf("%s was exchanged", name))
	}
	raw, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(raw) > most {
		err = fmt.Errorf("%s is too large", name)
	}
	return raw, info.Mode().Perm(), err
}

func (h provision) writeKeys(p *agentwire.ProvisionUserParams) error {
	ssh, err := h.ssh(p, true)
	if err != nil {
		return err
	}
	defer ssh.Close()
	if err := h.write(ssh, keysFile, keysText(p), p); err != nil {
		return fmt.Errorf("write keys of %s: %w", p.Username, err)
	}
	return nil
}

// write puts a file of the user in place, in a folder that the user owns.
func (h provision) write(folder *os.Root, name, text string, p *agentwire.ProvisionUserParams) error {
	fresh := "." + strings.TrimPrefix(name, ".") + ".gpuaas"
	if err := folder.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove remains of an earlier attempt: %w", err)
	}
	f, err := folder.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o600), h.chown(f.Chown, p.UID, p.GID), f.Sync(), f.Close())
	if err == nil {
		err = folder.Rename(fresh, name)
	}
	return err
}

func sudoersText(name string) string { return name + " ALL=(ALL:ALL) NOPASSWD: ALL\n" }

func (h provision) sudoIs(p *agentwire.ProvisionUserParams) bool {
	raw, err := os.ReadFile(h.Host.Path(sudoersPath(p.Username)))
	if !p.Sudo {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && string(raw) == sudoersText(p.Username)
}

// writeSudo lets visudo check the rule before it is installed: a file that sudo
// cannot read locks everybody out of sudo.
func (h provision) writeSudo(ctx context.Context, p *agentwire.ProvisionUserParams) error {
	place := h.Host.Path(sudoersPath(p.Username))
	if !p.Sudo {
		return h.removeSudo(p.Username)
	}
	// sudo ignores names with a dot, so the draft has no effect.
	draft := sudoersPath(p.Username) + ".draft"
	if err := atomicfile.Write(h.Host.Path(draft), []byte(sudoersText(p.Username)), 0o440); err != nil {
		return fmt.Errorf("write sudo rule of %s: %w", p.Username, err)
	}
	_, err := h.Host.Do(ctx, hostexec.Command{Program: "visudo", Args: []string{"-c", "-q", "-f", h.Host.Path(draft)}})
	if err != nil && !errors.Is(err, hostexec.ErrNoProgram) {
		_ = os.Remove(h.Host.Path(draft))
		return task.Fail("sudo_rule_refused", "visudo refuses the sudo rule of "+p.Username,
			"look at the sudo configuration of the machine", err)
	}
	if err := os.Rename(h.Host.Path(draft), place); err != nil {
		return fmt.Errorf("put sudo rule of %s in place: %w", p.Username, err)
	}
	return nil
}

func (h host) removeSudo(name string) error {
	for _, path := range []string{sudoersPath(name), sudoersPath(name) + ".draft"} {
		if err := os.Remove(h.Host.Path(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove sudo rule of %s: %w", name, err)
		}
	}
	return nil
}
