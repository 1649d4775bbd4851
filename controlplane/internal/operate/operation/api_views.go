package operation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/operate/policy"
)

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (TargetStatus) Schema(huma.Registry) *huma.Schema {
	return httpapi.StatesOf(TargetLifecycle.Describe())
}

// TroubleView is why something did not succeed.
type TroubleView struct {
	Code    string `json:"code"`
	Class   string `json:"class,omitempty" doc:"transient, permanent, ambiguous, policy, capability or cancelled"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

func (t Trouble) view() *TroubleView {
	if t.Code == "" {
		return nil
	}
	return &TroubleView{Code: t.Code, Class: t.Class, Message: t.Message, Remedy: t.Remedy}
}

// CountsView says how many targets are in which state.
type CountsView struct {
	Total     int32 `json:"total"`
	Waiting   int32 `json:"waiting"`
	Running   int32 `json:"running"`
	Succeeded int32 `json:"succeeded"`
	Failed    int32 `json:"failed"`
	Canceled  int32 `json:"canceled"`
	Skipped   int32 `json:"skipped"`
}

// ApprovalView is who must approve a run, and who did.
type ApprovalView struct {
	Role       auth.Role  `json:"role"`
	Awaited    bool       `json:"awaited"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	ApprovedAt *time.Time `json:"approved_at,omitempty"`
	ApprovedBy string     `json:"approved_by,omitempty"`
}

// View is a run as the API shows it.
type View struct {
	OperationID     id.Operation   `json:"operation_id"`
	ResourceName    string         `json:"resource_name"`
	OperationType   string         `json:"operation_type"`
	Version         string         `json:"version"`
	Digest          string         `json:"digest" doc:"Of the document of the version, which a run freezes."`
	OrgID           *id.Org        `json:"org_id,omitempty" doc:"Absent: it is a run of the platform."`
	ProjectID       *id.Project    `json:"project_id,omitempty"`
	Status          Status         `json:"status"`
	OnlyPlan        bool           `json:"only_plan" doc:"Nodes only look and say what each step would change."`
	Targets         CountsView     `json:"targets"`
	Paused          bool           `json:"paused"`
	PauseReason     string         `json:"pause_reason,omitempty"`
	CancelRequested bool           `json:"cancel_requested"`
	CancelReason    string         `json:"cancel_reason,omitempty"`
	Approval        *ApprovalView  `json:"approval,omitempty" doc:"Absent: nobody must approve it."`
	WaitingFor      string         `json:"waiting_for,omitempty"`
	ErrorCode       string         `json:"error_code,omitempty"`
	ErrorMessage    string         `json:"error_message,omitempty"`
	TotalSteps      int32          `json:"total_steps"`
	MaxConcurrency  int32          `json:"max_concurrency"`
	MaxFailures     int32          `json:"max_failures" doc:"It pauses when more than this many targets have failed."`
	Ramp            bool           `json:"ramp" doc:"1, 2, 4 … targets at a time, and not all at once."`
	TimeoutSeconds  int64          `json:"timeout_seconds" doc:"What a node has for all steps."`
	PlanHash        string         `json:"plan_hash"`
	Resumes         int32          `json:"resumes" doc:"How often it was resumed."`
	AgainOf         *id.Operation  `json:"again_of,omitempty" doc:"The run that this one repeats."`
	TriggerSource   Trigger        `json:"trigger_source" enum:"allocation_provision,allocation_release,admin,tenant_request"`
	AllocationID    *id.Allocation `json:"linked_allocation_id,omitempty"`
	NodeID          *id.Node       `json:"linked_node_id,omitempty"`
	RequestedBy     string         `json:"requested_by"`
	RequestedByName string         `json:"requested_by_name,omitempty"`
	Reason          string         `json:"reason,omitempty"`
	CorrelationID   string         `json:"correlation_id"`
	TraceID         string         `json:"trace_id,omitempty"`
	CreatedAt       time.Time      `json:"created_at"`
	StartedAt       *time.Time     `json:"started_at,omitempty"`
	FinishedAt      *time.Time     `json:"finished_at,omitempty"`
	Policy          []PolicyView   `json:"policy" nullable:"false" doc:"What the policy said when it was asked for."`
	Inputs          map[string]any `json:"inputs" doc:"As they are run, with defaults."`
	PolicyDecisions []VerdictView  `json:"policy_decisions" nullable:"false" doc:"What the policy document of the platform decided: when it was asked for, and when another version or answer came. Empty: none decided."`
}

