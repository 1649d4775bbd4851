package inspect

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Mount is one mounted file system.
type Mount struct {
	Device  string // major:minor; empty for lines of /etc/fstab
	Root    string // the mounted folder of the file system; "/" is all of it
	Point   string
	Type    string
	Source  string
	Options []string // of the mount and of the file system
}

// Option returns the value of an option such as user_id=1000.
func (m Mount) Option(name string) (value string, ok bool) {
	for _, o := range m.Options {
		if value, ok := strings.CutPrefix(o, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// network lists file systems that several machines can use, by the beginning of
// their type.
var network = []string{
	"nfs", "cifs", "smb", "wekafs", "lustre", "ceph", "gpfs", "beegfs", "glusterfs", "ocfs2", "gfs2", "afs", "9p", "fuse.",
	"fuseblk", "virtiofs",
}

// Shared says whether other machines may use the content too.
func (m Mount) Shared() bool {
	return m.Type == "fuse" || slices.ContainsFunc(network, func(t string) bool { return strings.HasPrefix(m.Type, t) })
}

// Mounts lists what is mounted, in the order of mounting.
func (m Machine) Mounts() ([]Mount, error) {
	raw, err := os.ReadFile(m.Host.Path("/proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return parseMounts(string(raw)), nil
}

// FileTable lists the mounts of /etc/fstab, which the site wants.
func (m Machine) FileTable() []Mount {
	return parseFileTable(m.text("/etc/fstab"))
}

// Holding finds the mount that holds a path.
func Holding(mounts []Mount, path string) (Mount, bool) {
	best, found := Mount{}, false
	for _, m := range mounts {
		if Within(path, m.Point) && len(m.Point) >= len(best.Point) {
			best, found = m, true // a later mount at the same place hides the earlier one
		}
	}
	return best, found
}

// Within says whether path is folder or lies below it.
func Within(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// parseMounts reads proc_pid_mountinfo(5):
// id parent major:minor root point options [tags…] - type source options.
func parseMounts(text string) []Mount {
	var mounts []Mount
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(strings.TrimRight(line, "\n"), " - ")
		left, right := strings.Fields(head), strings.Fields(tail)
		if !ok || len(left) < 6 || len(right) < 2 {
			continue
		}
		mount := Mount{
			Device: left[2], Root: unescape(left[3]), Point: unescape(left[4]), Type: right[0],
			Source: unescape(right[1]), Options: strings.Split(left[5], ","),
		}
		if len(right) > 2 {
			mount.Options = append(mount.Options, strings.Split(right[2], ",")...)
		}
		mounts = append(mounts, mount)
	}
	return mounts
}

func parseFileTable(text string) []Mount {
	var mounts []Mount
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		mount := Mount{Source: unescape(fields[0]), Point: unescape(fields[1]), Type: fields[2]}
		if len(fields) > 3 {
			mount.Options = strings.Split(fields[3], ",")
		}
		mounts = append(mounts, mount)
	}
	return mounts
}

// unescape turns \040 back into a space, and so on.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
