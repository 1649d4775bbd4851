package baseline

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuaas/contract/agentwire"
)

const maxText = 4 << 20

// accounts are all accounts and groups, whoever made them.
func (l *look) accounts() {
	accounts, err := l.Machine.Accounts()
	if err != nil {
		l.missed("/etc/passwd", err)
	}
	for _, a := range accounts {
		l.add(agentwire.EntryAccount, a.Name, fmt.Sprintf("uid %d gid %d home %s shell %s", a.UID, a.GID, a.Home, a.Shell))
	}
	shadow, err := l.text("/etc/shadow", maxText)
	l.missed("/etc/shadow", err)
	for line := range strings.Lines(shadow) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 2 {
			continue
		}
		switch password := fields[1]; {
		case password == "":
			l.add(agentwire.EntryPassword, fields[0], "empty")
		case password[0] != '!' && password[0] != '*':
			l.add(agentwire.EntryPassword, fields[0], "set")
		}
	}
	groups, err := l.text("/etc/group", maxText)
	l.missed("/etc/group", err)
	for line := range strings.Lines(groups) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 4 {
			continue
		}
		l.add(agentwire.EntryGroup, fields[0], "gid "+fields[2])
		for member := range strings.SplitSeq(fields[3], ",") {
			if member != "" {
				l.add(agentwire.EntryMember, fields[0]+":"+member, "")
			}
		}
	}
}

// keys are what opens an account without a password, one by one.
func (l *look) keys() {
	accounts, err := l.Machine.Accounts()
	if err != nil {
		return // said already
	}
	var homes []string
	for _, a := range accounts {
		if !slices.Contains(homes, a.Home) && filepath.IsAbs(a.Home) {
			homes = append(homes, a.Home)
		}
	}
	for _, home := range homes {
		for _, name := range []string{"authorized_keys", "authorized_keys2"} {
			l.keysIn(filepath.Join(home, ".ssh", name))
		}
	}
}

func (l *look) keysIn(path string) {
	text, err := l.text(path, 1<<20)
	if err != nil {
		l.missed(path, err)
		return
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			l.add(agentwire.EntryKey, path+" "+short(line), "")
		}
	}
}

// startFolders hold what starts programs by itself, besides cron and at, or gives
// rights. More of them are agentwire.LaterPlaces.
var startFolders = []string{
	"/etc/systemd/system", "/etc/systemd/user", "/etc/systemd/system-generators", "/etc/systemd/user-generators",
	"/usr/local/lib/systemd",
	"/usr/lib/systemd/system", "/usr/lib/systemd/user", "/usr/lib/systemd/system-generators",
	"/usr/lib/systemd/user-generators",
	"/lib/systemd/system", "/lib/systemd/system-generators", "/run/systemd/system", "/run/systemd/transient",
	"/etc/init.d", "/etc/rc.local", "/etc/sudoers", "/etc/sudoers.d", "/etc/profile.d", "/etc/modules-load.d",
	"/etc/udev/rules.d", "/etc/ld.so.conf.d",
}

var cronPlaces = []string{
	"/etc/crontab", "/etc/anacrontab", "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly",
	"/etc/cron.monthly",
	"/var/spool/cron/crontabs", "/var/spool/cron/tabs",
}

var atPlaces = []string{"/var/spool/cron/atjobs", "/var/spool/cron/atspool", "/var/spool/at", "/var/spool/atjobs"}

func (l *look) starts() {
	_, err := os.Readlink(l.Host.Path("/lib"))
	merged := err == nil // what is there is looked at as /usr/lib
	l.taken.Inventory.Covers = slices.Clone(agentwire.LaterPlaces)
	for _, place := range slices.Concat(startFolders, agentwire.LaterPlaces) {
		if merged && strings.HasPrefix(place, "/lib/") {
			continue
		}
		l.filesIn(agentwire.EntryUnit, place, 0, func(name string) bool {
			// Sessions and slices come and go with logins; opasswd holds former passwords.
			return strings.HasPrefix(place, "/run/") &&
				(strings.HasSuffix(name, ".scope") || strings.HasSuffix(name, ".slice")) ||
				place == "/etc/security" && name == "opasswd"
		})
	}
	l.filesIn(agentwire.EntryPreload, "/etc/ld.so.preload", 0, nil)
}

