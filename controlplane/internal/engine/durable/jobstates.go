package durable

import (
	"time"

	"gpuaas/controlplane/internal/base/lifecycle"
)

// JobStatus is the state of a long-running job such as an onboarding or a
// decommission. Stages are not states: they are the ledger inside a job.
type JobStatus string

// The statuses of a job.
const (
	JobPending                  JobStatus = "pending"
	JobRunning                  JobStatus = "running"
	JobCompleted                JobStatus = "completed"
	JobFailedRetryable          JobStatus = "failed_retryable"
	JobFailedManualIntervention JobStatus = "failed_manual_intervention"
	JobCancelled                JobStatus = "cancelled"
	JobCompensating             JobStatus = "compensating"
	JobReconciled               JobStatus = "reconciled"
)

// JobEvent is what moves a job. The operator's actions carry their own names.
type JobEvent string

// The events of a job.
const (
	JobStart               JobEvent = "start"
	JobComplete            JobEvent = "complete"
	JobFail                JobEvent = "fail"
	JobBlock               JobEvent = "block"
	JobCompensated         JobEvent = "compensated"
	JobRestarted           JobEvent = "restarted"
	JobCompensationBlocked JobEvent = "compensation_blocked"
	JobReconcile           JobEvent = "reconcile"
	JobRetryStage          JobEvent = "retry_stage"
	JobResume              JobEvent = "resume"
	JobRerun               JobEvent = "rerun"
	JobRestartClean        JobEvent = "restart_clean"
	JobCancel              JobEvent = "cancel"
	JobAdoptObserved       JobEvent = "adopt_observed_state"
	JobMarkManual          JobEvent = "mark_manual_intervention_required"
)

// JobLifecycle is the lifecycle that all jobs share. A job that failed is
// parked: it waits for an operator, or for proof that its goal was reached.
var JobLifecycle = lifecycle.Table[JobStatus, JobEvent]{
	Noun: "job", Title: "Job lifecycle (onboarding, decommission)", Initial: []JobStatus{JobPending},
	States: []lifecycle.State[JobStatus]{
		{Name: JobPending, Meaning: "accepted, its workflow has not started", StuckAfter: 5 * time.Minute},
		{Name: JobRunning, Meaning: "its workflow is carrying out stages"},
		{Name: JobCompleted, Meaning: "reached its goal", Terminal: true},
		{Name: JobFailedRetryable, Meaning: "parked: a safe way to go on exists", StuckAfter: time.Hour},
		{Name: JobFailedManualIntervention, Meaning: "parked: an operator must decide", StuckAfter: time.Hour},
		{Name: JobCancelled, Meaning: "stopped on request, effects undone where possible", Terminal: true},
		{Name: JobCompensating, Meaning: "undoing its effects", StuckAfter: time.Hour},
		{
			Name: JobReconciled, Meaning: "was parked, and an adoption or the observed state led it to its goal",
			Terminal: true,
		},
	},
	Edges: jobEdges(),
}

func jobEdges() []lifecycle.Edge[JobStatus, JobEvent] {
	const workflow, operator, reconciler = "workflow", "operator", "reconciliation"
	edges := []lifecycle.Edge[JobStatus, JobEvent]{
		{From: JobPending, Event: JobStart, To: JobRunning, Owner: workflow},
		{From: JobPending, Event: JobCancel, To: JobCancelled, Owner: operator},
		{From: JobRunning, Event: JobComplete, To: JobCompleted, Owner: workflow},
		{From: JobRunning, Event: JobReconcile, To: JobReconciled, Owner: "workflow, after an adoption"},
		{From: JobRunning, Event: JobFail, To: JobFailedRetryable, Owner: workflow},
		{From: JobRunning, Event: JobBlock, To: JobFailedManualIntervention, Owner: workflow},
		{From: JobRunning, Event: JobMarkManual, To: JobFailedManualIntervention, Owner: operator},
		{From: JobRunning, Event: JobCancel, To: JobCompensating, Owner: operator},
		{From: JobCompensating, Event: JobCancel, To: JobCompensating, Owner: "operator, of a clean restart"},
		{From: JobCompensating, Event: JobCompensated, To: JobCancelled, Owner: workflow},
		{From: JobCompensating, Event: JobRestarted, To: JobRunning, Owner: workflow},
		{From: JobCompensating, Event: JobCompensationBlocked, To: JobFailedManualIntervention, Owner: workflow},
		{From: JobFailedRetryable, Event: JobMarkManual, To: JobFailedManualIntervention, Owner: operator},
	}
	for _, parked := range []JobStatus{JobFailedRetryable, JobFailedManualIntervention} {
		for _, action := range []JobEvent{JobRetryStage, JobResume, JobRerun, JobAdoptObserved} {
			edges = append(edges, lifecycle.Edge[JobStatus, JobEvent]{
				From: parked, Event: action, To: JobRunning,
				Owner: operator,
			})
		}
		for _, action := range []JobEvent{JobRestartClean, JobCancel} {
			edges = append(edges, lifecycle.Edge[JobStatus, JobEvent]{
				From: parked, Event: action, To: JobCompensating,
				Owner: operator,
			})
		}
		edges = append(edges, lifecycle.Edge[JobStatus, JobEvent]{
			From: parked, Event: JobReconcile, To: JobReconciled,
			Owner: reconciler,
		})
	}
	return edges
}
