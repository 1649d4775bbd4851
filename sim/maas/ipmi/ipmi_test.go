package ipmi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gpuaas/sim/maas/ipmi"
	"gpuaas/sim/maas/region"
)

// The test binary is also the program that ipmi_sim asks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "chassis" {
		if err := ipmi.Chassis(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0) // os.Exit takes a second under the race detector
	}
	os.Exit(m.Run())
}

func machines(n int) []ipmi.Machine {
	all := make([]ipmi.Machine, n)
	for i := range all {
		all[i] = ipmi.Machine{Address: fmt.Sprintf("10.128.0.%d", i+1), User: "root", Pass: fmt.Sprintf("calvin-%d", i)}
	}
	return all
}

func options(t *testing.T, all []ipmi.Machine) ipmi.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return ipmi.Options{Machines: all, Dir: t.TempDir(), Chassis: []string{self, "chassis"}}
}

func start(t *testing.T, all []ipmi.Machine) *ipmi.BMCs {
	t.Helper()
	b, err := ipmi.Start(t.Context(), options(t, all))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

func target(m ipmi.Machine) region.Target {
	return region.Target{Type: "ipmi", Address: m.Address, User: m.User, Parameters: map[string]any{"power_pass": m.Pass}}
}

func expect(t *testing.T, b *ipmi.BMCs, m ipmi.Machine, want string) {
	t.Helper()
	if got, err := b.State(t.Context(), target(m)); err != nil || got != want {
		t.Errorf("BMC %s: state %q, %v; want %q", m.Address, got, err, want)
	}
}

// tool is an independent IPMI client.
func tool(t *testing.T, b *ipmi.BMCs, m ipmi.Machine, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(b.Endpoint(m.Address))
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{
		"-I", "lanplus", "-C", "3", "-L", "OPERATOR", "-H", host, "-p", port, "-U", m.User, "-P",
		m.Pass, "chassis",
	}, args...)
	c := exec.CommandContext(t.Context(), "ipmitool", args...)
	var complaints bytes.Buffer // some about what a chassis need not have
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("ipmitool %v: %v: %s%s (it comes with: apt-get install ipmitool)", args[len(args)-2:], err, out,
			complaints.String())
	}
	return strings.TrimSpace(string(out))
}

func TestTheRegionAndAnotherClientSeeAndSwitchTheSameMachine(t *testing.T) {
	all := machines(2)
	all[1].On = true
	b := start(t, all)
	one, other := all[0], all[1]
	expect(t, b, one, "off")
	if err := b.PowerOn(t.Context(), target(one)); err != nil {
		t.Fatal(err)
	}
	expect(t, b, one, "on")
	if got := tool(t, b, one, "power", "status"); got != "Chassis Power is on" {
		t.Errorf("ipmitool sees %q", got)
	}
	tool(t, b, one, "power", "off")
	expect(t, b, one, "off")
	tool(t, b, one, "power", "on")
	tool(t, b, one, "bootdev", "pxe")
	expect(t, b, one, "on")
	if err := b.PowerOff(t.Context(), target(one)); err != nil {
		t.Fatal(err)
	}
	expect(t, b, one, "off")
	if got := tool(t, b, one, "power", "status"); got != "Chassis Power is off" {
		t.Errorf("ipmitool sees %q", got)
	}
	// What happened to one did not happen to the other.
	expect(t, b, other, "on")
	if err := b.PowerOff(t.Context(), target(other)); err != nil {
		t.Fatal(err)
	}
	tool(t, b, one, "power", "soft")
	expect(t, b, one, "off")
	expect(t, b, other, "off")
}

func TestRefusalsAreInTheWordsOfMAAS(t *testing.T) {
	all := machines(2)
	b := start(t, all)
	for name, c := range map[string]struct {
		change func(*region.Target)
		want   string
	}{
		"wrong password": {
			func(x *region.Target) { x.Parameters["power_pass"] = "wrong" },
			"Incorrect password.  Check BMC configuration and try again.",
		},
		"password of another": {
			func(x *region.Target) { x.Parameters["power_pass"] = all[1].Pass },
			"Incorrect password.  Check BMC configuration and try again.",
		},
		"no password": {
			func(x *region.Target) { delete(x.Parameters, "power_pass") },
			"Incorrect password.  Check BMC configuration and try again.",
		},
		"wrong user": {
			func(x *region.Target) { x.User = "nobody" },
			"Incorrect username.  Check BMC configuration and try again.",
		},
		"user that cannot be one": {
			func(x *region.Target) { x.User = strings.Repeat("x", 17) },
			"Incorrect username.  Check BMC configuration and try again.",
		},
		"address that nobody has": {
			func(x *region.Target) { x.Address = "10.9.9.9" },
			"Connection timed out while performing power action.  Check BMC configuration and connectivity and try again.",
		},
		"address that is not given": {
			func(x *region.Target) { x.Address = "" },
			"Connection timed out while performing power action.  Check BMC configuration and connectivity and try again.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := target(all[0])
			c.change(&x)
			if err := b.PowerOn(t.Context(), x); err == nil || err.Error() != c.want {
				t.Errorf("power on: %v; want %s", err, c.want)
			}
			if state, err := b.State(t.Context(), x); state != "error" || err == nil || err.Error() != c.want {
				t.Errorf("query: %q, %v; want %s", state, err, c.want)
			}
		})
	}
	expect(t, b, all[0], "off")
}

