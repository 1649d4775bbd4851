package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
	"gpuaas/controlplane/internal/operate/policy"
)

// Plan says what a request would do, and does nothing.
func (s *Service) Plan(ctx context.Context, ask Ask) (Plan, error) {
	var p Plan
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		p, err = s.plan(ctx, tx, &ask)
		return err
	})
	return p, err
}

// Submit records a request for a run, and gives the first nodes their work. This
// process sees to the rest if it does not take long, and a workflow does otherwise.
func (s *Service) Submit(ctx context.Context, ask Ask) (Operation, error) {
	var o Operation
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		p, err := s.plan(ctx, tx, &ask)
		if err != nil {
			return err
		}
		if p.fitting() == 0 {
			return nothingToDo(p)
		}
		if ask.PlanHash != "" && ask.PlanHash != p.Hash {
			return fault.New(fault.Conflict, "operation_plan_stale", "what the request would do has changed since it was planned").
				WithRemedy("look at the plan again: gpuaas operation run %s --dry-run", p.Version.Ref())
		}
		if o, err = s.insert(ctx, tx, ask, p); err != nil {
			return err
		}
		if err := s.ahead.Start(ctx, tx, outbox.WorkflowStart{
			Type: workflowType, ID: o.WorkflowID(), Queue: queue, Input: Input{ID: o.ID},
		}, func(ctx context.Context) (outbox.Rest, error) {
			turn, err := (&Activities{s}).DriveOperation(ctx, o.ID)
			return outbox.Rest{Done: turn.Done}, err
		}); err != nil {
			return err
		}
		if o.Approval.awaited() {
			return nil
		}
		// The first nodes get their work with the request: a workflow needs longer to
		// begin than an agent to answer.
		o, err = s.handOutFirst(ctx, tx, o, p.Version.Definition)
		return err
	})
	return o, err
}

// nothingToDo refuses a request that would do nothing on any node, and says why.
func nothingToDo(p Plan) error {
	fields := []fault.Field{}
	for _, t := range p.Targets[:min(len(p.Targets), 20)] {
		for _, why := range t.Troubles {
			fields = append(fields, fault.Field{Path: "targets." + t.Hostname, Message: why.Message})
		}
	}
	first := p.Targets[0].Troubles[0]
	if first.Code == codeRootless {
		return fault.New(fault.Forbidden, codeRootless, "%s cannot be run on %s: %s", p.Version.Ref(), p.Targets[0].Hostname,
			first.Message).WithFields(fields...).WithRemedy("%s", first.Remedy)
	}
	return fault.New(fault.Conflict, "operation_no_fitting_target", "%s cannot be run on any of %s: %s: %s",
		p.Version.Ref(), several(len(p.Targets), "node"), p.Targets[0].Hostname, first.Message).WithFields(fields...).
		WithRemedy("%s", first.Remedy)
}

// plan works out what a request would do. It also fills in the tenant of the project.
func (s *Service) plan(ctx context.Context, tx pgx.Tx, ask *Ask) (Plan, error) {
	var p Plan
	var err error
	if !ask.Owner.platform() && ask.Owner.Org.IsZero() {
		if ask.Owner.Org, err = operationdb.New(tx).OrgOf(ctx, ask.Owner.Project); err != nil {
			return p, fmt.Errorf("read project %s: %w", ask.Owner.Project, err)
		}
	}
	if p.Version, err = definition.ForRun(ctx, tx, ask.Ref); err != nil {
		return p, err
	}
	if p.Inputs, err = s.inputs(p.Version, ask.Inputs); err != nil {
		return p, err
	}
	p.Kind = ask.Targets.kind()
	if !slices.Contains(p.Version.Targets, p.Kind) {
		return p, fault.New(fault.Invalid, "operation_target_kind", "%s is not for targets of the kind %s", p.Version.Ref(),
			p.Kind).WithFields(fault.Field{Path: "body.targets", Message: fmt.Sprintf("allowed are %v", p.Version.Targets)})
	}
	found, err := s.meant(ctx, tx, *ask)
	if err != nil {
		return p, err
	}
	p.AsRoot = asRoot(ask.Owner, p.Version.Definition, ask.OnlyPlan)
	rules, err := rootRules(ctx, tx, ask.Owner, p.AsRoot)
	if err != nil {
		return p, err
	}
	for _, one := range found {
		t := one.looked(p.Version.Definition, p.Inputs, ask.Owner)
		if why := one.rootless(rules); p.AsRoot && why.Code != "" {
			t.Troubles = append(t.Troubles, why)
		}
		p.Targets = append(p.Targets, t)
	}
	if p.Policy, p.Verdict, err = s.allowed(ctx, tx, p, *ask); err != nil {
		return p, err
	}
	p.Limits, p.Narrowed = limited(ask.Limits, p.Version.Definition, p.Policy, p.fitting())
	if p.fitting() > 0 { // nobody can run what does nothing
		p.Hash, err = p.fingerprint(ask.Owner, ask.OnlyPlan)
	}
	return p, err
}

