package hostexec_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/hostexec/hosttest"
	"gpuaas/testkit"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("GPUAAS_HOST_ROOT"); dir != "" && filepath.Base(os.Args[0]) == "ipcrm" {
		syscall.Exit(play(dir, os.Args[1:])) // os.Exit takes a second under the race detector
	}
	hosttest.Main(m)
}

// play acts as a program that behaves as its first argument says.
func play(root string, args []string) int {
	switch args[0] {
	case "talk":
		for range 200_000 {
			os.Stdout.WriteString("twelve bytes")
		}
	case "lines":
		os.Stdout.WriteString("one\ntwo\n" + strings.Repeat("x", 1<<20) + "\nlast")
	case "environment":
		os.Stdout.WriteString(strings.Join(os.Environ(), "\n"))
	case "groups":
		raw, _ := os.ReadFile("/proc/self/cgroup")
		os.Stdout.Write(append(raw, '\n'))
	case "echo":
		buf := make([]byte, 100)
		n, _ := os.Stdin.Read(buf)
		os.Stdout.Write(buf[:n])
	case "hold":
		return hold(args[1])
	case "who":
		os.Stdout.WriteString(strconv.Itoa(os.Getuid()) + " " + strconv.Itoa(os.Getgid()))
	case "status":
		os.Stderr.WriteString("first\nlast words\n")
		return 7
	case "stubborn": // with a child; both ignore a friendly end
		signal.Ignore(syscall.SIGTERM)
		child, err := os.StartProcess(os.Args[0], []string{os.Args[0], "deaf"},
			&os.ProcAttr{Env: os.Environ(), Files: []*os.File{nil, os.Stdout, os.Stderr}})
		if err != nil {
			return 1
		}
		os.WriteFile(filepath.Join(root, "child"), []byte(strconv.Itoa(child.Pid)), 0o644)
		child.Wait()
	case "escape", "daemon": // leaves its group and session, and is nobody's child any more
		next := map[string]string{"escape": "daemon", "daemon": "deaf"}[args[0]]
		child, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], next}, &os.ProcAttr{
			Env: os.Environ(), Files: []*os.File{nil, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			return 1
		}
		if args[0] == "escape" && len(args) == 1 {
			child.Wait()
			wait := make(chan os.Signal, 1)
			signal.Notify(wait, syscall.SIGUSR1)
			<-wait
		}
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		os.WriteFile(filepath.Join(root, "started"), []byte(strconv.Itoa(os.Getpid())), 0o644)
		wait := make(chan os.Signal, 1)
		signal.Notify(wait, syscall.SIGUSR1)
		<-wait
	}
	return 0
}

func machine(t *testing.T) (*hosttest.Machine, hostexec.Host) {
	m := hosttest.New(t)
	m.Install("/usr/bin/ipcrm")
	return m, m.Host()
}

func TestOnlyListedProgramsAreStarted(t *testing.T) {
	m, host := machine(t)
	m.Install("/bin/sh", "/opt/gpuaas/agent/1.0/gpuaas-agent", "/opt/gpuaas/agent/1.0/sh",
		"/opt/gpuaas/agent/current/gpuaas-gpu")
	for name, wants := range map[string]string{
		"ipcrm":                               "/usr/bin/ipcrm",
		"/usr/bin/ipcrm":                      "/usr/bin/ipcrm",
		"/opt/gpuaas/agent/1.0/gpuaas-agent":  "/opt/gpuaas/agent/1.0/gpuaas-agent",
		"gpuaas-gpu":                          "/opt/gpuaas/agent/current/gpuaas-gpu",
		"/bin/sh":                             "",
		"sh":                                  "",
		"":                                    "",
		"../../bin/sh":                        "",
		"/opt/gpuaas/agent/1.0/sh":            "",
		"/opt/gpuaas/agent/../../../bin/sh":   "",
		"/opt/gpuaas/agent/1.0/x/gpuaas-gpu":  "",
		"/opt/gpuaas/agent//gpuaas-agent":     "",
		"/opt/gpuaas/agent/9.9/gpuaas-agent":  "",
		"/opt/gpuaas/agent/1.0/../1.0/gpuaas": "",
	} {
		path, err := host.Program(name)
		if path != wants || (err == nil) != (wants != "") {
			t.Errorf("Program(%q) = %q, %v; want %q", name, path, err, wants)
		}
	}
	if _, err := host.Program("userdel"); !errors.Is(err, hostexec.ErrNoProgram) {
		t.Errorf("a listed program that is not there: %v", err)
	}
	if _, err := host.Program("sh"); errors.Is(err, hostexec.ErrNoProgram) {
		t.Errorf("a program that is not listed counts as missing only: %v", err)
	}
}

