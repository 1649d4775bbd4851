package inspect

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gpuaas/contract/agentwire"
)

// sshFolder holds the configuration of the SSH server, which is sshd of OpenSSH.
const sshFolder = "/etc/ssh"

// usualHostKeys are what sshd uses if its configuration names none.
var usualHostKeys = []string{
	sshFolder + "/ssh_host_ed25519_key", sshFolder + "/ssh_host_ecdsa_key", sshFolder + "/ssh_host_rsa_key",
}

const (
	mostConfigFiles = 64
	mostConfigText  = 256 << 10
)

// HostKeys returns the public halves of the keys that the configuration of the
// SSH server names, sorted. Private keys are never read. It returns none if the
// machine has no SSH server, or if it cannot tell.
func (m Machine) HostKeys() []string {
	reader := sshConfig{machine: m}
	reader.read(sshFolder + "/sshd_config")
	files := reader.hostKeys
	if len(files) == 0 {
		files = usualHostKeys
	}
	var keys []string
	for _, file := range files {
		text, err := m.small(file+".pub", agentwire.MaxHostKeyText)
		fields := strings.Fields(text) // algorithm, key, and a comment that nobody needs
		if err != nil || len(fields) < 2 {
			continue
		}
		line := fields[0] + " " + fields[1]
		if _, err := agentwire.ParseHostKey(line); err == nil {
			keys = append(keys, line)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys[:min(len(keys), agentwire.MaxHostKeys)]
}

// sshConfig reads the configuration of the SSH server as far as it is about its
// host keys.
type sshConfig struct {
	machine  Machine
	seen     int
	hostKeys []string
}

func (c *sshConfig) read(file string) {
	if c.seen++; c.seen > mostConfigFiles {
		return
	}
	text, err := c.machine.small(file, mostConfigText)
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		words := configWords(line)
		if len(words) < 2 {
			continue
		}
		switch strings.ToLower(words[0]) {
		case "match":
			return // host keys are the same for everybody: none may follow
		case "hostkey":
			if filepath.IsAbs(words[1]) && len(c.hostKeys) < agentwire.MaxHostKeys {
				c.hostKeys = append(c.hostKeys, filepath.Clean(words[1]))
			}
		case "include":
			for _, pattern := range words[1:] {
				c.include(pattern)
			}
		}
	}
}

func (c *sshConfig) include(pattern string) {
	if !filepath.IsAbs(pattern) {
		pattern = sshFolder + "/" + pattern
	}
	root := c.machine.Host.Path("/")
	found, err := filepath.Glob(c.machine.Host.Path(pattern))
	if err != nil {
		return // no pattern: sshd refuses it as well
	}
	for _, file := range found { // sorted
		c.read("/" + strings.TrimPrefix(strings.TrimPrefix(file, root), "/"))
	}
}

// configWords splits a line of the configuration: a keyword, then arguments, which
// may be in double quotes. The first may follow an equals sign.
func configWords(line string) []string {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return nil
	}
	end := strings.IndexAny(line, " \t=")
	if end < 0 {
		return []string{line}
	}
	words, rest := []string{line[:end]}, strings.TrimLeft(line[end:], " \t")
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "="), " \t")
	for rest != "" && rest[0] != '#' {
		var word string
		if rest[0] == '"' {
			word, rest, _ = strings.Cut(rest[1:], `"`)
		} else if end := strings.IndexAny(rest, " \t"); end >= 0 {
			word, rest = rest[:end], rest[end:]
		} else {
			word, rest = rest, ""
		}
		words, rest = append(words, word), strings.TrimLeft(rest, " \t")
	}
	return words
}

var errNotSmall = errors.New("not a file of that size")

// small reads a file of limited size. It never waits for one that is no file: who
// has root on the machine could put a pipe in its place.
func (m Machine) small(path string, most int64) (string, error) {
	f, err := os.OpenFile(m.Host.Path(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return "", errNotSmall
	}
	raw, err := io.ReadAll(io.LimitReader(f, most))
	return string(raw), err
}
