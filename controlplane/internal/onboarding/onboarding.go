package onboarding

import (
	"encoding/json"
	"time"

	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/id"
)

// Request is one machine that somebody wants onboarded.
type Request struct {
	Hostname, IPMIIP string
}

// NewOnboarding is what is asked for: one machine, or a batch of them.
type NewOnboarding struct {
	Site            id.Site
	Profile         id.Profile // zero: the site's default
	SKU             string
	InitializeDisks bool // DESTROYS the data of all disks but the root disk
	Machines        []Request
}

// Onboarding is one machine on its way to becoming a node.
type Onboarding struct {
	ID              id.Onboarding
	Batch           id.OnboardingBatch // zero: on its own
	Site            id.Site
	Profile         id.Profile
	SKU             string
	Hostname        string
	IPMIIP          string
	PXEMAC          string
	SystemID        string
	Node            id.Node // the id that the node has, or will have
	InitializeDisks bool

	Status  durable.JobStatus
	Stage   string
	Attempt int
	Epoch   int64
	takes   int              // of the attempt
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

// EventStatus says what an entry of the ledger is about.
type EventStatus string

// The kinds of entries. Action is something an operator did, Note something
// worth knowing about a stage that goes on.
const (
	StageStarted     EventStatus = "started"
	StageSucceeded   EventStatus = "succeeded"
	StageFailed      EventStatus = "failed"
	StageSkipped     EventStatus = "skipped"
	StageCompensated EventStatus = "compensated"
	OperatorAction   EventStatus = "action"
	StageNote        EventStatus = "note"
)

// Event is one entry of the ledger of an onboarding.
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

// Batch is onboardings that were asked for together.
type Batch struct {
	ID          id.OnboardingBatch
	Site        id.Site
	Profile     id.Profile
	SKU         string
	Total       int
	RequestedBy string
	RequestedAt time.Time
	PausedAt    *time.Time
	CancelledAt *time.Time
	Counts      map[durable.JobStatus]int
}

// BatchState says how a batch is getting on; it follows from its onboardings.
type BatchState string

// The states of a batch. Settled: each onboarding has ended or is parked.
const (
	BatchRunning   BatchState = "running"
	BatchPaused    BatchState = "paused"
	BatchCancelled BatchState = "cancelled"
	BatchSettled   BatchState = "settled"
)

// Filter narrows a listing; a zero field does not narrow. A status of
// AnyFailed means both failed ones.
type Filter struct {
	Batch          id.OnboardingBatch
	Site           id.Site
	Statuses       []durable.JobStatus
	HostnamePrefix string
}
