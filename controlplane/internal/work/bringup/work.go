package bringup

import (
	"context"
	"slices"
	"time"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// Stages speak of these by the names that every family of jobs gives them.
type (
	// Result is the result of a stage that did not fail.
	Result = job.Result
	// Evidence is something that a stage saw, as it is recorded.
	Evidence = job.Evidence
	// Await says what a stage that is not over waits for.
	Await = job.Await
	// Failure says why a stage did not reach its end.
	Failure = job.Failure //nolint:errname // named as the specification names it
)

// Stage is one attempt at a stage. It changes the facts of its work as it finds
// them out. Any error that is not a *Failure is classified by Classify.
type Stage = func(ctx context.Context, w *Work) (Result, error)

// The kinds of evidence that these stages leave.
const (
	EvidenceRelease  = "release"   // ReleaseFacts
	EvidencePowerOff = "power_off" // PowerFacts
	EvidenceFollowUp = "follow_up" // FollowUp
)

// FollowUp is work that a job leaves to a person.
type FollowUp struct {
	What    string `json:"what"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"`
}

// Work is a machine that a job brings up. Save keeps SystemID, PXEMAC, Facts and
// Observed.
type Work struct {
	job.Work

	Site            site.Site
	Profile         site.Profile
	SKU             string
	Hostname        string
	IPMIIP          string
	Node            id.Node // the id that the node has, or will have
	InitializeDisks bool    // DESTROYS the data of all disks but the root disk

	Erase   string   // what a release asks MAAS to do to the disks: none, quick or secure; empty: the job releases nothing
	Prior   []string // earlier jobs of this node: a machine that they hold is ours
	Reimage bool     // the node exists and stays; its machine gets another system
	// BlankBefore are the serial numbers of disks that were blank when the node
	// joined: what they hold now a tenant left there, and the job cleans it.
	BlankBefore []string

	PXEMAC   string // observed
	SystemID string // of MAAS, once known
	Facts    Facts
	Observed Observed
}

// deploys says whether the job installs a system. A job that only releases a machine
// needs no image and no first boot.
func (w *Work) deploys() bool { return w.Erase == "" || w.Reimage }

// existing says whether the job is about a node that existed before it. Such a job
// neither adds nor gives up the node, and the machine of the node stays the same.
func (w *Work) existing() bool { return w.Reimage || w.Erase != "" }

// Observed is the machine as MAAS last showed it.
type Observed struct {
	Status string // of MAAS, as people know it from there; "absent" when MAAS has none
	Power  string
	IPs    []string
	At     time.Time
}

// like says whether two looks saw the same.
func (o Observed) like(other Observed) bool {
	return o.Status == other.Status && o.Power == other.Power && slices.Equal(o.IPs, other.IPs)
}

// noteEvery is how often a wait records that a machine has not changed.
const noteEvery = time.Minute

// Facts are what stages found out and later stages use. They are stored as JSON
// in the row of the job, so fields may be added but not renamed. They never
// hold a secret.
type Facts struct {
	PowerOverride    string `json:"power_override,omitempty"` // id; empty if the site's own credentials are used
	PowerFingerprint string `json:"power_fingerprint,omitempty"`
	PowerReason      string `json:"power_reason,omitempty"`
	PowerWritten     string `json:"power_written,omitempty"` // fingerprint of what this job gave MAAS

	IdentifiedBy   string     `json:"identified_by,omitempty"`    // hostname, power_address, pxe_mac, created, discovered or sole_new
	NewBefore      []string   `json:"new_before,omitzero"`        // machines that were New before this job first made its server boot; none is not unknown
	NetworkBootsAt *time.Time `json:"network_boots_at,omitempty"` // when this job last made its server boot from the network
	QueuedAt       *time.Time `json:"queued_at,omitempty"`        // since when this job waits for its turn to do so
	Commissions    int        `json:"commissions,omitempty"`      // how often this job has started commissioning
	Hung           bool       `json:"hung,omitempty"`             // MAAS shows an inspection that gets nowhere: it must be started again
	Reinspect      bool       `json:"reinspect,omitempty"`        // the hardware that MAAS knows did not suffice: it may have been repaired since

	BootDiskID   int64    `json:"boss_disk_id,omitempty"`
	BootDisk     string   `json:"boss_disk,omitempty"`
	RoCEApplied  int      `json:"roce_applied,omitempty"`
	RoCESkipped  bool     `json:"roce_skipped,omitempty"`
	RoCEProblems []string `json:"roce_problems,omitempty"`

	NodeCreated     bool                 `json:"node_created,omitempty"`
	FirstBootPath   string               `json:"first_boot_path,omitempty"` // in the secrets engine
	FirstBootDigest string               `json:"first_boot_digest,omitempty"`
	FirstBootLayers []firstboot.LayerRef `json:"first_boot_layers,omitempty"`
	HostKey         string               `json:"host_key,omitempty"`    // that the first boot gives the machine: it must show this one
	DeployUser      string               `json:"deploy_user,omitempty"` // account that the first boot makes: the site may call it otherwise since
	SyncPinned      bool                 `json:"sync_pinned,omitempty"` // the first boot knows the program that reports hardware by its digest
	SyncURL         string               `json:"sync_url,omitempty"`    // where the first boot fetches it from; empty if not recorded
	TokenExpiresAt  *time.Time           `json:"token_expires_at,omitempty"`
	TokenRefreshes  int                  `json:"token_refreshes,omitempty"` // in the present wait for the agent
	TokenRefreshed  *time.Time           `json:"token_refreshed_at,omitempty"`
	EnrollEpoch     int64                `json:"enroll_epoch,omitempty"` // of that wait

	Deploys        int        `json:"deploys,omitempty"`        // deployments that this job has sent
	Redeploys      int        `json:"redeploys,omitempty"`      // of these, after a datasource-like failure
	DeployFailure  string     `json:"deploy_failure,omitempty"` // datasource_like or generic
	DeployEvidence string     `json:"deploy_evidence,omitempty"`
	DeployedAt     *time.Time `json:"deployed_at,omitempty"` // proven; from then on nothing is released by itself
	Image          string     `json:"image,omitempty"`

	Installation *InstallationFacts `json:"installation,omitempty"` // the last that MAAS began for this job

	Adopted bool `json:"adopted,omitempty"` // somebody else deployed it: only its agent can be told anything

	Addresses    []string   `json:"addresses,omitempty"` // by which people reach it, the best first
	SSHAddress   string     `json:"ssh_address,omitempty"`
	SSHHostKey   string     `json:"ssh_host_key,omitempty"` // that the machine showed, as a line of known_hosts has it
	SyncSeeds    int        `json:"sync_seeds,omitempty"`
	SyncSeededAt *time.Time `json:"sync_seeded_at,omitempty"`
	SyncBefore   *time.Time `json:"sync_before,omitempty"` // last sync that MAAS showed before the seed, by its clock
	SyncHealthy  *time.Time `json:"sync_healthy_at,omitempty"`
	LoginLocked  *time.Time `json:"login_locked_at,omitempty"` // when the agent had locked the account that the machine was set up by

	Asked      *AskedFacts `json:"asked,omitempty"`
	BlankDisks []string    `json:"blank_disks,omitempty"` // serial numbers of disks that were blank when the agent had come

	Release       *ReleaseFacts `json:"release,omitempty"`
	PowerOff      *PowerFacts   `json:"power_off,omitempty"`
	RecordRemoved *RecordFacts  `json:"record_removed,omitempty"`

	PowerCycle *PowerCycleFacts `json:"power_cycle,omitempty"` // the last one of this job

	Left []string `json:"left,omitempty"` // what undoing could not, or must not, undo
}

// AskedFacts are what a request asked for besides the machine.
type AskedFacts struct {
	KeepOut       bool `json:"keep_out,omitempty"`       // install, but keep the node out of service
	MatchHardware bool `json:"match_hardware,omitempty"` // accept only hardware that matches the SKU
	// Grouping is given to a new node.
	Grouping *node.Grouping `json:"grouping,omitempty"`
}

// FactsAsked returns the facts that a job begins with.
func FactsAsked(a AskedFacts) Facts {
	if !a.KeepOut && !a.MatchHardware && a.Grouping == nil {
		return Facts{}
	}
	return Facts{Asked: &a}
}

// GroupedAs says which groups a new node is to belong to.
func (f Facts) GroupedAs() node.Grouping {
	if f.Asked == nil || f.Asked.Grouping == nil {
		return node.Grouping{}
	}
	return *f.Asked.Grouping
}

// KeepsOut says whether the request asked to keep the node out of service.
func (f Facts) KeepsOut() bool { return f.Asked != nil && f.Asked.KeepOut }

// KeptOut is the cause of the quarantine of a node whose request asked for it.
const KeptOut = "the request asked to install it and to keep it out of service"

// InstallationFacts are what MAAS answered to a deployment. What MAAS says
// about the image later is not proof: a hardware sync renames it.
type InstallationFacts struct {
	ID    int64  `json:"id"` // of MAAS's record of the installation: another deployment has another one
	Image string `json:"image"`
}

// Who decides that a machine may be released with less erasing than asked for.
const (
	DecidedByPolicy   = "policy release_fallback_no_erase"
	DecidedByAdopting = "an operator, by adopting the machine as it is"
)

// ReleaseFacts record how the machine was returned to MAAS.
type ReleaseFacts struct {
	Requested      string     `json:"requested"`          // the erasing that was asked for: none, quick or secure
	Achieved       string     `json:"achieved,omitempty"` // by how the release went, as far as MAAS says; unknown when somebody else released it
	Reported       []string   `json:"reported,omitempty"` // what MAAS merely said, newest last
	FellBack       bool       `json:"fell_back,omitempty"`
	FallbackReason string     `json:"fallback_reason,omitempty"`
	DecidedBy      string     `json:"decided_by,omitempty"` // who let less pass: DecidedByPolicy or DecidedByAdopting
	MinimumErase   string     `json:"minimum_erase"`        // of the profile
	RequestedAt    *time.Time `json:"requested_at,omitempty"`
	EndedAt        *time.Time `json:"ended_at,omitempty"`
	Ladder         []string   `json:"ladder,omitempty"` // what was tried on a release that got stuck
}

// PowerFacts record how the machine was switched off.
type PowerFacts struct {
	State      string    `json:"state"` // as the BMC last told MAAS
	ObservedAt time.Time `json:"observed_at"`
	Confirmed  bool      `json:"confirmed"` // it was seen to be off
}

// RecordFacts record what became of the machine's record in MAAS.
type RecordFacts struct {
	Removed bool      `json:"removed"`
	At      time.Time `json:"at"`
	Why     string    `json:"why"`
}

// Host returns the address by which people reach the machine: the one through
// which a login worked, or else the best that MAAS showed. It is empty if none
// is known.
func (f Facts) Host() string {
	if f.SSHAddress != "" || len(f.Addresses) == 0 {
		return f.SSHAddress
	}
	return f.Addresses[0]
}

// uninstalled forgets the facts about an installation that is gone.
func (f *Facts) uninstalled() {
	f.DeployedAt, f.Image, f.Addresses, f.Installation = nil, "", nil, nil
	f.Adopted, f.LoginLocked = false, nil
	f.SSHAddress, f.SSHHostKey = "", ""
	f.SyncSeeds, f.SyncSeededAt, f.SyncBefore, f.SyncHealthy = 0, nil, nil, nil
	f.EnrollEpoch, f.BlankDisks = 0, nil
}
