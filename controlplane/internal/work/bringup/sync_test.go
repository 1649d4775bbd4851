package bringup_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/ssh/sshtest"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/rack"
)

// What a job says to a machine, in this order.
var seedCommands = []string{
	"cat | sudo -n install -D -m 0600 /dev/stdin /etc/maas/maas-machine-creds.yml",
	"sudo -n systemctl enable maas_hardware_sync.timer",
	"sudo -n systemctl restart maas_hardware_sync.timer",
	"sudo -n systemctl start --no-block maas_hardware_sync.service",
}

const (
	recordsCommand = "sudo -n find /var/lib/gpuaas-firstboot -maxdepth 1 -name '[0-9][0-9]-*.json' -exec cat {} +"
	repeatCommand  = "sudo -n systemd-run --collect --quiet /bin/sh /var/lib/gpuaas-firstboot/run"
)

// box is what a deployed machine runs: an SSH server, and hardware sync that
// works once it has credentials.
type box struct {
	*sshtest.Server
	w *world

	mu      sync.Mutex
	dialled []string
	away    []string // addresses that nothing answers at
	deaf    bool     // sync does not reach MAAS
	system  string   // id of the machine
	creds   string
	login   rack.Login               // that its first boot made
	replies map[string]sshtest.Reply // otherwise than usual
	records string                   // of the first boot
}

// street is the network between jobs and the machines of a world.
type street struct {
	mu    sync.Mutex
	boxes map[string]*box // by address
}

func (s *street) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	s.mu.Lock()
	b := s.boxes[host]
	s.mu.Unlock()
	if err != nil || b == nil || b.gone(host, address) {
		return nil, errors.New("no route to host")
	}
	return b.DialContext(ctx, network, address)
}

// gone notes who is called, and says whether anything is there.
func (b *box) gone(host, address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialled = append(b.dialled, address)
	return slices.Contains(b.away, host) || slices.Contains(b.away, "*")
}

// newStreet is a world in which deployed machines can be reached.
func newStreet(t *testing.T, machines int, adjust ...func(*plan)) (*world, *street) {
	t.Helper()
	s := &street{boxes: map[string]*box{}}
	return newWorld(t, append(adjust, func(p *plan) {
		p.sim.Fleet.Unknown = machines
		p.config.Dialer = s
		p.config.Retry = func(int) time.Duration { return 5 * time.Millisecond }
	})...), s
}

// deploys is a job whose machine, the nth, is deployed and can be reached.
func (s *street) deploys(t *testing.T, w *world, n int) (*box, *bringup.Work) {
	t.Helper()
	b := &box{w: w, replies: map[string]sshtest.Reply{}}
	b.Server = sshtest.Start(t, "hpcadmin", "", b.handle)
	job := w.work(n)
	w.upTo(t, bringup.WaitForDeployed, job)
	b.boot(t, w.userData(t, job))
	w.does(t, bringup.WaitForDeployed, job)
	b.set(func() { b.system = job.SystemID })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range w.machine(t, job.SystemID).Interfaces {
		for _, l := range i.Links {
			s.boxes[l.IP] = b
		}
	}
	w.asked.reset()
	return b, job
}

func deployedWorld(t *testing.T, adjust ...func(*plan)) (*world, *box, *bringup.Work) {
	t.Helper()
	w, s := newStreet(t, 1, adjust...)
	b, job := s.deploys(t, w, 1)
	return w, b, job
}

// boot does what a first boot does to a machine, as far as SSH goes.
func (b *box) boot(t *testing.T, userData string) {
	t.Helper()
	login, found, err := rack.ReadLogin([]byte(userData))
	if err != nil || !found || login.User != "hpcadmin" {
		t.Fatalf("the first boot makes no login: %v", err)
	}
	b.login = login
	b.SetHostKey(t, login.HostKey)
	b.Authorize(strings.TrimSpace(login.Keys))
}

func (b *box) set(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fn()
}

func (b *box) handle(command string, stdin []byte) sshtest.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, other := b.replies[command]; other {
		return r
	}
	switch {
	case command == seedCommands[0]:
		b.creds = string(stdin)
	case command == seedCommands[3] && strings.Contains(b.creds, "/metadata/status/"+b.system+`"`) && !b.deaf:
		if err := b.w.sim.Signal(b.system, "OK"); err != nil {
			return sshtest.Reply{Stderr: err.Error(), Status: 1}
		}
	case command == recordsCommand:
		return sshtest.Reply{Stdout: b.records}
	case command != repeatCommand && !slices.Contains(seedCommands, command):
		return sshtest.Reply{Stderr: "command not found", Status: 127}
	}
	return sshtest.Reply{}
}