func (l *look) jobs() {
	for _, place := range cronPlaces {
		l.filesIn(agentwire.EntryCron, place, 0, func(name string) bool { return name == ".placeholder" })
	}
	for _, place := range atPlaces {
		l.filesIn(agentwire.EntryAt, place, 0, func(name string) bool { return name == ".SEQ" || name == ".lockfile" })
	}
}

// spools are files in folders that everybody may write to, where nothing cleans
// up. Locks of the system itself come and go.
func (l *look) spools() {
	for _, place := range []string{"/var/crash", "/run/lock"} {
		entries, err := os.ReadDir(l.Host.Path(place))
		l.missed(place, err)
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				l.missed(place+"/"+e.Name(), err)
				continue
			}
			if uid := stat(info).Uid; place == "/var/crash" || uid >= firstUser {
				l.add(agentwire.EntrySpool, place+"/"+e.Name(), "uid "+strconv.FormatUint(uint64(uid), 10))
			}
		}
	}
}

// firstUser is the lowest id of accounts that are not of the system.
const firstUser = 1000

const deepest = 3

// filesIn keeps an entry for a file, or for all that is in a folder and the
// folders in it.
func (l *look) filesIn(kind, place string, depth int, skip func(name string) bool) {
	info, err := os.Lstat(l.Host.Path(place))
	if err != nil {
		l.missed(place, err)
		return
	}
	if !info.IsDir() {
		l.file(kind, place, info)
		return
	}
	if depth > deepest {
		return
	}
	entries, err := os.ReadDir(l.Host.Path(place))
	l.missed(place, err)
	for _, e := range entries {
		if skip == nil || !skip(e.Name()) {
			l.filesIn(kind, place+"/"+e.Name(), depth+1, skip)
		}
	}
}

// Folders and files of the agent.
const (
	programs  = "/opt/gpuaas/agent"
	agentUnit = "/etc/systemd/system/gpuaas-node-agent.service"
	settings  = "/etc/gpuaas/agent.env"
)

// agent are the files of the agent itself.
func (l *look) agent() {
	for _, path := range append(l.programs(), agentUnit, settings) {
		info, err := os.Lstat(l.Host.Path(path))
		if err != nil {
			l.missed(path, err)
			continue
		}
		l.file(agentwire.EntryAgent, path, info)
	}
}

func (t Taker) programs() []string {
	versions, err := os.ReadDir(t.Host.Path(programs))
	if err != nil {
		return nil
	}
	var paths []string
	for _, v := range versions {
		if !v.IsDir() {
			paths = append(paths, programs+"/"+v.Name())
			continue
		}
		for _, name := range []string{"gpuaas-agent", "gpuaas-gpu"} {
			paths = append(paths, programs+"/"+v.Name()+"/"+name)
		}
	}
	return paths
}

// AgentFiles are the entries about the programs of the agent in some folders of
// versions, and the links to them, for the task that changed them.
func (t Taker) AgentFiles(folders ...string) []agentwire.Entry {
	l := &look{Taker: t}
	l.agent()
	return slices.DeleteFunc(l.taken.Inventory.Entries, func(e agentwire.Entry) bool {
		rest, program := strings.CutPrefix(e.Name, programs+"/")
		folder, _, file := strings.Cut(rest, "/")
		if !file {
			target, link := strings.CutPrefix(e.Value, "-> ")
			return !program || !link || !slices.Contains(folders, target)
		}
		return !program || !slices.Contains(folders, folder)
	})
}

// Written is the entry about a file that root wrote.
func Written(path, content string) agentwire.Entry {
	sum := sha256.Sum256([]byte(content))
	return agentwire.Entry{Kind: agentwire.EntryUnit, Name: path, Value: "sha256:" + hex.EncodeToString(sum[:])}
}

// Units are the entries about files that start programs, for the task that
// wrote them.
func (t Taker) Units(paths ...string) []agentwire.Entry {
	l := &look{Taker: t}
	for _, path := range paths {
		if info, err := os.Lstat(t.Host.Path(path)); err == nil {
			l.file(agentwire.EntryUnit, path, info)
		}
	}
	return l.taken.Inventory.Entries
}
