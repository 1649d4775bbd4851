package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
)

func from(r operationdb.Operation) (Operation, error) {
	o := Operation{
		ID: r.ID, Owner: Owner{Org: r.OrgID, Project: r.ProjectID}, ResourceName: r.ResourceName,
		Ref: definition.Ref{Type: r.OperationType, Version: r.Version}, Digest: r.Digest, OnlyPlan: r.OnlyPlan,
		Status: Status(r.Status), Inputs: r.Inputs, TargetKind: r.TargetKind, Selector: r.TargetSelector,
		PlanHash: r.PlanHash, TotalSteps: r.TotalSteps,
		Limits: FixedLimits{
			MaxConcurrency: r.MaxConcurrency, MaxFailures: r.MaxFailures, Ramp: r.Ramp,
			Timeout: time.Duration(r.TimeoutSeconds) * time.Second,
		},
		Trigger: Trigger(r.TriggerSource), Allocation: r.LinkedAllocationID, Node: r.LinkedNodeID, AgainOf: r.AgainOf,
		By: r.RequestedBy, ByName: r.RequestedByName, Reason: r.Reason, Correlation: r.CorrelationID, TraceID: r.TraceID,
		TraceParent: r.TraceParent, Resumes: r.Resumes, ResumedBy: r.ResumedBy, Forgiven: r.Forgiven,
		Pause:  Pause{At: r.PausedAt, By: r.PausedBy, Reason: r.PauseReason},
		Cancel: Stop{At: r.CancelRequestedAt, By: r.CancelRequestedBy, Reason: r.CancelReason},
		Approval: Approval{
			Role: auth.Role(r.ApprovalRole), ExpiresAt: r.ApprovalExpiresAt, At: r.ApprovedAt, By: r.ApprovedBy,
			ByName: r.ApprovedByName,
		},
		ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage, CreatedAt: r.CreatedAt, StartedAt: r.StartedAt,
		FinishedAt: r.FinishedAt, UpdatedAt: r.UpdatedAt, Version: r.RowVersion,
	}
	if err := errors.Join(json.Unmarshal(r.Policy, &o.Policy),
		json.Unmarshal(r.PolicyDecisions, &o.Decisions)); err != nil {
		return o, fmt.Errorf("decode policy of operation %s: %w", r.ID, err)
	}
	return o, nil
}

func found(r operationdb.Operation, err error, of id.Operation) (Operation, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, notFound(of)
	}
	if err != nil {
		return Operation{}, fmt.Errorf("read operation %s: %w", of, err)
	}
	return from(r)
}

// Get reads a run through a pool or a transaction, with the states of its targets.
func Get(ctx context.Context, db operationdb.DBTX, of id.Operation) (Operation, error) {
	row, err := operationdb.New(db).Get(ctx, of)
	o, err := found(row, err, of)
	if err != nil {
		return o, err
	}
	all, err := counted(ctx, db, []Operation{o})
	if err != nil {
		return o, err
	}
	return all[0], nil
}

// OwnerOfTask is whose run a task of a node belongs to.
func (s *Service) OwnerOfTask(ctx context.Context, t agenttask.Task) (Owner, error) {
	var p agentwire.OperationRunParams
	if err := json.Unmarshal(t.Params, &p); err != nil {
		return Owner{}, fmt.Errorf("read parameters of task %s: %w", t.ID, err)
	}
	of, err := id.Parse[id.Operation](p.OperationID)
	if err != nil {
		return Owner{}, fmt.Errorf("read parameters of task %s: %w", t.ID, err)
	}
	o, err := Get(ctx, s.db, of)
	return o.Owner, err
}

func lock(ctx context.Context, tx pgx.Tx, of id.Operation) (Operation, error) {
	row, err := operationdb.New(tx).Lock(ctx, of)
	return found(row, err, of)
}

// counted adds how many targets are in which state.
func counted(ctx context.Context, db operationdb.DBTX, all []Operation) ([]Operation, error) {
	ids := make([]string, len(all))
	at := map[id.Operation]int{}
	for i, o := range all {
		ids[i], at[o.ID] = o.ID.String(), i
		all[i].Counts = map[TargetStatus]int32{}
	}
	rows, err := operationdb.New(db).Counts(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("count targets of operations: %w", err)
	}
	for _, r := range rows {
		all[at[r.OperationID]].Counts[TargetStatus(r.Status)] = r.Targets
	}
	return all, nil
}

