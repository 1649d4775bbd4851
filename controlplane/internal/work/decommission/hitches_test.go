package decommission_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

var transient = failure(bringup.UpstreamTransient, "maas_unavailable")

var hitches = []hitch{
	{
		name: "DisableNode_inventory_away", mode: decommission.SoftReset, arrange: awayAt(decommission.StageDisable),
		stage: decommission.StageDisable, code: "database_unavailable", class: bringup.UpstreamTransient, tries: 5,
		stands: "active schedulable",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "DisableNode_held_by_another", mode: decommission.SoftReset,
		arrange: func(t *testing.T, y *yard, n id.Node) {
			t.Helper()
			if err := y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := node.Hold(ctx, tx, n, "somebody else", "a test")
				return err
			}); err != nil {
				t.Fatal(err)
			}
		},
		stage: decommission.StageDisable, code: "node_held", class: bringup.StateAmbiguity, tries: 1, stands: "active held",
		ends: job.Cancelled, after: "active held",
	},
	{
		name: "ForceReleaseAllocations_remain", mode: decommission.Drain,
		with:  stuck(fault.New(fault.Conflict, "allocation_stuck", "one is left")),
		stage: decommission.StageForceRelease, code: "allocations_remain", class: bringup.StateAmbiguity, tries: 3,
		stands: "draining held",
		ends:   job.Cancelled, after: "offline",
	},
	{
		name: "ForceReleaseAllocations_away", mode: decommission.Drain,
		with:  stuck(fault.New(fault.Unavailable, "allocations_unavailable", "away")),
		stage: decommission.StageForceRelease, code: "allocations_unavailable", class: bringup.UpstreamTransient, tries: 5,
		stands: "draining held",
		ends:   job.Cancelled, after: "offline",
	},
	{
		name: "DrainNode_agent_unreachable", mode: decommission.SoftReset, arrange: silent,
		stage: decommission.StageDrain, code: "agent_unreachable", class: bringup.NodeAgentUnreachable, tries: 2,
		stands: "active held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
		check: func(t *testing.T, y *yard, d decommission.Decommission) {
			t.Helper()
			if n := y.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = 'node.drain' AND status = 'cancelled'`, d.Node); n != 2 {
				t.Errorf("%d tasks were given up", n)
			}
		},
	},
	{
		name: "DrainNode_override_of_a_lost_node", mode: decommission.FullDecommission, managed: true, arrange: silent,
		stage: decommission.StageDrain, code: "agent_unreachable", class: bringup.NodeAgentUnreachable, tries: 2,
		stands: "draining held",
		then:   overrides(decommission.StageDrain), ends: job.Completed, after: "deleted held",
		check: overridden(decommission.StageDrain),
	},
	{
		name: "DrainNode_users_left", mode: decommission.Retire,
		arrange: answers(agentwire.TypeDrain, succeeds(
			agentwire.DrainOutput{Draining: true, UsersRevoked: []string{}, UsersLeft: []string{"bob"}})),
		stage: decommission.StageDrain, code: "drain_incomplete", class: bringup.SanitizationFailure, tries: 2,
		stands: "draining held",
		then:   overrides(decommission.StageDrain), ends: job.Completed, after: "retired",
		check: func(t *testing.T, y *yard, d decommission.Decommission) {
			t.Helper()
			if got := subject(t, y, d, "accounts"); got.Outcome != certificate.Failed {
				t.Errorf("accounts that are left are %s", got.Outcome)
			}
		},
	},
	{
		name: "DrainNode_task_fails", mode: decommission.Drain,
		arrange: answers(agentwire.TypeDrain, fails("user_busy", "cannot end processes")),
		stage:   decommission.StageDrain, code: "user_busy", class: bringup.SanitizationFailure, tries: 2,
		stands: "draining held",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "retired",
	},
	{
		name: "DrainNode_agent_lost_in_the_middle", mode: decommission.Drain, arrange: answers(agentwire.TypeDrain, expires),
		stage: decommission.StageDrain, code: "agent_lost", class: bringup.NodeAgentUnreachable, tries: 2,
		stands: "draining held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "retired",
	},
	{
		name: "CleanupStorage_residue", mode: decommission.StorageCleanup,
		arrange: answers(agentwire.TypeStorageCleanup, func(a *agent, e *agentwire.Envelope) error {
			out := cleaned()
			out.Residue = []string{"/tmp/x: busy"}
			return succeeds(out)(a, e)
		}),
		stage: decommission.StageStorage, code: "storage_residue", class: bringup.SanitizationFailure, tries: 2,
		stands: "active held",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "active",
	},
	{
		name: "CleanupStorage_lying_disk", mode: decommission.Retire,
		arrange: answers(agentwire.TypeStorageCleanup, succeeds(kept())),
		stage:   decommission.StageStorage, code: "device_not_sanitized", class: bringup.SanitizationFailure, tries: 2,
		stands: "draining held",
		then:   overrides(decommission.StageStorage), ends: job.Completed, after: "retired",
		check: func(t *testing.T, y *yard, d decommission.Decommission) {
			t.Helper()
			overridden(decommission.StageStorage)(t, y, d)
			if got := subject(t, y, d, "disk"); got.Outcome != certificate.Failed || got.Level != certificate.None ||
				got.Verification.Result != certificate.NotPassed {
				t.Errorf("the disk is %+v", got)
			}
		},
	},
	{
		name: "CleanupStorage_below_the_policy", mode: decommission.SoftReset, managed: true,
		arrange: func(t *testing.T, y *yard, _ id.Node) {
			t.Helper()
			y.exec(t, `UPDATE maas_site_profiles SET minimum_sanitization = 'purge'`)
			t.Cleanup(func() { y.exec(t, `UPDATE maas_site_profiles SET minimum_sanitization = 'clear'`) })
			out := cleaned()
			out.Devices[0].Level = agentwire.LevelClear
			y.agent.on(agentwire.TypeStorageCleanup, succeeds(out))
		},
		stage: decommission.StageStorage, code: "device_not_sanitized", class: bringup.SanitizationFailure, tries: 2,
		stands: "active held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "CleanupStorage_agent_claims_what_it_disproves", mode: decommission.SoftReset,
		arrange: func(_ *testing.T, y *yard, _ id.Node) {
			out := cleaned()
			out.Devices[0].CanariesFound = 1
			y.agent.on(agentwire.TypeStorageCleanup, succeeds(out))
		},
		stage: decommission.StageStorage, code: "device_not_sanitized", class: bringup.SanitizationFailure, tries: 2,
		stands: "active held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "ScrubGPU_agent_claims_what_it_disproves", mode: decommission.SoftReset,
		arrange: answers(agentwire.TypeGPUScrub,
			succeeds(agentwire.GPUScrubOutput{
				Outcome: "scrubbed",
				GPUs:    []agentwire.GPUScrubbed{{UUID: "GPU-1", BytesTotal: 10, BytesCovered: 10, WordsNonzero: 1}},
			})),
		stage: decommission.StageScrub, code: "gpu_scrub_incomplete", class: bringup.SanitizationFailure, tries: 2,
		stands: "active held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "ScrubGPU_of_nothing", mode: decommission.SoftReset,
		arrange: answers(agentwire.TypeGPUScrub,
			succeeds(agentwire.GPUScrubOutput{Outcome: "scrubbed", GPUs: []agentwire.GPUScrubbed{}})),
		stage: decommission.StageScrub, code: "gpu_scrub_incomplete", class: bringup.SanitizationFailure, tries: 2,
		stands: "active held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "ValidateCleanNode_without_looking", mode: decommission.Reactivate, from: node.Retired,
		arrange: answers(agentwire.TypeValidateClean,
			succeeds(agentwire.ValidateCleanOutput{
				Clean: true, Findings: []agentwire.CleanFinding{},
				Checked: []agentwire.CheckedKind{},
			})),
		stage: decommission.StageValidate, code: "validation_unfounded", class: bringup.SanitizationFailure, tries: 1,
		stands: "active held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "ScrubGPU_incomplete", mode: decommission.SoftReset,
		arrange: answers(agentwire.TypeGPUScrub,
			succeeds(agentwire.GPUScrubOutput{
				Outcome: "incomplete", Reason: "a process holds it",
				GPUs: []agentwire.GPUScrubbed{},
			})),
		stage: decommission.StageScrub, code: "gpu_scrub_incomplete", class: bringup.SanitizationFailure, tries: 2,
		stands: "active held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "ValidateCleanNode_residue", mode: decommission.SoftReset,
		arrange: answers(agentwire.TypeValidateClean, succeeds(dirty())),
		stage:   decommission.StageValidate, code: "validation_residue", class: bringup.SanitizationFailure, tries: 1,
		stands: "quarantined held",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "active schedulable",
		check: func(t *testing.T, y *yard, d decommission.Decommission) {
			t.Helper()
			same(t, "history", y.history(t, d.Node), []string{"quarantined", "active"})
			if paper := y.paper(t, d.ID); paper == nil || !paper.Document.Validation.Clean {
				t.Error("no clean paper")
			}
		},
	},
	{
		name: "ValidateCleanNode_residue_given_up", mode: decommission.SoftReset,
		arrange: answers(agentwire.TypeValidateClean, succeeds(dirty())),
		stage:   decommission.StageValidate, code: "validation_residue", class: bringup.SanitizationFailure, tries: 1,
		stands: "quarantined held",
		ends:   job.Cancelled, after: "quarantined",
	},
	{
		name: "ValidateCleanNode_residue_while_draining", mode: decommission.Retire,
		arrange: answers(agentwire.TypeValidateClean, succeeds(dirty()), succeeds(clean(agentwire.TypeValidateClean))),
		stage:   decommission.StageValidate, code: "validation_residue", class: bringup.SanitizationFailure, tries: 1,
		stands: "draining held",
		then:   acts(job.Resume, nothing), ends: job.Completed, after: "retired",
	},
	{
		name: "ValidateCleanNode_output_unreadable", mode: decommission.Reactivate, from: node.Retired,
		arrange: answers(agentwire.TypeValidateClean, fails(agenttaskOutputInvalid, "not one of node.validate_clean")),
		stage:   decommission.StageValidate, code: agenttaskOutputInvalid, class: bringup.SanitizationFailure, tries: 1,
		stands: "active held",
		ends:   job.Cancelled, after: "active",
	},
	{
		name: "ReleaseMaasNode_away", mode: decommission.FullDecommission, managed: true,
		arrange: failing(bringup.ReleaseMAASNode, transient),
		stage:   bringup.ReleaseMAASNode, code: "maas_unavailable", class: bringup.UpstreamTransient, tries: 5,
		stands: "draining held",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "deleted held",
	},
	{
		name: "ReleaseMaasNode_erase_fails", mode: decommission.FullDecommission, managed: true,
		arrange: failing(bringup.ReleaseMAASNode, failure(bringup.SanitizationFailure, "release_erase_failed")),
		stage:   bringup.ReleaseMAASNode, code: "release_erase_failed", class: bringup.SanitizationFailure, tries: 2,
		stands: "draining held",
		then:   overrides(bringup.ReleaseMAASNode), ends: job.Completed, after: "deleted held",
		check: overridden(bringup.ReleaseMAASNode),
	},
	{
		name: "ReleaseMaasNode_released_elsewhere_is_adopted", mode: decommission.FullDecommission, managed: true,
		arrange: func(_ *testing.T, y *yard, _ id.Node) {
			f := failure(bringup.StateAmbiguity, "released_elsewhere")
			f.Final = true
			y.script.fails(always, bringup.ReleaseMAASNode, f)
			y.script.on("adopt", func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
				r := released(w)
				r.RequestedAt, r.Achieved, r.FellBack, r.FallbackReason = nil, "unknown", true, "somebody else released it"
				w.Facts.Release = &r
				return job.Result{
					Next:     bringup.PowerOffMAASNode,
					Evidence: []job.Evidence{{Kind: bringup.EvidenceRelease, Value: r}},
				}, nil
			})
		},
		stage: bringup.ReleaseMAASNode, code: "released_elsewhere", class: bringup.StateAmbiguity, tries: 1,
		stands: "draining held",
		then:   acts(job.AdoptObserved, nothing), ends: job.Reconciled, after: "deleted held",
		check: func(t *testing.T, y *yard, d decommission.Decommission) {
			t.Helper()
			if doc := y.paper(t, d.ID).Document; len(doc.Downgrades) != 1 || doc.Downgrades[0].Achieved != "unknown" {
				t.Errorf("downgrades are %+v", doc.Downgrades)
			}
		},
	},
	{
		name: "PowerOffMaasNode_fails", mode: decommission.FullDecommission, managed: true,
		arrange: failing(bringup.PowerOffMAASNode, failure(bringup.BMCPowerFailure, "bmc_failed")),
		stage:   bringup.PowerOffMAASNode, code: "bmc_failed", class: bringup.BMCPowerFailure, tries: 2,
		stands: "draining held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "deleted held",
	},
	{
		name: "PowerOffMaasNode_given_up", mode: decommission.FullDecommission, managed: true,
		arrange: failing(bringup.PowerOffMAASNode, failure(bringup.BMCPowerFailure, "bmc_failed")),
		stage:   bringup.PowerOffMAASNode, code: "bmc_failed", class: bringup.BMCPowerFailure, tries: 2,
		stands: "draining held",
		ends:   job.Cancelled, after: "retired", // what was released is gone
	},
	{
		name: "RetireGPUaaSNode_inventory_away", mode: decommission.FullDecommission, managed: true,
		arrange: awayAt(decommission.StageRetire),
		stage:   decommission.StageRetire, code: "database_unavailable", class: bringup.UpstreamTransient, tries: 5,
		stands: "draining held",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "deleted held",
	},
	{
		name: "RemoveGPUaaSNodeRecord_uninstall_fails", mode: decommission.Remove, from: node.Retired,
		arrange: answers(agentwire.TypeUninstall, fails("uninstall_blocked", "a file is held")),
		stage:   decommission.StageRemove, code: "uninstall_failed", class: bringup.StateAmbiguity, tries: 2,
		stands: "retired held",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "deleted held",
		check: func(t *testing.T, y *yard, d decommission.Decommission) {
			t.Helper()
			same(t, "history", y.history(t, d.Node),
				[]string{"removing", "retired", "removing", "retired", "removing", "deleted"})
		},
	},
	{
		name: "RemoveGPUaaSNodeRecord_agent_gone", mode: decommission.Remove, from: node.Retired, arrange: silent,
		stage: decommission.StageRemove, code: "agent_unreachable", class: bringup.NodeAgentUnreachable, tries: 2,
		stands: "retired held",
		then:   overrides(decommission.StageRemove), ends: job.Completed, after: "deleted held",
		check: left("stop the agent"),
	},
	{
		name: "RemoveGPUaaSNodeRecord_cancelled", mode: decommission.Remove, from: node.Retired, arrange: silent,
		stage: decommission.StageRemove, code: "agent_unreachable", class: bringup.NodeAgentUnreachable, tries: 2,
		stands: "retired held",
		ends:   job.Cancelled, after: "retired",
	},
	{
		name: "Reimage_deploy_fails_after_the_release", mode: decommission.Reimage, managed: true,
		arrange: failing(bringup.DeployViaMAAS, failure(bringup.StateAmbiguity, "allocate_failed")),
		stage:   bringup.DeployViaMAAS, code: "allocate_failed", class: bringup.StateAmbiguity, tries: 3,
		stands: "enrolling held",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "Reimage_given_up_in_the_middle", mode: decommission.Reimage, managed: true,
		arrange: failing(bringup.DeployViaMAAS, failure(bringup.StateAmbiguity, "allocate_failed")),
		stage:   bringup.DeployViaMAAS, code: "allocate_failed", class: bringup.StateAmbiguity, tries: 3,
		stands: "enrolling held",
		ends:   job.Cancelled, after: "quarantined",
	},
	{
		name: "Reimage_validation_residue", mode: decommission.Reimage, managed: true,
		arrange: answers(agentwire.TypeValidateClean, succeeds(dirty())),
		stage:   decommission.StageValidate, code: "validation_residue", class: bringup.SanitizationFailure, tries: 1,
		stands: "quarantined held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "EnableNode_agent_keeps_refusing_users", mode: decommission.Reactivate, from: node.Retired,
		arrange: answers(agentwire.TypeDrain, succeeds(clean(agentwire.TypeDrain))),
		stage:   decommission.StageEnable, code: "still_draining", class: bringup.StateAmbiguity, tries: 2,
		stands: "active held",
		then:   acts(job.RetryStage, wellAgain), ends: job.Completed, after: "active schedulable",
	},
	{
		name: "EnableNode_agent_unreachable", mode: decommission.SoftReset, arrange: silentFrom(decommission.StageEnable),
		stage: decommission.StageEnable, code: "agent_unreachable", class: bringup.NodeAgentUnreachable, tries: 2,
		stands: "active held",
		then:   acts(job.Resume, wellAgain), ends: job.Completed, after: "active schedulable",
	},
}
