package rack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RemoveAll deletes every LXD rack of this system, also those that a killed
// process left behind, and says what it removed. Process racks have nothing
// outside their folder.
func RemoveAll(ctx context.Context, say func(string)) error {
	return errors.Join(removeShared(ctx, say), removePrivate(ctx, say))
}

// removeShared removes racks from the LXD of this system.
func removeShared(ctx context.Context, say func(string)) error {
	c := client{}
	if !c.answers(ctx) {
		return nil
	}
	var paths []string
	if err := c.get(ctx, "/1.0/projects", &paths); err != nil {
		return err
	}
	var failed error
	for _, path := range paths {
		id, ours := strings.CutPrefix(lastPart(path), projectPrefix)
		if !ours {
			continue
		}
		say("removing rack " + id)
		r := leftRack(id, "")
		failed = errors.Join(failed, r.removeContent(ctx))
	}
	return failed
}

// removePrivate removes the LXDs that racks ran for themselves. If its process
// died, an LXD is started once more: only LXD knows all that it has set up.
func removePrivate(ctx context.Context, say func(string)) error {
	found, err := filepath.Glob(filepath.Join(homes(), "*"))
	if err != nil {
		return fmt.Errorf("list racks: %w", err)
	}
	var failed error
	for _, home := range found {
		say("removing rack " + filepath.Base(home))
		err := removePrivateRack(ctx, home)
		if errors.Is(err, errInUse) {
			err = leftRack(filepath.Base(home), home).takeAway(ctx)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// sweep removes throwaway racks whose process has died.
func sweep(ctx context.Context, except string, say func(string)) error {
	marks, err := filepath.Glob(filepath.Join(homes(), "*", throwaway))
	if err != nil {
		return fmt.Errorf("list racks: %w", err)
	}
	var failed error
	for _, mark := range marks {
		home := filepath.Dir(mark)
		if home == except || inUse(home) {
			continue
		}
		say("removing rack " + filepath.Base(home) + ", whose process died")
		err := removePrivateRack(ctx, home)
		failed = errors.Join(failed, unless(errors.Is(err, errInUse), err))
	}
	return failed
}

// inUse says whether the process of a rack lives. That may change at once;
// whoever acts on it takes the lock anyway.
func inUse(home string) bool {
	lock, err := os.Open(filepath.Join(home, "lock"))
	if err != nil {
		return false
	}
	defer lock.Close()
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

func removePrivateRack(ctx context.Context, home string) error {
	r := leftRack(filepath.Base(home), home)
	own, err := startDaemon(ctx, home)
	if err != nil {
		return err
	}
	r.own = own
	return r.Remove(ctx)
}

// takeAway removes a rack whose process lives. That process will notice.
func (r *lxdRack) takeAway(ctx context.Context) error {
	if err := r.removeContent(ctx); err != nil {
		return err
	}
	if pid := daemonPID(r.dir); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGPWR); err != nil {
			return fmt.Errorf("stop LXD: %w", err)
		}
		if err := awaitEnd(ctx, pid); err != nil {
			return err
		}
	}
	return removeHome(r.dir)
}

// leftRack returns a rack of which only the name is known.
func leftRack(id, home string) *lxdRack {
	return &lxdRack{client: client{dir: home, project: projectPrefix + id}, id: id}
}
