package rack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/sim/maas/region"
	"gpuaas/testkit"
)

const agentOnly = `#cloud-config
hostname: ignored
write_files:
  - path: /etc/gpuaas/agent.env
    permissions: "0600"
    content: GPUAAS_API_URL=https://control
  - path: /etc/motd
    encoding: b64
    content: aGVsbG8=
`

func openProcesses(t *testing.T, folder string) *processRack {
	t.Helper()
	r, err := Open(t.Context(), Options{Kind: Process, Folder: folder, AgentProgram: os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	p := r.(*processRack)
	p.pause = 10 * time.Millisecond
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

func TestProcessMachines(t *testing.T) {
	ctx, folder := soon(t), filepath.Join(t.TempDir(), "rack")
	r := openProcesses(t, folder)
	m, err := r.Machine(ctx, Spec{Name: "m1", Hostname: "gpu-1", UserData: []byte(agentOnly)})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Booted(ctx); err != nil {
		t.Fatal(err)
	}
	root := m.(*agentHost).root()
	for name, want := range map[string]string{
		"etc/gpuaas/agent.env": "GPUAAS_API_URL=https://control",
		"etc/motd":             "hello", "etc/hostname": "gpu-1\n",
	} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "etc/gpuaas/agent.env")); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode of the settings: %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(m.(*agentHost).payload()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the payload is kept: %v", err)
	}
	entries(ctx, t, m, "runs", 1)
	if _, err := r.Machine(ctx, Spec{Name: "m1"}); err == nil {
		t.Error("a second machine of that name was made")
	}
	t.Run("the agent is started again", func(t *testing.T) { startedAgain(ctx, t, m) })
	t.Run("systemctl", func(t *testing.T) { unitIsStopped(ctx, t, m) })
	t.Run("power", func(t *testing.T) { poweredOff(ctx, t, m) })
	t.Run("a closed rack comes back", func(t *testing.T) { processesComeBack(ctx, t, r, m, folder) })
}

func startedAgain(ctx context.Context, t *testing.T, m Machine) {
	before := len(entries(ctx, t, m, "runs", 1))
	m.(*agentHost).running().unit.kill()
	entries(ctx, t, m, "runs", before+1)
	// With a version before this one, that one looks first.
	versions := filepath.Join(m.(*agentHost).root(), "opt/gpuaas/agent")
	if err := os.Symlink("rack", filepath.Join(versions, "previous")); err != nil {
		t.Fatal(err)
	}
	m.(*agentHost).running().unit.kill()
	entries(ctx, t, m, "runs", before+2)
	if lines := diary(m); lines[len(lines)-2] != "guarded" {
		t.Errorf("diary %q", lines)
	}
}

func unitIsStopped(ctx context.Context, t *testing.T, m Machine) {
	active := func() bool {
		out, err := m.Exec(ctx, nil, "systemctl", "is-active", "gpuaas-node-agent")
		var failed *ExitError
		if err != nil && (!errors.As(err, &failed) || failed.Code != 3) {
			t.Fatal(err)
		}
		return strings.TrimSpace(out) == "active"
	}
	before := len(entries(ctx, t, m, "runs", 1))
	testkit.Eventually(t, "an active unit", active)
	if _, err := m.Exec(ctx, nil, "systemctl", "disable", "--now", agentUnit); err != nil {
		t.Fatal(err)
	}
	entries(ctx, t, m, "ended", 1)
	testkit.Eventually(t, "an inactive unit", func() bool { return !active() })
	if m.(*agentHost).running().unit.wanted() {
		t.Error("a stopped unit is wanted")
	}
	if _, err := m.Exec(ctx, nil, "systemctl", "enable", "--now", agentUnit); err != nil {
		t.Fatal(err)
	}
	entries(ctx, t, m, "runs", before+1)
	if out, err := m.Exec(ctx, nil, "systemctl", "is-enabled", agentUnit); err != nil || out != "enabled\n" {
		t.Errorf("is-enabled: %q, %v", out, err)
	}
}

func poweredOff(ctx context.Context, t *testing.T, m Machine) {
	starts, ends := len(entries(ctx, t, m, "runs", 1)), len(entries(ctx, t, m, "ended", 1))
	for range 2 {
		if err := m.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if on, err := m.Running(ctx); err != nil || on {
		t.Errorf("running %t, %v", on, err)
	}
	entries(ctx, t, m, "ended", ends+1) // it was asked, not killed
	if err := m.Booted(ctx); err == nil {
		t.Error("a machine that is off has booted")
	}
	for range 2 {
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	entries(ctx, t, m, "runs", starts+1)
	if err := m.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if got := len(entries(ctx, t, m, "ended", 1)); got != ends+1 {
		t.Errorf("an agent without power said goodbye: %d", got)
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func processesComeBack(ctx context.Context, t *testing.T, r *processRack, m Machine, folder string) {
	off, err := r.Machine(ctx, Spec{Name: "m2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := off.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	starts := entries(ctx, t, m, "runs", 1)
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, line := range starts {
		pid := 0
		if _, err := fmt.Sscanf(line, "runs as %d", &pid); err != nil || syscall.Kill(pid, 0) == nil {
			t.Errorf("after Close: %s", line)
		}
	}
	r = openProcesses(t, folder)
	machines, err := r.Machines(ctx)
	if err != nil || len(machines) != 2 || machines[0].Name() != "m1" {
		t.Fatalf("machines %v, %v", machines, err)
	}
	for i, want := range []bool{true, false} {
		if on, err := machines[i].Running(ctx); err != nil || on != want {
			t.Errorf("%s: running %t, %v", machines[i].Name(), on, err)
		}
	}
	entries(ctx, t, machines[0], "runs", len(starts)+1)
	if err := machines[0].Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find(ctx, "m1"); !errors.Is(err, ErrNoMachine) {
		t.Errorf("deleted machine: %v", err)
	}
	if err := r.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder: %v", err)
	}
}

func TestProgramsOfAProcessMachine(t *testing.T) {
	ctx := soon(t)
	m, err := openProcesses(t, t.TempDir()).Machine(ctx, Spec{Name: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	add := []string{
		"useradd", "--uid", "20001", "--gid", "20001", "--create-home", "--home-dir", "/home/ada", "--shell",
		"/bin/bash", "--password", "*", "--comment", "allocation 1", "ada",
	}
	for _, step := range []struct {
		argv []string
		code int
		file string
		want string // a line of the file; "-" says that ada is not in it
	}{
		{argv: []string{"groupadd", "--gid", "20001", "ada"}, file: "group", want: "ada:x:20001:"},
		{argv: []string{"groupadd", "--gid", "20002", "ada"}, code: 9},
		{argv: []string{"groupadd", "--gid", "20001", "eve"}, code: 4},
		{argv: add, file: "passwd", want: "ada:x:20001:20001:allocation 1:/home/ada:/bin/bash"},
		{argv: add, code: 9},
		{argv: []string{"useradd", "--uid", "20001", "--gid", "20001", "eve"}, code: 4},
		{argv: []string{"useradd", "--unknown", "eve"}, code: 2},
		{
			argv: []string{"usermod", "--lock", "--expiredate", "1", "--shell", "/usr/sbin/nologin", "ada"}, file: "passwd",
			want: "ada:x:20001:20001:allocation 1:/home/ada:/usr/sbin/nologin",
		},
		{argv: []string{"loginctl", "terminate-user", "ada"}, file: "shadow", want: "ada:!*:20000:0:99999:7::1:"},
		{argv: []string{"userdel", "--remove", "ada"}, file: "passwd", want: "-"},
		{argv: []string{"userdel", "ada"}, code: 6},
		{argv: []string{"groupdel", "ada"}, code: 6, file: "group", want: "-"}, // userdel took it along
		{argv: []string{"umount", "/mnt"}, code: 32},
	} {
		_, err := m.Exec(ctx, nil, step.argv...)
		var failed *ExitError
		switch {
		case step.code == 0 && err != nil:
			t.Fatal(err)
		case step.code != 0 && (!errors.As(err, &failed) || failed.Code != step.code):
			t.Errorf("%v: %v, want status %d", step.argv, err, step.code)
		}
		if step.file == "" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(m.(*agentHost).root(), "etc", step.file))
		if err != nil {
			t.Fatal(err)
		}
		if step.want == "-" && strings.Contains(string(content), "ada") || step.want != "-" &&
			!strings.Contains(string(content), "\n"+step.want+"\n") {
			t.Errorf("after %v %s is %q", step.argv, step.file, content)
		}
	}
	if _, err := os.Stat(filepath.Join(m.(*agentHost).root(), "home/ada")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("home: %v", err)
	}
	for _, argv := range [][]string{{"nvidia-smi"}, {"/bin/sh"}, {"../../../../bin/sh"}, {}} {
		if _, err := m.Exec(ctx, nil, argv...); err == nil {
			t.Errorf("%v ran", argv)
		}
	}
}

// A program that is killed with its agent leaves no lock and no half a file.
func TestProgramsOfAProcessMachineAreKilled(t *testing.T) {
	ctx := soon(t)
	m, err := openProcesses(t, t.TempDir()).Machine(ctx, Spec{Name: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Exec(ctx, nil, "useradd", "--uid", "20001", "--gid", "20001", "ada"); err != nil {
		t.Fatal(err)
	}
	lock := []string{"usermod", "--lock", "ada"}
	for patience := range 40 {
		brief, cancel := context.WithTimeout(ctx, time.Duration(patience)*time.Millisecond)
		_, _ = m.Exec(brief, nil, lock...) // whether it was killed is luck
		cancel()
	}
	if _, err := m.Exec(ctx, nil, lock...); err != nil {
		t.Errorf("after others were killed: %v", err)
	}
}

func TestFilesStayOnTheMachine(t *testing.T) {
	ctx, outside := soon(t), t.TempDir()
	m, err := openProcesses(t, t.TempDir()).Machine(ctx, Spec{Name: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	root := m.(*agentHost).root()
	if err := m.Push(ctx, "/../../../etc/dots", 0o640, []byte("in")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(root, "etc/dots")); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "etc/link")); err != nil {
		t.Fatal(err)
	}
	if err := m.Push(ctx, "/etc/link/file", 0o600, nil); err == nil {
		t.Error("a link led out of the machine")
	}
}

func TestPayloadsThatCannotBeCarriedOut(t *testing.T) {
	ctx := soon(t)
	r := openProcesses(t, t.TempDir())
	for name, payload := range map[string]string{
		"script":      "#!/bin/sh\ntrue\n",
		"yaml":        "#cloud-config\nwrite_files: {",
		"encoding":    "#cloud-config\nwrite_files: [{path: /a, encoding: gzip, content: x}]",
		"base64":      "#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: '%'}]",
		"permissions": "#cloud-config\nwrite_files: [{path: /a, permissions: rwx, content: x}]",
		"no-token":    "#cloud-config\nwrite_files: [{path: /a, content: 'https://control/internal/v1/bootstrap/script'}]",
	} {
		m, err := r.Machine(ctx, Spec{Name: name, UserData: []byte(payload)})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Booted(ctx); err == nil {
			t.Errorf("%s was carried out", name)
		}
	}
	for _, name := range []string{"", "Upper", "dot.ted", "-", "../up", strings.Repeat("a", 41)} {
		if _, err := r.Machine(ctx, Spec{Name: name}); err == nil {
			t.Errorf("a machine is called %q", name)
		}
	}
	if _, err := Open(ctx, Options{Kind: "paper", Folder: t.TempDir()}); err == nil {
		t.Error("a rack of paper was opened")
	}
	if _, err := Open(ctx, Options{Kind: Process}); err == nil {
		t.Error("a rack without a folder was opened")
	}
}

func TestARegionOnARack(t *testing.T) {
	ctx := soon(t)
	r := openProcesses(t, t.TempDir())
	metal := NewMetal(r)
	metal.AskMetadata("http://region/MAAS/metadata/")
	if metal.Fetches() {
		t.Error("a process machine asks for its payload")
	}
	installed := region.Installed{SystemID: "abc123", Hostname: "gpu-1", UserData: []byte(agentOnly)}
	boot := func(i region.Installed) Machine {
		t.Helper()
		if err := metal.Boot(ctx, i); err != nil {
			t.Fatal(err)
		}
		machines, err := r.Machines(ctx)
		if err != nil || len(machines) != 1 {
			t.Fatalf("machines %v, %v", machines, err)
		}
		if on, err := machines[0].Running(ctx); err != nil || !on {
			t.Fatalf("running %t, %v", on, err)
		}
		return machines[0]
	}
	first := boot(installed)
	if err := metal.PowerOff(ctx, "abc123"); err != nil {
		t.Fatal(err)
	}
	if on, err := first.Running(ctx); err != nil || on {
		t.Errorf("running %t, %v", on, err)
	}
	if boot(installed) != first {
		t.Error("a reboot got another disk")
	}
	installed.UserData = append(installed.UserData, "# again\n"...)
	if boot(installed) == first {
		t.Error("a deployment got the old disk")
	}
	if err := metal.PowerOff(ctx, "unknown"); err != nil {
		t.Error(err)
	}
}
