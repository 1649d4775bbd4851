package bringup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/testkit"
)

// aFleet puts Ready machines on record, so that stages can begin at a deployment.
func aFleet(n int) func(*plan) { return func(p *plan) { p.sim.Fleet = fleet.Options{Machines: n} } }

// ready is a job on the nth machine of a fleet, as it is before its first boot
// is rendered.
func (w *world) ready(tb testing.TB, n int) *bringup.Work {
	tb.Helper()
	job := w.work(n)
	systemID, known := w.sim.Find(hostname(n))
	if !known {
		tb.Fatalf("MAAS has no machine %s", hostname(n))
	}
	job.SystemID = systemID
	return job
}

// requested counts what MAAS was asked to do to a machine, by its own record.
func (w *world) requested(tb testing.TB, job *bringup.Work, kind string) (n int) {
	tb.Helper()
	page, err := w.sim.Events(admin, url.Values{"id": {job.SystemID}, "level": {"DEBUG"}, "limit": {"1000"}})
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range page.Events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

const startedDeployment = "User starting deployment"

var secretForms = []*regexp.Regexp{regexp.MustCompile(`gpuaas_n[A-Za-z0-9_-]{20,}`), regexp.MustCompile(`-----BEGIN OPENSSH PRIVATE KEY-----`)}

// told refuses a job whose row, results or logs hold a token or a private key, whatever
// is in the secrets engine by now.
func (w *world) told(tb testing.TB, job *bringup.Work, results ...bringup.Result) {
	tb.Helper()
	w.discreetWork(tb, job)
	b, err := json.Marshal(struct {
		Facts   bringup.Facts
		Results []bringup.Result
	}{job.Facts, results})
	if err != nil {
		tb.Fatal(err)
	}
	for _, form := range secretForms {
		if found := form.FindString(string(b) + w.logs.String()); found != "" {
			tb.Errorf("a secret is told: %s", found)
		}
	}
}

func (w *world) userData(tb testing.TB, job *bringup.Work) string {
	tb.Helper()
	values, err := w.vault.Get(tb.Context(), "first-boot/"+job.Kind+"/"+job.Job)
	if err != nil {
		tb.Fatal(err)
	}
	return values["user_data"].Reveal()
}

func layerNames(job *bringup.Work) (names []string) {
	for _, l := range job.Facts.FirstBootLayers {
		names = append(names, l.Name)
	}
	return names
}

func TestAMachineIsDeployedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	results := []bringup.Result{w.does(t, bringup.RenderCloudInit, job)}
	n, err := w.nodes.Node(t.Context(), job.Node)
	if err != nil || n.Status != node.Enrolling || n.Hostname != job.Hostname || n.Host != job.Hostname ||
		n.OnboardingMode != node.MAAS ||
		n.AwaitedBy != job.WorkflowID || n.RegionCode != "eu-1" || n.GPUsTotal != 8 {
		t.Fatalf("node is %+v, %v", n, err)
	}
	if got, want := layerNames(job), []string{"deploy-user", "hardware-sync", "agent-bootstrap"}; !slices.Equal(got,
		want) {
		t.Errorf("layers are %v, want %v", got, want)
	}
	rendered := w.userData(t, job)
	for _, form := range secretForms {
		if !form.MatchString(rendered) {
			t.Errorf("the first boot lacks %s", form)
		}
	}
	w.told(t, job, results...)

	job.Facts.SSHHostKey, job.Facts.SyncSeeds = "old", 3
	results = append(results, w.does(t, bringup.DeployViaMAAS, job))
	if job.Facts.Deploys != 1 || job.Facts.SSHHostKey != "" || job.Facts.SyncSeeds != 0 {
		t.Errorf("facts are %+v", job.Facts)
	}
	results = append(results, w.does(t, bringup.WaitForDeployed, job))
	m := w.machine(t, job.SystemID)
	if m.Status != region.Deployed || m.Annotations["gpuaas-job"] != job.Job || m.Annotations["gpuaas-epoch"] != "1" ||
		!m.EnableHWSync {
		t.Errorf("machine is %s, %v", m.StatusName, m.Annotations)
	}
	if got, _, err := w.sim.UserData(job.SystemID); err != nil || string(got) != rendered {
		t.Errorf("the machine got another first boot: %v", err)
	}
	f := job.Facts
	if f.DeployedAt == nil || !slices.Equal(f.Addresses, m.IPAddresses) || len(f.Addresses) == 0 ||
		f.Image != "ubuntu/noble" || f.FirstBootPath != "" {
		t.Errorf("facts are %+v", f)
	}
	if slices.Contains(w.vault.paths(), "first-boot/onboarding/"+job.Job) {
		t.Error("the first boot is still in the secrets engine")
	}
	t.Logf("requests of MAAS for render, deploy and wait: %d %s", w.asked.total(), w.asked)

	// From the top: nothing happens twice, and the token on the machine stays.
	for range 2 {
		for _, stage := range []string{bringup.RenderCloudInit, bringup.DeployViaMAAS} {
			r := w.does(t, stage, job)
			if results = append(results, r); !r.Skipped {
				t.Errorf("%s is not skipped: %s", stage, r.Message)
			}
		}
		results = append(results, w.does(t, bringup.WaitForDeployed, job))
	}
	var tokens int
	if err := w.owner.QueryRow(t.Context(), "SELECT count(*) FROM node_tokens WHERE node_id = $1", job.Node).
		Scan(&tokens); err != nil || tokens != 1 {
		t.Errorf("there are %d tokens, %v", tokens, err)
	}
	if got := w.requested(t, job, startedDeployment); got != 1 {
		t.Errorf("it was deployed %d times", got)
	}
	w.told(t, job, results...)
}