// discreetAbout refuses a job that tells what was pushed to its machine.
func (b *box) discreetAbout(t *testing.T, job *bringup.Work) {
	t.Helper()
	b.mu.Lock()
	creds := b.creds
	b.mu.Unlock()
	for line := range strings.Lines(creds) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		value = strings.Trim(value, `"`)
		if !strings.HasSuffix(name, "_key") && name != "token_secret" {
			continue
		}
		if strings.Contains(b.w.logs.String(), value) || strings.Contains(factsOf(t, job), value) {
			t.Errorf("%s of the machine is told", name)
		}
	}
	b.w.discreetWork(t, job)
}

func TestAMachineIsSeededOnceAndHeard(t *testing.T) {
	t.Parallel()
	w, b, job := deployedWorld(t)
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	if got := b.Commands(); !slices.Equal(got, seedCommands) {
		t.Errorf("commands were %q", got)
	}
	for _, want := range []string{
		"reporting:\n  maas:\n", w.sim.URL + "/metadata/status/" + job.SystemID,
		"consumer_key: ", "token_key: ", "token_secret: ",
	} {
		if !strings.Contains(b.creds, want) {
			t.Errorf("credentials lack %q", want)
		}
	}
	f := job.Facts
	if f.SyncSeeds != 1 || f.SyncSeededAt == nil || !strings.HasPrefix(f.SSHHostKey, "ssh-ed25519 ") ||
		f.SSHAddress == "" {
		t.Errorf("facts are %+v", f)
	}
	result := w.does(t, bringup.WaitForHardwareSyncHealthy, job)
	if job.Facts.SyncHealthy == nil || result.Details["seeds"] != 1 {
		t.Errorf("%+v %+v", result, job.Facts)
	}
	if n := w.asked.total() - w.asked.of("events.query"); n > 4 {
		t.Errorf("MAAS was asked %d times: %s", n, w.asked)
	}
	// Both stages once more: another seed, and nothing else changes.
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	w.does(t, bringup.WaitForHardwareSyncHealthy, job)
	if job.Facts.SyncSeeds != 2 || job.Facts.SSHHostKey != f.SSHHostKey {
		t.Errorf("facts are %+v", job.Facts)
	}
	b.discreetAbout(t, job)
}

func TestHardwareSyncThatNobodyWants(t *testing.T) {
	w, b, job := deployedWorld(t, func(p *plan) { p.policy = site.PolicyChange{RequireHWSync: set(false)} })
	for _, stage := range []string{bringup.EnsureHardwareSyncConfigured, bringup.WaitForHardwareSyncHealthy} {
		if r := w.does(t, stage, job); !r.Skipped || r.Message == "" {
			t.Errorf("%s: %+v", stage, r)
		}
	}
	if len(b.dialled) != 0 {
		t.Errorf("dialled %q", b.dialled)
	}
}

// The first boot may not be far enough yet: nothing answers, then nobody is let
// in, then the units are not there.
func TestAMachineAtItsFirstBootIsWaitedFor(t *testing.T) {
	w, b, job := deployedWorld(t)
	b.set(func() { b.away = []string{"*"} })
	b.Authorize("")
	b.replies[seedCommands[1]] = sshtest.Reply{Stderr: "Unit maas_hardware_sync.timer does not exist", Status: 1}
	steps := []func(){
		func() { b.set(func() { b.away = nil }) },
		func() { b.Authorize(strings.TrimSpace(b.login.Keys)) },
		func() { b.set(func() { delete(b.replies, seedCommands[1]) }) },
	}
	tries := 0
	job.Heartbeat = func() {
		if tries++; tries%3 == 0 && tries/3 <= len(steps) {
			steps[tries/3-1]()
		}
	}
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	if tries < 9 || job.Facts.SyncSeeds != 1 {
		t.Errorf("%d tries, %+v", tries, job.Facts)
	}
	b.discreetAbout(t, job)
}

