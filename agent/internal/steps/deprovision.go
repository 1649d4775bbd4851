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

var _ = handles(
	func(h host) task.Handler { return deprovision{h} }, agentwire.TypeDeprovisionUser, agentwire.TypeRevokeUser)

// deprovision removes the account of an allocation and what it left.
type deprovision struct{ host }

// Check implements task.Handler.
func (h deprovision) Check(_ context.Context, t *task.Task) (any, bool, error) {
	p, err := params[agentwire.DeprovisionUserParams](t)
	if err != nil {
		return nil, false, err
	}
	s, err := h.ours(p.AllocationID, p.Username)
	if err != nil || s.marked || s.exists {
		return nil, false, err
	}
	return agentwire.DeprovisionUserOutput{Username: p.Username}, true, nil
}

// Apply implements task.Handler.
func (h deprovision) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.DeprovisionUserParams](t)
	if err != nil {
		return nil, err
	}
	s, err := h.ours(p.AllocationID, p.Username)
	if err != nil {
		return nil, err
	}
	if !s.marked {
		return agentwire.DeprovisionUserOutput{Username: p.Username}, nil
	}
	return h.removeAccount(ctx, t, s, p.KeepHome)
}

// removeAccount removes one account. A drain calls it for every account.
func (h host) removeAccount(ctx context.Context, t *task.Task, s standing, keepHome bool) (
	agentwire.DeprovisionUserOutput, error,
) {
	a, exists := s.mark, s.exists
	out := agentwire.DeprovisionUserOutput{Username: a.Username, Existed: exists}
	if a.Ready {
		a.Ready = false // from here on no terminal and no later check takes it for usable
		if err := h.mark(a); err != nil {
			return out, err
		}
	}
	work := []struct {
		name string
		do   func() (string, error)
	}{
		{"lock", func() (string, error) { return "", h.lock(ctx, a, exists) }},
		{"sessions", func() (string, error) {
			out.SessionsClosed = h.Terminals.CloseUser(a.Username)
			return strconv.Itoa(out.SessionsClosed) + " closed", nil
		}},
		{"processes", func() (message string, err error) {
			out.ProcessesEnded, err = h.endProcesses(ctx, a.UID)
			return strconv.Itoa(out.ProcessesEnded) + " ended", err
		}},
		{"leftovers", func() (string, error) { return "", h.removeLeftovers(ctx, a) }},
		{"account", func() (string, error) { return "", h.deleteAccount(ctx, a, exists) }},
		{"home", func() (message string, err error) {
			out.HomeRemoved, err = h.dropHome(ctx, a, keepHome)
			return "removed: " + strconv.FormatBool(out.HomeRemoved), err
		}},
		{"verify", func() (string, error) { return "", h.verifyGone(a) }},
	}
	for _, w := range work {
		if err := step(t, w.name+" "+a.Username, w.do); err != nil {
			return out, err
		}
	}
	return out, h.unmark(a.Username)
}

func (h host) lock(ctx context.Context, a account, exists bool) error {
	if err := h.removeSudo(a.Username); err != nil {
		return err
	}
	if !exists {
		return nil
	}
	args := []string{"--lock", "--expiredate", "1", "--shell", "/usr/sbin/nologin", a.Username}
	if _, err := h.Host.Do(ctx, hostexec.Command{Program: "usermod", Args: args}); err != nil {
		return task.Fail("account_not_locked", "account "+a.Username+" could not be locked", "look at the message of usermod",
			err)
	}
	// Lingering services and sessions of the login manager; there may be none.
	for _, verb := range []string{"disable-linger", "terminate-user"} {
		_, err := h.Host.Do(ctx, hostexec.Command{Program: "loginctl", Args: []string{verb, a.Username}})
		if ctx.Err() != nil {
			return fmt.Errorf("end sessions of %s: %w", a.Username, err)
		}
	}
	return nil
}

// removeLeftovers removes what outlives the processes of a user.
func (h host) removeLeftovers(ctx context.Context, a account) error {
	for _, path := range []string{
		"/var/spool/cron/crontabs/", "/var/spool/cron/", "/var/mail/",
		"/var/lib/systemd/linger/",
	} {
		place := h.Host.Path(path + a.Username)
		if info, err := os.Lstat(place); err != nil || info.IsDir() {
			continue
		}
		if err := os.Remove(place); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path+a.Username, err)
		}
	}
	if err := h.removeNotes(a); err != nil {
		return err
	}
	if err := h.removeIPC(ctx, func(o inspect.IPC) bool { return o.Belongs(a.UID) }); err != nil {
		return err
	}
	_, residue := h.removeShared(slices.Concat(sharedMemory, spools), func(uid int) bool { return uid == a.UID })
	if len(residue) > 0 {
		return task.Fail("leftovers_remain", strings.Join(residue, "; "), "remove it by hand", nil)
	}
	return nil
}

