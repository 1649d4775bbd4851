package decommission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// onboarded is a node that onboardings have brought up, oldest first.
func (y *yard) onboarded(tb testing.TB, of id.Node, initializeDisks ...bool) {
	tb.Helper()
	for _, initialize := range initializeDisks {
		o := id.New[id.Onboarding]()
		y.exec(tb, `INSERT INTO node_onboardings (id, site_id, profile_id, hostname, ipmi_ip, sku_id, node_id, current_stage, workflow_id, requested_by, correlation_id,
			initialize_disks, status, completed_at)
			VALUES ($1, $2, $3, $4, '10.1.0.9', $5, $6, 'enable_node', $7, 'tester', 'test', $8, 'completed', clock_timestamp())`,
			o, y.site.ID, y.profile, "n-"+of.String(), yardSKU, of, "onboarding-"+o.String(), initialize)
	}
}

// What mounts the data disks is on the root disk, which a reimage replaces:
// without being written anew they would be there, with what is on them, and
// nobody would see them.
func TestAReimageGivesANodeItsDataDisksBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onboardings []bool
		want        bool
	}{
		"with data disks":                  {[]bool{true}, true},
		"without":                          {[]bool{false}, false},
		"by the newest":                    {[]bool{false, true}, true},
		"by the newest, which wanted none": {[]bool{true, false}, false},
		"added by hand":                    {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			y.onboarded(t, n, c.onboardings...)
			var rendered []bool
			y.script.on(bringup.RenderCloudInit, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
				rendered = append(rendered, w.InitializeDisks)
				return y.script.well(ctx, bringup.RenderCloudInit, w)
			})
			d := y.request(t, n, decommission.Reimage)
			wants(t, y.run(t, d.ID), job.Completed, decommission.StageEnable, "")
			if fmt.Sprint(rendered) != fmt.Sprint([]bool{c.want}) {
				t.Errorf("rendered with disks: %v", rendered)
			}
		})
	}
}

// A disk that nobody mounts keeps the node out, unless all that was read of it
// is zero; then the paper says what was seen, and claims nothing.
func TestADiskThatNobodyMounts(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	loose := func(v agentwire.DeviceSanitized) agentwire.StorageCleanupOutput {
		out := cleaned()
		v.Device, v.Serial, v.Transport, v.SizeBytes, v.StartedAt, v.EndedAt = "/dev/nvme7n1", "S7", "nvme-pcie", 1<<40,
			out.Devices[0].StartedAt, out.Devices[0].EndedAt
		out.Devices = append(out.Devices, v)
		return out
	}
	for name, c := range map[string]struct {
		device agentwire.DeviceSanitized
		passes bool
	}{
		"blank": {agentwire.DeviceSanitized{
			Outcome: agentwire.OutcomeBlank, Verified: true,
			VerifiedBy: agentwire.VerifiedByZeroes, SamplesRead: 1026, SampleBytes: 1 << 30, Reason: "not mounted",
		}, true},
		"blank, not read": {agentwire.DeviceSanitized{
			Outcome: agentwire.OutcomeBlank, Verified: true,
			Reason: "not mounted",
		}, false},
		"blank, disproven": {agentwire.DeviceSanitized{
			Outcome: agentwire.OutcomeBlank, Verified: true, SamplesRead: 1026,
			SampleBytes: 1 << 30, SamplesUnclean: 1, Reason: "not mounted",
		}, false},
		"not blank": {agentwire.DeviceSanitized{
			Outcome: agentwire.OutcomeRefused, SamplesRead: 1026, SampleBytes: 1 << 30,
			SamplesUnclean: 1026, Reason: "not mounted: not erased, and it is not blank",
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			wellAgain(y)
			y.agent.on(agentwire.TypeStorageCleanup, succeeds(loose(c.device)))
			d := y.run(t, y.request(t, y.node(t, node.Active, false), decommission.SoftReset).ID)
			if !c.passes {
				wants(t, d, job.FailedManualIntervention, decommission.StageStorage, "device_not_sanitized")
				if !strings.Contains(d.ErrorMessage, "/dev/nvme7n1") ||
					!strings.Contains(d.ErrorMessage, "(not mounted as a data disk)") {
					t.Errorf("it is told as %s", d.ErrorMessage)
				}
				return
			}
			wants(t, d, job.Completed, decommission.StageEnable, "")
			for _, s := range y.paper(t, d.ID).Document.Subjects {
				if s.Identifier == "S7" && (s.Outcome == certificate.Sanitized || s.Level != "" && s.Level != certificate.None ||
					s.CoveredBytes != 0) {
					t.Errorf("the paper claims %+v", s)
				}
			}
		})
	}
}

// GPUs that are only reset are not proven clean, and trying again does not help.
func TestGPUsThatAreOnlyResetNeedAnOverride(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.exec(t, `UPDATE maas_site_profiles SET gpu_scrub_amd = 'overwrite'`)
	y.exec(t, `UPDATE nodes SET gpus_total = 1`)
	y.shows(t, n, 1)
	y.agent.on(agentwire.TypeGPUScrub, succeeds(agentwire.GPUScrubOutput{
		Outcome: "scrubbed", Vendor: "amd", Reason: "GPUs of AMD are reset; their memory is not overwritten",
		GPUs: []agentwire.GPUScrubbed{{UUID: "GPU-1", Method: agentwire.ScrubByReset, BytesTotal: 1 << 30, Reset: "done"}},
	}))
	asked := y.request(t, n, decommission.SoftReset)
	parked := decommission.Decommission{}
	end := y.run(t, asked.ID, func(env *testsuite.TestWorkflowEnvironment) {
		parked = y.read(t, asked.ID)
		y.override(t, asked.ID, decommission.StageScrub)(env)
	})
	wants(t, parked, job.FailedManualIntervention, decommission.StageScrub, "gpu_scrub_incomplete")
	if !strings.Contains(parked.ErrorMessage, "reset and not overwritten") ||
		!strings.Contains(parked.ErrorRemedy, "override") || y.tasksOf(t, n, agentwire.TypeGPUScrub) != 1 {
		t.Errorf("it is told as %s; %s, after %d attempts", parked.ErrorMessage, parked.ErrorRemedy,
			y.tasksOf(t, n, agentwire.TypeGPUScrub))
	}
	wants(t, end, job.Completed, decommission.StageEnable, "")
	if paper := y.paper(t, asked.ID); len(paper.Document.Overrides) != 1 {
		t.Errorf("the paper names the overrides %+v", paper.Document.Overrides)
	}
}