func TestMachinesThatCannotBeSeeded(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		spoil func(t *testing.T, w *world, b *box, job *bringup.Work)
		class job.FailureClass
		code  string
	}{
		"unreachable": {
			func(_ *testing.T, _ *world, b *box, _ *bringup.Work) { b.away = []string{"*"} },
			bringup.PostDeployConnectivityFailure, "ssh_unreachable",
		},
		"refused": {
			func(_ *testing.T, _ *world, b *box, _ *bringup.Work) { b.Authorize("") },
			bringup.PostDeployConnectivityFailure, "ssh_refused",
		},
		"no sudo": {func(_ *testing.T, _ *world, b *box, _ *bringup.Work) {
			b.replies[seedCommands[0]] = sshtest.Reply{Stderr: "sudo: a password is required", Status: 1}
		}, bringup.PostDeployConnectivityFailure, "ssh_command_failed"},
		"no address": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			job.Facts.Addresses = nil
			w.fault(t, simfault.Rule{
				Machine: job.SystemID, Operation: "machine.get", Fault: simfault.Lie,
				Set: map[string]any{"ip_addresses": []string{}, "interface_set": []any{}},
			})
		}, bringup.PostDeployConnectivityFailure, "ssh_no_address"},
		"no token": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.fault(t, simfault.Rule{
				Machine: job.SystemID, Operation: "machine.get_token", Fault: simfault.ErrorBefore,
				Status: 200, Text: "null", ContentType: "application/json",
			})
		}, bringup.HardwareSyncFailure, "failed_hw_sync_seed"},
		"another key": {func(t *testing.T, w *world, b *box, job *bringup.Work) {
			t.Helper()
			w.does(t, bringup.EnsureHardwareSyncConfigured, job)
			b.Reinstall(t)
		}, bringup.StateAmbiguity, "ssh_host_key_changed"},
		"released": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.happens(t, job.SystemID, "release")
		}, bringup.StateAmbiguity, "machine_not_deployed"},
		"deleted": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.happens(t, job.SystemID, "delete")
		}, bringup.StateAmbiguity, "machine_gone"},
		"without sync": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.fault(t, simfault.Rule{
				Machine: job.SystemID, Operation: "machine.get", Fault: simfault.Lie,
				Set: map[string]any{"enable_hw_sync": false},
			})
		}, bringup.HardwareSyncFailure, "hw_sync_disabled"},
		"held by another": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.fault(t, simfault.Rule{
				Machine: job.SystemID, Operation: "machine.get", Fault: simfault.Lie,
				Set: map[string]any{"workload_annotations": map[string]string{"gpuaas-job": "other"}},
			})
		}, bringup.StateAmbiguity, "machine_in_use"},
	}
	w, street := newStreet(t, len(cases))
	n := 0
	for name, c := range cases {
		n++
		t.Run(name, func(t *testing.T) {
			b, job := street.deploys(t, w, n)
			c.spoil(t, w, b, job)
			job.Deadline = time.Now().Add(200 * time.Millisecond)
			began := time.Now()
			f := w.fails(t, bringup.EnsureHardwareSyncConfigured, job, c.class, c.code)
			if f.Final != (c.class == bringup.StateAmbiguity || name == "without sync") {
				t.Errorf("final: %v", f.Final)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			b.discreetAbout(t, job)
		})
	}
}

func TestThePreferredInterfaceIsTriedFirst(t *testing.T) {
	t.Parallel()
	w, street := newStreet(t, 1)
	b, job := street.deploys(t, w, 1)
	preferred := ""
	for _, i := range w.machine(t, job.SystemID).Interfaces {
		if i.Name == job.Site.Settings.DeploySSHIface && len(i.Links) > 0 {
			preferred = i.Links[0].IP
		}
	}
	if preferred == "" {
		t.Fatal("the machine has no address there")
	}
	const other = "10.99.0.7"
	job.Facts.Addresses, street.boxes[other] = []string{other}, b
	b.away = []string{preferred}
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	if len(b.dialled) < 2 || b.dialled[0] != net.JoinHostPort(preferred, "22") || job.Facts.SSHAddress != other {
		t.Errorf("dialled %q, used %s", b.dialled, job.Facts.SSHAddress)
	}
}

func TestASupersededJobSaysNothingToItsMachine(t *testing.T) {
	w, b, job := deployedWorld(t)
	job.Fence = func(context.Context) error { return durable.Superseded("onboarding", job.Job) }
	_, err := w.bringup.EnsureHardwareSyncConfigured(system(t), job)
	if fault.CodeOf(err) != durable.CodeSuperseded || len(b.Commands()) != 0 {
		t.Errorf("%v, commands %q", err, b.Commands())
	}
	ctx, cancel := context.WithCancel(system(t))
	cancel()
	if _, err := w.bringup.EnsureHardwareSyncConfigured(ctx, job); !errors.Is(err, context.Canceled) {
		t.Errorf("a stage that was told to stop: %v", err)
	}
}

func TestASilentMachineIsSeededAgain(t *testing.T) {
	t.Parallel()
	w, b, job := deployedWorld(t)
	b.deaf = true
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	job.Since = time.Now()
	job.Deadline = job.Since.Add(6 * time.Second)
	job.Heartbeat = func() { b.set(func() { b.deaf = false }) } // before the first seed that comes
	w.does(t, bringup.WaitForHardwareSyncHealthy, job)
	if job.Facts.SyncSeeds != 2 {
		t.Errorf("%d seeds", job.Facts.SyncSeeds)
	}
	b.discreetAbout(t, job)
}