// Selection chooses runs; zero fields choose all.
type Selection struct {
	Project  id.Project
	Node     id.Node
	Type     string
	Statuses []Status
}

// List gives runs, newest first.
func (s *Service) List(ctx context.Context, of Selection, page postgres.Slice[id.Operation]) ([]Operation, error) {
	statuses := make([]string, len(of.Statuses))
	for i, status := range of.Statuses {
		statuses[i] = string(status)
	}
	p := operationdb.ListParams{
		Project: textOf(of.Project), Node: textOf(of.Node), Statuses: statuses, Before: textOf(page.After),
		PageSize: page.Limit,
	}
	if of.Type != "" {
		p.Type = &of.Type
	}
	rows, err := operationdb.New(s.db).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list operations: %w", err)
	}
	out := make([]Operation, len(rows))
	for i, r := range rows {
		if out[i], err = from(r); err != nil {
			return nil, err
		}
	}
	return counted(ctx, s.db, out)
}

func targetFrom(r operationdb.OperationTarget) Target {
	return Target{
		ID: r.ID, Operation: r.OperationID, Position: r.Position, Node: r.NodeID, Hostname: r.Hostname,
		Allocation: r.AllocationID, Status: TargetStatus(r.Status), Attempt: r.Attempt, StepIndex: r.StepIndex,
		Task:    r.TaskID,
		Probing: r.Probing, Looks: r.Looks, Changed: r.Changed,
		Error:     Trouble{Code: r.ErrorCode, Class: r.ErrorClass, Message: r.ErrorMessage, Remedy: r.ErrorRemedy},
		HandedOut: r.HandedOutAt, FinishedAt: r.FinishedAt,
	}
}

func targetsFrom(rows []operationdb.OperationTarget, err error) ([]Target, error) {
	if err != nil {
		return nil, fmt.Errorf("read targets: %w", err)
	}
	out := make([]Target, len(rows))
	for i, r := range rows {
		out[i] = targetFrom(r)
	}
	return out, nil
}

