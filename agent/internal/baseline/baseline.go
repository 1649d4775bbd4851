// Package baseline writes down what an installation is like: everything that
// somebody who had an account could have added or changed to come back, to
// listen, or to get more rights. It is taken once before any tenant was on the
// machine, and again whenever the machine is to be proven clean; the control
// plane keeps the first and compares. Nothing here changes the machine.
package baseline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/inspect"
	"gpuaas/contract/agentwire"
)

// Taker looks at one machine.
type Taker struct {
	Host    hostexec.Host
	Machine inspect.Machine
	Clock   func() time.Time
	// Given says whether an id is one that a tenant has or had on this
	// installation. What belongs to one is told as a finding, not as an entry.
	Given func(id int) bool
	// Foreign says whether an id is one that only tenants have; what belongs to
	// such an id, and to no tenant that is known of, is an entry.
	Foreign func(id int) bool
	// Progress is told which file system is being looked at; nil: nobody is.
	Progress func(point string)
}

// Taken is what was seen.
type Taken struct {
	Inventory agentwire.Inventory
	// Owned are files of tenants, each folder of theirs as one.
	Owned []agentwire.CleanFinding
	// Files is how many files were looked at, on Points.
	Files  int
	Points []string
	// Shared are the mount points of what other machines use as well.
	Shared []string
}

// Bounds of what is told.
const (
	maxOwned  = 200
	maxUnseen = 50
)

// look is one inventory in the making.
type look struct {
	Taker
	taken  Taken
	unseen int
	cut    bool // there is more than can be told
}

// Take looks at everything. What cannot be looked at is named; only the end of
// the context is an error.
func (t Taker) Take(ctx context.Context) (Taken, error) {
	l := &look{Taker: t}
	l.taken.Inventory = agentwire.Inventory{
		Installation: t.Installation(), TakenAt: t.Clock().UTC(), Entries: []agentwire.Entry{}, Unseen: []string{},
	}
	for _, part := range []func(){l.accounts, l.keys, l.starts, l.jobs, l.modules, l.sockets, l.spools, l.agent} {
		part()
	}
	l.walk(ctx)
	if err := ctx.Err(); err != nil {
		return Taken{}, fmt.Errorf("look at the installation: %w", err)
	}
	l.settle()
	return l.taken, nil
}

// Installation tells this installation from the next one on the same machine;
// empty: it has no id of its own.
func (t Taker) Installation() string {
	id, err := t.text("/etc/machine-id", 128)
	if id = strings.TrimSpace(id); err != nil || id == "" {
		return ""
	}
	board, _ := t.text("/sys/class/dmi/id/product_uuid", 128) // a container has none
	sum := sha256.Sum256([]byte("gpuaas-installation-v1\n" + id + "\n" + strings.TrimSpace(board)))
	return hex.EncodeToString(sum[:])
}

// add keeps an entry. Names and values that are too long, or hold what a
// database cannot, stand as their digest.
func (l *look) add(kind, name, value string) {
	const most = 4 * agentwire.MaxEntries // of which vendor files are left out again
	if len(l.taken.Inventory.Entries) < most {
		l.taken.Inventory.Entries = append(l.taken.Inventory.Entries,
			agentwire.Entry{Kind: kind, Name: bounded(name), Value: bounded(value)})
		return
	}
	l.cut = true
}

func bounded(s string) string {
	if quoted := strconv.QuoteToASCII(s); quoted[1:len(quoted)-1] != s {
		s = quoted
	}
	if len(s) <= agentwire.MaxEntryText-100 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return s[:200] + "… sha256:" + hex.EncodeToString(sum[:])
}

// missed notes what could not be looked at. What is not there need not be.
func (l *look) missed(what string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	var in *fs.PathError
	if errors.As(err, &in) {
		err = in.Err
	}
	if l.unseen++; l.unseen <= maxUnseen {
		l.taken.Inventory.Unseen = append(l.taken.Inventory.Unseen, bounded(what+": "+err.Error()))
	}
}

// settle says what packages brought, and puts everything in order.
func (l *look) settle() {
	entries := l.markPackaged(l.taken.Inventory.Entries)
	slices.SortFunc(entries, func(a, b agentwire.Entry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	entries = slices.Compact(entries)
	size := 0
	for i, e := range entries {
		if size += len(e.Kind) + len(e.Name) + len(e.Value) + len(
			`{"kind":"","name":"","value":"","packaged":true},`); size > agentwire.MaxInventory || i >= agentwire.MaxEntries {
			entries, l.cut = entries[:i], true
			break
		}
	}
	l.taken.Inventory.Entries = entries
	if l.cut {
		l.taken.Inventory.Unseen = append(l.taken.Inventory.Unseen, "there are more entries than can be told")
	}
	if more := l.unseen - maxUnseen; more > 0 {
		l.taken.Inventory.Unseen = append(l.taken.Inventory.Unseen, fmt.Sprintf("%d more places", more))
	}
}

// text reads a small file of the machine.
func (t Taker) text(path string, most int64) (string, error) {
	raw, err := t.read(path, most)
	return string(raw), err
}

// read reads a file that somebody may have exchanged for something that never
// ends, or for a link.
func (t Taker) read(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(t.Host.Path(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return raw, err
}

const maxHashed = 256 << 20

// digest is the SHA-256 of a file, which is not followed when it is a link.
func (t Taker) digest(path string) (string, error) {
	f, err := os.OpenFile(t.Host.Path(path), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("it is not a file"))
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(f, maxHashed+1))
	if err == nil && n > maxHashed {
		err = fmt.Errorf("it has more than %d bytes", maxHashed)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
}

// file keeps an entry for a file or a link, whatever it is.
func (l *look) file(kind, path string, info fs.FileInfo) {
	st := stat(info)
	owner := ""
	if st.Uid != 0 || st.Gid != 0 {
		owner = fmt.Sprintf(" uid %d gid %d", st.Uid, st.Gid)
	}
	switch {
	case info.Mode().IsRegular():
		sum, err := l.digest(path)
		if err != nil {
			l.missed(path, err)
			return
		}
		l.add(kind, path, sum+owner)
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(l.Host.Path(path))
		if err != nil {
			l.missed(path, err)
			return
		}
		l.add(kind, path, "-> "+to)
	case !info.IsDir():
		l.add(kind, path, info.Mode().Type().String()+owner)
	}
}

// short names something that is only compared.
func short(content string) string {
	sum := sha256.Sum256([]byte(content))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

func stat(info fs.FileInfo) *syscall.Stat_t {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st
	}
	return &syscall.Stat_t{}
}
