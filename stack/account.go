package stack

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the unprivileged user that runs PostgreSQL if the launcher is
// root, because PostgreSQL refuses to run as root.
type account struct {
	name     string
	uid, gid uint32
}

// databaseAccount is nil if the launcher is an ordinary user already.
func databaseAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read account %s: %w", name, err)
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("find an account for PostgreSQL, which refuses to run as root: neither postgres nor nobody " +
		"exists; make one with: useradd --system postgres")
}

// own makes the account the owner of a folder.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("give folder to account %s: %w", a.name, err)
	}
	return nil
}

// mustOwn refuses data of another user, which PostgreSQL would not open: a
// state folder is used by root or by an ordinary user, not by both in turn.
func (a *account) mustOwn(path string, info os.FileInfo) error {
	want := uint32(os.Geteuid()) //nolint:gosec // a user id
	if a != nil {
		want = a.uid
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == want {
		return nil
	}
	return fmt.Errorf("open database cluster %s: it belongs to user id %d and PostgreSQL would run as %d; start as the "+
		"user that made it, or name another state folder", path, owner.Uid, want)
}

// credential is the identity of a child that runs as the account. Nil means the
// launcher's own.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}
