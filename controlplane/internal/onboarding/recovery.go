package onboarding

import (
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/fault"
)

// Actions lists what operators can do about an onboarding.
var Actions = []durable.JobEvent{
	durable.JobRetryStage, durable.JobResume, durable.JobRerun, durable.JobRestartClean, durable.JobAdoptObserved,
	durable.JobCancel, durable.JobMarkManual,
}

// Safety says what an action may cost.
type Safety string

// The safety classes of actions.
const (
	Safe         Safety = "safe"
	NeedsCare    Safety = "needs_care"
	DestroysData Safety = "destroys_data"
)

// Advice is a legal action and what it would do.
type Advice struct {
	Action durable.JobEvent
	Safety Safety
	Does   string
}

// parkedAs is the status that a failure of a class parks a job in.
func parkedAs(class durable.FailureClass) durable.JobEvent {
	if class == durable.UpstreamTransient {
		return durable.JobFail
	}
	return durable.JobBlock
}

// halfUndone says whether undoing the job began and could not be finished. Only
// what undoes it, or looks at everything anew, makes sense then.
func (o Onboarding) halfUndone() bool {
	return o.parked() && (o.Action == durable.JobCancel || o.Action == durable.JobRestartClean)
}

func (o Onboarding) parked() bool {
	return o.Status == durable.JobFailedRetryable || o.Status == durable.JobFailedManualIntervention
}

// restarting says whether the job is being undone in order to start anew.
func (o Onboarding) restarting() bool {
	return o.Status == durable.JobCompensating && o.Action == durable.JobRestartClean
}

// LegalActions lists what an operator may do now.
func LegalActions(o Onboarding) []durable.JobEvent {
	var legal []durable.JobEvent
	for _, action := range Actions {
		if _, err := durable.JobLifecycle.Next(o.Status, action); err != nil {
			continue
		}
		if o.halfUndone() && (action == durable.JobRetryStage || action == durable.JobResume) {
			continue
		}
		if o.Status == durable.JobCompensating && !o.restarting() { // a cancel is under way already
			continue
		}
		legal = append(legal, action)
	}
	return legal
}

// TargetOf is the status and the stage that an action leads to at once.
func TargetOf(o Onboarding, action durable.JobEvent) (durable.JobStatus, string) {
	status, err := durable.JobLifecycle.Next(o.Status, action)
	if err != nil {
		return o.Status, o.Stage
	}
	switch action { //nolint:exhaustive // the other events are no actions
	case durable.JobResume:
		if s, ok := StageOf(o.Stage); ok {
			return status, s.Resume
		}
	case durable.JobRerun:
		return status, firstStage()
	case durable.JobAdoptObserved:
		return status, StageAdopt
	case durable.JobCancel, durable.JobRestartClean:
		if status == durable.JobCompensating {
			return status, StageCompensate
		}
	}
	return status, o.Stage
}

// first says which action mends a failure of a class, best first.
var first = map[durable.FailureClass][]durable.JobEvent{
	durable.InputConfigError:              {durable.JobRerun, durable.JobCancel},
	durable.SiteCapabilityMissing:         {durable.JobResume, durable.JobRerun},
	durable.UpstreamTransient:             {durable.JobResume, durable.JobRetryStage, durable.JobRerun},
	durable.BMCPowerFailure:               {durable.JobRetryStage, durable.JobRerun},
	durable.PXEDiscoveryFailure:           {durable.JobRerun, durable.JobRetryStage},
	durable.HardwareMismatch:              {durable.JobRerun, durable.JobRetryStage},
	durable.DeployCloudInitFailure:        {durable.JobRerun, durable.JobRestartClean},
	durable.PostDeployConnectivityFailure: {durable.JobRetryStage, durable.JobResume},
	durable.HardwareSyncFailure:           {durable.JobRetryStage, durable.JobResume},
	durable.AgentEnrollmentFailure:        {durable.JobResume, durable.JobRetryStage},
	durable.StateAmbiguity:                {durable.JobRerun, durable.JobAdoptObserved, durable.JobRestartClean},
}

// firstOf is the best action where the code of a failure says more than its
// class: adopting a machine that is not ours finds nothing, and what is not what
// was installed is not mended by looking again.
var firstOf = map[string]durable.JobEvent{
	codeMarked:               durable.JobResume,
	codeNothingToAdopt:       durable.JobRerun,
	"machine_in_use":         durable.JobRerun,
	"machine_bound":          durable.JobRerun,
	"machine_claimed":        durable.JobRerun,
	"stage_lost":             durable.JobRetryStage,
	"maas_machine_locked":    durable.JobRerun,
	"discovery_conflict":     durable.JobRerun,
	"discovery_ambiguous":    durable.JobRerun,
	"node_conflict":          durable.JobRerun,
	"first_boot_missing":     durable.JobResume,
	"first_boot_changed":     durable.JobResume,
	"machine_hollow":         durable.JobRestartClean,
	"deployed_image_differs": durable.JobRestartClean,
	"ssh_host_key_changed":   durable.JobRestartClean,
	"hw_sync_disabled":       durable.JobRestartClean,
}