// allowed asks the policy, and refuses what it does not allow.
func (s *Service) allowed(ctx context.Context, tx pgx.Tx, p Plan, ask Ask) (policy.Effective, policy.Verdict, error) {
	e, err := policy.Get(ctx, tx, policy.Owner(ask.Owner), p.Version.Type)
	if err != nil {
		return e, policy.Verdict{}, err
	}
	r, err := s.policyRequest(ctx, tx, p.Version.Definition, p.Inputs, ask.Owner)
	if err != nil {
		return e, policy.Verdict{}, err
	}
	r.Caller, r.TargetKind, r.OnlyPlan = auth.From(ctx).ID, string(p.Kind), ask.OnlyPlan
	r.Targets, r.Concurrency = len(p.Targets), int(ask.Limits.concurrency(len(p.Targets)))
	v, err := policy.Check(ctx, tx, e, r, s.decider)
	return e, v, err
}

// meant finds the nodes that a request means. A name that means nothing, or nothing
// that the caller may use, refuses the whole request: nobody can tell the one from
// the other.
func (s *Service) meant(ctx context.Context, tx pgx.Tx, ask Ask) ([]place, error) {
	if !ask.Targets.named() && ask.Targets.Where == nil {
		return nil, rejected("body.targets", "must name nodes, allocations or groups, or say what the nodes are like")
	}
	found, err := places(ctx, tx, ask.Owner.Project, ask.Targets, mostTargets+1)
	if err != nil {
		return nil, err
	}
	if len(found) > mostTargets {
		return nil, rejected("body.targets", fmt.Sprintf("more than %d nodes are meant", mostTargets))
	}
	if err := unknown(ask, found); err != nil {
		return nil, err
	}
	if ask.Owner.platform() {
		return found, nil
	}
	return usable(ctx, ask, found)
}

// unknown refuses names that mean nothing.
func unknown(ask Ask, found []place) error {
	missing := func(kind, name string) error {
		remedy := "see what the project has: gpuaas allocation list"
		if ask.Owner.platform() {
			remedy = "see which there are: gpuaas node list"
		}
		return fault.New(fault.NotFound, "operation_target_not_found", "there is no %s %s that can be used here", kind, name).
			WithRemedy("%s", remedy)
	}
	for _, n := range ask.Targets.Nodes {
		if !slices.ContainsFunc(found, func(p place) bool { return p.Node == n }) {
			return missing("node", n.String())
		}
	}
	for _, a := range ask.Targets.Allocations {
		if !slices.ContainsFunc(found, func(p place) bool { return p.Allocation == a }) {
			return missing("allocation", a.String())
		}
	}
	for _, g := range ask.Targets.Groups {
		if !slices.ContainsFunc(found, func(p place) bool { return p.Group == g }) {
			return missing("group", g.String())
		}
	}
	if len(found) == 0 {
		return fault.New(fault.NotFound, "operation_target_not_found", "no node is as the request says").
			WithRemedy("say less of what the nodes are like, or name them")
	}
	return nil
}

// usable keeps the nodes that the caller may use: those of their own allocations, or
// all of the project with the permission for those of others. One that was named and
// is not among them refuses the request.
func usable(ctx context.Context, ask Ask, found []place) ([]place, error) {
	who := auth.From(ctx)
	if who.Decide(auth.AllocationManage, auth.Target{Org: ask.Owner.Org, Project: ask.Owner.Project}) == auth.Allowed {
		return found, nil
	}
	var own []place
	for _, p := range found {
		switch {
		case p.TenantBy == who.ID:
			own = append(own, p)
		case ask.Targets.named():
			return nil, fault.New(fault.Forbidden, "ownership_required", "the node %s belongs to somebody else of the project",
				p.Hostname).WithRemedy("ask whoever rented it, or an administrator of the project")
		}
	}
	if len(own) == 0 {
		return nil, fault.New(fault.NotFound, "operation_target_not_found", "you have no node that is as the request says").
			WithRemedy("see what you have: gpuaas allocation list")
	}
	return own, nil
}

func rejected(path, message string) error {
	return fault.New(fault.Invalid, "validation_failed", "the request cannot be right").
		WithFields(fault.Field{Path: path, Message: message})
}

