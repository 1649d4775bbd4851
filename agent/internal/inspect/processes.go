package inspect

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Process is one process of the machine.
type Process struct {
	PID  int
	Name string
	// UIDs are the real, effective, saved and file system user.
	UIDs []int
}

// Belongs says whether any of the process's user ids is uid.
func (p Process) Belongs(uid int) bool { return slices.Contains(p.UIDs, uid) }

// Processes lists what runs. It leaves out processes that end meanwhile.
func (m Machine) Processes() ([]Process, error) {
	entries, err := os.ReadDir(m.Host.Path("/proc"))
	if err != nil {
		return nil, fmt.Errorf("read processes: %w", err)
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := m.Process(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// Process looks at one process. ok is false if it has ended.
func (m Machine) Process(pid int) (p Process, ok bool) {
	raw, err := os.ReadFile(m.Host.Path("/proc/" + strconv.Itoa(pid) + "/status"))
	if err != nil {
		return Process{}, false
	}
	p, ok = parseStatus(string(raw))
	p.PID = pid
	return p, ok
}

// parseStatus reads a process from its status file. It skips zombies: they hold
// nothing any more.
func parseStatus(text string) (p Process, ok bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "Name":
			p.Name = strings.ToValidUTF8(value, "?")
		case "State":
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return Process{}, false
			}
		case "Uid":
			for f := range strings.FieldsSeq(value) {
				uid, err := strconv.ParseUint(f, 10, 32)
				if err != nil {
					return Process{}, false
				}
				p.UIDs = append(p.UIDs, int(uid))
			}
		}
	}
	return p, len(p.UIDs) == 4
}