// adoptable are the states of MAAS that a job can go on from.
var adoptable = []string{"Ready", "Allocated", "Deploying", "Deployed"}

// Recommend ranks the legal actions, best first.
func Recommend(o Onboarding) []Advice {
	legal := LegalActions(o)
	var out []Advice
	take := func(actions ...durable.JobEvent) {
		for _, action := range actions {
			known := slices.ContainsFunc(out, func(a Advice) bool { return a.Action == action })
			if slices.Contains(legal, action) && !known {
				out = append(out, Advice{Action: action, Safety: safetyOf(o, action), Does: does(o, action)})
			}
		}
	}
	if o.parked() {
		switch {
		case o.halfUndone():
			take(o.Action)
		case firstOf[o.ErrorCode] != "":
			take(firstOf[o.ErrorCode])
		case o.FailureClass == durable.StateAmbiguity && slices.Contains(adoptable, o.Observed.Status):
			take(durable.JobAdoptObserved)
		}
		take(first[o.FailureClass]...)
	}
	take(Actions...)
	return out
}

// Codes that recommendations go by.
const (
	codeMarked         = "operator_marked"
	codeNothingToAdopt = "nothing_to_adopt"
)

// recommended is the best action, as events name it.
func recommended(o Onboarding) string {
	if !o.parked() {
		return ""
	}
	return string(Recommend(o)[0].Action)
}

func safetyOf(o Onboarding, action durable.JobEvent) Safety {
	switch action { //nolint:exhaustive // the other events are no actions
	case durable.JobRestartClean:
		if o.holdsData() {
			return DestroysData
		}
		return NeedsCare
	case durable.JobCancel:
		if o.Status == durable.JobPending {
			return Safe
		}
		return NeedsCare
	case durable.JobAdoptObserved:
		return NeedsCare
	}
	return Safe
}

func does(o Onboarding, action durable.JobEvent) string {
	_, target := TargetOf(o, action)
	title := target
	if s, ok := StageOf(target); ok {
		title = s.Title
	}
	switch action { //nolint:exhaustive // the other events are no actions
	case durable.JobRetryStage:
		return fmt.Sprintf("runs the stage %q once more", title)
	case durable.JobResume:
		return fmt.Sprintf("goes on from the last safe stage, %q", title)
	case durable.JobRerun:
		return "goes through all stages from the first; what is done already is recognised and left as it is"
	case durable.JobRestartClean:
		if o.holdsData() {
			return "releases the machine if this job holds it, which DESTROYS what is on its disks, and starts from nothing"
		}
		return "undoes what the job did so far and starts from nothing"
	case durable.JobAdoptObserved:
		return "takes the machine as it is now, if it is provably this one, and goes on from there"
	case durable.JobCancel:
		return "ends the onboarding; " + undone(o)
	case durable.JobMarkManual:
		return "stops all automation until an operator decides"
	}
	return ""
}

func undone(o Onboarding) string {
	if o.Status == durable.JobPending {
		return "nothing was begun"
	}
	if o.restarting() {
		return "what can still be undone is undone, and nothing is started anew"
	}
	if s, ok := StageOf(o.Stage); ok && s.OnCancel != "" && o.Facts.DeployedAt == nil {
		return s.OnCancel
	}
	if o.Facts.DeployedAt != nil {
		return leftDeployed + "; to give the machine back instead, restart clean first and cancel that"
	}
	return nothingUndone
}

// notAllowed refuses an action and names those that are possible.
func notAllowed(o Onboarding, action durable.JobEvent) error {
	legal := LegalActions(o)
	refusal := fault.New(fault.Conflict, "action_not_allowed", "the onboarding of %s is %s: %s is not possible now", o.Hostname, o.Status, action)
	switch {
	case len(legal) > 0:
		names := make([]string, len(legal))
		for i, a := range legal {
			names[i] = string(a)
		}
		return refusal.WithRemedy("possible now: %s", strings.Join(names, ", "))
	case o.Status == durable.JobCompensating:
		return refusal.WithRemedy("nothing is possible until it has been undone; look again later")
	}
	if o.Status == durable.JobCancelled {
		return refusal.WithRemedy("it has ended; onboard the machine anew, unless it left a node behind: see what is left in gpuaas onboarding show")
	}
	return refusal.WithRemedy("it has reached its goal; the machine is node %s", o.Node)
}

// holdsData says that something is installed on the machine, by this job or by
// somebody else.
func (o Onboarding) holdsData() bool {
	return o.Facts.DeployedAt != nil || o.Observed.Status == "Deployed"
}

// forgetMachine takes back what a job that starts from nothing must not go by.
func forgetMachine(f bringup.Facts) bringup.Facts { return bringup.Facts{Left: f.Left} }
