package bringup_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/work/bringup"
	jobs "gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// round renders, deploys and waits for a deployment that fails, and returns the
// stage that is to deal with it.
func (w *world) round(t *testing.T, job *bringup.Work, code string) {
	t.Helper()
	w.does(t, bringup.RenderCloudInit, job)
	w.does(t, bringup.DeployViaMAAS, job)
	job.Deadline = time.Now().Add(500 * time.Millisecond)
	f := w.fails(t, bringup.WaitForDeployed, job, bringup.DeployInstallerFailure, code)
	if f.Next != bringup.ClassifyDeployFailure {
		t.Errorf("what follows is %q", f.Next)
	}
	job.Deadline = time.Now().Add(30 * time.Second)
}

// released refuses a machine that the job has not given back.
func (w *world) released(t *testing.T, job *bringup.Work) {
	t.Helper()
	if m := w.machine(t, job.SystemID); m.Status != region.Ready || m.Owner != nil || m.PowerState != "off" {
		t.Errorf("the machine is %s, %s", m.StatusName, m.PowerState)
	}
}

func TestAFirstBootThatDoesNotGetThroughIsDeployedOnceMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.fault(t, simfault.Rule{Fault: simfault.Datasource})
	w.round(t, job, "deploy_timeout")
	first := secretForms[0].FindString(w.userData(t, job))

	r := w.does(t, bringup.ClassifyDeployFailure, job)
	if r.Next != bringup.RecoverForDatasourceRetry || job.Facts.DeployFailure != "datasource_like" ||
		job.Facts.DeployEvidence == "" {
		t.Fatalf("result is %+v, facts %+v", r, job.Facts)
	}
	if again := w.does(t, bringup.ClassifyDeployFailure, job); again.Next != r.Next {
		t.Errorf("another run says %+v", again)
	}
	if r = w.does(t, bringup.RecoverForDatasourceRetry, job); r.Next != bringup.RenderCloudInit ||
		job.Facts.Redeploys != 1 {
		t.Fatalf("result is %+v, facts %+v", r, job.Facts)
	}
	w.released(t, job)

	w.round(t, job, "deploy_timeout")
	if second := secretForms[0].FindString(w.userData(t, job)); second == first {
		t.Error("the token is not fresh")
	}
	f := w.fails(t, bringup.ClassifyDeployFailure, job, bringup.DeployCloudInitFailure, "deploy_failed_datasource")
	if !f.Final || f.Next != "" || f.Details["redeploys"] != 1 {
		t.Errorf("failure is %+v", f)
	}
	w.released(t, job)
	if got := w.requested(t, job, startedDeployment); got != 2 || job.Facts.Deploys != 2 {
		t.Errorf("it was deployed %d times, facts %+v", got, job.Facts)
	}
	for _, path := range w.vault.paths() {
		if strings.HasPrefix(path, "first-boot/") {
			t.Errorf("%s is still in the secrets engine", path)
		}
	}
	// An answer that was lost on the way back changes nothing.
	w.fails(t, bringup.ClassifyDeployFailure, job, bringup.DeployCloudInitFailure, "deploy_failed_datasource")
	w.told(t, job)

	// A rerun begins anew where the machine is.
	w.sim.Faults.Clear()
	w.does(t, bringup.RenderCloudInit, job)
	w.does(t, bringup.DeployViaMAAS, job)
	w.does(t, bringup.WaitForDeployed, job)
	if job.Facts.DeployFailure != "" || job.Facts.Deploys != 3 {
		t.Errorf("facts are %+v", job.Facts)
	}
}

// classOf is what a failed deployment is called: that curtin failed is not the
// fault of cloud-init.
func classOf(code string) jobs.FailureClass {
	if code == "deploy_failed_datasource" {
		return bringup.DeployCloudInitFailure
	}
	return bringup.DeployInstallerFailure
}

