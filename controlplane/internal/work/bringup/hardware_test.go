package bringup_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
)

// overheard is somebody on the network who reads the tokens of first boots.
type overheard struct {
	bootstrapPlay
	token redact.Secret // the newest
}

func (o *overheard) CloudInit(ctx context.Context, token redact.Secret) (redact.Secret, error) {
	o.token = token
	return o.bootstrapPlay.CloudInit(ctx, token)
}

// hardware is what the agent of the machine of a job says.
func (w *world) hardware(tb testing.TB, job *bringup.Work) *agentwire.Hardware {
	tb.Helper()
	m := w.machine(tb, job.SystemID)
	if m.HardwareUUID == nil || len(m.Interfaces) == 0 {
		tb.Fatalf("MAAS knows nothing of the hardware of %s", job.Hostname)
	}
	return &agentwire.Hardware{
		UUID: *m.HardwareUUID, SystemSerial: m.HardwareInfo["system_serial"], ChassisSerial: m.HardwareInfo["chassis_serial"],
		MACs: []string{m.Interfaces[0].MAC},
	}
}

// enrols lets a machine come with a token.
func (w *world) enrols(tb testing.TB, token redact.Secret, key, from string, said *agentwire.Hardware) error {
	tb.Helper()
	_, err := w.nodes.BeginEnrolment(telemetry.WithClientAddr(system(tb), from), token, key, "instance of "+key, "h",
		agentwire.Build{Version: "1.0.0", Commit: "abc"}, agentwire.Capabilities{}, said)
	return err
}

var stranger = &agentwire.Hardware{
	UUID: "9a9a9a9a-0042-3510-8052-b4c04f4d3233", SystemSerial: "STRANGER1",
	MACs: []string{"b0:7b:25:cc:00:01"},
}

// installed is a job whose machine is at its first boot, and who reads its tokens.
func installed(t *testing.T) (*world, *overheard, *bringup.Work) {
	t.Helper()
	thief := &overheard{}
	w := newWorld(t, func(p *plan) {
		p.config.Bootstrap = thief
		p.policy.RequireHWSync = set(false)
	})
	job := w.work(1)
	w.upTo(t, bringup.WaitForAgentEnrollment, job)
	return w, thief, job
}

func TestAttackAnOnboardingParksWhenItsTokenIsStolen(t *testing.T) {
	t.Parallel()
	attacks := map[string]struct {
		steal func(t *testing.T, w *world, token redact.Secret, job *bringup.Work)
		names string
	}{
		"by a machine that comes first": {func(t *testing.T, w *world, token redact.Secret, _ *bringup.Work) {
			t.Helper()
			err := w.enrols(t, token, "thief", "10.0.0.9", stranger)
			if fault.CodeOf(err) != agentwire.CodeHardwareMismatch || !strings.Contains(err.Error(), "system UUID") {
				t.Errorf("the thief is answered %v", err)
			}
		}, "STRANGER1"},
		"by a machine that knows what to say, and comes first": {func(t *testing.T, w *world, token redact.Secret,
			job *bringup.Work,
		) {
			t.Helper()
			if err := w.enrols(t, token, "thief", "10.0.0.9", w.hardware(t, job)); err != nil {
				t.Fatal(err)
			}
			w.polls(t, job)
			if err := w.enrols(t, token, "right", "10.0.0.7", w.hardware(t,
				job)); fault.CodeOf(err) != agentwire.CodeTokenInvalid {
				t.Errorf("the right machine is answered %v", err)
			}
		}, "another key"},
	}
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			w, thief, job := installed(t)
			stolen := thief.token
			a.steal(t, w, stolen, job)
			f := w.fails(t, bringup.WaitForAgentEnrollment, job, bringup.AgentEnrollmentFailure, bringup.CodeIdentityVoid.Name)
			if !f.Final || !strings.Contains(f.Message, a.names) || !strings.Contains(f.Remedy, "resume") {
				t.Errorf("%+v", f)
			}
			// What operators are told to do: the machine is installed anew, and completes.
			w.does(t, bringup.RenderCloudInit, job)
			if status := w.machine(t, job.SystemID).StatusName; status != maas.StatusReady.Label() ||
				job.Facts.DeployedAt != nil {
				t.Errorf("the machine is %s, %+v", status, job.Facts)
			}
			for _, who := range []string{"thief", "right"} {
				if err := w.enrols(t, stolen, who, "10.0.0.9", w.hardware(t,
					job)); fault.CodeOf(err) != agentwire.CodeTokenInvalid {
					t.Errorf("the stolen token is answered %v", err)
				}
			}
			for _, stage := range []string{bringup.DeployViaMAAS, bringup.WaitForDeployed} {
				w.does(t, stage, job)
			}
			job.Since, job.Deadline = time.Now(), time.Now().Add(30*time.Minute)
			w.waits(t, job, 10*time.Minute)
			if err := w.enrols(t, thief.token, "right", "10.0.0.7", w.hardware(t, job)); err != nil {
				t.Fatal(err)
			}
			w.polls(t, job)
			if r := w.does(t, bringup.WaitForAgentEnrollment, job); r.Await != nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestMAASSaysWhichMachineMayEnrol(t *testing.T) {
	t.Parallel()
	w, _, job := installed(t)
	m, err := w.nodes.MachineOf(t.Context(), job.Node)
	said := w.hardware(t, job)
	if err != nil || m.Origin != node.FromMAAS || m.Known.UUID != said.UUID || m.Known.SystemSerial == "" ||
		len(m.Known.MACs) == 0 || len(m.Addresses) == 0 || m.AddressRequired {
		t.Errorf("%+v, %v", m, err)
	}
}
