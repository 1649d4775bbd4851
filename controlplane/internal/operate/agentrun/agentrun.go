package agentrun

import (
	"errors"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// Run is what is done to the agent of one node.
type Run struct {
	ID          id.AgentRun
	Node        id.Node
	Hostname    string
	Mode        node.Delivery
	Scenario    Scenario
	Safety      Safety
	Target      string // version; empty: none is wanted
	Way         Way
	Brokered    string // why somebody must act although the mode asked for less
	Status      Status
	Detail      string // what it waits for, for people
	Why         Problem
	From        string // version before
	Generation  int64
	Certified   bool // the node had a certificate when the phase began
	Schedulable bool // the node was schedulable when the run was asked for
	Attempt     int32
	Task        id.NodeTask
	Reinstalls  id.Decommission
	PhaseAt     time.Time
	DeadlineAt  *time.Time
	Reason      string
	By, ByName  string
	Correlation string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	FinishedAt  *time.Time
	Version     int64
}

// Problem is why a run is parked.
type Problem struct{ Code, Message, Remedy string }

func problemOf(err error) Problem {
	var f *fault.Error
	if errors.As(err, &f) {
		return Problem{f.Code, f.Message, f.Remedy}
	}
	return Problem{Code: "agent_run_refused", Message: err.Error()}
}

// How long each phase may take.
const (
	patienceBusy     = 24 * time.Hour
	patienceTask     = time.Hour
	patienceOperator = 7 * 24 * time.Hour
	patienceReimage  = 24 * time.Hour
	patienceProof    = 15 * time.Minute
)

// Codes of runs that are parked.
const (
	codeNeverIdle   = "agent_run_never_idle"
	codeUnproven    = "agent_run_unproven"
	codeNobodyDid   = "agent_run_nobody_acted"
	codeReimage     = "agent_run_reimage_ended"
	codeLeft        = "agent_run_node_left"
	codeTaskLate    = "agent_run_task_late"
	codeUnreached   = "agent_run_unreachable"
	codeInRollout   = "agent_run_in_rollout"
	codeNoVersion   = "agent_run_no_version"
	codeQuarantined = "agent_run_node_quarantined"
	codeJoining     = "agent_run_node_joining"
	codeNothing     = "agent_run_nothing_to_do"
	codeStillAlive  = "agent_run_exists"
)

// owner is how a run is named by what it tells and holds.
func (r Run) owner() string { return "agent run " + r.ID.String() }

// entered begins a phase.
func (r Run) entered(event Event, now time.Time, patience time.Duration, format string, args ...any) (Run, error) {
	next, err := Lifecycle.Next(r.Status, event)
	if err != nil {
		return r, err
	}
	deadline := now.Add(patience)
	r.Status, r.PhaseAt, r.DeadlineAt, r.Detail = next, now, &deadline, fmt.Sprintf(format, args...)
	return r, nil
}

func (r Run) parked(now time.Time, p Problem) (Run, error) {
	next, err := Lifecycle.Next(r.Status, Park)
	if err != nil {
		return r, err
	}
	r.Detail = "it was " + string(r.Status) + " when it was parked"
	r.Status, r.Why, r.PhaseAt, r.DeadlineAt = next, p, now, nil
	return r, nil
}

func (r Run) late(now time.Time) bool { return r.DeadlineAt != nil && now.After(*r.DeadlineAt) }

// enrolled reports whether the node enrolled anew in the present phase.
func (r Run) enrolled(n node.Node, now time.Time) bool {
	return n.Generation > r.Generation || !r.Certified && certified(n, now)
}

func certified(n node.Node, now time.Time) bool {
	return n.CertificateNotAfter != nil && n.CertificateNotAfter.After(now)
}

// Next is what is to be done, for people and for programs.
type Next struct {
	Action  Action
	Text    string
	Command string
}

// Action is what is to be done next.
type Action string

// The actions.
const (
	Nothing            Action = "none"
	BrokeredBootstrap  Action = "brokered_bootstrap"
	InstallByHand      Action = "manual_install"
	FollowDecommission Action = "follow_decommission"
	WaitUntilIdle      Action = "wait_until_idle"
	RetryOrCancel      Action = "retry_or_cancel"
)

var actions = []Action{Nothing, BrokeredBootstrap, InstallByHand, FollowDecommission, WaitUntilIdle, RetryOrCancel}

// Next says what is to be done.
func (r Run) Next() Next {
	switch r.Status {
	case Waiting:
		return Next{
			WaitUntilIdle, "it goes on by itself when the node is idle; see what keeps it busy", "gpuaas node show " + r.Hostname,
		}
	case AwaitingOperator:
		n := Next{InstallByHand, "run on the machine, as root, what this prints", r.bootstrap()}
		if r.Brokered != "" {
			n.Action, n.Text = BrokeredBootstrap, r.Brokered+"; run on the machine, as root, what this prints"
		}
		if r.Detail != awaits {
			n.Text = r.Detail + "; after that, " + n.Text
		}
		return n
	case Reimaging:
		return Next{
			FollowDecommission, "a decommission reinstalls the machine", "gpuaas decommission show " + r.Reinstalls.String(),
		}
	case Parked:
		if r.Why.Code == codeLeft || r.Why.Code == codeNoVersion {
			return Next{RetryOrCancel, r.Why.Remedy, "gpuaas node agent cancel " + r.Hostname}
		}
		return Next{RetryOrCancel, r.Why.Remedy, "gpuaas node agent retry " + r.Hostname}
	case Delivering, Verifying, Succeeded, Cancelled:
	}
	return Next{Action: Nothing}
}

// bootstrap is the command that prints what somebody runs on the machine. It is the one
// place that shows a token.
func (r Run) bootstrap() string {
	if r.From == "" {
		return "gpuaas node bootstrap " + r.Hostname
	}
	return "gpuaas node bootstrap " + r.Hostname + " --recovery"
}

func missing() error {
	return fault.New(fault.NotFound, "agent_run_not_found", "there is no such run").
		WithRemedy("list them: gpuaas node agent runs NODE")
}
