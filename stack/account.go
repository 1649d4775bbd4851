package stack

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the unprivileged user that runs PostgreSQL when the launcher is
// root, which PostgreSQL refuses to be.
type account struct {
	name     string
	uid, gid uint32
}

// databaseAccount is nil when the launcher is an ordinary user already.
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
	return nil, errors.New("find an account for PostgreSQL, which refuses to run as root: neither postgres nor nobody exists; make one with: useradd --system postgres")
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

// mustOwn refuses data of another user, which PostgreSQL would not open: a state
// folder is used by root or by an ordinary user, not by turns.
func (a *account) mustOwn(path string, info os.FileInfo) error {
	want := uint32(os.Geteuid()) //nolint:gosec // a user id
	if a != nil {
		want = a.uid
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == want {
		return nil
	}
	return fmt.Errorf("open database cluster %s: it belongs to user id %d and PostgreSQL would run as %d; start as the user that made it, or name another state folder", path, owner.Uid, want)
}

// access is the identity of a child and what it may do beyond it. The zero
// value is the launcher's own.
type access struct {
	credential   *syscall.Credential
	capabilities []uintptr
	barrier      string // folder that needs the capability
	account      string
}

// capDACReadSearch lets a process pass folders that would stop it.
const capDACReadSearch = 2

// accessTo drops to the account. Where a folder above path stops the account (a
// clone below /root, say) the child gets the capability to pass: nobody's
// permissions are changed, and the data folder itself stays guarded by owner.
func (a *account) accessTo(path string) (access, error) {
	if a == nil {
		return access{}, nil
	}
	rights := access{account: a.name, credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return access{}, fmt.Errorf("check way to data folder: %w", err)
		}
		if !a.mayPass(info) {
			rights.capabilities, rights.barrier = []uintptr{capDACReadSearch}, dir
			return rights, nil
		}
		if dir == filepath.Dir(dir) {
			return rights, nil
		}
	}
}

func (a *account) mayPass(dir os.FileInfo) bool {
	owner, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch {
	case owner.Uid == a.uid:
		return dir.Mode()&0o100 != 0
	case owner.Gid == a.gid:
		return dir.Mode()&0o010 != 0
	}
	return dir.Mode()&0o001 != 0
}

// explain adds what to do when the kernel does not let the launcher pass the
// capability on, as in a container that lacks it.
func (r access) explain(err error) error {
	if r.barrier == "" || !errors.Is(err, syscall.EPERM) {
		return err
	}
	return fmt.Errorf("%w: account %s cannot pass folder %s and this process may not grant CAP_DAC_READ_SEARCH; name a state folder that the account can reach, for example below /var/lib", err, r.account, r.barrier)
}
