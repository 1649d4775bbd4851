package operation

import (
	"encoding/json"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/policy"
)

// Owner is whose run it is: the platform's (zero), or a project's.
type Owner struct {
	Org     id.Org
	Project id.Project
}

// platform reports whether a run is the platform's own.
func (o Owner) platform() bool { return o.Project.IsZero() }

// Trigger says what a run was asked for by.
type Trigger string

// The triggers.
const (
	ByProvision Trigger = "allocation_provision"
	ByRelease   Trigger = "allocation_release"
	ByAdmin     Trigger = "admin"
	ByTenant    Trigger = "tenant_request"
)

// Selector says which nodes are meant: those that are named in one way or another,
// or all that are so. What is empty chooses nothing or bounds nothing.
type Selector struct {
	Nodes       []id.Node            `json:"nodes,omitempty"`
	Allocations []id.Allocation      `json:"allocations,omitempty"`
	Groups      []id.AllocationGroup `json:"groups,omitempty"`
	Where       *Where               `json:"where,omitempty"`
}

// Where says what the nodes are like that are meant.
type Where struct {
	Region string            `json:"region,omitempty"`
	Rack   string            `json:"rack,omitempty"`
	Pool   string            `json:"pool,omitempty"`
	SKU    string            `json:"sku,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// kind is what a selector names: the word that policies and definitions use.
func (s Selector) kind() definition.TargetKind {
	switch {
	case len(s.Allocations) > 0:
		return definition.TargetAllocation
	case len(s.Groups) > 0 || s.Where != nil:
		return definition.TargetGroup
	}
	return definition.TargetNode
}

// named reports whether a selector names what it means, and does not only describe it.
func (s Selector) named() bool { return len(s.Nodes)+len(s.Allocations)+len(s.Groups) > 0 }

// Limits bound how a run goes through its targets.
type Limits struct {
	MaxConcurrency     int32 // zero: as the share says, or the default
	ConcurrencyPercent int32
	MaxFailures        int32
	FailuresPercent    int32
	NoRamp             bool
}

// What holds where nobody says otherwise, and what nobody may exceed.
const (
	defaultConcurrency = 10
	mostConcurrency    = 1000
	mostTargets        = 5000
)

// concurrency is how many targets are worked on at a time, of so many.
func (l Limits) concurrency(targets int) int32 {
	n := l.MaxConcurrency
	if n == 0 && l.ConcurrencyPercent > 0 {
		n = share(targets, l.ConcurrencyPercent)
	}
	if n == 0 {
		n = defaultConcurrency
	}
	return min(n, mostConcurrency)
}

// failures is how many targets may fail before nothing more is handed out.
func (l Limits) failures(targets int) int32 {
	if l.MaxFailures == 0 && l.FailuresPercent > 0 {
		return share(targets, l.FailuresPercent)
	}
	return l.MaxFailures
}

// share is a part of a number, rounded down, and at least one.
func share(of int, percent int32) int32 {
	return max(1, int32(int64(of)*int64(percent)/100)) //nolint:gosec // at most mostTargets
}

// Ask is a request for a run.
type Ask struct {
	Owner    Owner
	Ref      definition.Ref // no version: the newest
	Inputs   json.RawMessage
	Targets  Selector
	Limits   Limits
	OnlyPlan bool   // nodes only look
	PlanHash string // empty: whatever the plan is
	Reason   string
	Trigger  Trigger
	AgainOf  id.Operation
}

// Operation is a run.
type Operation struct {
	ID           id.Operation
	Owner        Owner
	ResourceName string
	Ref          definition.Ref
	Digest       string
	OnlyPlan     bool
	Status       Status
	Inputs       json.RawMessage
	TargetKind   string
	Selector     json.RawMessage
	PlanHash     string
	Policy       []policy.Decision
	Decisions    []policy.Verdict // of the policy document, the last one last
	TotalSteps   int32
	Limits       FixedLimits
	Trigger      Trigger
	Allocation   id.Allocation // the only one that it is about
	Node         id.Node       // the only one that it is about
	AgainOf      id.Operation
	By, ByName   string
	Reason       string
	Correlation  string
	TraceID      string
	TraceParent  string
	Resumes      int32
	ResumedBy    []string // everybody who did
	Forgiven     int32
	Pause        Pause
	Cancel       Stop
	Approval     Approval
	ErrorCode    string
	ErrorMessage string
	CreatedAt    time.Time
	StartedAt    *time.Time
	FinishedAt   *time.Time
	UpdatedAt    time.Time
	Version      int64
	// Counts says how many targets are in which state. Only reading fills it.
	Counts map[TargetStatus]int32
}

// FixedLimits are the limits of a run, as they hold.
type FixedLimits struct {
	MaxConcurrency int32
	MaxFailures    int32
	Ramp           bool
	Timeout        time.Duration // of one target
}

// Pause says since when a run is paused; zero: it is not.
type Pause struct {
	At         *time.Time
	By, Reason string
}

// Stop says that somebody wants a run to stop; zero: nobody does.
type Stop struct {
	At         *time.Time
	By, Reason string
}

// Approval is who must approve a run, and who did.
type Approval struct {
	Role       auth.Role // empty: nobody must
	ExpiresAt  *time.Time
	At         *time.Time
	By, ByName string
}

// awaited reports whether somebody must still approve.
func (a Approval) awaited() bool { return a.Role != "" && a.At == nil }

// approvalLasts is how long a run waits for its approval.
const approvalLasts = 7 * 24 * time.Hour

// WorkflowID is the workflow that takes turns with a run.
func (o Operation) WorkflowID() string { return workflowID(o.ID) }

func workflowID(of id.Operation) string { return "operation-" + of.String() }

// tasksOf is what the keys of all tasks of operations begin with.
const tasksOf = "operation"

func (o Operation) on() auth.Target { return auth.Target{Org: o.Owner.Org, Project: o.Owner.Project} }

// resourceName is the name of a run that lasts.
func resourceName(owner Owner, of id.Operation) string {
	if owner.platform() {
		return fmt.Sprintf("platform/operations/%s", of)
	}
	return fmt.Sprintf("tenants/%s/projects/%s/operations/%s", owner.Org, owner.Project, of)
}

// wave is how many targets may be worked on at a time after so many have succeeded:
// 1, 2, 4 and so on, up to the limit of the run.
func (l FixedLimits) wave(succeeded int32) int32 {
	if !l.Ramp {
		return l.MaxConcurrency
	}
	n := int32(1)
	for n*2 <= succeeded+1 && n < l.MaxConcurrency {
		n *= 2
	}
	return min(n, l.MaxConcurrency)
}

// Target is what a run does on one node.
type Target struct {
	ID         id.OperationTarget
	Operation  id.Operation
	Position   int32
	Node       id.Node
	Hostname   string
	Allocation id.Allocation
	Status     TargetStatus
	Attempt    int32
	StepIndex  int32
	Task       id.NodeTask
	Probing    bool
	Looks      int32 // how often the node was asked what is there, since somebody last resumed it
	Changed    bool
	Error      Trouble
	HandedOut  *time.Time
	FinishedAt *time.Time
	// At is the step that the node says it is at; zero: it does not work on it.
	At AtStep
}

// AtStep is how far a node says that it is.
type AtStep struct {
	Step, Status string
	Percent      *int32
}

// Trouble is why a target did not succeed.
type Trouble struct {
	Code    string `json:"code"`
	Class   string `json:"class"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Step is what became of one step on one target in one attempt.
type Step struct {
	Target                         id.OperationTarget
	Node                           id.Node
	Hostname                       string
	Position                       int32
	Attempt, Index                 int32
	ID, Kind, Status               string
	Changed                        bool
	Summary                        string
	Output                         json.RawMessage
	Error                          Trouble
	Tries                          int32
	ResolvedProfile, HardwareMatch string
	LogLines, LogBytesDropped      int64
	StartedAt, FinishedAt          *time.Time
	Duration                       time.Duration
}

func notFound(of id.Operation) error {
	return fault.New(fault.NotFound, "operation_not_found", "there is no operation %s", of).
		WithRemedy("list them with: gpuaas operation list")
}

func conflict(o Operation, format string, args ...any) *fault.Error {
	return fault.New(fault.Conflict, "operation_state_conflict", "operation %s %s", o.ID, fmt.Sprintf(format, args...)).
		WithRemedy("see how it stands: gpuaas operation show %s", o.ID)
}
