package decommission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// family holds the advice and explanations that operators get about
// decommissions.
func family() *job.Family[Decommission] {
	return &job.Family[Decommission]{
		Noun: bringup.Decommission, Life: &job.Parking,
		Classify: bringup.Classify, ClassCauses: bringup.ClassCauses,
		Seen:   func(d Decommission, now time.Time) job.Sighting { return d.Seen(now) },
		Left:   func(d Decommission) []string { return d.Facts.Left },
		Does:   func(_ Decommission, action job.Trigger) string { return bringup.Does(action) },
		Table:  func(d Decommission) job.Table { return tables[d.Mode] },
		Sample: func(j job.Job) Decommission { return Decommission{Job: j, Mode: FullDecommission} },
		First:  first, Prefers: prefers, Undone: undone, AfterEnd: afterEnd,
		HoldsData: func(Decommission) bool { return false },
		Forbids:   forbids,
		Reached:   reached,
	}
}

// first lists the actions that repair a failure of a class; among equally safe
// ones, the best comes first.
var first = map[job.FailureClass][]job.Trigger{
	bringup.InputConfigError:              {job.RetryStage},
	bringup.SiteCapabilityMissing:         {job.Resume, job.Rerun},
	bringup.UpstreamTransient:             {job.Resume, job.RetryStage},
	bringup.BMCPowerFailure:               {job.RetryStage, job.Resume},
	bringup.PXEDiscoveryFailure:           {job.RetryStage, job.Resume},
	bringup.HardwareMismatch:              {job.RetryStage, job.Resume},
	bringup.DeployInstallerFailure:        {job.Resume, job.Rerun},
	bringup.DeployCloudInitFailure:        {job.Resume, job.Rerun},
	bringup.PostDeployConnectivityFailure: {job.RetryStage, job.Resume},
	bringup.HardwareSyncFailure:           {job.RetryStage, job.Resume},
	bringup.AgentEnrollmentFailure:        {job.Resume, job.RetryStage},
	bringup.NodeAgentUnreachable:          {job.RetryStage, job.Resume},
	bringup.SanitizationFailure:           {job.RetryStage, job.Resume},
	bringup.StateAmbiguity:                {job.RetryStage, job.AdoptObserved},
}

// prefers returns the retry for a machine that is gone from MAAS, because there
// is nothing to adopt, unless the job can go on without the machine.
func prefers(d Decommission) job.Trigger {
	switch {
	case d.ErrorCode != bringup.CodeMachineGone.Name:
		return ""
	case d.Stage == stagePowerOff && d.givenBack():
		return job.AdoptObserved
	}
	return job.RetryStage
}

// givenBack says whether MAAS released the machine, or operators decided to go
// on without the release.
func (d Decommission) givenBack() bool {
	waived := slices.ContainsFunc(d.Overrides, func(o Override) bool { return o.Stage == stageRelease })
	return waived || d.Facts.Release != nil && d.Facts.Release.EndedAt != nil
}

// endings are the actions that make no sense for a deleted node: there is
// nothing to release and nothing to begin with.
var endings = []job.Trigger{job.Cancel, job.Rerun, job.RestartClean}

// forbids refuses the clean restart when nothing can start over, and every way
// back once the node is deleted.
func forbids(d Decommission, action job.Trigger) bool {
	at, _ := tables[d.Mode].Number(d.Stage)
	if removed, _ := tables[d.Mode].Number(StageRemove); removed > 0 && at > removed && slices.Contains(endings, action) {
		return true
	}
	if action != job.RestartClean {
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
	if d.Status == job.Cancelled {
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
		text += fmt.Sprintf("; but LESS was erased than asked for, by decision of %s: %s instead of %s, because %s",
			or(r.DecidedBy, "nobody on record"), or(r.Achieved, "none"), r.Requested, or(r.FallbackReason, "erasing failed"))
	}
	if d.Outcome == WithGaps && len(d.Overrides) == 0 && len(d.FollowUps) == 0 &&
		(d.Facts.Release == nil || !d.Facts.Release.FellBack) {
		text += "; but NO GPU was scrubbed, although its SKU has some: none was seen"
	}
	if n := len(d.FollowUps); n > 0 {
		text += fmt.Sprintf("; %d things are left to be done: %s", n, d.FollowUps[0].What)
	}
	return text
}

// waived lists the stages that operators decided to skip, with the risk that
// they named.
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