func TestTheEnvironmentIsClean(t *testing.T) {
	m, host := machine(t)
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	out, err := host.Do(t.Context(), hostexec.Command{Program: "ipcrm", Args: []string{"environment"}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(out.Stdout), "\n")
	want := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", "LC_ALL=C", "HOME=/",
		"GPUAAS_HOST_ROOT=" + m.Root,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("environment %v, want %v", got, want)
	}
}

func TestOutputIsBounded(t *testing.T) {
	_, host := machine(t)
	out, err := host.Do(t.Context(), hostexec.Command{Program: "ipcrm", Args: []string{"talk"}})
	if err != nil || len(out.Stdout) != 1<<20 || !out.Truncated {
		t.Errorf("%d bytes, truncated %v, %v", len(out.Stdout), out.Truncated, err)
	}
}

func TestLinesAreHandedOn(t *testing.T) {
	_, host := machine(t)
	var sizes []int
	exit, err := host.Run(t.Context(), []string{"ipcrm", "lines"}, func(l []byte) { sizes = append(sizes, len(l)) })
	if err != nil || exit != 0 || !slices.Equal(sizes, []int{3, 3, 256 << 10, 4}) {
		t.Errorf("lines of %v bytes, exit %d, %v", sizes, exit, err)
	}
	if exit, err = host.Run(t.Context(), []string{"ipcrm", "status"}, func([]byte) {}); err != nil || exit != 7 {
		t.Errorf("exit %d, %v", exit, err)
	}
	if _, err = host.Run(t.Context(), nil, func([]byte) {}); err == nil {
		t.Error("no program is no error")
	}
}

func TestStatusAndInput(t *testing.T) {
	_, host := machine(t)
	_, err := host.Do(t.Context(), hostexec.Command{Program: "ipcrm", Args: []string{"status"}})
	var exit *hostexec.ExitError
	if !errors.As(err, &exit) || exit.Exit != 7 || exit.Stderr != "last words" {
		t.Errorf("error %v", err)
	}
	out, err := host.Do(t.Context(), hostexec.Command{Program: "ipcrm", Args: []string{"echo"}, Stdin: []byte("hello")})
	if err != nil || string(out.Stdout) != "hello" {
		t.Errorf("%q, %v", out.Stdout, err)
	}
}

func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can become somebody else")
		return
	}
	m, host := machine(t)
	for _, dir := range []string{filepath.Dir(m.Root), m.Root, m.Path("/usr"), m.Path("/usr/bin")} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.Path("/usr/bin/ipcrm")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Path("/usr/bin/ipcrm"), self, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := host.Do(t.Context(), hostexec.Command{
		Program: "ipcrm", Args: []string{"who"},
		User: &hostexec.User{UID: 20123, GID: 20124},
	})
	if err != nil || string(out.Stdout) != "20123 20124" {
		t.Errorf("ran as %q, %v", out.Stdout, err)
	}
}

// When Do returns, a program that ignores a friendly end is gone, and so is
// what it started.
func TestTheWholeGroupIsEnded(t *testing.T) {
	t.Parallel()
	m, host := machine(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := host.Do(ctx, hostexec.Command{Program: "ipcrm", Args: []string{"stubborn"}})
		done <- err
	}()
	child := 0
	testkit.Succeeds(t, "the program and its child to start", testkit.Patience, func() error {
		_, err := os.Stat(m.Path("started"))
		raw, _ := os.ReadFile(m.Path("child"))
		var noNumber error
		child, noNumber = strconv.Atoi(string(raw))
		return errors.Join(err, noNumber)
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	testkit.Succeeds(t, "the child to end", testkit.Patience, func() error {
		raw, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/status") // nothing when it is gone
		if len(raw) > 0 && !strings.Contains(string(raw), "State:\tZ") {
			return errors.New("it runs")
		}
		return nil
	})
}

func TestATimeoutSaysSo(t *testing.T) {
	t.Parallel()
	_, host := machine(t)
	_, err := host.Do(t.Context(), hostexec.Command{
		Program: "ipcrm", Args: []string{"deaf"},
		Timeout: 50 * time.Millisecond,
	})
	if !errors.Is(err, hostexec.ErrTimeout) {
		t.Errorf("error %v", err)
	}
}
