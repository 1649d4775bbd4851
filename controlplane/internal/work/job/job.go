package job

import (
	"encoding/json"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// Job holds what all jobs have in common. The rows of families embed it.
type Job struct {
	ID      string
	Site    id.Site // zero: it is about no site
	Node    id.Node // the id that its node has, or will have; zero: it is about none
	Subject string  // what it is about, for people: a host name, for instance
	Batch   string  // id of its batch, or empty if it belongs to none

	Status  Status
	Phase   Phase // of the status, by the lifecycle of the family
	Stage   string
	Attempt int
	Takes   int // of the attempt
	Epoch   int64
	Action  Trigger // that an operator asked for and the workflow has not finished
	Adopted bool

	FailureClass FailureClass
	ErrorCode    string
	ErrorMessage string
	ErrorRemedy  string
	ErrorDetails json.RawMessage

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
	// Common returns the part that all jobs have.
	Common() Job
}

// Common implements Row.
func (j Job) Common() Job { return j }

// HoldsPlace says whether the job counts against limits.
func (j Job) HoldsPlace() bool {
	return j.Phase == Working || j.Phase == Undoing || j.Phase == Waiting && j.AdmittedAt != nil
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

var eventStatuses = []EventStatus{
	StageStarted, StageSucceeded, StageFailed, StageSkipped, StageCompensated, OperatorAction, StageNote, Observation,
}

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
