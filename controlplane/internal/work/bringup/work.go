package bringup

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/site"
)

// The stages, by the names of the state model.
const (
	LoadSiteConfig               = "load_site_config"
	ResolvePowerCredentials      = "resolve_power_credentials"
	CreateOrFindInMAAS           = "create_or_find_in_maas"
	CommissionNode               = "commission_node"
	WaitForReady                 = "wait_for_ready"
	ConfigureStorage             = "configure_storage"
	ApplyRoCEPhase2              = "apply_roce_phase2"
	EnsurePXEInterfaceAuto       = "ensure_pxe_interface_auto"
	RenderCloudInit              = "render_cloud_init"
	DeployViaMAAS                = "deploy_via_maas"
	WaitForDeployed              = "wait_for_deployed"
	ClassifyDeployFailure        = "classify_deploy_failure"
	RecoverForDatasourceRetry    = "recover_for_datasource_retry"
	EnsureHardwareSyncConfigured = "ensure_hardware_sync_configured"
	WaitForHardwareSyncHealthy   = "wait_for_hardware_sync_healthy"
	WaitForAgentEnrollment       = "wait_for_agent_enrollment"
	ReleaseMAASNode              = "release_maas_node"
	PowerOffMAASNode             = "power_off_maas_node"
	RemoveMAASRecord             = "remove_maas_record"
)

// Stage is one attempt at a stage. It changes the facts of its work as it finds
// them out. Any error that is not a *Failure is classified by Classify.
type Stage func(ctx context.Context, w *Work) (Result, error)

// Result is how a stage ended when it did not fail.
type Result struct {
	Skipped bool
	Message string         // for people: what was found or done
	Details map[string]any // never a secret
	Next    string         // the stage to go on with; empty: the one that follows
	Await   *Await         // the stage is not over: run it again when something happened
	// Evidence is what the stage saw that proves, or disproves, what it claims.
	Evidence []Evidence
}

// Evidence is something that a stage saw, as it is kept.
type Evidence struct {
	Kind  string // which tells how to read the value
	Value any    // never a secret
}

// The kinds of evidence that these stages leave.
const (
	EvidenceRelease  = "release"   // ReleaseFacts
	EvidencePowerOff = "power_off" // PowerFacts
	EvidenceFollowUp = "follow_up" // FollowUp
)

// FollowUp is something that a job leaves to somebody.
type FollowUp struct {
	What    string `json:"what"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"`
}

// Await is what a stage that is not over waits for.
type Await struct {
	Signal string        // to the workflow of the job
	Most   time.Duration // look again after that in any case
}