func TestAMachineThatStaysSilent(t *testing.T) {
	t.Parallel()
	w, b, job := deployedWorld(t)
	b.deaf = true
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	b.set(func() { b.away = []string{"*"} })
	job.Since, job.Deadline = time.Now(), time.Now().Add(6*time.Second) // a busy machine seeds again in time
	f := w.fails(t, bringup.WaitForHardwareSyncHealthy, job, bringup.HardwareSyncFailure, "failed_hw_sync_health")
	last, _ := f.Details["last_reseed"].(string)
	if !f.Final || f.Details["seeds"] != 1 || !strings.Contains(last, "no SSH connection") {
		t.Errorf("%+v", f)
	}
	b.discreetAbout(t, job)
}

func TestWhatEndsTheWaitForSync(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		spoil func(t *testing.T, w *world, b *box, job *bringup.Work)
		class job.FailureClass
		code  string
	}{
		"released": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.happens(t, job.SystemID, "release")
		}, bringup.StateAmbiguity, "machine_not_deployed"},
		"deleted": {func(t *testing.T, w *world, _ *box, job *bringup.Work) {
			t.Helper()
			w.happens(t, job.SystemID, "delete")
		}, bringup.StateAmbiguity, "machine_gone"},
		"another key": {func(t *testing.T, _ *world, b *box, job *bringup.Work) {
			t.Helper()
			b.Reinstall(t)
			job.Deadline = job.Since.Add(6 * time.Second)
		}, bringup.StateAmbiguity, "ssh_host_key_changed"},
	}
	w, street := newStreet(t, len(cases))
	n := 0
	for name, c := range cases {
		n++
		t.Run(name, func(t *testing.T) {
			b, job := street.deploys(t, w, n)
			b.deaf = true
			w.does(t, bringup.EnsureHardwareSyncConfigured, job)
			job.Since = time.Now()
			c.spoil(t, w, b, job)
			w.fails(t, bringup.WaitForHardwareSyncHealthy, job, c.class, c.code)
		})
	}
}

// A node that has an agent is seeded by it, and its agent gets the token of its
// machine and of no other.
func TestANodeWithAnAgentIsSeededByIt(t *testing.T) {
	t.Parallel()
	tasks := &agenttask.Commands{}
	w, b, job := deployedWorld(t, func(p *plan) { p.config.Tasks = tasks })
	tasks.DB = w.db
	b.deaf = true
	job.Site.Settings.HWSyncHTTP = site.SyncPinned
	w.does(t, bringup.EnsureHardwareSyncConfigured, job)
	if _, err := w.owner.Exec(t.Context(), `UPDATE nodes SET first_poll_at = now(), agent_instance = 'm', hardware_said = true WHERE id = $1`, job.Node); err != nil {
		t.Fatal(err)
	}
	said := len(b.Commands())
	job.Since = time.Now()
	job.Deadline = job.Since.Add(3 * time.Second)
	w.fails(t, bringup.WaitForHardwareSyncHealthy, job, bringup.HardwareSyncFailure, "failed_hw_sync_health")
	if got := b.Commands(); len(got) != said {
		t.Errorf("said over SSH: %q", got[said:])
	}
	rows, err := w.owner.Query(t.Context(), `SELECT params::text FROM node_tasks WHERE node_id = $1 AND type = $2`, job.Node, agentwire.TypeHWSyncReseed)
	if err != nil {
		t.Fatal(err)
	}
	params, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(params) < 1 || len(params) > 3 || !strings.Contains(params[0], job.SystemID) ||
		!strings.Contains(params[0], "run_scripts_sha256") {
		t.Errorf("tasks are %q, %v", params, err)
	}
	if bound, err := binding.OfNode(t.Context(), w.db, job.Node); err != nil || bound.SystemID != job.SystemID {
		t.Errorf("%+v, %v", bound, err)
	}
	values, err := w.bringup.MachineToken(t.Context(), job.Node, job.SystemID)
	if err != nil {
		t.Fatal(err)
	}
	if len(values) != 3 {
		t.Errorf("%d values come with the token, which nobody signs", len(values))
	}
	for _, name := range []string{"consumer_key", "token_key", "token_secret"} {
		if v := values[name].Reveal(); v == "" || !strings.Contains(b.creds, v) {
			t.Errorf("%s is not that of the machine", name)
		}
	}
	_, err = w.bringup.MachineToken(t.Context(), job.Node, "abc234")
	if fault.KindOf(err) != fault.Forbidden || fault.CodeOf(err) != "machine_of_other_node" {
		t.Errorf("the token of another machine: %v", err)
	}
	if _, err = w.bringup.MachineToken(t.Context(), id.New[id.Node](), job.SystemID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a node without a machine: %v", err)
	}
	b.discreetAbout(t, job)
}

func factsOf(t *testing.T, job *bringup.Work) string {
	t.Helper()
	text, err := json.Marshal(job.Facts)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
