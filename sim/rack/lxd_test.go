package rack

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/testkit"
)

// alone keeps a test away from the racks of this system and from its LXD.
func alone(t *testing.T) context.Context {
	t.Helper()
	making, done := context.WithTimeout(t.Context(), 15*time.Minute) // on a busy machine
	defer done()
	if _, err := imageArchive(making, func(s string) { t.Log(s) }); err != nil {
		t.Fatal(err)
	}
	homes, err := os.MkdirTemp("", "rack") //nolint:usetesting // containers cannot pass through the test's folder
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(homes) })
	t.Setenv("GPUAAS_RACK_HOME", homes)
	t.Setenv("LXD_DIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(ctx context.Context, t *testing.T, folder string) *lxdRack {
	t.Helper()
	began := time.Now()
	r, err := Open(ctx, Options{Kind: LXD, Folder: folder, Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("rack open after %s", time.Since(began).Round(time.Millisecond))
	l := r.(*lxdRack)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if l.own != nil {
			l.own.stop(ctx)
		}
	})
	return l
}

func run(ctx context.Context, t *testing.T, m Machine, argv ...string) string {
	t.Helper()
	out, err := m.Exec(ctx, nil, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

const payload = `#cloud-config
users:
  - name: alice
    shell: /bin/bash
write_files:
  - path: /etc/gpuaas/hello
    permissions: "0640"
    content: hello
runcmd:
  - [sh, -c, "id alice > /root/ran"]
`

func TestLXDMachines(t *testing.T) {
	ctx := alone(t)
	folder := filepath.Join(t.TempDir(), "rack")
	r := open(ctx, t, folder)
	began := time.Now()
	m, err := r.Machine(ctx, Spec{Name: "m1", Hostname: "gpu-1", UserData: []byte(payload)})
	if err != nil {
		t.Fatal(err)
	}
	made := time.Since(began)
	if err := m.Booted(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("machine made and started in %s, booted after %s", made.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))

	t.Run("cloud-init carried out the payload", func(t *testing.T) {
		for want, argv := range map[string][]string{
			"gpu-1":     {"hostname"},
			"127.0.1.1": {"sh", "-c", "getent ahostsv4 gpu-1 | head -n1 | cut -d' ' -f1"},
			"hello":     {"cat", "/etc/gpuaas/hello"},
			"640":       {"stat", "-c", "%a", "/etc/gpuaas/hello"},
			"/bin/bash": {"sh", "-c", "getent passwd alice | cut -d: -f7"},
			"running":   {"systemctl", "is-system-running"},
		} {
			if got := run(ctx, t, m, argv...); got != want {
				t.Errorf("%v: %q, want %q", argv, got, want)
			}
		}
		if got := run(ctx, t, m, "cat", "/root/ran"); !strings.Contains(got, "(alice)") {
			t.Errorf("runcmd wrote %q", got)
		}
	})
	t.Run("machine and host reach each other", func(t *testing.T) { reach(ctx, t, r, m) })
	t.Run("programs and files", func(t *testing.T) { programs(ctx, t, m) })
	t.Run("a payload that fails is reported", func(t *testing.T) { payloadFails(ctx, t, r) })
	t.Run("the switch", func(t *testing.T) { switching(ctx, t, m) })
	t.Run("a simulated MAAS deploys a machine", func(t *testing.T) { deploys(ctx, t, r) })
	t.Run("closing", func(t *testing.T) { closing(ctx, t, r, folder) })
	r = open(ctx, t, folder)
	t.Run("a closed rack comes back", func(t *testing.T) { comesBack(ctx, t, r) })
	t.Run("removal leaves nothing", func(t *testing.T) {
		if err := r.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		nothingLeft(t, r)
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder: %v", err)
		}
	})
}

func reach(ctx context.Context, t *testing.T, r Rack, m Machine) {
	address, err := m.Address(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, "22"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "SSH-2.0-OpenSSH") {
		t.Errorf("sshd says %q, %v", line, err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(r.HostAddress(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("welcome")) }))
	server.Listener = l
	server.Start()
	defer server.Close()
	if got := run(ctx, t, m, "curl", "-sS", server.URL); got != "welcome" {
		t.Errorf("host says %q", got)
	}
}

func programs(ctx context.Context, t *testing.T, m Machine) {
	out, err := m.Exec(ctx, strings.NewReader("upper"), "tr", "a-z", "A-Z")
	if err != nil || out != "UPPER" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = m.Exec(ctx, nil, "sh", "-c", "echo broken >&2; exit 7")
	var failed *ExitError
	if !errors.As(err, &failed) || failed.Code != 7 || failed.Output != "broken" || failed.Program != "sh" {
		t.Errorf("failure is %v", err)
	}
	if _, err := m.Exec(ctx, nil); err == nil {
		t.Error("no program is no error")
	}
	if err := m.Push(ctx, "/srv/deep/file", 0o600, []byte("content")); err != nil {
		t.Fatal(err)
	}
	if got := run(ctx, t, m, "stat", "-c", "%U %a %s", "/srv/deep/file"); got != "root 600 7" {
		t.Errorf("pushed file is %q", got)
	}
}

func switching(ctx context.Context, t *testing.T, m Machine) {
	expect := func(want bool) {
		t.Helper()
		if got, err := m.Running(ctx); err != nil || got != want {
			t.Fatalf("running %t, %v", got, err)
		}
	}
	for _, off := range []func(context.Context) error{m.Stop, m.Kill} {
		for range 2 { // the second time it is off already
			if err := off(ctx); err != nil {
				t.Fatal(err)
			}
			expect(false)
		}
		if _, err := m.Address(ctx); err == nil {
			t.Error("a machine that is off has an address")
		}
		for range 2 {
			if err := m.Start(ctx); err != nil {
				t.Fatal(err)
			}
			expect(true)
		}
	}
	if err := m.Booted(ctx); err != nil {
		t.Fatal(err)
	}
	if got := run(ctx, t, m, "cat", "/srv/deep/file"); got != "content" {
		t.Errorf("the disk lost a file: %q", got)
	}
}

// deploys lets cloud-init on the machine ask the metadata service of the
// region.
func deploys(ctx context.Context, t *testing.T, r Rack) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	metal := NewMetal(r)
	sim, err := maas.Start(maas.Options{
		Listen: net.JoinHostPort(r.HostAddress(), "0"), Metal: metal, Fleet: fleet.Options{Machines: 1, Stage: "ready"},
		Timing: region.Timing{Pace: region.PaceZero},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	metal.AskMetadata(sim.URL + "/metadata/")
	id := sim.SystemIDs()[0]
	admin := region.Caller{User: &region.User{Name: "admin", Admin: true}}
	data := base64.StdEncoding.EncodeToString([]byte(payload))
	if _, err := sim.Deploy(admin, id, url.Values{"user_data": {data}}); err != nil {
		t.Fatal(err)
	}
	status := func() region.Status {
		m, err := sim.Machine(admin, id)
		if err != nil {
			t.Fatal(err)
		}
		return m.Status
	}
	testkit.Eventually(t, "Deployed", func() bool { return status() == region.Deployed })
	machines, err := r.Machines(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		if !strings.HasPrefix(m.Name(), id+"-") {
			continue
		}
		if err := m.Booted(ctx); err != nil {
			t.Error(err)
		}
		if got := run(ctx, t, m, "cat", "/etc/gpuaas/hello"); got != "hello" {
			t.Errorf("the payload wrote %q", got)
		}
		if err := metal.PowerOff(ctx, id); err != nil {
			t.Error(err)
		}
		if on, err := m.Running(ctx); err != nil || on {
			t.Errorf("running %t, %v", on, err)
		}
		if err := m.Delete(ctx); err != nil {
			t.Error(err)
		}
		return
	}
	t.Errorf("no machine of %s among %v", id, machines)
}

// closing leaves one machine that ran and another that was off.
func closing(ctx context.Context, t *testing.T, r Rack, folder string) {
	off, err := r.Machine(ctx, Spec{Name: "m2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := off.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Options{Kind: LXD, Folder: folder}); !errors.Is(err, errInUse) {
		t.Errorf("second opening: %v", err)
	}
	began := time.Now()
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("closed in %s", time.Since(began).Round(time.Millisecond))
}

func comesBack(ctx context.Context, t *testing.T, r Rack) {
	machines, err := r.Machines(ctx)
	if err != nil || len(machines) != 2 || machines[0].Name() != "m1" || machines[1].Name() != "m2" {
		t.Fatalf("machines %v, %v", machines, err)
	}
	for i, want := range []bool{true, false} {
		if got, err := machines[i].Running(ctx); err != nil || got != want {
			t.Errorf("%s runs: %t, %v", machines[i].Name(), got, err)
		}
	}
	if m, err := r.Find(ctx, "m1"); err != nil || m.Name() != "m1" {
		t.Errorf("found %v, %v", m, err)
	}
	if _, err := r.Find(ctx, "m3"); !errors.Is(err, ErrNoMachine) {
		t.Errorf("unknown machine: %v", err)
	}
}

func nothingLeft(t *testing.T, r *lxdRack) {
	t.Helper()
	if _, err := net.InterfaceByName(r.bridge()); err == nil {
		t.Errorf("bridge %s is left", r.bridge())
	}
	if _, err := os.Stat(homeOf(r.id)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state of LXD: %v", err)
	}
	if pid := daemonPID(homeOf(r.id)); pid != 0 {
		t.Errorf("LXD runs as %d", pid)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), homeOf(r.id)) {
		t.Errorf("mounts are left: %v", err)
	}
}

func payloadFails(ctx context.Context, t *testing.T, r Rack) {
	m, err := r.Machine(ctx, Spec{Name: "m0", UserData: []byte("#cloud-config\nruncmd:\n  - [sh, -c, 'exit 3']\n")})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Booted(ctx); err == nil || !strings.Contains(err.Error(), "status: error") {
		t.Errorf("boot: %v", err)
	}
	if _, err := r.Machine(ctx, Spec{Name: "m0"}); err == nil {
		t.Error("a second machine of that name was made")
	}
	if err := m.Delete(ctx); err != nil {
		t.Error(err)
	}
}

// An LXD that runs already is used. Afterwards nothing of the rack is left in
// it.
func TestAnLXDThatIsThereIsShared(t *testing.T) {
	ctx := alone(t)
	there, err := startDaemon(ctx, filepath.Join(homes(), "system"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.stop(context.Background()) })
	t.Setenv("LXD_DIR", there.home)
	r := open(ctx, t, t.TempDir())
	if r.own != nil {
		t.Fatal("the rack runs an LXD of its own")
	}
	m, err := r.Machine(ctx, Spec{Name: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Booted(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if running, err := m.Running(ctx); err != nil || running {
		t.Errorf("after Close: running %t, %v", running, err)
	}
	if err := removeShared(ctx, func(s string) { t.Log(s) }); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"/1.0/projects", "/1.0/storage-pools", "/1.0/networks"} {
		var left []string
		// Bridges of other racks on this system are none of its business.
		if err := r.get(ctx, list, &left); err != nil || strings.Contains(strings.Join(left, " "), r.id) {
			t.Errorf("%s: %v, %v", list, left, err)
		}
	}
}

func serveRack(folder string) int {
	ctx := context.Background()
	r, err := Open(ctx, Options{Kind: LXD, Folder: folder, Throwaway: true})
	if err == nil {
		_, err = r.Machine(ctx, Spec{Name: "m1"})
	}
	if err != nil {
		_, _ = os.Stdout.WriteString(err.Error() + "\n")
		return 1
	}
	_, _ = os.Stdout.WriteString("ready\n")
	select {}
}

// The next Open removes a rack whose process was killed. A rack in use is
// removed only on request.
func TestRacksOfOthersAreRemoved(t *testing.T) {
	ctx, folder := alone(t), t.TempDir()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "GPUAAS_TEST_RACK_TO_KILL="+folder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("the rack says %q, %v", line, err)
	}
	killed := leftRack(identity(folder), homeOf(identity(folder)))
	if err := sweep(ctx, "", func(s string) { t.Error(s) }); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	r := open(ctx, t, t.TempDir())
	nothingLeft(t, killed)
	if err := RemoveAll(ctx, func(s string) { t.Log(s) }); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, r)
}
