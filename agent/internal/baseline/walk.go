package baseline

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpuaas/agent/internal/inspect"
	"gpuaas/contract/agentwire"
)

// maxWalked bounds the walk through all file systems, which tenants could fill.
const maxWalked = 20_000_000

// unwalked are file systems that hold no files of anybody, or none that can be
// changed. Layers of containers lie on another file system, and are seen there.
var unwalked = []string{
	"proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "hugetlbfs", "debugfs", "tracefs", "securityfs",
	"pstore", "efivarfs", "bpf",
	"configfs", "fusectl", "binfmt_misc", "autofs", "nsfs", "rpc_pipefs", "selinuxfs", "squashfs", "iso9660", "erofs",
	"cramfs", "overlay",
}

// walk looks at every file of every local file system, each once.
func (l *look) walk(ctx context.Context) {
	mounts, err := l.Machine.Mounts()
	if errors.Is(err, fs.ErrNotExist) && !l.Host.Real() {
		mounts = []inspect.Mount{{Root: "/", Point: "/", Type: "root"}}
	} else if err != nil {
		l.missed("file systems", err)
		return
	}
	points := map[string]bool{}
	for _, m := range mounts {
		points[m.Point] = true
	}
	for _, m := range l.local(mounts) {
		if l.Progress != nil {
			l.Progress(m.Point)
		}
		l.taken.Points = append(l.taken.Points, m.Point)
		v := volume{look: l, at: m.Point, points: points}
		v.walk(ctx)
	}
}

// local are the mounts to walk through. A folder of a file system that is
// mounted a second time is seen already.
func (l *look) local(mounts []inspect.Mount) []inspect.Mount {
	var chosen []inspect.Mount
	byRoot := slices.Clone(mounts)
	slices.SortStableFunc(byRoot, func(a, b inspect.Mount) int { return len(a.Root) - len(b.Root) })
	for _, m := range byRoot {
		top, _ := inspect.Holding(mounts, m.Point)
		switch {
		case m.Shared():
			l.taken.Shared = append(l.taken.Shared, m.Point)
			continue
		case slices.Contains(unwalked, m.Type) && m.Point != "/", inspect.Within(m.Point, "/proc"),
			inspect.Within(m.Point, "/sys"):
			continue
		case top.Device != m.Device || top.Root != m.Root: // another one was mounted over it
			continue
		case slices.ContainsFunc(chosen, func(c inspect.Mount) bool {
			return m.Device != "" && c.Device == m.Device && inspect.Within(m.Root, c.Root)
		}):
			continue
		}
		chosen = append(chosen, m)
	}
	slices.SortFunc(chosen, func(a, b inspect.Mount) int { return strings.Compare(a.Point, b.Point) })
	return chosen
}

// volume is one file system being walked through.
type volume struct {
	*look
	at      string
	points  map[string]bool // where something is mounted
	device  uint64
	kind    int64  // of file system
	plain   bool   // it has no extended attributes
	foreign string // the folder of a stranger that is being walked through
}

func (v *volume) walk(ctx context.Context) {
	root := v.Host.Path(v.at)
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error { // it fails only where the function does
		if ctx.Err() != nil {
			return fs.SkipAll // the caller sees that, too
		}
		shown := filepath.Join(v.at, strings.TrimPrefix(path, root))
		if err != nil {
			if !v.outOfReach(e, err) {
				v.missed(shown, err)
			}
			return nil
		}
		if shown != v.at && v.points[shown] || shown == "/proc" || shown == "/sys" {
			return skip(e)
		}
		if v.taken.Files++; v.taken.Files > maxWalked {
			v.missed(v.at, fmt.Errorf("there are more than %d files: not looked at to the end", maxWalked))
			return fs.SkipAll
		}
		info, err := e.Info()
		if err != nil {
			v.missed(shown, err)
			return nil
		}
		if info.IsDir() && v.elsewhere(path, info) {
			return fs.SkipDir
		}
		return v.visit(shown, info)
	})
}

// nobody is whom files of accounts outside of a user namespace seem to belong to.
const nobody = 65534

// outOfReach says whether a folder belongs to an account outside of the user
// namespace that the machine is, as the host's own folders in a container do:
// root of the machine cannot read it, and nobody on the machine can put anything
// there or give a file to that account. Root of a real machine reads everything.
func (v *volume) outOfReach(e fs.DirEntry, err error) bool {
	if e == nil || !errors.Is(err, fs.ErrPermission) {
		return false
	}
	ids, readErr := os.ReadFile(v.Host.Path("/proc/self/uid_map"))
	if f := strings.Fields(string(ids)); readErr != nil || len(f) == 3 && f[2] == "4294967295" {
		return false
	}
	info, infoErr := e.Info()
	return infoErr == nil && stat(info).Uid == nobody
}