// VerdictView is what the policy document decided about a run.
type VerdictView struct {
	Document    string    `json:"document" doc:"The version that decided." example:"v3"`
	Digest      string    `json:"digest"`
	InputDigest string    `json:"input_digest" doc:"Of what it was asked."`
	DecidedAt   time.Time `json:"decided_at"`
	Denied      []string  `json:"denied" nullable:"false" doc:"Why it was denied; empty: nothing was against it."`
	Undecided   string    `json:"undecided,omitempty" doc:"Why it could not decide: that denies, too."`
}

func verdicts(of []policy.Verdict) []VerdictView {
	out := make([]VerdictView, len(of))
	for i, v := range of {
		out[i] = VerdictView{
			Document: v.Document, Digest: v.Digest, InputDigest: v.Input, DecidedAt: v.At.UTC(), Denied: v.Denied,
			Undecided: v.Undecided,
		}
		if v.Denied == nil {
			out[i].Denied = []string{}
		}
	}
	return out
}

// PolicyView is how one key of the policy came about.
type PolicyView struct {
	Key   policy.Key   `json:"key"`
	Value string       `json:"value"`
	Scope policy.Scope `json:"scope" doc:"Which level decided: built_in, global, tenant or project."`
	Rule  string       `json:"rule"`
}

func optional[noun any](of id.Of[noun]) *id.Of[noun] {
	if of.IsZero() {
		return nil
	}
	return &of
}

func show(o Operation) View {
	v := View{
		OperationID: o.ID, ResourceName: o.ResourceName, OperationType: o.Ref.Type, Version: o.Ref.Version, Digest: o.Digest,
		OrgID: optional(o.Owner.Org), ProjectID: optional(o.Owner.Project), Status: o.Status, OnlyPlan: o.OnlyPlan,
		Targets: CountsView{
			Total: total(o.Counts), Waiting: o.Counts[TargetWaiting], Running: o.Counts[TargetRunning],
			Succeeded: o.Counts[TargetSucceeded], Failed: o.Counts[TargetFailed], Canceled: o.Counts[TargetCanceled],
			Skipped: o.Counts[TargetSkipped],
		},
		Paused: o.Pause.At != nil, PauseReason: o.Pause.Reason, CancelRequested: o.Cancel.At != nil,
		CancelReason: o.Cancel.Reason, WaitingFor: o.waitsFor(), ErrorCode: o.ErrorCode, ErrorMessage: o.ErrorMessage,
		TotalSteps: o.TotalSteps, MaxConcurrency: o.Limits.MaxConcurrency, MaxFailures: o.Limits.MaxFailures,
		Ramp: o.Limits.Ramp, TimeoutSeconds: int64(o.Limits.Timeout / time.Second), PlanHash: o.PlanHash, Resumes: o.Resumes,
		AgainOf: optional(o.AgainOf), TriggerSource: o.Trigger, AllocationID: optional(o.Allocation),
		NodeID: optional(o.Node), RequestedBy: o.By, RequestedByName: o.ByName, Reason: o.Reason,
		CorrelationID: o.Correlation, TraceID: o.TraceID, CreatedAt: o.CreatedAt.UTC(), StartedAt: o.StartedAt,
		FinishedAt: o.FinishedAt, Policy: policies(o.Policy), Inputs: map[string]any{},
		PolicyDecisions: verdicts(o.Decisions),
	}
	_ = json.Unmarshal(o.Inputs, &v.Inputs) // they were checked against a schema of an object
	if a := o.Approval; a.Role != "" {
		v.Approval = &ApprovalView{
			Role: a.Role, Awaited: a.awaited() && !o.Status.Ended(), ExpiresAt: a.ExpiresAt, ApprovedAt: a.At,
			ApprovedBy: a.ByName,
		}
	}
	return v
}

func policies(of []policy.Decision) []PolicyView {
	out := make([]PolicyView, len(of))
	for i, d := range of {
		out[i] = PolicyView{Key: d.Key, Value: d.Value, Scope: d.Scope, Rule: d.Rule}
	}
	return out
}

