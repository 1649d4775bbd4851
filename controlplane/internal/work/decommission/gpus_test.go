package decommission_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// mi300x is what an agent says of GPUs of AMD: of all of them the same.
func mi300x(change func(*agentwire.GPUScrubbed)) agentwire.GPUScrubOutput {
	out := agentwire.GPUScrubOutput{Outcome: "scrubbed", Vendor: "amd", GPUs: scrubbed(yardGPUs)}
	for i := range out.GPUs {
		if change != nil {
			change(&out.GPUs[i])
			out.Reason = "not overwritten: method_unavailable: open libamdhip64.so.7: library not found"
		}
		if out.GPUs[i].Error != "" {
			out.Outcome = "incomplete"
		}
	}
	return out
}

func onlyReset(g *agentwire.GPUScrubbed) { g.Method, g.BytesCovered = agentwire.ScrubByReset, 0 }

func notReset(g *agentwire.GPUScrubbed) {
	onlyReset(g)
	g.Reset, g.Error = "failed: not_supported", "not_reset: failed: not_supported"
}

func inUse(g *agentwire.GPUScrubbed) { g.BytesCovered, g.Error = 0, "gpu_in_use: 1 process uses it" }

// A node with GPUs of AMD is turned over without anybody, as far as its profile
// lets it, and nothing that was not read back is called clean.
func TestMI300XTurnsOverUnattended(t *testing.T) {
	t.Parallel()
	nvidia := mi300x(onlyReset)
	nvidia.Vendor = "nvidia"
	faulty := mi300x(func(g *agentwire.GPUScrubbed) { g.Error = "memory_faulty: 3 words did not read back as written" })
	for name, c := range map[string]struct {
		says       []any
		weakest    site.ScrubMethod // empty: as new profiles have it
		outcome    decommission.Outcome
		downgrades []string
		cycles     int
		parked     string // the code
		remedy     string
	}{
		"overwritten through HIP": {says: []any{mi300x(nil)}, outcome: decommission.Clean},
		"reset, as the profile allows": {
			says: []any{mi300x(onlyReset)}, weakest: site.MethodReset, outcome: decommission.WithGaps,
			downgrades: []string{"overwrite → reset: policy gpu_scrub_amd"},
		},
		"reset, and only overwriting will do, as by default": {
			says: []any{mi300x(onlyReset)}, parked: "gpu_scrub_incomplete",
			remedy: "gpu_scrub_amd=reset or power_cycle",
		},
		"not even reset": {says: []any{mi300x(notReset)}, parked: "gpu_scrub_incomplete"},
		"switched off and on": {
			says: []any{mi300x(notReset)}, weakest: site.MethodPowerCycle, outcome: decommission.WithGaps, cycles: 1,
			downgrades: []string{"overwrite → power_cycle: policy gpu_scrub_amd"},
		},
		"the driver is well after a power cycle": {
			says: []any{mi300x(notReset), mi300x(nil)}, weakest: site.MethodPowerCycle, outcome: decommission.Clean, cycles: 1,
		},
		"memory that does not hold": {
			says: []any{faulty}, weakest: site.MethodPowerCycle, parked: "gpu_scrub_incomplete",
		},
		"of NVIDIA, for which a reset of AMD says nothing": {
			says: []any{nvidia}, weakest: site.MethodReset, parked: "gpu_scrub_incomplete",
		},
		"in use when the machine has started again": {
			says: []any{mi300x(notReset), mi300x(inUse)}, weakest: site.MethodPowerCycle, cycles: 1,
			parked: "gpu_scrub_incomplete",
		},
		"in use, for which no machine is switched off": {
			says: []any{mi300x(inUse)}, weakest: site.MethodPowerCycle, parked: "gpu_scrub_incomplete",
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			if c.weakest != "" {
				y.exec(t, `UPDATE maas_site_profiles SET gpu_scrub_amd = $1`, string(c.weakest))
			}
			var answers []answer
			for _, out := range c.says {
				answers = append(answers, succeeds(out))
			}
			y.agent.on(agentwire.TypeGPUScrub, answers...)
			d := y.run(t, y.request(t, y.node(t, node.Active, true), decommission.SoftReset).ID)
			cycles := 0
			for _, call := range y.script.calls {
				if call == powerCycle {
					cycles++
				}
			}
			if cycles != c.cycles {
				t.Errorf("switched off and on %d times, want %d", cycles, c.cycles)
			}
			if c.parked != "" {
				wants(t, d, job.FailedManualIntervention, decommission.StageScrub, c.parked)
				if !strings.Contains(d.ErrorRemedy, c.remedy) {
					t.Errorf("the remedy is %q", d.ErrorRemedy)
				}
				return
			}
			wants(t, d, job.Completed, decommission.StageEnable, "")
			if d.Outcome != c.outcome {
				t.Errorf("its outcome is %q, want %q", d.Outcome, c.outcome)
			}
			y.downgraded(t, d.ID, c.downgrades)
			y.namesTheMethod(t, d, c.outcome)
		})
	}
}