// Whatever becomes of an answer, the machine is deployed once in the end.
func TestALostAnswerDeploysOnce(t *testing.T) {
	operations := []string{"machines.allocate", "machine.set_workload_annotations", "machine.deploy"}
	faults := []simfault.Rule{
		{Fault: simfault.LostAnswer},
		{Fault: simfault.ErrorAfter, Status: 500},
		{Fault: simfault.ErrorAfter, Status: 503},
		{Fault: simfault.Truncate},
		{Fault: simfault.ErrorBefore, Status: 500},
		{Fault: simfault.Drop},
	}
	w := newWorld(t, aFleet(len(operations)*len(faults)))
	n := 0
	for _, operation := range operations {
		for _, rule := range faults {
			n++
			job := w.ready(t, n)
			t.Run(fmt.Sprintf("%s %s %d", operation, rule.Fault, rule.Status), func(t *testing.T) {
				t.Parallel()
				w.does(t, bringup.RenderCloudInit, job)
				rule.Operation, rule.Machine, rule.Count = operation, job.SystemID, 1
				w.fault(t, rule)
				var err error
				for range 3 {
					if _, err = w.bringup.DeployViaMAAS(system(t), job); err == nil {
						break
					}
					if f := bringup.Classify(err); f.Final || f.Class != bringup.UpstreamTransient {
						t.Fatalf("%s %s is final: %v (%v)", f.Class, f.Code, f, f.Cause)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				w.does(t, bringup.WaitForDeployed, job)
				if got := w.requested(t, job, startedDeployment); got != 1 {
					t.Errorf("it was deployed %d times", got)
				}
				w.told(t, job)
			})
		}
	}
}

// The setting is written again, or found as it was written: nobody is asked.
func TestALostAnswerToASettingIsMadeUpFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1), func(p *plan) { p.policy.HardwareSyncInterval = set("7m") })
	job := w.ready(t, 1)
	w.does(t, bringup.RenderCloudInit, job)
	w.fault(t, simfault.Rule{Operation: "maas.set_config", Fault: simfault.LostAnswer, Count: 1})
	if f := w.fails(t, bringup.DeployViaMAAS, job, bringup.UpstreamTransient, "setting_unproven"); f.Final {
		t.Error("it is not tried again")
	}
	w.does(t, bringup.DeployViaMAAS, job)
	w.does(t, bringup.WaitForDeployed, job)
}

