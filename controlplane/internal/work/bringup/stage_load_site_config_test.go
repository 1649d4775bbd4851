package bringup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	simfault "gpuaas/sim/maas/fault"
)

// beforeDeploy are the stages that prepare a machine.
var beforeDeploy = order[:8]

// The whole way to a machine that can be deployed, and once more from the top:
// the second time finds everything done.
func TestAServerIsPreparedAndPreparingItAgainChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.work(1)
	for _, stage := range beforeDeploy {
		if out := w.does(t, stage, job); out.Message == "" {
			t.Errorf("%s does not say what it did", stage)
		}
	}
	m := w.machine(t, hostname(1))
	if m.StatusName != "Ready" || m.SystemID != job.SystemID || job.PXEMAC == "" || job.Facts.BootDisk == "" ||
		w.saves.Load() != 1 {
		t.Fatalf("machine is %s %s, job %+v, %d saves", m.SystemID, m.StatusName, job, w.saves.Load())
	}
	if job.Facts.IdentifiedBy != "created" || job.Facts.Commissions != 1 || job.Observed.Status != "Ready" {
		t.Errorf("facts are %+v, observed %+v", job.Facts, job.Observed)
	}
	if n := w.asked.total(); n > 20 {
		t.Errorf("MAAS was asked %d times: %s", n, w.asked)
	}
	t.Logf("first time: %d requests %s", w.asked.total(), w.asked)
	w.discreetWork(t, job)

	w.asked.reset()
	before := w.sim.Changes()
	for _, stage := range beforeDeploy {
		w.does(t, stage, job)
	}
	if after := w.sim.Changes(); after != before {
		t.Errorf("MAAS was changed %d times: %s", after-before, w.asked)
	}
	t.Logf("second time: %d requests %s", w.asked.total(), w.asked)

	// Another job, whose worker knows nothing of the first, comes to the same machine.
	other := w.work(1)
	for _, stage := range beforeDeploy {
		w.does(t, stage, other)
	}
	if other.SystemID != job.SystemID || other.Facts.IdentifiedBy != "hostname" || other.Facts.Commissions != 0 {
		t.Errorf("the other job has %+v", other)
	}
}

// A profile that is not strict begins even so, and says what is not as described.
func TestAPXENetworkThatDiffersIsAWarningUnlessTheProfileIsStrict(t *testing.T) {
	w := newWorld(t)
	job := w.work(1)
	job.Profile.Policy.PXEIface, job.Profile.Policy.StrictPXEPreflight = "ens7", false
	out := w.does(t, bringup.LoadSiteConfig, job)
	if !strings.Contains(out.Message, "WARNING: no rack controller has the interface ens7") {
		t.Errorf("it says %q", out.Message)
	}
}

func TestASiteThatCannotDoTheWorkIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan  func(*plan)
		spoil func(t *testing.T, w *world, job *bringup.Work)
		class job.FailureClass
		code  string
	}{
		"site disabled": {
			spoil: func(_ *testing.T, _ *world, job *bringup.Work) { job.Site.Status = site.Disabled },
			class: bringup.InputConfigError, code: "site_disabled",
		},
		"profile disabled": {
			spoil: func(_ *testing.T, _ *world, job *bringup.Work) { job.Profile.Status = site.Disabled },
			class: bringup.InputConfigError, code: "profile_disabled",
		},
		"image missing": {
			plan:  func(p *plan) { p.policy.DistroSeries = set("gpuaas-h200-v1") },
			class: bringup.SiteCapabilityMissing, code: "maas_image_missing",
		},
		"image of another architecture": {
			plan:  func(p *plan) { p.policy.Architecture = set("arm64/generic") },
			class: bringup.SiteCapabilityMissing, code: "maas_image_missing",
		},
		"another PXE interface": {
			spoil: func(_ *testing.T, _ *world, job *bringup.Work) { job.Profile.Policy.PXEIface = "ens7" },
			class: bringup.SiteCapabilityMissing, code: "site_prerequisite_missing",
		},
		"another PXE VLAN": {
			spoil: func(_ *testing.T, _ *world, job *bringup.Work) { job.Profile.Policy.PXEVLANVID = 46 },
			class: bringup.SiteCapabilityMissing, code: "site_prerequisite_missing",
		},
		"capability missing": {
			spoil: func(_ *testing.T, _ *world, job *bringup.Work) {
				job.Site.Settings.RequiredCapabilities = []site.Capability{site.RedundantRacks}
			},
			class: bringup.SiteCapabilityMissing, code: "site_prerequisite_missing",
		},
		"script missing": {
			spoil: func(_ *testing.T, _ *world, job *bringup.Work) {
				job.Site.Settings.RequiredScripts = []string{"smartctl-validate", "burn-in@3"}
			},
			class: bringup.SiteCapabilityMissing, code: "site_prerequisite_missing",
		},
		"token missing": {
			spoil: func(t *testing.T, w *world, job *bringup.Work) {
				if err := w.vault.Delete(t.Context(), "maas-sites/"+job.Site.ID.String()+"/api-token"); err != nil {
					t.Fatal(err)
				}
			},
			class: bringup.SiteCapabilityMissing, code: "site_credentials_missing",
		},
		"token refused": {
			spoil: func(t *testing.T, w *world, job *bringup.Work) {
				path := "maas-sites/" + job.Site.ID.String() + "/api-token"
				values, err := w.vault.Get(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				values["token"] = redact.New("canary-consumer:canary-key:canary-secret")
				if err := w.vault.Put(t.Context(), path, values); err != nil {
					t.Fatal(err)
				}
			},
			class: bringup.SiteCapabilityMissing, code: "maas_token_invalid",
		},
		"token of no administrator": {
			spoil: func(t *testing.T, w *world, job *bringup.Work) {
				path := "maas-sites/" + job.Site.ID.String() + "/api-token"
				values, err := w.vault.Get(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				values["token"] = redact.New(w.sim.OperatorToken)
				if err := w.vault.Put(t.Context(), path, values); err != nil {
					t.Fatal(err)
				}
			},
			class: bringup.SiteCapabilityMissing, code: "maas_not_admin",
		},
		"secrets engine away": {
			spoil: func(_ *testing.T, w *world, _ *bringup.Work) {
				w.vault.fail(fault.New(fault.Unavailable, "secrets_unavailable", "the secrets engine does not answer").
					WithRemedy("start it"))
			},
			class: bringup.UpstreamTransient, code: "secrets_unavailable",
		},
		"MAAS away": {
			spoil: func(t *testing.T, w *world, _ *bringup.Work) {
				if err := w.sim.Close(); err != nil {
					t.Fatal(err)
				}
			},
			class: bringup.UpstreamTransient, code: "maas_unreachable",
		},
		"MAAS broken": {
			spoil: func(t *testing.T, w *world, _ *bringup.Work) {
				w.fault(t, simfault.Rule{Operation: "users.whoami", Fault: simfault.ErrorBefore, Status: 502})
			},
			class: bringup.UpstreamTransient, code: "maas_unreachable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			adjust := c.plan
			if adjust == nil {
				adjust = func(*plan) {}
			}
			w := newWorld(t, adjust)
			job := w.work(1)
			if c.spoil != nil {
				c.spoil(t, w, job)
			}
			f := w.fails(t, bringup.LoadSiteConfig, job, c.class, c.code)
			if want := c.class != bringup.UpstreamTransient; f.Final != want {
				t.Errorf("final is %v", f.Final)
			}
		})
	}
}

func TestWorkThatWasBegunGoesOnAtADisabledSite(t *testing.T) {
	w := newWorld(t)
	job := w.work(1)
	job.Site.Status, job.SystemID = site.Disabled, "abc123"
	w.does(t, bringup.LoadSiteConfig, job)
}

func TestABatchAsksForTheBasicsOfASiteOnce(t *testing.T) {
	w := newWorld(t)
	for n := range 30 {
		w.does(t, bringup.LoadSiteConfig, w.work(n+1))
	}
	if n := w.asked.total(); n != 4 {
		t.Errorf("MAAS was asked %d times: %s", n, w.asked)
	}
}

