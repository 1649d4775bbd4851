package onboarding

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/auth"
	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/node"
	"gpuaas/controlplane/internal/onboarding/internal/onboardingdb"
	"gpuaas/controlplane/internal/outbox"
)

// Act does what an operator decided: one transaction on the row, which is the
// judge of what is legal. Whatever runs for the onboarding is superseded by it;
// its workflow is told, and started if there is none. Doing the same again while
// it is being done changes nothing, but tells the workflow once more: one that
// was lost comes back.
func (s *Service) Act(ctx context.Context, job id.Onboarding, action durable.JobEvent, reason string) (Onboarding, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" {
		return Onboarding{}, fault.New(fault.Invalid, "reason_missing", "an action needs a reason, which goes into the audit log")
	}
	var after Onboarding
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r, err := onboardingdb.New(tx).Lock(ctx, job)
		before, err := found(r, err)
		if err != nil {
			return err
		}
		if after = before; before.doing(action) {
			if before.CompletedAt != nil {
				return nil
			}
			return tellWorkflow(ctx, tx, before)
		}
		after, err = s.act(ctx, tx, before, action, reason)
		return err
	})
	return after, err
}

// doing says whether an action was taken already and is what is being done.
func (o Onboarding) doing(action durable.JobEvent) bool {
	switch o.Status {
	case durable.JobCancelled:
		return action == durable.JobCancel
	case durable.JobFailedManualIntervention:
		return action == durable.JobMarkManual && o.Action == action
	case durable.JobRunning, durable.JobCompensating:
		return o.Action == action
	case durable.JobPending, durable.JobFailedRetryable, durable.JobCompleted, durable.JobReconciled:
	}
	return false
}

func (s *Service) act(ctx context.Context, tx pgx.Tx, before Onboarding, action durable.JobEvent, reason string) (Onboarding, error) {
	legal := false
	for _, a := range LegalActions(before) {
		legal = legal || a == action
	}
	if !legal {
		return before, notAllowed(before, action)
	}
	status, stage := TargetOf(before, action)
	p, err := s.change(ctx, tx, before, action, status, stage)
	if err != nil {
		return before, err
	}
	r, err := onboardingdb.New(tx).Act(ctx, p)
	after, err := found(r, err)
	if err != nil {
		return before, err
	}
	entry := map[string]any{
		"action": action, "prior_status": before.Status, "prior_stage": before.Stage, "target_status": status, "target_stage": stage,
		"epoch": after.Epoch, "workflow_run_id": before.WorkflowRunID,
	}
	if err := record(ctx, tx, "onboarding."+string(action), after, reason, entry); err != nil {
		return before, err
	}
	if err := s.tellAction(ctx, tx, after, stage, reason, entry); err != nil {
		return before, err
	}
	if !holdsPlace(after) && holdsPlace(before) {
		return after, s.handOn(ctx, tx, after.Site)
	}
	return after, nil
}

// change is what an action makes of the row.
func (s *Service) change(ctx context.Context, tx pgx.Tx, before Onboarding, action durable.JobEvent, status durable.JobStatus, stage string) (onboardingdb.ActParams, error) {
	now := s.now()
	p := onboardingdb.ActParams{
		ID: before.ID, Status: string(status), CurrentStage: before.Stage, Action: string(action), NodeID: before.Node,
		ErrorDetails: json.RawMessage("{}"),
	}
	facts := before.Facts
	switch {
	case action == durable.JobMarkManual:
		p.ParkedAt = &now
		p.FailureClass, p.ErrorCode = string(durable.StateAmbiguity), codeMarked
		p.ErrorMessage = "an operator stopped the automation"
		p.ErrorRemedy = "resume when the matter is settled"
		if before.parked() { // what went wrong stays known
			p.FailureClass, p.ErrorCode, p.ErrorMessage = string(before.FailureClass), before.ErrorCode, before.ErrorMessage
			p.ErrorRemedy, p.ErrorDetails = before.ErrorRemedy, before.ErrorDetails
		}
	case status == durable.JobCancelled:
		p.CompletedAt = &now
	case status == durable.JobRunning:
		if planned, ok := StageOf(stage); ok && !planned.Pseudo {
			p.CurrentStage = stage
		}
		fresh, err := freshNode(ctx, tx, before)
		if err != nil {
			return p, err
		}
		if fresh != before.Node {
			p.NodeID, facts.NodeCreated = fresh, false
		}
	}
	encodedFacts, err := encodeFacts(facts)
	p.Facts = encodedFacts
	return p, err
}