// removeNotes removes what services keep about a user: the journal, and sudo.
func (h host) removeNotes(a account) error {
	uid := strconv.Itoa(a.UID)
	patterns := []string{
		"/var/log/journal/*/user-" + uid + ".journal", "/var/log/journal/*/user-" + uid + "@*.journal",
		"/run/log/journal/*/user-" + uid + ".journal", "/run/log/journal/*/user-" + uid + "@*.journal",
	}
	for _, folder := range []string{"/var/lib/sudo/lectured/", "/run/sudo/ts/", "/var/lib/sudo/ts/"} {
		patterns = append(patterns, folder+a.Username, folder+uid)
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(h.Host.Path(pattern))
		if err != nil {
			return fmt.Errorf("look for %s: %w", pattern, err)
		}
		for _, path := range found {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove %s: %w", path, err)
			}
		}
	}
	return nil
}

func (h host) removeIPC(ctx context.Context, of func(inspect.IPC) bool) error {
	flag := map[string]string{"shm": "--shmem-id", "sem": "--semaphore-id", "msg": "--queue-id"}
	for _, o := range h.machine.IPC() {
		if !of(o) {
			continue
		}
		if _, err := h.Host.Do(ctx, hostexec.Command{
			Program: "ipcrm",
			Args:    []string{flag[o.Kind], strconv.Itoa(o.ID)},
		}); err != nil {
			return task.Fail("ipc_remains", fmt.Sprintf("%s %d of uid %d could not be removed", o.Kind, o.ID, o.UID),
				"remove it with ipcrm", err)
		}
	}
	return nil
}

// sharedMemory holds POSIX shared memory and queues, which are files.
var sharedMemory = []string{"/dev/shm", "/dev/mqueue"}

// spools are folders that users can put files into, directly or through others,
// and that nothing empties.
var spools = []string{"/run/lock", "/var/crash", "/var/spool/cron/atjobs", "/var/spool/cron/atspool", "/var/spool/at"}

// removeShared removes the files of users from folders.
func (h host) removeShared(folders []string, of func(uid int) bool) (removed int64, residue []string) {
	for _, folder := range folders {
		top, err := openFolder(h.Host, folder)
		if err != nil {
			continue // there is none
		}
		s := sweeper{
			top: top, name: folder, stop: func() error { return nil },
			keep: func(_ string, info fs.FileInfo) bool { return !of(int(stat(info).Uid)) },
		}
		if err := s.sweep(); err != nil {
			s.residue = append(s.residue, err.Error())
		}
		_ = top.Close()
		removed += s.entries
		residue = append(residue, s.residue...)
	}
	return removed, residue
}

func (h host) deleteAccount(ctx context.Context, a account, exists bool) error {
	if exists {
		// The home is removed afterwards, with more care than userdel takes.
		if _, err := h.Host.Do(ctx, hostexec.Command{Program: "userdel", Args: []string{a.Username}}); err != nil {
			return task.Fail("account_not_removed", "account "+a.Username+" could not be removed",
				"look at the message of userdel", err)
		}
	}
	if gid, ok := h.machine.Group(a.Username); !ok || gid != a.GID {
		return nil
	}
	if _, err := h.Host.Do(ctx, hostexec.Command{Program: "groupdel", Args: []string{a.Username}}); err != nil {
		return task.Fail("account_not_removed", "the group of "+a.Username+" could not be removed",
			"look at the message of groupdel", err)
	}
	return nil
}

// dropHome removes the home, or closes it so that whoever gets the uid next
// cannot read it.
func (h host) dropHome(ctx context.Context, a account, keep bool) (removed bool, err error) {
	if a.Home != homeOf(a.Username) {
		return false, task.Fail("home_unsafe", fmt.Sprintf("the home of %s is %q, which is not removed", a.Username, a.Home),
			"remove it by hand", nil)
	}
	homes, err := os.OpenRoot(h.Host.Path(filepath.Dir(a.Home)))
	if err != nil {
		return false, fmt.Errorf("open folder of homes: %w", err)
	}
	defer homes.Close()
	if _, err := homes.Lstat(a.Username); errors.Is(err, fs.ErrNotExist) {
		return !keep, nil
	}
	if keep {
		home, err := openChild(homes, a.Username)
		if err != nil {
			return false, fmt.Errorf("open home of %s: %w", a.Username, err)
		}
		defer home.Close()
		if err := errors.Join(h.chown(func(u, g int) error { return home.Chown(".", u, g) }, 0, 0),
			home.Chmod(".", 0o700)); err != nil {
			return false, fmt.Errorf("close home of %s: %w", a.Username, err)
		}
		return false, nil
	}
	residue, err := removeTree(h.Host, a.Home, ctx.Err)
	if err != nil {
		return false, fmt.Errorf("remove home of %s: %w", a.Username, err)
	}
	if len(residue) > 0 {
		return false, task.Fail("home_remains", "the home of "+a.Username+" could not be emptied: "+
			strings.Join(residue, "; "),
			"unmount or remove what is named, then try again", nil)
	}
	return true, nil
}

func (h host) verifyGone(a account) error {
	_, exists, err := h.lookup(a.Username)
	if err != nil {
		return err
	}
	left, err := h.processesOf(a.UID)
	if err != nil {
		return err
	}
	if exists || len(left) > 0 {
		return task.Fail("account_remains", fmt.Sprintf("account %s is still there: %t; processes of it: %d", a.Username,
			exists, len(left)),
			"look at who makes it anew", nil)
	}
	return nil
}
