package decommission

import (
	"encoding/json"
	"slices"
	"time"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Mode is what is done to a node.
type Mode string

// The modes. The last four are plain steps of the life of a node.
const (
	SoftReset        Mode = "soft_reset"
	Reimage          Mode = "reimage"
	FullDecommission Mode = "full_decommission"
	StorageCleanup   Mode = "storage_cleanup"
	Drain            Mode = "drain"
	Retire           Mode = "retire"
	Reactivate       Mode = "reactivate"
	Remove           Mode = "remove"
)

// Modes lists them.
func Modes() []Mode {
	return []Mode{SoftReset, Reimage, FullDecommission, StorageCleanup, Drain, Retire, Reactivate, Remove}
}

// Erase is what a release in MAAS does to disks.
type Erase = site.Erase

// The erases, from the least to the most.
const (
	EraseNone   = site.EraseNone
	EraseQuick  = site.EraseQuick
	EraseSecure = site.EraseSecure
)

// Cleanup is what the agent removes of what tenants left on disks.
type Cleanup string

// The cleanups.
const (
	CleanupNone  Cleanup = "none"
	CleanupLocal Cleanup = "local"
	CleanupWeka  Cleanup = "weka"
	CleanupAll   Cleanup = "all"
)

// Request is what somebody asks for.
type Request struct {
	Mode           Mode
	Erase          Erase   // empty: quick where machines are released, none elsewhere
	StorageCleanup Cleanup // empty: local where tenants' data are cleaned, none elsewhere
	Reason         string
	PlanHash       string      // empty: whatever the plan is
	ProfileID      *id.Profile // nil: the one that the node belongs to
	// of an installation that somebody had root on and nothing can make anew, or
	// whose agent is gone; empty: nobody accepts it
	ResidualRisk  string
	KeepOut       bool // only with Reimage: the node stays out of service
	MatchHardware bool // only with Reimage: the machine must be what its SKU says
	WithoutAgent  bool // only where the machine is released: its agent is gone, and ResidualRisk is accepted for it
}

// Decommission is one operation on a node.
type Decommission struct {
	job.Job
	bringup.Machine
	ID             id.Decommission
	Batch          id.DecommissionBatch // zero: on its own
	Mode           Mode
	Erase          Erase
	StorageCleanup Cleanup
	Reason         string
	Requester      string // by name
	PlanHash       string
	Origin         node.Status // of the node, when this was asked for
	Overrides      []Override
	FollowUps      []FollowUp
	Outcome        Outcome // empty: it has not reached its goal
}

// Common implements job.Row.
func (d Decommission) Common() job.Job {
	j := d.Job
	j.Subject = d.Hostname
	return j
}

// Parked says whether the operation waits for an operator.
func (d Decommission) Parked() bool { return job.Parking.PhaseOf(d.Status) == job.Parked }

// Override is the decision of an operator to go on without a stage. It holds
// until somebody acts on the operation again: a stage that is gone back to is
// carried out, or needs another decision.
type Override struct {
	Stage        string    `json:"stage"`
	Reason       string    `json:"reason"`
	ResidualRisk string    `json:"residual_risk"`
	Actor        string    `json:"actor"`
	At           time.Time `json:"at"`
	Epoch        int64     `json:"epoch" doc:"Of the operation from this decision on; it grows with every action of an operator."`
	// AgentGone says that it was decided with the request, because the agent was
	// gone. It does not hold once the agent has called again.
	AgentGone bool `json:"agent_gone,omitempty" doc:"Whether it was decided with the request because the agent was gone; it does not hold once the agent has called again."`
	// RootAt is when somebody last had root, as far as was known when the risk of
	// that was accepted.
	RootAt *time.Time `json:"root_at,omitempty" doc:"Of root_taint: when somebody last had root, as far as was known."`
}

// RootTaint stands for a stage in the decision to take a node over although
// somebody had root on its installation. It is made with the request, and holds
// as long as the operation.
const RootTaint = certificate.RootTaint

// accepts is the decision about what somebody with root may have left; nil:
// nobody made it.
func (d Decommission) accepts() *Override {
	for i := range d.Overrides {
		if d.Overrides[i].Stage == RootTaint && d.Overrides[i].RootAt != nil {
			return &d.Overrides[i]
		}
	}
	return nil
}

// FollowUp is what is left to be done by somebody.
type FollowUp struct {
	What    string    `json:"what" doc:"What is left to be done."`
	Why     string    `json:"why" doc:"Why it was not done."`
	Command string    `json:"command,omitempty" doc:"How to do it, where a command does."`
	Stage   string    `json:"stage" doc:"The stage that left it; done again, it says anew what is left."`
	At      time.Time `json:"at"`
}

// overridden finds the decision to go on without a stage, as far as it holds.
func (d Decommission) overridden(stage string) *Override {
	for i := range d.Overrides {
		if d.Overrides[i].Stage == stage && d.Overrides[i].Epoch == d.Epoch {
			return &d.Overrides[i]
		}
	}
	return nil
}

// withoutAgent says whether the request asked to go on without the agent.
func (d Decommission) withoutAgent() bool {
	return slices.ContainsFunc(d.Overrides, func(o Override) bool { return o.AgentGone })
}

// holder is the name by which the operation holds its node.
func (d Decommission) holder() string { return holderOf(d.ID) }

func holderOf(job id.Decommission) string { return "decommission " + job.String() }

// managed says whether the node is a machine of MAAS.
func (d Decommission) managed() bool { return d.SystemID != "" }

// Evidence is what a stage saw.
type Evidence struct {
	Seq        int64
	Stage      string
	Attempt    int
	Epoch      int64
	Kind       string
	Value      json.RawMessage
	RecordedAt time.Time
}

// The kinds of evidence, which tell how to read it.
const (
	EvidenceDrain         = "drain"            // agentwire.DrainOutput
	EvidenceStorage       = "storage_cleanup"  // agentwire.StorageCleanupOutput
	EvidenceGPU           = "gpu_scrub"        // agentwire.GPUScrubOutput
	EvidenceWeaker        = "gpu_scrub_weaker" // WeakerScrub
	EvidenceValidation    = "validate_clean"   // agentwire.ValidateCleanOutput
	EvidenceRelease       = "release"          // bringup.ReleaseFacts
	EvidencePower         = "power_off"        // bringup.PowerFacts
	EvidenceUninstall     = "uninstall"        // agentwire.UninstallOutput
	EvidenceSecrets       = "secrets"
	EvidenceOverride      = "override"       // Override
	EvidenceNotApplicable = "not_applicable" // why
	EvidenceFollowUp      = "follow_up"      // FollowUp
)

// WeakerScrub is the decision of a profile that the memory of GPUs counts as
// cleaned although nothing that was read proves it empty.
type WeakerScrub struct {
	Method     site.ScrubMethod `json:"method"`
	Vendor     string           `json:"vendor"`
	GPUs       []string         `json:"gpus"`
	Why        string           `json:"why"` // they were not overwritten
	Did        string           `json:"did"`
	Proves     string           `json:"proves"`
	ProvesNot  string           `json:"does_not_prove"`
	Setting    string           `json:"setting"` // of the profile that allows it
	OffAt      *time.Time       `json:"off_at,omitempty"`
	OnAt       *time.Time       `json:"on_at,omitempty"`
	RecordedAt time.Time        `json:"recorded_at"`
}

// Filter narrows a listing; a zero field does not narrow.
type Filter struct {
	Batch    id.DecommissionBatch
	Node     id.Node
	Site     id.Site
	Mode     Mode
	Hostname string // the beginning of it
	Statuses []job.Status
	Outcome  Outcome
}

// Selector names the nodes of a batch: those of the list, or all that have
// everything that is given.
type Selector struct {
	Nodes          []id.Node     `json:"node_ids,omitempty"`
	Site           id.Site       `json:"site_id,omitzero"`
	RegionCode     string        `json:"region_code,omitempty"`
	SKU            string        `json:"sku_id,omitempty"`
	HostnamePrefix string        `json:"hostname_prefix,omitempty"`
	Statuses       []node.Status `json:"statuses,omitempty"`
}

// Batch is decommissions that were asked for together.
type Batch struct {
	job.Batch
	ID       id.DecommissionBatch
	Mode     Mode
	Selector Selector
}
