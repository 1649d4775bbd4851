package job

import (
	"encoding/json"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
)

// Job is what the row of every job has. Families embed it.
type Job struct {
	ID       string
	Site     id.Site // zero: nothing of MAAS is concerned
	Profile  id.Profile
	Hostname string
	IPMIIP   string
	PXEMAC   string
	SystemID string
	Node     id.Node // the id that the node has, or will have

	Status  durable.JobStatus
	Stage   string
	Attempt int
	Takes   int // of the attempt
	Epoch   int64
	Action  durable.JobEvent // that an operator asked for and the workflow has not finished
	Adopted bool

	FailureClass durable.FailureClass
	ErrorCode    string
	ErrorMessage string
	ErrorRemedy  string
	ErrorDetails json.RawMessage

	Facts         bringup.Facts
	Observed      bringup.Observed
	ObservedSince *time.Time

	WorkflowID, WorkflowRunID  string
	RequestedBy, CorrelationID string

	RequestedAt    time.Time
	AdmittedAt     *time.Time
	StartedAt      *time.Time
	StageStartedAt *time.Time
	ParkedAt       *time.Time
	CompletedAt    *time.Time
	UpdatedAt      time.Time
}

// Row is the row of a job of some family.
type Row interface {
	// Common is what it has in common with all others.
	Common() Job
}

// Common implements Row.
func (j Job) Common() Job { return j }

// Parked says whether the job waits for an operator.
func (j Job) Parked() bool { return Parked(j.Status) }

// HalfUndone says whether undoing the job began and could not be finished. Only
// what undoes it, or looks at everything anew, makes sense then.
func (j Job) HalfUndone() bool {
	return j.Parked() && (j.Action == durable.JobCancel || j.Action == durable.JobRestartClean)
}

// Restarting says whether the job is being undone in order to start anew.
func (j Job) Restarting() bool {
	return j.Status == durable.JobCompensating && j.Action == durable.JobRestartClean
}

// HoldsPlace says whether the job counts against limits.
func (j Job) HoldsPlace() bool {
	return j.Status == durable.JobRunning || j.Status == durable.JobCompensating || j.Status == durable.JobPending && j.AdmittedAt != nil
}

// EventStatus says what an entry of the ledger is about.
type EventStatus string

// The kinds of entries. Action is something an operator did, Note something
// worth knowing about a stage that goes on, Observation what reconciliation saw.
const (
	StageStarted     EventStatus = "started"
	StageSucceeded   EventStatus = "succeeded"
	StageFailed      EventStatus = "failed"
	StageSkipped     EventStatus = "skipped"
	StageCompensated EventStatus = "compensated"
	OperatorAction   EventStatus = "action"
	StageNote        EventStatus = "note"
	Observation      EventStatus = "observed"
)

// Event is one entry of the ledger of a job.
type Event struct {
	Seq        int64
	Epoch      int64
	Stage      string
	Attempt    int
	Status     EventStatus
	Message    string
	Details    json.RawMessage
	OccurredAt time.Time
}
