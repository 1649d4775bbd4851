package rack

import (
	"crypto/rand"
	_ "embed" // the programs of the host
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed fakehost.sh
var hostPrograms []byte

// hostProgramNames are the names of the script. Programs that are not listed,
// such as nvidia-smi, are not installed on the machine.
var hostProgramNames = []string{
	"usr/sbin/groupadd", "usr/sbin/groupdel", "usr/sbin/useradd", "usr/sbin/userdel", "usr/sbin/usermod",
	"usr/sbin/visudo",
	"usr/bin/loginctl", "usr/bin/systemctl", "usr/bin/ipcrm", "usr/bin/umount",
	"usr/lib/gpuaas-simulated-gpus", // that the agent asks where it would ask a driver
}

const hostScript = "usr/lib/gpuaas-fakehost"

// makeRoot fills the folder that stands for / of a machine.
func makeRoot(root, hostname string) error {
	for _, dir := range []string{
		"etc/systemd/system", "usr/sbin", "usr/bin", "usr/lib", "home", "root", "tmp", "var/tmp", "var/lib", "var/log",
		"run/units", "opt", "sys/class/net", "sys/block", "proc/self", "proc/sys/kernel", "proc/sysvipc",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil { //nolint:gosec // folders of a host
			return fmt.Errorf("make disk of machine: %w", err)
		}
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id)                          // never fails
	for name, content := range map[string]string{ //nolint:gosec // these accounts have no passwords
		"etc/hostname":   hostname + "\n",
		"etc/machine-id": hex.EncodeToString(id) + "\n",
		"etc/os-release": "ID=gpuaas-rack\nNAME=\"gpuaas rack\"\nPRETTY_NAME=\"machine of the gpuaas " +
			"rack\"\nVERSION_ID=1\n",
		"etc/passwd":                "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"etc/group":                 "root:x:0:\nsudo:x:27:\nnogroup:x:65534:\n",
		"etc/shadow":                "root:*:20000:0:99999:7:::\nnobody:*:20000:0:99999:7:::\n",
		"proc/self/mountinfo":       "1 0 0:1 / / rw - ext4 /dev/root rw\n",
		"proc/mounts":               "/dev/root / ext4 rw 0 0\n",
		"proc/sys/kernel/osrelease": "6.1.0-gpuaas-rack\n",
		"proc/meminfo":              "MemTotal:       16777216 kB\nMemFree:        16000000 kB\nMemAvailable:   16000000 kB\n",
		"proc/cpuinfo":              "processor\t: 0\nmodel name\t: gpuaas rack\nphysical id\t: 0\ncore id\t\t: 0\n",
		"proc/loadavg":              "0.00 0.00 0.00 1/1 1\n",
		"proc/sysvipc/shm": "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  " +
			"cuid  cgid      atime      dtime      ctime                   rss                  swap\n",
		"proc/sysvipc/sem": "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n",
		"proc/sysvipc/msg": "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  " +
			"cgid      stime      rtime      ctime\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil { //nolint:gosec // files of a host
			return fmt.Errorf("make disk of machine: %w", err)
		}
	}
	return installHostPrograms(root)
}

// makeHardware writes what the machine is to where the kernel would show it.
func makeHardware(root string, h Hardware) error {
	files := map[string]string{}
	for name, content := range h.firmware() {
		files["sys/class/dmi/id/"+name] = content
	}
	for i, mac := range h.MACs {
		files[fmt.Sprintf("sys/class/net/eth%d/address", i)] = mac + "\n"
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // folders of a host
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o444) //nolint:gosec // files of a host
		}
		if err != nil {
			return fmt.Errorf("make hardware of machine: %w", err)
		}
	}
	return nil
}

// installHostPrograms runs at every start, so that machines of an earlier
// version of this program get the present script.
func installHostPrograms(root string) error {
	script := filepath.Join(root, hostScript)
	if err := os.WriteFile(script+".new", hostPrograms, 0o755); err != nil { //nolint:gosec // a program
		return fmt.Errorf("install programs of machine: %w", err)
	}
	if err := os.Rename(script+".new", script); err != nil {
		return fmt.Errorf("install programs of machine: %w", err)
	}
	// The shell of tenants is that of this machine.
	links := map[string]string{"bin": "usr/bin", "usr/bin/bash": "/bin/bash"}
	for _, name := range hostProgramNames {
		links[name] = "../lib/" + filepath.Base(hostScript)
	}
	for name, target := range links {
		link := filepath.Join(root, name)
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		if err := os.Symlink(target, link); err != nil {
			return fmt.Errorf("install programs of machine: %w", err)
		}
	}
	return nil
}