// Targets gives the targets of a run in their order, with the step they are at.
func (s *Service) Targets(ctx context.Context, of id.Operation, statuses []TargetStatus, page postgres.Slice[int32]) (
	[]Target, error,
) {
	words := make([]string, len(statuses))
	for i, status := range statuses {
		words[i] = string(status)
	}
	rows, err := operationdb.New(s.db).Targets(ctx, operationdb.TargetsParams{
		OperationID: of, After: page.After, Statuses: words, PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list targets of operation %s: %w", of, err)
	}
	out := make([]Target, len(rows))
	for i, r := range rows {
		out[i] = targetFrom(r.OperationTarget)
		out[i].At = AtStep{Step: r.AtStep, Status: r.AtStatus, Percent: r.AtPercent}
	}
	return out, nil
}

// StepPosition is where a listing of steps goes on.
type StepPosition struct {
	Position int32 `json:"p"`
	Attempt  int32 `json:"a"`
	Step     int32 `json:"s"`
}

// Steps gives what became of the steps of a run: by target, attempt and step. With a
// status it gives those that stand so by their newest attempt.
func (s *Service) Steps(ctx context.Context, of id.Operation, target id.OperationTarget, status string,
	after StepPosition, most int32,
) ([]Step, error) {
	rows, err := operationdb.New(s.db).Steps(ctx, operationdb.StepsParams{
		OperationID: of, Target: textOf(target), Status: status, AfterPosition: after.Position, AfterAttempt: after.Attempt,
		AfterStep: after.Step, PageSize: most,
	})
	if err != nil {
		return nil, fmt.Errorf("list steps of operation %s: %w", of, err)
	}
	out := make([]Step, len(rows))
	for i, r := range rows {
		out[i] = Step{
			Target: r.TargetID, Node: r.NodeID, Hostname: r.Hostname, Position: r.Position, Attempt: r.AttemptNumber,
			Index: r.StepIndex, ID: r.StepID, Kind: r.StepKind, Status: r.Status, Changed: r.Changed, Summary: r.Summary,
			Output: r.Output, Tries: r.Tries, ResolvedProfile: r.ResolvedProfile, HardwareMatch: r.HardwareMatch,
			Error:    Trouble{Code: r.ErrorCode, Class: r.ErrorClass, Message: r.ErrorMessage, Remedy: r.ErrorRemedy},
			LogLines: r.LogLines, LogBytesDropped: r.LogBytesDropped, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
			Duration: time.Duration(r.DurationMs) * time.Millisecond,
		}
	}
	return out, nil
}

// ArtifactPosition is where a listing of artifacts goes on.
type ArtifactPosition struct {
	Position int32 `json:"p"`
	Attempt  int32 `json:"a"`
	Step     int32 `json:"s"`
	Seq      int32 `json:"n"`
}

// Artifacts gives what the steps of a run left on nodes or found there: by target,
// attempt and step. An empty kind is any.
func (s *Service) Artifacts(ctx context.Context, of id.Operation, target id.OperationTarget, kind string,
	after ArtifactPosition, most int32,
) ([]Artifact, error) {
	rows, err := operationdb.New(s.db).Artifacts(ctx, operationdb.ArtifactsParams{
		OperationID: of, Target: textOf(target), Kind: kind, AfterPosition: after.Position, AfterAttempt: after.Attempt,
		AfterStep: after.Step, AfterSeq: after.Seq, PageSize: most,
	})
	if err != nil {
		return nil, fmt.Errorf("list artifacts of operation %s: %w", of, err)
	}
	out := make([]Artifact, len(rows))
	for i, r := range rows {
		out[i] = Artifact{
			Target: r.TargetID, Node: r.NodeID, Hostname: r.Hostname, Position: r.Position, Attempt: r.AttemptNumber,
			Index: r.StepIndex, Seq: r.Seq, Step: r.StepID, Kind: r.Kind, Role: r.Role, Name: r.Name, Digest: r.Digest,
			Before: r.Before, After: r.After, Bytes: r.Bytes,
		}
	}
	return out, nil
}

// places reads the nodes that a selector means. A zero project is the platform.
func places(ctx context.Context, db operationdb.DBTX, project id.Project, of Selector, most int32) ([]place, error) {
	where := Where{}
	if of.Where != nil {
		where = *of.Where
	}
	labels, err := json.Marshal(where.Labels)
	if err != nil {
		return nil, fmt.Errorf("encode labels: %w", err)
	}
	if where.Labels == nil {
		labels = []byte("{}")
	}
	rows, err := operationdb.New(db).Places(ctx, operationdb.PlacesParams{
		Project: textOf(project), Named: of.named(), Nodes: texts(of.Nodes), Allocations: texts(of.Allocations),
		Groups: texts(of.Groups), Region: where.Region, Rack: where.Rack, Pool: where.Pool, Sku: where.SKU, Labels: labels,
		Most: most,
	})
	if err != nil {
		return nil, fmt.Errorf("look which nodes are meant: %w", err)
	}
	out := make([]place, len(rows))
	for i, r := range rows {
		out[i] = place{
			Node: r.NodeID, Hostname: r.Hostname, Status: node.Status(r.Status), Schedulable: r.Schedulable,
			HoldReason: r.HoldReason, HeldBy: r.HeldBy, Allocation: r.AllocationID, Project: r.ProjectID, Group: r.GroupID,
			TenantBy: r.TenantBy, InUse: r.InUse, TenantRoot: r.TenantRoot, UserAccessOnly: r.UserAccessOnly,
		}
		if err := errors.Join(json.Unmarshal(r.Capabilities, &out[i].Facts),
			json.Unmarshal(r.StepKinds, &out[i].StepKinds)); err != nil {
			return nil, fmt.Errorf("decode what node %s can do: %w", r.NodeID, err)
		}
	}
	return out, nil
}

func texts[noun any](of []id.Of[noun]) []string {
	out := make([]string, len(of))
	for i, one := range of {
		out[i] = one.String()
	}
	return out
}

func textOf[noun any](of id.Of[noun]) *string {
	if of.IsZero() {
		return nil
	}
	text := of.String()
	return &text
}