// What stages write to the database may be written twice.
func TestACommitOfUnknownOutcomeIsRepeated(t *testing.T) {
	f := bringup.Classify(fault.New(fault.Ambiguous, "commit_outcome_unknown", "the connection broke").
		WithRemedy("repeat"))
	if f.Class != bringup.UpstreamTransient || f.Final {
		t.Errorf("it is %s, final: %v", f.Class, f.Final)
	}
}

// interrupt lets something happen at the nth fence of a job.
func interrupt(job *bringup.Work, at int, happen func() error) {
	n := 0
	job.Fence = func(context.Context) error {
		if n++; n == at {
			return happen()
		}
		return nil
	}
}

func TestAStaleRunDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(4))
	for at := 1; at <= 4; at++ {
		job := w.ready(t, at)
		w.does(t, bringup.RenderCloudInit, job)
		interrupt(job, at, func() error { return durable.Superseded("onboarding", job.Job) })
		_, err := w.bringup.DeployViaMAAS(system(t), job)
		if at == 4 { // there are three: before it is held, marked and deployed
			if err != nil {
				t.Errorf("a fence too many: %v", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), durable.CodeSuperseded) {
			t.Errorf("fence %d: %v", at, err)
		}
		want := map[int]region.Status{1: region.Ready, 2: region.Allocated, 3: region.Allocated}[at]
		if m := w.machine(t, job.SystemID); m.Status != want || w.requested(t, job, startedDeployment) != 0 ||
			job.Facts.Deploys != 0 {
			t.Errorf("fence %d: the machine is %s", at, m.StatusName)
		}
	}
}

func TestOthersWhoTakeTheMachine(t *testing.T) {
	t.Parallel()
	allocate := func(w *world, job *bringup.Work) error {
		_, err := w.sim.Allocate(admin, url.Values{"system_id": {job.SystemID}})
		return err
	}
	deploy := func(w *world, job *bringup.Work) error {
		_, err := w.sim.Deploy(admin, job.SystemID, url.Values{"distro_series": {"ubuntu/noble"}, "enable_hw_sync": {"true"}})
		return err
	}
	happen := func(what string) func(w *world, job *bringup.Work) error {
		return func(w *world, job *bringup.Work) error { return w.sim.Happen(job.SystemID, what) }
	}
	cases := []struct {
		name string
		at   int // before the stage, or at a fence of it
		do   func(w *world, job *bringup.Work) error
		code string
	}{
		{"held before", 0, allocate, "machine_in_use"},
		{"deployed before", 0, deploy, "machine_in_use"},
		{"deleted before", 0, happen("delete"), "machine_gone"},
		{"held between the look and the call", 1, allocate, "machine_in_use"},
		{"deployed between the look and the call", 1, deploy, "machine_in_use"},
		{"deleted between the look and the call", 1, happen("delete"), "machine_gone"},
		{"released while it was marked", 2, happen("release"), "machine_released"},
		{"deployed just before the deployment", 3, deploy, "deployed_by_other"},
		{"released just before the deployment", 3, happen("release"), ""}, // MAAS acquires it anew
		{"deleted just before the deployment", 3, happen("delete"), "machine_gone"},
	}
	w := newWorld(t, aFleet(len(cases)))
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			job := w.ready(t, i+1)
			w.does(t, bringup.RenderCloudInit, job)
			if c.at == 0 {
				if err := c.do(w, job); err != nil {
					t.Fatal(err)
				}
			} else {
				interrupt(job, c.at, func() error { return c.do(w, job) })
			}
			if c.code == "" {
				w.does(t, bringup.DeployViaMAAS, job)
				w.does(t, bringup.WaitForDeployed, job)
				if m := w.machine(t, job.SystemID); m.Annotations["gpuaas-job"] != job.Job {
					t.Errorf("the machine is marked %v", m.Annotations)
				}
				return
			}
			f := w.fails(t, bringup.DeployViaMAAS, job, bringup.StateAmbiguity, c.code)
			if !f.Final {
				t.Error("it is tried again")
			}
			w.told(t, job)
		})
	}
}