// A BMC has 63 sessions: more actions than that pass only if each ends its own.
func TestSessionsAreClosed(t *testing.T) {
	all := machines(1)
	b := start(t, all)
	for range 70 {
		expect(t, b, all[0], "off")
	}
}

// Wrong passwords use up the sessions of a BMC, as on a real one; its neighbour
// has its own sessions.
func TestGuessingPasswordsKeepsOnlyThatBMCBusy(t *testing.T) {
	all := machines(2)
	b := start(t, all)
	guess := all[0]
	guess.Pass = "wrong"
	var last error
	for range 100 {
		if _, last = b.State(t.Context(), target(guess)); last == nil ||
			!strings.HasPrefix(last.Error(), "Incorrect password.") {
			break
		}
	}
	if last == nil || !strings.HasPrefix(last.Error(), "Device busy while performing power action.") {
		t.Errorf("after many guesses: %v", last)
	}
	expect(t, b, all[1], "off")
}

func TestManyMachinesAreSwitchedAtOnce(t *testing.T) {
	all := machines(8)
	b := start(t, all)
	var wait sync.WaitGroup
	for i, m := range all {
		wait.Go(func() {
			if i%2 == 0 {
				if err := b.PowerOn(t.Context(), target(m)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for i, m := range all {
		expect(t, b, m, []string{"on", "off"}[i%2])
	}
}

// running lists the processes whose command line names a folder.
func running(t *testing.T, dir string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		b, err := os.ReadFile(name)
		if err == nil && bytes.Contains(b, []byte(dir)) {
			found = append(found, name+" "+string(b))
		}
	}
	return found
}

func TestStopLeavesNothingBehind(t *testing.T) {
	for name, end := range map[string]func(*ipmi.BMCs, context.CancelFunc){
		"stopped":          func(b *ipmi.BMCs, _ context.CancelFunc) { b.Stop(); b.Stop() },
		"with its context": func(b *ipmi.BMCs, cancel context.CancelFunc) { cancel(); b.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := options(t, machines(1))
			b, err := ipmi.Start(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if len(running(t, o.Dir)) == 0 {
				t.Fatal("no process is found while it runs: the search is broken")
			}
			end(b, cancel)
			if left := running(t, o.Dir); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			x, cancelQuery := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancelQuery()
			if _, err := b.State(x, target(o.Machines[0])); err == nil ||
				!strings.HasPrefix(err.Error(), "Connection timed out") {
				t.Errorf("a BMC that is gone says %v", err)
			}
		})
	}
}

func TestStartRefusesWhatCannotWork(t *testing.T) {
	for complaint, change := range map[string]func(*ipmi.Options){
		"65 machines are more than the 64": func(o *ipmi.Options) { o.Machines = machines(65) },
		"no machine":                       func(o *ipmi.Options) { o.Machines = nil },
		"given twice":                      func(o *ipmi.Options) { o.Machines[1].Address = o.Machines[0].Address },
		"user of BMC 10.128.0.1":           func(o *ipmi.Options) { o.Machines[0].User = "a\nb" },
		"password of BMC 10.128.0.1":       func(o *ipmi.Options) { o.Machines[0].Pass = `"; quit` },
		"cannot be given the path":         func(o *ipmi.Options) { o.Chassis[0] = "/bin/true; reboot" },
		"apt-get install openipmi":         func(o *ipmi.Options) { o.Program = "ipmi_sim-is-not-here" },
		"ipmi_sim ended (exit status 1)":   func(o *ipmi.Options) { o.Program = "false" },
		"a folder and the program":         func(o *ipmi.Options) { o.Chassis = nil },
	} {
		o := options(t, machines(2))
		change(&o)
		b, err := ipmi.Start(t.Context(), o)
		if err == nil {
			b.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("got %v; want %q", err, complaint)
		}
	}
}

func TestAsManyAsThereCanBe(t *testing.T) {
	all := machines(ipmi.Most)
	b := start(t, all)
	last := all[len(all)-1]
	if err := b.PowerOn(t.Context(), target(last)); err != nil {
		t.Fatal(err)
	}
	expect(t, b, last, "on")
	expect(t, b, all[0], "off")
}

func TestChassisRefusesWhatItDoesNotKnow(t *testing.T) {
	for i, args := range [][]string{
		nil,
		{"."},
		{".", "get", "door"},
		{".", "set", "power", "2"},
		{".", "set", "power"},
		{".", "drop", "power"},
		{filepath.Join(t.TempDir(), "none"), "get", "power"},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			if err := ipmi.Chassis(args, errorWriter{}); err == nil {
				t.Errorf("%q is done", args)
			}
		})
	}
}

type errorWriter struct{}

func (errorWriter) Write([]byte) (int, error) { return 0, errors.New("nobody listens") }
