package decommission

import (
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// family is what operators are advised and told about decommissions.
func family() *job.Family[Decommission] {
	return &job.Family[Decommission]{
		Noun: "decommission", Table: func(d Decommission) job.Table { return tables[d.Mode] },
		Sample: func(j job.Job) Decommission { return Decommission{Job: j, Mode: FullDecommission} },
		First:  first, FirstOf: firstOf, Prefers: prefers, Undone: undone, AfterEnd: afterEnd, Usually: usually, Causes: causes,
		Rewind:    map[string]string{bringup.CodeIdentityVoid: bringup.RenderCloudInit},
		HoldsData: func(Decommission) bool { return false },
		Forbids:   forbids,
		Awaits:    "its batch has a free place, and not too many of it have failed",
		Reached:   reached,
	}
}

var first = map[durable.FailureClass][]durable.JobEvent{
	durable.InputConfigError:              {durable.JobRetryStage, durable.JobCancel},
	durable.SiteCapabilityMissing:         {durable.JobResume, durable.JobRerun},
	durable.UpstreamTransient:             {durable.JobResume, durable.JobRetryStage},
	durable.BMCPowerFailure:               {durable.JobRetryStage, durable.JobResume},
	durable.PXEDiscoveryFailure:           {durable.JobRetryStage, durable.JobResume},
	durable.HardwareMismatch:              {durable.JobRetryStage, durable.JobResume},
	durable.DeployCloudInitFailure:        {durable.JobResume, durable.JobRetryStage},
	durable.PostDeployConnectivityFailure: {durable.JobRetryStage, durable.JobResume},
	durable.HardwareSyncFailure:           {durable.JobRetryStage, durable.JobResume},
	durable.AgentEnrollmentFailure:        {durable.JobResume, durable.JobRetryStage},
	durable.NodeAgentUnreachable:          {durable.JobRetryStage, durable.JobResume},
	durable.SanitizationFailure:           {durable.JobRetryStage, durable.JobResume},
	durable.StateAmbiguity:                {durable.JobRetryStage, durable.JobAdoptObserved},
}

var firstOf = map[string]durable.JobEvent{
	codeResidue:              durable.JobResume,
	codeRootResidue:          durable.JobCancel,
	"released_elsewhere":     durable.JobAdoptObserved,
	"nothing_to_adopt":       durable.JobRetryStage,
	"deployed_image_differs": durable.JobResume,
	"machine_hollow":         durable.JobResume,
	"deploy_not_started":     durable.JobRerun,
	"first_boot_missing":     durable.JobResume,
	"deploy_aborted":         durable.JobRerun,
	"machine_released":       durable.JobRerun,
	"machine_not_deployed":   durable.JobRerun,
	"machine_in_use":         durable.JobResume,
	"evidence_missing":       durable.JobRerun,
	"node_tainted":           durable.JobRerun,
	node.CodeRoot:            durable.JobCancel,
}

// prefers looks again for a machine that is gone from MAAS, unless the job can
// go on without it: there is nothing to adopt otherwise.
func prefers(d Decommission) durable.JobEvent {
	switch {
	case d.ErrorCode != codeMachineGone:
		return ""
	case d.Stage == stagePowerOff && d.givenBack():
		return durable.JobAdoptObserved
	}
	return durable.JobRetryStage
}

// givenBack says that MAAS released the machine, or that operators decided to go
// on without that.
func (d Decommission) givenBack() bool {
	waived := slices.ContainsFunc(d.Overrides, func(o Override) bool { return o.Stage == stageRelease })
	return waived || d.Facts.Release != nil && d.Facts.Release.EndedAt != nil
}

var causes = map[string]string{
	"agent_unreachable":  "The machine is off, cut off from the network, or its agent does not run.",
	"agent_lost":         "The machine went down in the middle of the task, or its agent was stopped.",
	codeResidue:          "A process, an account or files of a tenant survived the cleaning.",
	codeRootResidue:      "Only somebody with root can have left what was found; such an installation cannot speak for itself.",
	codeDevice:           "The disk does not carry out what it says, is failing, or has no method that the policy accepts.",
	codeStorage:          "Files are held open, immutable, or lie on a file system that cannot be written.",
	codeGPU:              "A process uses a GPU, or its driver does not answer.",
	codeUnfounded:        "The agent is of another version than the control plane, or not ours.",
	"drain_incomplete":   "Processes of the accounts cannot be ended, or their homes cannot be removed.",
	"uninstall_failed":   "Files of the agent are held or protected on the machine.",
	"node_tainted":       "A tenant got access to the node after it was validated.",
	node.CodeRoot:        "Somebody had root on the installation that would have to speak for itself.",
	"evidence_missing":   "A stage was passed over without evidence.",
	"allocations_remain": "An allocation could not be ended.",
}

// endings are the actions that make nothing of a node that is deleted: there is
// nothing to let go of, and nothing to begin with.
var endings = []durable.JobEvent{durable.JobCancel, durable.JobRerun, durable.JobRestartClean}

// forbids takes the clean restart away once nothing can begin anew, and every
// way back once the node is deleted.
func forbids(d Decommission, action durable.JobEvent) bool {
	at, _ := tables[d.Mode].Number(d.Stage)
	if removed, _ := tables[d.Mode].Number(StageRemove); removed > 0 && at > removed && slices.Contains(endings, action) {
		return true
	}
	if action != durable.JobRestartClean {
		return false
	}
	return d.Facts.Release != nil && d.Facts.Release.RequestedAt != nil
}

func undone(d Decommission) string {
	if s, ok := tables[d.Mode].Of(d.Stage); ok && s.OnCancel != "" {
		return s.OnCancel
	}
	return letGo
}

func afterEnd(d Decommission) string {
	if d.Status == durable.JobCancelled {
		return fmt.Sprintf("it has ended; look at the node: gpuaas node show %s", d.Node)
	}
	return fmt.Sprintf("it has reached its goal: the node is %s", ends[d.Mode])
}

func reached(d Decommission, took string) string {
	text := fmt.Sprintf("the %s of %s reached its goal%s: %s", d.Mode, d.Hostname, took, ends[d.Mode])
	if len(d.Overrides) > 0 {
		text = fmt.Sprintf("the %s of %s ended%s, and NOT all of it was done. %s", d.Mode, d.Hostname, took, d.waived())
	}
	if r := d.Facts.Release; r != nil && r.FellBack {
		text += fmt.Sprintf("; but LESS was erased than asked for, by decision of %s: %s instead of %s, because %s", or(r.DecidedBy, "nobody on record"), or(r.Achieved, "none"), r.Requested, or(r.FallbackReason, "erasing failed"))
	}
	if n := len(d.FollowUps); n > 0 {
		text += fmt.Sprintf("; %d things are left to be done: %s", n, d.FollowUps[0].What)
	}
	return text
}

// waived is what operators decided to go on without, and the risk that each of
// them saw in it.
func (d Decommission) waived() string {
	texts := make([]string, len(d.Overrides))
	for i, o := range d.Overrides {
		title := o.Stage
		if o.Stage == RootTaint {
			title = "What somebody with root left"
		}
		if s, known := tables[d.Mode].Of(o.Stage); known {
			title = s.Title
		}
		texts[i] = fmt.Sprintf("%q (risk: %s)", title, o.ResidualRisk)
	}
	return "Passed over by decision of operators: " + strings.Join(texts, ", ")
}