// Failure is why a stage did not reach its end.
type Failure struct { //nolint:errname // named as the specification names it
	Class   durable.FailureClass
	Code    string         // stable, snake_case
	Message string         // what happened, to what
	Remedy  string         // what to do about it
	Details map[string]any // never a secret
	Final   bool           // another attempt would end the same
	Next    string         // a stage that deals with it, such as ClassifyDeployFailure
	Cause   error
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

func (f *Failure) Unwrap() error { return f.Cause }

// Work is a machine that a job brings up.
type Work struct {
	Kind       string // of the job, such as onboarding
	Job        string // its id
	WorkflowID string
	Epoch      int64
	Attempt    int
	Since      time.Time // when the stage began, over all its attempts
	Deadline   time.Time // of the stage, by the profile; zero: none

	Site            site.Site
	Profile         site.Profile
	SKU             string
	Hostname        string
	IPMIIP          string
	Node            id.Node // the id that the node has, or will have
	InitializeDisks bool    // DESTROYS the data of all disks but the root disk
	Reset           bool    // Compensate gives up what was deployed, too

	Erase   string   // what a release asks MAAS to do to the disks: none, quick or secure; empty: the job releases nothing
	Prior   []string // earlier jobs of this node: a machine that they hold is ours
	Reimage bool     // the node exists and stays; its machine gets another system

	PXEMAC   string // observed
	SystemID string // of MAAS, once known
	Facts    Facts
	Observed Observed

	// Fence refuses once the job was taken over. Ask it before every effect that
	// cannot be taken back.
	Fence func(ctx context.Context) error
	// FenceIn is Fence within a transaction: nobody takes the job over until that
	// ends. It is the first thing in it, because the row of a job is locked before
	// that of its node.
	FenceIn func(ctx context.Context, tx pgx.Tx) error
	// Save keeps SystemID, PXEMAC, Facts and Observed now, because losing them
	// would cost an effect to be repeated.
	Save func(ctx context.Context) error
	// Heartbeat says that the stage is still at it. Somebody else calls it, too.
	Heartbeat func()
}

// deploys says whether the machine gets a system: a job that only releases one
// needs nothing of what that takes.
func (w *Work) deploys() bool { return w.Erase == "" || w.Reimage }

// existing says whether the job is about a node that was there before it, which
// it neither adds nor gives up, and whose machine is no other.
func (w *Work) existing() bool { return w.Reimage || w.Erase != "" }

// Observed is the machine as MAAS last showed it.
type Observed struct {
	Status string // of MAAS, as people know it from there; "absent" when MAAS has none
	Power  string
	IPs    []string
	At     time.Time
}

// Facts are what stages found out and later ones go by. They are kept as JSON in
// the row of the job, so fields may be added but not renamed. Never a secret.
type Facts struct {
	PowerOverride    string `json:"power_override,omitempty"` // id; empty: the site's own
	PowerFingerprint string `json:"power_fingerprint,omitempty"`
	PowerReason      string `json:"power_reason,omitempty"`
	PowerWritten     string `json:"power_written,omitempty"` // fingerprint of what this job gave MAAS

	IdentifiedBy   string     `json:"identified_by,omitempty"`    // hostname, power_address, pxe_mac, created, discovered or sole_new
	NewBefore      []string   `json:"new_before,omitzero"`        // machines that were New before this job first made its server boot; none is not unknown
	NetworkBootsAt *time.Time `json:"network_boots_at,omitempty"` // when this job last made its server boot from the network
	QueuedAt       *time.Time `json:"queued_at,omitempty"`        // since when this job waits for its turn to do so
	Commissions    int        `json:"commissions,omitempty"`      // how often this job has started commissioning
	Reinspect      bool       `json:"reinspect,omitempty"`        // what MAAS knows of the hardware did not do: it may have been mended since

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
	Adopted        bool       `json:"adopted,omitempty"` // somebody else deployed it: only its agent can be told anything

	Addresses    []string   `json:"addresses,omitempty"`
	SSHAddress   string     `json:"ssh_address,omitempty"`
	SSHHostKey   string     `json:"ssh_host_key,omitempty"` // that the machine showed, as a line of known_hosts has it
	SyncSeeds    int        `json:"sync_seeds,omitempty"`
	SyncSeededAt *time.Time `json:"sync_seeded_at,omitempty"`
	SyncBefore   *time.Time `json:"sync_before,omitempty"` // last sync that MAAS showed before the seed, by its clock
	SyncHealthy  *time.Time `json:"sync_healthy_at,omitempty"`
	LoginLocked  *time.Time `json:"login_locked_at,omitempty"` // when the agent had locked the account that the machine was set up by

	Release       *ReleaseFacts `json:"release,omitempty"`
	PowerOff      *PowerFacts   `json:"power_off,omitempty"`
	RecordRemoved *RecordFacts  `json:"record_removed,omitempty"`

	Left []string `json:"left,omitempty"` // what undoing could not, or must not, undo
}

// Who decides that a machine may be released with less erasing than asked for.
const (
	DecidedByPolicy   = "policy release_fallback_no_erase"
	DecidedByAdopting = "an operator, by adopting the machine as it is"
)

// ReleaseFacts are how the machine was given back to MAAS.
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

// PowerFacts are how the machine was switched off.
type PowerFacts struct {
	State      string    `json:"state"` // as the BMC last told MAAS
	ObservedAt time.Time `json:"observed_at"`
	Confirmed  bool      `json:"confirmed"` // it was seen to be off
}

// RecordFacts are what became of the machine's record in MAAS.
type RecordFacts struct {
	Removed bool      `json:"removed"`
	At      time.Time `json:"at"`
	Why     string    `json:"why"`
}

// uninstalled forgets what was true of an installation that is no more.
func (f *Facts) uninstalled() {
	f.DeployedAt, f.Image, f.Addresses = nil, "", nil
	f.Adopted, f.LoginLocked = false, nil
	f.SSHAddress, f.SSHHostKey = "", ""
	f.SyncSeeds, f.SyncSeededAt, f.SyncBefore, f.SyncHealthy = 0, nil, nil, nil
	f.EnrollEpoch = 0
}