// waitsFor says what a run waits for, in words.
func (o Operation) waitsFor() string {
	switch {
	case o.Status.Ended():
		return ""
	case o.Cancel.At != nil:
		return "nodes to stop at a safe point"
	case o.Approval.awaited():
		return "the approval of somebody else with the role " + string(o.Approval.Role)
	case o.Pause.At != nil:
		return "somebody to continue or cancel it: " + o.Pause.Reason
	case o.Counts[TargetRunning] > 0:
		return "nodes to finish their steps"
	}
	return "its workflow to hand it out"
}

// TargetView is what a run does on one node.
type TargetView struct {
	TargetID     id.OperationTarget `json:"target_id"`
	NodeID       id.Node            `json:"node_id"`
	Hostname     string             `json:"hostname"`
	AllocationID *id.Allocation     `json:"allocation_id,omitempty"`
	Position     int32              `json:"position" doc:"Its place in the order, from 1."`
	Status       TargetStatus       `json:"status"`
	Attempt      int32              `json:"attempt" doc:"How often it was handed out."`
	StepIndex    int32              `json:"step_index" doc:"The step that is done next, or that failed; from 0."`
	Changed      bool               `json:"changed" doc:"Whether a step changed the node."`
	Probing      bool               `json:"probing,omitempty" doc:"Nobody heard how the last attempt ended; the node looks what is there."`
	CurrentStep  string             `json:"current_step,omitempty" doc:"What its node says it is at."`
	StepStatus   string             `json:"current_step_status,omitempty"`
	StepPercent  *int32             `json:"current_step_percent,omitempty"`
	Error        *TroubleView       `json:"error,omitempty"`
	HandedOutAt  *time.Time         `json:"handed_out_at,omitempty"`
	FinishedAt   *time.Time         `json:"finished_at,omitempty"`
}

func showTarget(t Target) TargetView {
	return TargetView{
		TargetID: t.ID, NodeID: t.Node, Hostname: t.Hostname, AllocationID: optional(t.Allocation), Position: t.Position,
		Status: t.Status, Attempt: t.Attempt, StepIndex: t.StepIndex, Changed: t.Changed, Probing: t.Probing,
		CurrentStep: t.At.Step, StepStatus: t.At.Status, StepPercent: t.At.Percent, Error: t.Error.view(),
		HandedOutAt: t.HandedOut, FinishedAt: t.FinishedAt,
	}
}

// StepView is what became of one step on one target in one attempt.
type StepView struct {
	TargetID        id.OperationTarget `json:"target_id"`
	NodeID          id.Node            `json:"node_id"`
	Hostname        string             `json:"hostname"`
	AttemptNumber   int32              `json:"attempt_number"`
	StepIndex       int32              `json:"step_index"`
	StepID          string             `json:"step_id"`
	StepKind        string             `json:"step_kind"`
	Status          string             `json:"status" enum:"succeeded,failed,canceled,not_reached,planned"`
	Changed         bool               `json:"changed"`
	Summary         string             `json:"summary,omitempty"`
	Output          any                `json:"output,omitempty" doc:"Typed by the kind of step."`
	Error           *TroubleView       `json:"error,omitempty"`
	Tries           int32              `json:"tries" doc:"How often the node tried it in this attempt."`
	ResolvedProfile string             `json:"resolved_profile,omitempty"`
	HardwareMatch   string             `json:"hardware_match,omitempty"`
	LogLines        int64              `json:"log_lines"`
	LogBytesDropped int64              `json:"log_bytes_dropped"`
	StartedAt       *time.Time         `json:"started_at,omitempty"`
	FinishedAt      *time.Time         `json:"finished_at,omitempty"`
	DurationMs      int64              `json:"duration_ms"`
	position        int32
}

func showStep(s Step) StepView {
	v := StepView{
		TargetID: s.Target, NodeID: s.Node, Hostname: s.Hostname, AttemptNumber: s.Attempt, StepIndex: s.Index, StepID: s.ID,
		StepKind: s.Kind, Status: s.Status, Changed: s.Changed, Summary: s.Summary, Error: s.Error.view(), Tries: s.Tries,
		ResolvedProfile: s.ResolvedProfile, HardwareMatch: s.HardwareMatch, LogLines: s.LogLines,
		LogBytesDropped: s.LogBytesDropped, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		DurationMs: s.Duration.Milliseconds(), position: s.Position,
	}
	if len(s.Output) > 0 {
		_ = json.Unmarshal(s.Output, &v.Output) // it came out of a column of JSON
	}
	return v
}