// insert writes a run with its targets, and tells of it.
func (s *Service) insert(ctx context.Context, tx pgx.Tx, ask Ask, p Plan) (Operation, error) {
	row, err := newRow(ctx, ask, p)
	if err != nil {
		return Operation{}, err
	}
	q := operationdb.New(tx)
	made, err := q.Insert(ctx, row)
	o, err := found(made, err, row.ID)
	if err != nil {
		return o, err
	}
	targets, err := newTargets(p)
	if err != nil {
		return o, err
	}
	if err := q.InsertTargets(ctx, operationdb.InsertTargetsParams{OperationID: o.ID, Targets: targets}); err != nil {
		return o, fmt.Errorf("insert targets of operation %s: %w", o.ID, err)
	}
	if err := record(ctx, tx, "operation.submit", o, ask.Reason, map[string]any{
		"definition": o.Ref.String(), "digest": o.Digest, "targets": len(p.Targets), "fitting": p.fitting(),
		"only_plan": o.OnlyPlan, "plan_hash": o.PlanHash, "again_of": textOf(o.AgainOf),
	}); err != nil {
		return o, err
	}
	if err := publish(ctx, tx, eventwire.OperationRequested, o, ""); err != nil {
		return o, err
	}
	o.Counts = p.counts()
	return o, nil
}

func newRow(ctx context.Context, ask Ask, p Plan) (operationdb.InsertParams, error) {
	who := auth.From(ctx)
	row := operationdb.InsertParams{
		ID: id.New[id.Operation](), OrgID: ask.Owner.Org, ProjectID: ask.Owner.Project, OperationType: p.Version.Type,
		Version: p.Version.Version, Digest: p.Version.Digest, OnlyPlan: ask.OnlyPlan, Inputs: p.Inputs,
		TargetKind: string(p.Kind), PlanHash: p.Hash, TotalSteps: int32(len(p.Version.Steps)), //nolint:gosec // at most 64
		MaxConcurrency: p.Limits.MaxConcurrency, MaxFailures: p.Limits.MaxFailures, Ramp: p.Limits.Ramp,
		TimeoutSeconds: int32(p.Limits.Timeout / time.Second), TriggerSource: string(ask.Trigger), //nolint:gosec // a day at most
		AgainOf: ask.AgainOf, RequestedBy: who.ID, RequestedByName: who.Name, Reason: ask.Reason,
		CorrelationID: telemetry.Correlation(ctx), TraceParent: traceParent(ctx),
	}
	if row.CorrelationID == "" {
		row.CorrelationID = id.NewString()
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		row.TraceID = span.TraceID().String()
	}
	row.ResourceName = resourceName(ask.Owner, row.ID)
	if len(p.Targets) == 1 {
		row.LinkedNodeID, row.LinkedAllocationID = p.Targets[0].Node, p.Targets[0].Allocation
	}
	if p.Version.Approval != definition.NoApproval && !ask.OnlyPlan {
		end := time.Now().Add(approvalLasts)
		row.ApprovalRole, row.ApprovalExpiresAt = p.Version.Approval, &end
	}
	var err error
	if row.TargetSelector, err = json.Marshal(ask.Targets); err != nil {
		return row, fmt.Errorf("encode selector: %w", err)
	}
	if row.Policy, err = json.Marshal(p.Policy.Why); err != nil {
		return row, fmt.Errorf("encode policy: %w", err)
	}
	decisions := []policy.Verdict{}
	if p.Verdict.Document != "" {
		decisions = append(decisions, p.Verdict)
	}
	if row.PolicyDecisions, err = json.Marshal(decisions); err != nil {
		return row, fmt.Errorf("encode decisions: %w", err)
	}
	return row, nil
}

// counts are the states of the targets of a run that has just been written.
func (p Plan) counts() map[TargetStatus]int32 {
	counts := map[TargetStatus]int32{}
	for _, t := range p.Targets {
		if t.fits() {
			counts[TargetWaiting]++
		} else {
			counts[TargetSkipped]++
		}
	}
	return counts
}

func newTargets(p Plan) (json.RawMessage, error) {
	type row struct {
		ID           id.OperationTarget `json:"id"`
		Position     int                `json:"position"`
		Node         id.Node            `json:"node_id"`
		Hostname     string             `json:"hostname"`
		Allocation   *string            `json:"allocation_id"`
		Status       TargetStatus       `json:"status"`
		ErrorCode    string             `json:"error_code"`
		ErrorClass   string             `json:"error_class"`
		ErrorMessage string             `json:"error_message"`
		ErrorRemedy  string             `json:"error_remedy"`
	}
	rows := make([]row, len(p.Targets))
	for i, t := range p.Targets {
		rows[i] = row{
			ID: id.New[id.OperationTarget](), Position: i + 1, Node: t.Node, Hostname: t.Hostname,
			Allocation: textOf(t.Allocation), Status: TargetWaiting,
		}
		if !t.fits() {
			why := t.Troubles[0]
			rows[i].Status, rows[i].ErrorCode, rows[i].ErrorClass = TargetSkipped, why.Code, why.Class
			rows[i].ErrorMessage, rows[i].ErrorRemedy = why.Message, why.Remedy
		}
	}
	raw, err := json.Marshal(rows)
	if err != nil {
		return nil, fmt.Errorf("encode targets: %w", err)
	}
	return raw, nil
}

func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[eventwire.HeaderTraceParent]
}