func TestWhatBefallsADeploymentUnderWay(t *testing.T) {
	abort := func(w *world, job *bringup.Work) error {
		_, err := w.sim.Abort(context.Background(), admin, job.SystemID, nil)
		return err
	}
	happen := func(what string) func(w *world, job *bringup.Work) error {
		return func(w *world, job *bringup.Work) error { return w.sim.Happen(job.SystemID, what) }
	}
	cases := map[string]struct {
		do   func(w *world, job *bringup.Work) error
		code string
	}{
		"released":  {happen("release"), "machine_released"},
		"deleted":   {happen("delete"), "machine_gone"},
		"recreated": {happen("recreate"), "machine_gone"},
		"aborted":   {abort, "deploy_aborted"},
		// Somebody installed the default image, which is the same, without our first boot.
		"deployed again": {func(w *world, job *bringup.Work) error {
			w.sim.Faults.Clear()
			return w.sim.Happen(job.SystemID, "redeploy")
		}, "deployed_by_other"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aFleet(1))
			job := w.ready(t, 1)
			w.does(t, bringup.RenderCloudInit, job)
			w.fault(t, simfault.Rule{Fault: simfault.PhaseHangs, Phase: "install"})
			w.does(t, bringup.DeployViaMAAS, job)
			w.does(t, bringup.DeployViaMAAS, job) // it is under way: nothing is sent
			if err := c.do(w, job); err != nil {
				t.Fatal(err)
			}
			f := w.fails(t, bringup.WaitForDeployed, job, bringup.StateAmbiguity, c.code)
			if !f.Final || f.Next != "" || job.Facts.DeployedAt != nil {
				t.Errorf("failure is %+v", f)
			}
			if got := w.requested(t, job, startedDeployment); got > 1 {
				t.Errorf("it was deployed %d times", got)
			}
			w.told(t, job)
		})
	}
}

func TestAnImageThatIsNotTheOneThatWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(3), func(p *plan) {
		p.sim.Images = []string{"custom/gpuaas-h200-v10"}
		p.policy.DistroSeries = set("gpuaas-h200-v1")
	})
	t.Run("MAAS would complete the name", func(t *testing.T) {
		job := w.ready(t, 1)
		w.does(t, bringup.RenderCloudInit, job)
		w.fails(t, bringup.DeployViaMAAS, job, bringup.SiteCapabilityMissing, maas.CodeImageMissing)
		if got := w.requested(t, job, startedDeployment); got != 0 {
			t.Errorf("it was deployed %d times", got)
		}
	})
	t.Run("MAAS chose another", func(t *testing.T) {
		job := w.ready(t, 2)
		job.Profile.Policy.DistroSeries = "ubuntu/noble"
		w.does(t, bringup.RenderCloudInit, job)
		w.fault(t, simfault.Rule{
			Fault: simfault.Lie, Operation: "machine.deploy", Machine: job.SystemID, Count: 1,
			Set: map[string]any{"distro_series": "jammy"},
		})
		w.fails(t, bringup.DeployViaMAAS, job, bringup.SiteCapabilityMissing, maas.CodeImageMismatch)
		if m := w.machine(t, job.SystemID); m.Status == region.Deploying {
			t.Error("the wrong image is still being installed")
		}
	})
	t.Run("the profile changed since", func(t *testing.T) {
		job := w.ready(t, 3)
		job.Profile.Policy.DistroSeries = "ubuntu/noble"
		w.does(t, bringup.RenderCloudInit, job)
		w.does(t, bringup.DeployViaMAAS, job)
		job.Profile.Policy.DistroSeries = "gpuaas-h200-v10"
		for _, stage := range []string{bringup.DeployViaMAAS, bringup.WaitForDeployed, bringup.RenderCloudInit} {
			w.fails(t, stage, job, bringup.StateAmbiguity, "deployed_image_differs")
		}
	})
}