func TestADNSServerThatMAASDoesNotForwardToIsTold(t *testing.T) {
	w := newWorld(t, func(p *plan) { p.sim.Settings["upstream_dns"] = "1.1.1.1" })
	if out := w.does(t, bringup.LoadSiteConfig, w.work(1)); !strings.Contains(out.Message, "8.8.8.8") ||
		out.Details["upstream_dns_missing"] == nil {
		t.Errorf("result is %+v", out)
	}
}

func TestPowerCredentialsAreChosenInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.work(1)
	job.PXEMAC = "b8:3f:00:00:01:00"
	w.does(t, bringup.ResolvePowerCredentials, job)
	if job.Facts.PowerOverride != "" || job.Facts.PowerFingerprint != w.site.Power.Fingerprint ||
		!strings.Contains(job.Facts.PowerReason, "default of the site") {
		t.Errorf("facts are %+v", job.Facts)
	}
	last := job.Facts.PowerFingerprint
	for _, s := range []site.Selector{
		{Type: site.ByHostname, Value: job.Hostname},
		{Type: site.ByIPMIIP, Value: job.IPMIIP},
		{Type: site.ByPXEMAC, Value: job.PXEMAC},
	} {
		made, err := w.sites.CreatePowerOverride(system(t), w.site.ID, site.NewPowerOverride{
			Selector: s, Credentials: site.PowerCredentials{User: "admin", Pass: redact.New(overridePass + string(s.Type))},
		})
		if err != nil {
			t.Fatal(err)
		}
		out := w.does(t, bringup.ResolvePowerCredentials, job)
		if job.Facts.PowerOverride != made.ID.String() || job.Facts.PowerFingerprint == last ||
			!strings.Contains(out.Message, string(s.Type)) {
			t.Errorf("%s: facts are %+v, %s", s.Type, job.Facts, out.Message)
		}
		last = job.Facts.PowerFingerprint
	}
	w.discreetWork(t, job)
	if n := w.asked.total(); n != 0 {
		t.Errorf("MAAS was asked %d times", n)
	}
}

func TestAMachineWithoutPowerCredentialsIsTheSitesProblem(t *testing.T) {
	w := newWorld(t)
	if err := w.vault.Delete(t.Context(), "maas-sites/"+w.site.ID.String()+"/power/default"); err != nil {
		t.Fatal(err)
	}
	w.fails(t, bringup.ResolvePowerCredentials, w.work(1), bringup.SiteCapabilityMissing, "site_credentials_missing")
}

func TestAFailureIsNotRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// as often as a read is tried
	w.fault(t, simfault.Rule{Operation: "users.whoami", Fault: simfault.ErrorBefore, Status: 502, Count: 3})
	job := w.work(1)
	w.fails(t, bringup.LoadSiteConfig, job, bringup.UpstreamTransient, "maas_unreachable")
	w.does(t, bringup.LoadSiteConfig, job)
}

// Whoever asks first for what all want to know may give up: the others get it.
func TestAQuestionOutlivesWhoAskedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(t, simfault.Rule{
		Operation: "users.whoami", Fault: simfault.Slow,
		Delay: simfault.Duration(300 * time.Millisecond),
	})
	ctx, giveUp := context.WithCancel(system(t))
	first := make(chan error, 1)
	go func() {
		_, err := w.bringup.LoadSiteConfig(ctx, w.work(1))
		first <- err
	}()
	time.AfterFunc(50*time.Millisecond, giveUp)
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first gets %v", err)
	}
	w.does(t, bringup.LoadSiteConfig, w.work(2))
	if n := w.asked.of("users.whoami"); n != 1 {
		t.Errorf("MAAS was asked %d times", n)
	}
}

func TestStagesAreAllThere(t *testing.T) {
	have := newWorld(t).bringup.Stages()
	others := []string{
		bringup.ClassifyDeployFailure, bringup.RecoverForDatasourceRetry, bringup.ReleaseMAASNode, bringup.PowerOffMAASNode,
		bringup.RemoveMAASRecord,
	}
	for _, stage := range slices.Concat(order, others) {
		if have[stage] == nil {
			t.Errorf("no stage %s", stage)
		}
	}
	if len(have) != len(order)+len(others) {
		t.Errorf("%d stages", len(have))
	}
}
