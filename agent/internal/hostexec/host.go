// Package hostexec is the agent's only way to start programs. It starts only
// the programs on its list and, confined, those of signed command profiles: by
// absolute path and argument list, never through a shell, in a clean
// environment, with limited output and time, and it ends whole process groups.
// It also knows where the files of the machine are.
package hostexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoProgram says that a program is not installed on the machine.
var ErrNoProgram = errors.New("the program is not installed on this machine")

// Host is the machine that the agent works on. If Root is not "/", every file
// and program is looked for below it.
type Host struct {
	Root string
}

// Real says whether the machine is the one that the process runs on.
func (h Host) Real() bool { return h.Root == "" || filepath.Clean(h.Root) == "/" }

// Path returns where an absolute path of the machine is.
func (h Host) Path(p string) string {
	if h.Real() {
		return filepath.Clean(p)
	}
	return filepath.Join(h.Root, p)
}

// agentFolder holds the agent's own programs, one folder per version.
const agentFolder = "/opt/gpuaas/agent/"

// SimulatedGPUs is where a machine that is only a folder has the program that
// answers for its simulated GPUs. It is no program of a real machine.
const SimulatedGPUs = "/usr/lib/gpuaas-simulated-gpus"

// programs lists what may be started, and where it is looked for.
var programs = map[string][]string{
	"apt-get":    {"/usr/bin/apt-get"},
	"dpkg":       {"/usr/bin/dpkg"},
	"dpkg-query": {"/usr/bin/dpkg-query"},
	"journalctl": {"/usr/bin/journalctl", "/bin/journalctl"},
	"groupadd":   {"/usr/sbin/groupadd", "/sbin/groupadd"},
	"groupdel":   {"/usr/sbin/groupdel", "/sbin/groupdel"},
	"useradd":    {"/usr/sbin/useradd", "/sbin/useradd"},
	"userdel":    {"/usr/sbin/userdel", "/sbin/userdel"},
	"usermod":    {"/usr/sbin/usermod", "/sbin/usermod"},
	"visudo":     {"/usr/sbin/visudo", "/sbin/visudo"},
	"loginctl":   {"/usr/bin/loginctl", "/bin/loginctl"},
	"systemctl":  {"/usr/bin/systemctl", "/bin/systemctl"},
	"ipcrm":      {"/usr/bin/ipcrm"},
	"umount":     {"/usr/bin/umount", "/bin/umount"},
	"mkfs.ext4":  {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"},
	"mkfs.xfs":   {"/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"},
	"nvidia-smi": {"/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi"},
	"amd-smi":    {"/opt/rocm/bin/amd-smi", "/usr/bin/amd-smi"},
	"rocm-smi":   {"/opt/rocm/bin/rocm-smi", "/usr/bin/rocm-smi"},
	"weka":       {"/usr/bin/weka", "/usr/local/bin/weka"},
	"gpuaas-gpu": {agentFolder + "current/gpuaas-gpu"},
}

// Program finds a program of the list by its name or by one of its paths. It
// also finds the agent's own programs by the path of any installed version. It
// returns the path on the machine, without the root.
func (h Host) Program(name string) (string, error) {
	if own(name) {
		if !executable(h.Path(name)) {
			return "", fmt.Errorf("%s: %w", name, ErrNoProgram)
		}
		return name, nil
	}
	if name == SimulatedGPUs && !h.Real() && executable(h.Path(name)) {
		return name, nil
	}
	candidates, listed := programs[name]
	if !listed {
		candidates = listedPath(name)
	}
	if len(candidates) == 0 {
		return "", fmt.Errorf("%q is not a program that the agent may start", name)
	}
	for _, p := range candidates {
		if executable(h.Path(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, ErrNoProgram)
}

func listedPath(path string) []string {
	for _, candidates := range programs {
		if slices.Contains(candidates, path) {
			return []string{path}
		}
	}
	return nil
}

// own says whether path is a program of the agent itself: a known name in the
// folder of a version.
func own(path string) bool {
	rest, below := strings.CutPrefix(path, agentFolder)
	if !below || filepath.Clean(path) != path {
		return false
	}
	version, name, ok := strings.Cut(rest, "/")
	return ok && version != "" && (name == "gpuaas-agent" || name == "gpuaas-gpu")
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