// namesTheMethod checks what the document says of each GPU.
func (y *yard) namesTheMethod(tb testing.TB, d decommission.Decommission, o decommission.Outcome) {
	tb.Helper()
	doc := y.paper(tb, d.ID).Document
	unproven := slices.ContainsFunc(doc.NotCovered, func(g certificate.Gap) bool {
		return strings.Contains(g.Why, "never run on hardware")
	})
	if !unproven {
		tb.Errorf("it does not say that the method was never run on hardware: %+v", doc.NotCovered)
	}
	gpus := 0
	for _, s := range doc.Subjects {
		if s.Kind != "gpu" {
			continue
		}
		gpus++
		if o == decommission.Clean && s.Outcome != certificate.Sanitized ||
			o == decommission.WithGaps && (s.Outcome != certificate.Done || s.Level != certificate.None || s.CoveredBytes != 0 ||
				!strings.Contains(s.Detail, "does not prove that the memory is empty")) {
			tb.Errorf("it says %+v", s)
		}
	}
	if gpus != yardGPUs {
		tb.Errorf("it names %d GPUs", gpus)
	}
}

// A machine whose BMC does not switch it off and on is not cleaned by that.
func TestAPowerCycleThatFailsIsNoScrub(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.exec(t, `UPDATE maas_site_profiles SET gpu_scrub_amd = 'power_cycle'`)
	y.agent.on(agentwire.TypeGPUScrub, succeeds(mi300x(notReset)))
	y.script.on(powerCycle, func(context.Context, *bringup.Work, int) (job.Result, error) {
		f := failure(bringup.BMCPowerFailure, "power_cycle_failed")
		return job.Result{}, &f
	})
	d := y.run(t, y.request(t, y.node(t, node.Active, true), decommission.SoftReset).ID)
	if d.Status == job.Completed || d.Stage != decommission.StageScrub || d.ErrorCode != "power_cycle_failed" {
		t.Errorf("it is %s at %s with %q", d.Status, d.Stage, d.ErrorCode)
	}
	if y.see(t, d.Node).Schedulable {
		t.Error("its node is schedulable")
	}
}

// A profile that accepts less for the GPUs that the node has cleans less; what it
// accepts for others does not matter.
func TestAProfileWithAWeakerScrubCleansLess(t *testing.T) {
	for name, c := range map[string]struct {
		vendor  string
		refused bool
	}{"of the same vendor": {"amd", true}, "of another": {"nvidia", false}} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			y.exec(t, `UPDATE node_inspections SET found = jsonb_set(found, '{facts}', jsonb_build_object('gpu.vendor', $2::text)) WHERE node_id = $1`, n, c.vendor)
			weaker := "weaker"
			reset := site.MethodReset
			p, err := y.sites.CreateProfile(y.ctx, y.site.ID, site.ProfileChange{
				Name: &weaker, Policy: site.PolicyChange{GPUScrubAMD: &reset},
			})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := y.service.Plan(y.ctx, n, decommission.Request{Mode: decommission.Reimage, ProfileID: &p.ID})
			if err != nil {
				t.Fatal(err)
			}
			refused := slices.ContainsFunc(plan.Blocks, func(b decommission.Block) bool {
				return b.Code == "profile_cleans_less"
			})
			if refused != c.refused {
				t.Errorf("blocks are %+v", plan.Blocks)
			}
		})
	}
}
