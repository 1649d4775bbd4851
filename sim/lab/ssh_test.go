package lab_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/simclock"
	"gpuaas/testkit"
)

const nothing = "#cloud-config\n{}\n"

func TestTheProxyLeadsToMachinesOnly(t *testing.T) {
	l := open(t, 2, nil)
	ids := l.SystemIDs()
	deploy(t, l, ids[0], nothing)
	enter(t, l, ids[0])
	address := brief(t, l, ids[0]).Addresses[0]
	for to, want := range map[string]string{
		address + ":80":    "not allowed",
		"127.0.0.1:22":     "unreachable",
		"10.20.0.2:22":     "unreachable", // the rack controller
		"[2001:db8::1]:22": "unreachable",
		"gpu-00001:22":     "address type not supported", // names are not looked up
	} {
		conn, err := dial(t, l, to)
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", to, err, want)
		}
	}
	if err := l.Happen(ids[0], "power_off"); err != nil {
		t.Fatal(err)
	}
	untilOff(t, l, address)
}

func untilOff(t *testing.T, l *lab.Lab, address string) {
	t.Helper()
	testkit.Eventually(t, "a machine that is off", func() bool {
		conn, err := dial(t, l, address+":22")
		if err == nil {
			_ = conn.Close()
		}
		return err != nil && strings.Contains(err.Error(), "refused")
	})
}

func TestOnlyTheDeployUserGetsIn(t *testing.T) {
	l := open(t, 1, nil)
	id := l.SystemIDs()[0]
	deploy(t, l, id, nothing)
	c, _ := enter(t, l, id)
	address := brief(t, l, id).Addresses[0]
	for _, who := range [][2]string{{"deployer", "wrong"}, {"deployer", ""}, {"root", "deploy-canary"}, {"", ""}} {
		if _, _, err := login(t, l, address, who[0], who[1]); err == nil {
			t.Errorf("%q got in", who[0])
		}
	}
	for _, line := range []string{"id", "", "sh", start + "; id", "sudo -n systemctl enable other.timer", " " + start} {
		if out, code := say(t, c, line, ""); code != 127 || out != "" {
			t.Errorf("%q: ended with %d, %q", line, code, out)
		}
	}
}

// A machine keeps one key while it is installed, whether it is on or off.
func TestHostKeys(t *testing.T) {
	l := open(t, 2, nil)
	ids := l.SystemIDs()
	deploy(t, l, ids[0], nothing)
	deploy(t, l, ids[1], nothing)
	_, first := enter(t, l, ids[0])
	if _, other := enter(t, l, ids[1]); other == first {
		t.Error("two machines have one key")
	}
	for _, switched := range []string{"power_off", "power_on"} {
		if err := l.Happen(ids[0], switched); err != nil {
			t.Fatal(err)
		}
	}
	if _, same := enter(t, l, ids[0]); same != first {
		t.Error("the key changed with the power")
	}
	release(t, l, ids[0])
	deploy(t, l, ids[0], nothing+"# another one\n")
	if _, fresh := enter(t, l, ids[0]); fresh == first {
		t.Error("the key outlived the installation")
	}
}

func TestHardwareSyncOverSSH(t *testing.T) {
	clock := simclock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l := open(t, 1, func(o *lab.Options) { o.Region.Clock = clock })
	id := l.SystemIDs()[0]
	advance := func(d time.Duration) time.Time {
		clock.Advance(d)
		return *brief(t, l, id).LastSync
	}
	deployAdvancing(t, l, clock, id)
	c, _ := enter(t, l, id)
	deployed := *brief(t, l, id).LastSync

	mustSay(t, c, enable, "")
	mustSay(t, c, start, "") // nothing was brought yet
	if at := advance(time.Hour); !at.Equal(deployed) {
		t.Error("a machine without credentials was heard")
	}
	for name, spoil := range map[string]func(string) string{
		"a wrong secret": func(s string) string { return s[1:] + "x" }, "no secret": func(string) string { return "" },
	} {
		mustSay(t, c, push, credentials(t, l, id, spoil))
		mustSay(t, c, start, "")
		if at := advance(time.Hour); !at.Equal(deployed) {
			t.Errorf("a machine with %s was heard", name)
		}
	}
	for name, text := range map[string]string{
		"no YAML": "{", "nothing": "", "another machine's endpoint": strings.Replace(credentials(t, l, id, asIs), id,
			"xxxxxx", 1),
	} {
		mustSay(t, c, push, text)
		mustSay(t, c, start, "")
		if at := advance(time.Hour); !at.Equal(deployed) {
			t.Errorf("a machine with %s was heard", name)
		}
	}
	mustSay(t, c, push, credentials(t, l, id, asIs))
	mustSay(t, c, start, "")
	seeded := *brief(t, l, id).LastSync
	if !seeded.Equal(clock.Now()) {
		t.Fatal("the machine was not heard")
	}
	interval := brief(t, l, id).SyncInterval
	if at := advance(interval); !at.Equal(clock.Now()) {
		t.Errorf("the next report did not come after %s", interval)
	}
	advance(time.Second)
	mustSay(t, c, timer, "")
	if at := advance(30 * time.Second); !at.Equal(clock.Now()) {
		t.Error("a timer that was started anew is due after 30 s")
	}
	if _, err := l.Faults.Add(fault.Rule{Fault: fault.NoSync}); err != nil {
		t.Fatal(err)
	}
	heard := *brief(t, l, id).LastSync
	mustSay(t, c, start, "")
	if at := advance(2 * interval); !at.Equal(heard) {
		t.Error("sync_never was heard")
	}
	l.Faults.Clear()
	if err := l.Happen(id, "power_off"); err != nil {
		t.Fatal(err)
	}
	untilOff(t, l, brief(t, l, id).Addresses[0])
	if at := advance(2 * interval); !at.Equal(heard) {
		t.Error("a machine that is off was heard")
	}
}

// deployAdvancing moves time until the machine is deployed: even phases of no
// length end on the clock.
func deployAdvancing(t *testing.T, l *lab.Lab, clock *simclock.Manual, id string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		deploy(t, l, id, nothing)
	}()
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case <-done:
			tick.Stop()
			return
		case <-tick.C:
			clock.Advance(0)
		}
	}
}
