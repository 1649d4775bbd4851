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

// Mode names what an operation does to a node.
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

// Erase says how MAAS erases disks when it releases a machine.
type Erase = site.Erase

// The erases, from the weakest to the strongest.
const (
	EraseNone   = site.EraseNone
	EraseQuick  = site.EraseQuick
	EraseSecure = site.EraseSecure
)

// Cleanup says which data of tenants the agent removes from disks.
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
	Erase          Erase   // if empty: quick for modes that release the machine, otherwise none
	StorageCleanup Cleanup // if empty: local for modes that clean tenants' data, otherwise none
	Reason         string
	PlanHash       string      // if empty, any plan is accepted
	ProfileID      *id.Profile // if nil, the profile of the node
	// ResidualRisk is the risk that the requester accepts, in their words:
	// somebody had root on an installation that nothing can replace, or the
	// agent is gone. If it is empty, nobody accepts a risk.
	ResidualRisk  string
	KeepOut       bool // only with Reimage: the node stays out of service
	MatchHardware bool // only with Reimage: the machine must be what its SKU says
	WithoutAgent  bool // only for modes that release the machine: its agent is gone, and ResidualRisk accepts that
	EndAllocation bool // end what a tenant has on the node; otherwise that stands in the way
	// UnderMaintenance ends what a tenant has on the node where announced maintenance
	// permits that now: the tenant agreed, or was told of the time that has come.
	UnderMaintenance bool
	// CleanupOf is the allocation that asks to be cleaned up after; zero: somebody else
	// asks. No caller of the API can say it.
	CleanupOf id.Allocation
}

// Decommission is one operation on a node.
type Decommission struct {
	job.Job
	bringup.Machine
	ID             id.Decommission
	Batch          id.DecommissionBatch // zero if it belongs to no batch
	Mode           Mode
	Erase          Erase
	StorageCleanup Cleanup
	Reason         string
	Requester      string // by name
	PlanHash       string
	Origin         node.Status // the node's status at the time of the request
	Overrides      []Override
	FollowUps      []FollowUp
	Outcome        Outcome // empty until the operation reaches its goal
}

// Common implements job.Row.
func (d Decommission) Common() job.Job {
	j := d.Job
	j.Subject = d.Hostname
	return j
}

// Parked says whether the operation waits for an operator.
func (d Decommission) Parked() bool { return job.Parking.PhaseOf(d.Status) == job.Parked }

// Override is an operator's decision to go on without a stage. It holds until
// somebody acts on the operation again: if the operation goes back to the
// stage, it runs the stage or needs a new decision.
type Override struct {
	Stage        string    `json:"stage"`
	Reason       string    `json:"reason"`
	ResidualRisk string    `json:"residual_risk"`
	Actor        string    `json:"actor"`
	At           time.Time `json:"at"`
	Epoch        int64     `json:"epoch" doc:"Of the operation from this decision on; it grows with every action of an operator."`
	// AgentGone says that the decision came with the request because the agent
	// was gone. It stops holding when the agent calls again.
	AgentGone bool `json:"agent_gone,omitempty" doc:"Whether it was decided with the request because the agent was gone; it does not hold once the agent has called again."`
	// RootAt is the time of the last root access that was known when the
	// operator accepted the risk.
	RootAt *time.Time `json:"root_at,omitempty" doc:"Of root_taint: when somebody last had root, as far as was known."`
}

// RootTaint takes the place of a stage name in the decision to take a node over
// although somebody had root on its installation. The decision comes with the
// request and holds until the operation ends.
const RootTaint = certificate.RootTaint

// accepts returns the decision to accept what somebody with root may have left,
// or nil if nobody made it.
func (d Decommission) accepts() *Override {
	for i := range d.Overrides {
		if d.Overrides[i].Stage == RootTaint && d.Overrides[i].RootAt != nil {
			return &d.Overrides[i]
		}
	}
	return nil
}

// FollowUp is work that the operation leaves to a person.
type FollowUp struct {
	What    string    `json:"what" doc:"What is left to be done."`
	Why     string    `json:"why" doc:"Why it was not done."`
	Command string    `json:"command,omitempty" doc:"How to do it, where a command does."`
	Stage   string    `json:"stage" doc:"The stage that left it; done again, it says anew what is left."`
	At      time.Time `json:"at"`
}

// overridden returns the decision to go on without a stage, or nil if there is
// none that still holds.
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

// holder returns the name under which the operation holds its node.
func (d Decommission) holder() string { return holderOf(d.ID) }

func holderOf(job id.Decommission) string { return "decommission " + job.String() }

// managed says whether the node is a machine of MAAS.
func (d Decommission) managed() bool { return d.SystemID != "" }

// Evidence records what a stage saw.
type Evidence struct {
	Seq        int64
	Stage      string
	Attempt    int
	Epoch      int64
	Kind       string
	Value      json.RawMessage
	RecordedAt time.Time
}

// The kinds of evidence. The kind says which type the value decodes into.
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

// evidenceKinds lists them for the contract.
var evidenceKinds = []string{
	EvidenceDrain, EvidenceStorage, EvidenceGPU, EvidenceWeaker, EvidenceValidation, EvidenceRelease, EvidencePower,
	EvidenceUninstall, EvidenceSecrets, EvidenceOverride, EvidenceNotApplicable, EvidenceFollowUp,
}

// WeakerScrub records that a profile let the memory of GPUs count as cleaned
// although no read proved it empty.
type WeakerScrub struct {
	Method     site.ScrubMethod `json:"method"`
	Vendor     string           `json:"vendor"`
	GPUs       []string         `json:"gpus"`
	Why        string           `json:"why"` // why they were not overwritten
	Did        string           `json:"did"`
	Proves     string           `json:"proves"`
	ProvesNot  string           `json:"does_not_prove"`
	Setting    string           `json:"setting"` // the setting of the profile that allows it
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
	Hostname string // prefix
	Statuses []job.Status
	Outcome  Outcome
}

// Selector names the nodes of a batch: the listed ones, or all that match every
// given field.
type Selector struct {
	Nodes          []id.Node     `json:"node_ids,omitempty"`
	Site           id.Site       `json:"site_id,omitzero"`
	RegionCode     string        `json:"region_code,omitempty"`
	SKU            string        `json:"sku_id,omitempty"`
	HostnamePrefix string        `json:"hostname_prefix,omitempty"`
	Statuses       []node.Status `json:"statuses,omitempty"`
}

// Batch is a group of decommissions that were requested together.
type Batch struct {
	job.Batch
	ID       id.DecommissionBatch
	Mode     Mode
	Selector Selector
}