// PlanView is what a request would do.
type PlanView struct {
	OperationType  string              `json:"operation_type"`
	Version        string              `json:"version"`
	Digest         string              `json:"digest"`
	Title          string              `json:"title"`
	Risk           string              `json:"risk"`
	RiskText       string              `json:"risk_text,omitempty"`
	Impact         string              `json:"impact" enum:"none,read,mutate,disrupt"`
	Says           []string            `json:"says" nullable:"false" doc:"The plan in sentences."`
	Steps          []PlannedStepView   `json:"steps" nullable:"false"`
	Targets        []PlannedTargetView `json:"targets" nullable:"false"`
	Fitting        int                 `json:"fitting" doc:"On how many of the targets work would be done."`
	MaxConcurrency int32               `json:"max_concurrency"`
	MaxFailures    int32               `json:"max_failures"`
	Ramp           bool                `json:"ramp"`
	TimeoutSeconds int64               `json:"timeout_seconds"`
	Approval       string              `json:"approval" doc:"The role that must approve, or none."`
	Policy         []PolicyView        `json:"policy" nullable:"false"`
	PolicyDecision *VerdictView        `json:"policy_decision,omitempty" doc:"What the policy document of the platform decided; absent: none decides."`
	PlanHash       string              `json:"plan_hash" doc:"Name it in the request: it is refused if the plan has changed since. Empty: nothing would be done on any node."`
}

// PlannedStepView is a step of a plan.
type PlannedStepView struct {
	StepID         string `json:"step_id"`
	StepKind       string `json:"step_kind"`
	Title          string `json:"title,omitempty"`
	Impact         string `json:"impact" enum:"none,read,mutate,disrupt"`
	TimeoutSeconds int    `json:"timeout_seconds"`
}

// PlannedTargetView is a node that a request means.
type PlannedTargetView struct {
	NodeID       id.Node        `json:"node_id"`
	Hostname     string         `json:"hostname"`
	AllocationID *id.Allocation `json:"allocation_id,omitempty"`
	Fits         bool           `json:"fits"`
	Troubles     []TroubleView  `json:"troubles" nullable:"false" doc:"Why nothing would be done there."`
}

func (s *Service) planned(ctx context.Context, ask Ask) (*httpapi.Plain[PlanView], error) {
	p, err := s.Plan(ctx, ask)
	if err != nil {
		return nil, err
	}
	v := PlanView{
		OperationType: p.Version.Type, Version: p.Version.Version, Digest: p.Version.Digest, Title: p.Version.Title,
		Risk: string(p.Version.Risk), RiskText: p.Version.RiskText, Impact: string(impact(p.Version.Definition)),
		Says: p.Says(), Fitting: p.fitting(), MaxConcurrency: p.Limits.MaxConcurrency, MaxFailures: p.Limits.MaxFailures,
		Ramp: p.Limits.Ramp, TimeoutSeconds: int64(p.Limits.Timeout / time.Second), Approval: p.Version.Approval,
		Policy: policies(p.Policy.Why), PlanHash: p.Hash, Steps: []PlannedStepView{}, Targets: []PlannedTargetView{},
	}
	if p.Verdict.Document != "" {
		v.PolicyDecision = &verdicts([]policy.Verdict{p.Verdict})[0]
	}
	for _, one := range p.Version.Steps {
		v.Steps = append(v.Steps, PlannedStepView{
			StepID: one.ID, StepKind: one.Kind, Title: one.Title, Impact: string(impactOf(one.Kind)),
			TimeoutSeconds: one.TimeoutSeconds,
		})
	}
	for _, t := range p.Targets {
		one := PlannedTargetView{
			NodeID: t.Node, Hostname: t.Hostname, AllocationID: optional(t.Allocation), Fits: t.fits(),
			Troubles: []TroubleView{},
		}
		for _, why := range t.Troubles {
			one.Troubles = append(one.Troubles, *why.view())
		}
		v.Targets = append(v.Targets, one)
	}
	return &httpapi.Plain[PlanView]{Body: v}, nil
}
