package job

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// The statuses of the lifecycle Parking.
const (
	Pending                  Status = "pending"
	Running                  Status = "running"
	Completed                Status = "completed"
	FailedRetryable          Status = "failed_retryable"
	FailedManualIntervention Status = "failed_manual_intervention"
	Cancelled                Status = "cancelled"
	Compensating             Status = "compensating"
	Reconciled               Status = "reconciled"
)

// Its actions.
const (
	RetryStage    Trigger = "retry_stage"
	Resume        Trigger = "resume"
	Rerun         Trigger = "rerun"
	RestartClean  Trigger = "restart_clean"
	Cancel        Trigger = "cancel"
	AdoptObserved Trigger = "adopt_observed_state"
	MarkManual    Trigger = "mark_manual_intervention_required"
)

// Parking is the lifecycle of onboardings and decommissions. A job that failed
// is parked: it waits for an operator, or for proof that its goal was reached.
// Families whose jobs end otherwise bring a lifecycle of their own.
var Parking = Lifecycle{
	Table: lifecycle.Table[Status, Trigger]{
		Noun: "job", Title: "Job lifecycle (onboarding, decommission)", Initial: []Status{Pending},
		States: []lifecycle.State[Status]{
			{
				Name: Pending, Meaning: "accepted, its workflow has not started", Tone: lifecycle.Idle,
				StuckAfter: 5 * time.Minute,
			},
			{Name: Running, Meaning: "its workflow is carrying out stages", Tone: lifecycle.Info},
			{Name: Completed, Meaning: "reached its goal", Tone: lifecycle.OK, Terminal: true},
			{Name: FailedRetryable, Meaning: "parked: a safe way to go on exists", Tone: lifecycle.Warn, StuckAfter: time.Hour},
			{
				Name: FailedManualIntervention, Meaning: "parked: an operator must decide", Tone: lifecycle.Bad,
				StuckAfter: time.Hour,
			},
			{
				Name: Cancelled, Meaning: "stopped on request, effects undone where possible", Tone: lifecycle.Idle,
				Terminal: true,
			},
			{Name: Compensating, Meaning: "undoing its effects", Tone: lifecycle.Info, StuckAfter: time.Hour},
			{
				Name: Reconciled, Meaning: "was parked, and an adoption or the observed state led it to its goal",
				Tone: lifecycle.OK, Terminal: true,
			},
		},
		Edges: parkingEdges(),
	},
	Phases: map[Status]Phase{
		Pending: Waiting, Running: Working, Compensating: Undoing, FailedRetryable: Parked, FailedManualIntervention: Parked,
	},
	Actions: []Action{
		{Name: RetryStage, Word: "retry", Effect: RunsStageAgain},
		{Name: Resume, Effect: GoesOnSafely},
		{Name: Rerun, Effect: BeginsAgain},
		{Name: RestartClean, Word: "restart-clean", Effect: UndoesAndBegins},
		{Name: AdoptObserved, Word: "adopt", Effect: AdoptsObserved},
		{Name: Cancel, Effect: UndoesAndEnds},
		{Name: MarkManual, Word: "mark-manual-intervention", Effect: Stops},
	},
}

func parkingEdges() []lifecycle.Edge[Status, Trigger] {
	const workflow, operator, reconciler = "workflow", "operator", "reconciliation"
	edges := []lifecycle.Edge[Status, Trigger]{
		{From: Pending, Event: TriggerStart, To: Running, Owner: workflow},
		{From: Pending, Event: Cancel, To: Cancelled, Owner: operator},
		{From: Running, Event: TriggerComplete, To: Completed, Owner: workflow},
		{From: Running, Event: TriggerReconcile, To: Reconciled, Owner: "workflow, after an adoption"},
		{From: Running, Event: TriggerFail, To: FailedRetryable, Owner: workflow},
		{From: Running, Event: TriggerBlock, To: FailedManualIntervention, Owner: workflow},
		{From: Running, Event: MarkManual, To: FailedManualIntervention, Owner: operator},
		{From: Running, Event: Cancel, To: Compensating, Owner: operator},
		{From: Compensating, Event: Cancel, To: Compensating, Owner: "operator, of a clean restart"},
		{From: Compensating, Event: TriggerCompensated, To: Cancelled, Owner: workflow},
		{From: Compensating, Event: TriggerRestarted, To: Running, Owner: workflow},
		{From: Compensating, Event: TriggerCompensationBlocked, To: FailedManualIntervention, Owner: workflow},
		{From: FailedRetryable, Event: MarkManual, To: FailedManualIntervention, Owner: operator},
	}
	for _, parked := range []Status{FailedRetryable, FailedManualIntervention} {
		for _, action := range []Trigger{RetryStage, Resume, Rerun, AdoptObserved} {
			edges = append(edges, lifecycle.Edge[Status, Trigger]{From: parked, Event: action, To: Running, Owner: operator})
		}
		for _, action := range []Trigger{RestartClean, Cancel} {
			edges = append(edges, lifecycle.Edge[Status, Trigger]{
				From: parked, Event: action, To: Compensating,
				Owner: operator,
			})
		}
		edges = append(edges, lifecycle.Edge[Status, Trigger]{
			From: parked, Event: TriggerReconcile, To: Reconciled,
			Owner: reconciler,
		})
	}
	return edges
}