func skip(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// elsewhere says whether a folder lies on another file system that was mounted
// meanwhile. Parts of one file system may have devices of their own.
func (v *volume) elsewhere(path string, info fs.FileInfo) bool {
	dev := stat(info).Dev
	if v.device != 0 && dev == v.device {
		return false
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		v.missed(path, err)
		return true
	}
	if v.device == 0 {
		v.device, v.kind = dev, int64(s.Type) //nolint:unconvert // it differs between architectures
	}
	return int64(s.Type) != v.kind //nolint:unconvert // as above
}

func (v *volume) visit(path string, info fs.FileInfo) error {
	st := stat(info)
	uid, gid := int(st.Uid), int(st.Gid)
	if v.Given(uid) || v.Given(gid) {
		if len(v.taken.Owned) < maxOwned {
			v.taken.Owned = append(v.taken.Owned, agentwire.CleanFinding{
				Kind: "files", Subject: bounded(path), Detail: fmt.Sprintf(
					"belongs to uid %d and gid %d, one of which a tenant has or had", uid, gid),
			})
		}
		return skipInfo(info) // it counts as one
	}
	if inside := v.foreign != "" && inspect.Within(path, v.foreign); !inside && (v.Foreign(uid) || v.Foreign(gid)) {
		v.foreign = path
		v.add(agentwire.EntryForeign, path, fmt.Sprintf("uid %d gid %d", uid, gid))
	}
	if info.Mode().IsRegular() && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		v.setID(path, info)
	}
	if info.Mode().IsRegular() || info.IsDir() {
		v.attributes(path)
	}
	return nil
}

func skipInfo(info fs.FileInfo) error {
	if info.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func (v *volume) setID(path string, info fs.FileInfo) {
	sum, err := v.digest(path)
	if err != nil {
		v.missed(path, err)
		return
	}
	st := stat(info)
	v.add(agentwire.EntrySetID, path, fmt.Sprintf("mode %04o uid %d gid %d %s", st.Mode&0o7777, st.Uid, st.Gid, sum))
}

// attributes keeps capabilities and ACLs.
func (v *volume) attributes(path string) {
	if v.plain {
		return
	}
	place := v.Host.Path(path)
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(place, names)
	switch {
	case errors.Is(err, unix.ENOTSUP):
		v.plain = true
		return
	case errors.Is(err, unix.ERANGE): // only who owns a file gives it that many
		v.missed(path, err)
		return
	case err != nil:
		v.missed(path, &os.PathError{Op: "look", Path: path, Err: err})
		return
	}
	var acl []string
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		switch name {
		case "security.capability":
			v.add(agentwire.EntryCapability, path, hex.EncodeToString(v.attribute(place, path, name)))
		case "system.posix_acl_access":
			acl = append(acl, "access"+aclText(v.attribute(place, path, name)))
		case "system.posix_acl_default":
			acl = append(acl, "default"+aclText(v.attribute(place, path, name)))
		}
	}
	if len(acl) > 0 {
		slices.Sort(acl)
		v.add(agentwire.EntryACL, path, strings.Join(acl, " "))
	}
}

func (v *volume) attribute(place, path, name string) []byte {
	value := make([]byte, 4096)
	n, err := unix.Lgetxattr(place, name, value)
	if err != nil {
		v.missed(path, &os.PathError{Op: "look", Path: path, Err: err})
		return nil
	}
	return value[:n]
}

// aclText writes an ACL as the kernel keeps it: a version of four bytes, then
// entries of tag, rights and id.
func aclText(raw []byte) string {
	tags := map[uint16]string{1: "u", 2: "user", 4: "g", 8: "group", 16: "m", 32: "o"}
	var text strings.Builder
	for raw = raw[min(4, len(raw)):]; len(raw) >= 8; raw = raw[8:] {
		tag, rights, id := binary.LittleEndian.Uint16(raw), binary.LittleEndian.Uint16(raw[2:]),
			binary.LittleEndian.Uint32(raw[4:])
		fmt.Fprintf(&text, " %s", tags[tag])
		if tag == 2 || tag == 8 {
			fmt.Fprintf(&text, ":%d", id)
		}
		fmt.Fprintf(&text, ":%d", rights)
	}
	return text.String()
}
