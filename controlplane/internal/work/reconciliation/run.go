package reconciliation

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// Trigger is why a run happens.
type Trigger string

// The triggers.
const (
	BySchedule   Trigger = "schedule"
	ByOperator   Trigger = "operator"
	BySuspicion  Trigger = "suspicion"  // an agent fell silent, or reports another machine
	ByResolution Trigger = "resolution" // an operator settles a drift, which needs a look
)

var triggers = []Trigger{BySchedule, ByOperator, BySuspicion, ByResolution}

// Outcome is how a run ended.
type Outcome string

// The outcomes. A run is Informed only if MAAS answered every question.
const (
	Informed Outcome = "informed"       // MAAS answered every question
	Partly   Outcome = "partly"         // MAAS answered some; the rest is no information
	Unheard  Outcome = "no_information" // MAAS answered nothing of use; nothing was changed
	Tripped  Outcome = "breaker_open"   // too many nodes would have been quarantined; nothing was touched
	Refused  Outcome = "refused"        // the resolution was not possible; the error says why
	Skipped  Outcome = "skipped"        // the site is disabled or gone
)

var outcomes = []Outcome{Informed, Partly, Unheard, Tripped, Refused, Skipped}

// Run is one look at a site.
type Run struct {
	ID            id.ReconciliationRun
	Site          id.Site
	Trigger       Trigger
	Full          bool
	DryRun        bool
	Node          id.Node    // the node of a resolution
	Resolution    Resolution // set for a resolution only
	Reason        string
	RequestedBy   string
	CorrelationID string
	Outcome       Outcome // empty: the run has not ended
	ErrorCode     string
	ErrorMessage  string
	ErrorRemedy   string
	Report        Report
	RequestedAt   time.Time
	BeganAt       *time.Time
	EndedAt       *time.Time
}

// Report is what a run asked, found and did.
type Report struct {
	Requests  int `json:"requests" doc:"Requests to MAAS."`
	Records   int `json:"machine_records" doc:"Machine records that MAAS rendered for it."`
	Events    int `json:"events" doc:"Events of MAAS that were read."`
	Looked    int `json:"machines_looked_at" doc:"Machines that were looked at, of nodes."`
	Swept     int `json:"machines_swept" doc:"Those of them that the sweep chose."`
	Unmanaged int `json:"unmanaged_machines" doc:"Machines of MAAS that are no nodes, as far as they were seen."`
	Opened    int `json:"findings_opened"`
	Confirmed int `json:"findings_confirmed"`
	Closed    int `json:"findings_closed"`
	Acted     int `json:"actions_taken"`
	Written   int `json:"rows_written" doc:"Rows of the database that were changed for nodes and findings."`
	// Intended lists the actions that were taken, or would have been in a dry
	// run.
	Intended      []Intended `json:"intended_actions" nullable:"false" doc:"The first hundred of them."`
	IntendedTotal int        `json:"intended_total" doc:"How many there are."`
	Left          []LeftTo   `json:"left_to_jobs" nullable:"false" doc:"The first hundred of them."`
	// Settled lists the jobs that ended because their goal was proven reached.
	Settled    []LeftTo `json:"jobs_reconciled" nullable:"false"`
	Missing    int      `json:"machines_missing" doc:"Machines of nodes that were asked for by id and not answered, and about which nothing more is known."`
	Unanswered int      `json:"questions_unanswered" doc:"Questions about the whole site that MAAS did not answer."`
	Millis     int64    `json:"control_plane_ms" doc:"Time of the control plane, without waiting for MAAS."`
}

// Intended is an action of a run.
type Intended struct {
	Node     id.Node `json:"node_id"`
	Hostname string  `json:"hostname"`
	Finding  Type    `json:"finding"`
	Action   Action  `json:"action"`
	Done     bool    `json:"done"`
	Withheld string  `json:"withheld,omitempty" doc:"Why it was not done."`
}

// LeftTo is what a run saw of a node that a job works on.
type LeftTo struct {
	Job      string  `json:"job" doc:"Such as onboarding <id>."`
	Node     id.Node `json:"node_id"`
	Hostname string  `json:"hostname"`
	Seen     string  `json:"seen"`
}

// Resolution is what an operator decides about a node that drifts.
type Resolution string

// The resolutions.
const (
	Acknowledge     Resolution = "acknowledge"       // somebody knows of it; nothing changes
	AdoptObserved   Resolution = "adopt_observed"    // accept what is there as right
	QuarantineNode  Resolution = "quarantine"        // an operator takes it out of scheduling
	ReturnToService Resolution = "return_to_service" // after a look that proves the node healthy
	Reimage         Resolution = "reimage"           // a decommission job releases and redeploys it
)

// Resolutions lists them.
var Resolutions = []Resolution{Acknowledge, AdoptObserved, QuarantineNode, ReturnToService, Reimage}