func TestTheFirstBootIsTheOneThatWasRendered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.fails(t, bringup.DeployViaMAAS, job, bringup.StateAmbiguity, "first_boot_missing")
	w.does(t, bringup.RenderCloudInit, job)
	digest := job.Facts.FirstBootDigest
	job.Facts.FirstBootDigest = "sha256:other"
	w.fails(t, bringup.DeployViaMAAS, job, bringup.StateAmbiguity, "first_boot_changed")
	job.Facts.FirstBootDigest = digest
	w.vault.fail(errors.New("sealed"))
	if _, err := w.bringup.DeployViaMAAS(system(t), job); err == nil {
		t.Error("it deploys without a first boot")
	}
	w.vault.fail(nil)
	if m := w.machine(t, job.SystemID); m.Status != region.Ready {
		t.Errorf("the machine is %s", m.StatusName)
	}
	w.does(t, bringup.DeployViaMAAS, job)
}

func TestTheIntervalOfHardwareSyncIsAsserted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(3), func(p *plan) {
		p.sim.Settings["hardware_sync_interval"] = "30m"
		p.policy.HardwareSyncInterval = set("20m")
	})
	first := w.ready(t, 1)
	for n, job := range []*bringup.Work{first, w.ready(t, 2)} {
		w.does(t, bringup.RenderCloudInit, job)
		w.does(t, bringup.DeployViaMAAS, job)
		w.does(t, bringup.WaitForDeployed, job)
		if got := w.asked.of("maas.set_config"); got != 1 {
			t.Errorf("after %d deployments it was written %d times", n+1, got)
		}
		if m := w.machine(t, job.SystemID); *m.SyncInterval != 1200 {
			t.Errorf("the interval of %s is %d", job.Hostname, *m.SyncInterval)
		}
	}
	job := w.ready(t, 3)
	job.Profile.Policy.RequireHWSync = false
	w.does(t, bringup.RenderCloudInit, job)
	w.does(t, bringup.DeployViaMAAS, job)
	w.does(t, bringup.WaitForDeployed, job)
	if m := w.machine(t, job.SystemID); m.EnableHWSync || slices.Contains(layerNames(job), "hardware-sync") {
		t.Error("hardware sync was set up without being asked for")
	}
}

// A wait outlives a rotation of the token of the site, and ends at once when an
// operator acts.
func TestAWaitGoesOnWithNewCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(2))
	wait := func(n int) (*bringup.Work, chan error, context.CancelFunc) {
		job := w.ready(t, n)
		w.begin(t, job, simfault.PhaseHangs, "install")
		ctx, cancel := context.WithCancel(system(t))
		ended, before := make(chan error, 1), w.asked.of("machines.get")
		go func() {
			_, err := w.bringup.WaitForDeployed(ctx, job)
			ended <- err
		}()
		testkit.Eventually(t, "somebody waits", func() bool { return w.asked.of("machines.get") > before })
		return job, ended, cancel
	}
	job, ended, cancel := wait(1)
	defer cancel()
	w.bringup.Close() // ends all waits, as a rotation does
	if _, err := w.sim.Abort(t.Context(), admin, job.SystemID, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; bringup.Classify(err).Code.String() != "deploy_aborted" {
		t.Errorf("the wait ended with %v", err)
	}
	_, ended, cancel = wait(2)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
}
