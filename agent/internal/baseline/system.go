package baseline

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuaas/contract/agentwire"
)

// modules are what is in the kernel. A container has the kernel of its host,
// about which it can say nothing.
func (l *look) modules() {
	if _, err := os.Stat(l.Host.Path("/run/systemd/container")); err == nil {
		return
	}
	loaded, err := l.text("/proc/modules", maxText)
	l.missed("/proc/modules", err)
	release, err := l.text("/proc/sys/kernel/osrelease", 256)
	release = strings.TrimSpace(release)
	if loaded == "" || err != nil || release == "" || strings.Contains(release, "/") {
		return
	}
	files, index := l.moduleFiles(release)
	if index != "" {
		l.add(agentwire.EntryModuleIndex, release, index)
	}
	for line := range strings.Lines(loaded) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" {
			l.add(agentwire.EntryModule, name, files[name])
		}
	}
}

// moduleFiles are the files of the modules that the kernel finds by itself, and
// the digest of the list of them.
func (l *look) moduleFiles(release string) (files map[string]string, index string) {
	folder := "/lib/modules/" + release
	list := folder + "/modules.dep"
	text, err := l.text(list, 16<<20)
	if err != nil {
		l.missed(list, err)
		return nil, ""
	}
	files = map[string]string{}
	for line := range strings.Lines(text) {
		path, _, _ := strings.Cut(line, ":")
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		files[strings.ReplaceAll(name, "-", "_")] = folder + "/" + path
	}
	index, err = l.digest(list)
	l.missed(list, err)
	return files, index
}

// sockets are what listens, without addresses and numbers that change by
// themselves.
func (l *look) sockets() {
	low, high := l.ephemeral()
	var owners map[string]string
	for _, family := range []struct{ table, protocol, listens string }{
		{"tcp", "tcp", "0A"}, {"tcp6", "tcp", "0A"}, {"udp", "udp", "07"}, {"udp6", "udp", "07"},
	} {
		text, err := l.text("/proc/net/"+family.table, 64<<20)
		l.missed("/proc/net/"+family.table, err)
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != family.listens {
				continue
			}
			where, port, ok := socketAddress(fields[1])
			if !ok || family.protocol == "udp" && !strings.HasSuffix(fields[2], ":0000") {
				continue
			}
			if owners == nil {
				owners = l.socketOwners()
			}
			number := strconv.Itoa(port)
			if port >= low && port <= high {
				number = "ephemeral"
			}
			program := owners[fields[9]]
			if program == "" {
				program = "nobody" // the kernel itself, or it ended meanwhile
			}
			l.add(agentwire.EntrySocket, fmt.Sprintf("%s %s on %s by %s", family.protocol, number, where, program), "uid "+
				fields[7])
		}
	}
}

func (l *look) ephemeral() (low, high int) {
	text, err := l.text("/proc/sys/net/ipv4/ip_local_port_range", 64)
	if _, scanned := fmt.Sscan(text, &low, &high); err != nil || scanned != nil {
		return 32768, 60999
	}
	return low, high
}

// socketAddress reads an address of /proc/net: hexadecimal, words in the order
// of the machine.
func socketAddress(text string) (where string, port int, ok bool) {
	host, number, found := strings.Cut(text, ":")
	n, err := strconv.ParseUint(number, 16, 16)
	raw, hexErr := hex.DecodeString(host)
	if !found || err != nil || hexErr != nil {
		return "", 0, false
	}
	where = "the network"
	// Words are little-endian where GPUs are: the first byte of 127.0.0.1 is last.
	if len(raw) == 4 && raw[3] == 127 || host == "00000000000000000000000001000000" {
		where = "loopback"
	}
	return where, int(n), true
}

// socketOwners are the programs that hold sockets, by the number of the socket;
// of several the one that was there first.
func (l *look) socketOwners() map[string]string {
	owners, first := map[string]string{}, map[string]int{}
	folders, err := os.ReadDir(l.Host.Path("/proc"))
	l.missed("/proc", err)
	for _, f := range folders {
		pid, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		held, err := os.ReadDir(l.Host.Path("/proc/" + f.Name() + "/fd"))
		if err != nil {
			continue // it ended
		}
		for _, h := range held {
			to, err := os.Readlink(l.Host.Path("/proc/" + f.Name() + "/fd/" + h.Name()))
			socket, is := strings.CutPrefix(to, "socket:[")
			if err != nil || !is {
				continue
			}
			socket = strings.TrimSuffix(socket, "]")
			if before, known := first[socket]; known && before <= pid {
				continue
			}
			if p, alive := l.Machine.Process(pid); alive {
				owners[socket], first[socket] = p.Name, pid
			}
		}
	}
	return owners
}

// packageKinds are the kinds whose entries are files that a package may bring.
var packageKinds = []string{agentwire.EntrySetID, agentwire.EntryUnit, agentwire.EntryCron, agentwire.EntryModule}

// packagedPath is the file that an entry is about; empty: none that a package
// would bring.
func packagedPath(e agentwire.Entry) string {
	switch {
	case !slices.Contains(packageKinds, e.Kind), strings.HasPrefix(e.Value, "-> "):
		return ""
	case e.Kind == agentwire.EntryModule:
		return e.Value
	}
	return e.Name
}
