package baseline

import (
	"crypto/md5" //nolint:gosec // what the package manager keeps; it decides nothing by itself
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gpuaas/contract/agentwire"
)

const (
	packageData = "/var/lib/dpkg"
	// offeredData are digests of files that packages do not bring themselves but
	// offer to the administrator.
	offeredData = "/var/lib/ucf/hashfile"
)

// offered are the files that offeredData is believed about: anybody with root adds
// lines to it.
var offered = []string{"/etc/ssh/sshd_config"}

// vendorFolders are written by packages only: what they brought there, unchanged,
// need not be told.
var vendorFolders = []string{"/usr/lib/", "/lib/"}

// markPackaged says which entries an installed package brought as they are, and
// leaves out those of vendor folders.
func (l *look) markPackaged(entries []agentwire.Entry) []agentwire.Entry {
	wanted := map[string]bool{}
	for _, e := range entries {
		if path := packagedPath(e); path != "" {
			wanted[path] = true
		}
	}
	known := l.packageDigests(wanted)
	kept := []agentwire.Entry{}
	for _, e := range entries {
		if path := packagedPath(e); path != "" && known[path] != "" && l.md5(path) == known[path] {
			e.Packaged = true
			if vendor := func(f string) bool { return strings.HasPrefix(path, f) }; e.Kind == agentwire.EntryUnit &&
				slices.ContainsFunc(vendorFolders, vendor) {
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// packageDigests are the digests that the package manager has of files.
func (l *look) packageDigests(wanted map[string]bool) map[string]string {
	known := map[string]string{}
	lists, err := filepath.Glob(l.Host.Path(packageData + "/info/*.md5sums"))
	if err != nil {
		return known
	}
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue // then nothing is known of its files
		}
		for line := range strings.Lines(string(raw)) {
			sum, path, ok := strings.Cut(strings.TrimRight(line, "\n"), "  ")
			if ok {
				note(known, wanted, "/"+path, sum)
			}
		}
	}
	if status, err := os.ReadFile(l.Host.Path(packageData + "/status")); err == nil {
		for line := range strings.Lines(string(status)) { // files of the administrator: " /etc/cron.d/x digest"
			if fields := strings.Fields(line); strings.HasPrefix(line, " /") && len(fields) == 2 {
				note(known, wanted, fields[0], fields[1])
			}
		}
	}
	if lines, err := os.ReadFile(l.Host.Path(offeredData)); err == nil {
		for line := range strings.Lines(string(lines)) { // "digest  /etc/ssh/sshd_config"
			if sum, path, ok := strings.Cut(strings.TrimRight(line, "\n"), "  "); ok && slices.Contains(offered, path) {
				note(known, wanted, path, sum)
			}
		}
	}
	return known
}

// note keeps a digest under the name that the machine has for the file: packages
// may still say /bin where that is /usr/bin.
func note(known map[string]string, wanted map[string]bool, path, sum string) {
	for _, name := range []string{path, "/usr" + path, strings.TrimPrefix(path, "/usr")} {
		if wanted[name] {
			known[name] = sum
		}
	}
}

func (l *look) md5(path string) string {
	f, err := os.OpenFile(l.Host.Path(path), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	sum := md5.New() //nolint:gosec // as above
	if _, err := io.Copy(sum, io.LimitReader(f, maxHashed)); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}