// freshNode is the id of the node of a job that goes on: a new one when the node
// that it had was taken out of the inventory, because ids are never used again.
func freshNode(ctx context.Context, tx pgx.Tx, o Onboarding) (id.Node, error) {
	n, err := node.Get(ctx, tx, o.Node)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return o.Node, nil
	case err != nil:
		return o.Node, err
	case n.Status == node.Deleted:
		return id.New[id.Node](), nil
	}
	return o.Node, nil
}

func encodeFacts(f bringup.Facts) (json.RawMessage, error) {
	out, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode facts: %w", err)
	}
	return out, nil
}

// holdsPlace says whether an onboarding counts against the limit of its site.
func holdsPlace(o Onboarding) bool {
	return o.Status == durable.JobRunning || o.Status == durable.JobCompensating || o.Status == durable.JobPending && o.AdmittedAt != nil
}

// tellAction writes an action into the ledger, and tells readers of events and
// the workflow of it.
func (s *Service) tellAction(ctx context.Context, tx pgx.Tx, o Onboarding, stage, reason string, entry map[string]any) error {
	who := auth.From(ctx)
	entry["actor"], entry["actor_role"] = who.ID, string(who.RoleOn(auth.Target{}))
	details, err := encoded(entry)
	if err != nil {
		return err
	}
	err = onboardingdb.New(tx).InsertEvent(ctx, onboardingdb.InsertEventParams{
		OnboardingID: o.ID, Epoch: o.Epoch, Stage: stage, Status: string(OperatorAction), Message: reason, Details: details, OccurredAt: s.now(),
	})
	if err != nil {
		return fmt.Errorf("write action into ledger: %w", err)
	}
	kind := eventwire.NodeOnboardingStage
	if o.CompletedAt != nil {
		kind = eventwire.NodeOnboardingCancelled
	} else if o.parked() {
		kind = eventwire.NodeOnboardingManual
	}
	if err := announce(ctx, tx, kind, o, Event{Stage: stage, Status: OperatorAction, Message: reason}); err != nil {
		return err
	}
	return tellWorkflow(ctx, tx, o)
}

// tellWorkflow makes the workflow of an onboarding look at its row; if there is
// none, and the onboarding has not ended, it is started.
func tellWorkflow(ctx context.Context, tx pgx.Tx, o Onboarding) error {
	signal := outbox.WorkflowSignal{WorkflowID: o.WorkflowID, Name: durable.ActSignal}
	if o.CompletedAt == nil {
		start := startOf(o)
		signal.Start = &start
	}
	return outbox.SignalWorkflow(ctx, tx, signal)
}

// announce tells readers of events what became of an onboarding.
func announce(ctx context.Context, tx pgx.Tx, kind eventwire.Type, o Onboarding, e Event) error {
	return outbox.Append(ctx, tx, happening(kind, o, e))
}

func happening(kind eventwire.Type, o Onboarding, e Event) outbox.Event {
	payload := eventwire.Onboarding{
		OnboardingID: o.ID.String(), SiteID: o.Site.String(), NodeID: o.Node.String(), Hostname: o.Hostname, Status: string(o.Status),
		Stage: e.Stage, Attempt: e.Attempt, StageStatus: string(e.Status), FailureClass: string(o.FailureClass), ErrorCode: o.ErrorCode,
		Message: e.Message, RecommendedAction: recommended(o),
	}
	if !o.Batch.IsZero() {
		payload.BatchID = o.Batch.String()
	}
	return outbox.Event{Type: kind, AggregateKind: "onboarding", AggregateID: o.ID.String(), Payload: payload}
}