func TestOtherFailuresAreNotTriedAgain(t *testing.T) {
	cases := map[string]struct {
		rule   simfault.Rule
		waits  string
		code   string
		adjust func(*plan)
	}{
		"installer": {
			rule: simfault.Rule{Fault: simfault.FailDeploy}, waits: "deploy_failed",
			code: "deploy_failed",
		},
		"storage": {
			rule: simfault.Rule{Fault: simfault.PhaseFails, Phase: "storage"}, waits: "deploy_failed",
			code: "deploy_failed",
		},
		"power": {
			rule: simfault.Rule{Fault: simfault.BMCFailure, Power: "on", Count: 1}, waits: "deploy_failed",
			code: "deploy_failed",
		},
		"hanging installer": {
			rule: simfault.Rule{Fault: simfault.PhaseHangs, Phase: "install"}, waits: "deploy_timeout",
			code: "deploy_timeout",
		},
		"events do not come": {
			rule: simfault.Rule{Fault: simfault.FailDeploy}, waits: "deploy_failed",
			code: "deploy_failed",
		},
		"policy": {
			rule: simfault.Rule{Fault: simfault.Datasource}, waits: "deploy_timeout", code: "deploy_failed_datasource",
			adjust: func(p *plan) { p.policy.EnableDeployRetryOnDatasourceFailure = set(false) },
		},
		"budget": {
			rule: simfault.Rule{Fault: simfault.Datasource}, waits: "deploy_timeout", code: "deploy_failed_datasource",
			adjust: func(p *plan) { p.policy.MaxDeployRetryAttempts = set(int32(0)) },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			adjust := []func(*plan){aFleet(1)}
			if c.adjust != nil {
				adjust = append(adjust, c.adjust)
			}
			w := newWorld(t, adjust...)
			job := w.ready(t, 1)
			w.fault(t, c.rule)
			w.round(t, job, c.waits)
			if name == "events do not come" {
				w.fault(t, simfault.Rule{Fault: simfault.ErrorBefore, Operation: "events.query", Status: 500})
				w.fault(t, simfault.Rule{Fault: simfault.ErrorBefore, Operation: "*results*", Status: 500})
			}
			f := w.fails(t, bringup.ClassifyDeployFailure, job, classOf(c.code), c.code)
			if !f.Final || f.Details["evidence"] == "" {
				t.Errorf("failure is %+v", f)
			}
			t.Log(f.Message)
			w.sim.Faults.Clear()
			w.released(t, job)
			if got := w.requested(t, job, startedDeployment); got != 1 {
				t.Errorf("it was deployed %d times", got)
			}
			w.told(t, job)
		})
	}
}

func TestALateSuccessIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(2))
	for n, stage := range []string{bringup.ClassifyDeployFailure, bringup.RecoverForDatasourceRetry} {
		job := w.ready(t, n+1)
		w.does(t, bringup.RenderCloudInit, job)
		w.does(t, bringup.DeployViaMAAS, job)
		w.does(t, bringup.WaitForDeployed, job)
		job.Facts.DeployedAt = nil // the wait had ended too early
		if r := w.does(t, stage, job); r.Next != bringup.WaitForDeployed || job.Facts.Redeploys != 0 {
			t.Errorf("%s: %+v", stage, r)
		}
		if m := w.machine(t, job.SystemID); m.Status != region.Deployed {
			t.Errorf("%s: the machine is %s", stage, m.StatusName)
		}
		job.Deadline = time.Now().Add(-time.Hour) // even after the end of all time
		w.does(t, bringup.WaitForDeployed, job)
	}
}

// What is somebody else's is not released, whatever the facts say.
func TestRecoveryTouchesNothingOfOthers(t *testing.T) {
	w := newWorld(t, aFleet(2))
	for n, stage := range []string{bringup.ClassifyDeployFailure, bringup.RecoverForDatasourceRetry} {
		job := w.ready(t, n+1)
		if _, err := w.sim.Allocate(admin, map[string][]string{"system_id": {job.SystemID}}); err != nil {
			t.Fatal(err)
		}
		job.Facts.DeployFailure = "datasource_like"
		w.fails(t, stage, job, bringup.StateAmbiguity, "machine_in_use")
		if m := w.machine(t, job.SystemID); m.Status != region.Allocated {
			t.Errorf("%s: the machine is %s", stage, m.StatusName)
		}
	}
}

func TestLostAnswersOfARecovery(t *testing.T) {
	t.Parallel()
	rules := []simfault.Rule{
		{Operation: "machine.abort", Fault: simfault.LostAnswer},
		{Operation: "machine.abort", Fault: simfault.ErrorBefore, Status: 500},
		{Operation: "machine.release", Fault: simfault.LostAnswer},
		{Operation: "machine.release", Fault: simfault.ErrorAfter, Status: 500},
		{Operation: "machine.release", Fault: simfault.ErrorBefore, Status: 503},
		{Operation: "machine.release", Fault: simfault.Drop},
	}
	w := newWorld(t, aFleet(len(rules)))
	w.fault(t, simfault.Rule{Fault: simfault.Datasource})
	for n, rule := range rules {
		job := w.ready(t, n+1)
		w.does(t, bringup.RenderCloudInit, job)
		w.does(t, bringup.DeployViaMAAS, job)
		rule.Machine, rule.Count = job.SystemID, 1
		w.fault(t, rule)
		var err error
		for range 2 {
			if _, err = w.bringup.RecoverForDatasourceRetry(system(t), job); err == nil {
				break
			}
			if f := bringup.Classify(err); f.Final || f.Class != bringup.UpstreamTransient {
				t.Fatalf("%s %s: %s %s is final: %v", rule.Operation, rule.Fault, f.Class, f.Code, f.Cause)
			}
		}
		if err != nil || job.Facts.Redeploys != 1 {
			t.Errorf("%s %s: %v, facts %+v", rule.Operation, rule.Fault, err, job.Facts)
		}
		w.released(t, job)
	}
}
