package agentwire

import "time"

// HeartbeatOutput is the sign of life.
type HeartbeatOutput struct {
	Build         Build     `json:"build"`
	Now           time.Time `json:"now"`
	UptimeSeconds int64     `json:"uptime_seconds"` // of the agent
	TasksRunning  int       `json:"tasks_running"`
	UnsentResults int       `json:"unsent_results"`
	Draining      bool      `json:"draining"`
}

// DrainOutput says what was done to empty the node.
type DrainOutput struct {
	Draining       bool     `json:"draining"`
	SessionsClosed int      `json:"sessions_closed"`
	UsersRevoked   []string `json:"users_revoked"`
	UsersLeft      []string `json:"users_left"`
}

// UninstallOutput says what is gone and what is not.
type UninstallOutput struct {
	Removed []string `json:"removed"`
	Residue []string `json:"residue"`
}

// HWSyncOutput says what was set up.
type HWSyncOutput struct {
	CredentialsWritten bool     `json:"credentials_written"`
	UnitsRestarted     []string `json:"units_restarted"`
	// Pinned says that root runs only the program that the task named.
	Pinned bool `json:"pinned,omitempty"`
}

// LoginLockOutput says what was found, and that none of it admits anybody any
// more.
type LoginLockOutput struct {
	Username string `json:"username"`
	Existed  bool   `json:"existed"`
	// Searched says that the agent also looked for accounts that a first boot made
	// under another name; Others are those that it found, which are closed as well.
	Searched       bool     `json:"searched,omitempty"`
	Others         []string `json:"others,omitempty"`
	Closed         []string `json:"closed"` // what admitted somebody until now
	ProcessesEnded int      `json:"processes_ended"`
}

// StorageCleanupOutput says what was removed, and what could not be.
type StorageCleanupOutput struct {
	Scope          string   `json:"scope"`
	EntriesRemoved int64    `json:"entries_removed"`
	BytesFreed     int64    `json:"bytes_freed"`
	Unmounted      []string `json:"unmounted"`
	ConfigRemoved  []string `json:"config_removed"`
	Residue        []string `json:"residue"`
	// Folders and Devices are the evidence, one entry for each that was looked
	// at.
	Folders []FolderCleaned   `json:"folders"`
	Devices []DeviceSanitized `json:"devices"`
}

// Outcomes of a folder or a device.
const (
	OutcomeEmptied    = "emptied"
	OutcomeIncomplete = "incomplete" // something is left
	OutcomeNotThere   = "not_there"
	OutcomeSkipped    = "skipped" // not touched
	OutcomeSanitized  = "sanitized"
	OutcomeFailed     = "failed"  // touched, and not proven to be erased
	OutcomeRefused    = "refused" // not touched: nothing was destroyed
	OutcomeBlank      = "blank"   // not touched, and all that was read is zero
)

// What proves that a device is erased.
const (
	VerifiedByZeroes  = "zeroes"  // all that was read was zero
	VerifiedByAbsence = "absence" // nothing that was read equals what was there before
	VerifiedByNothing = "nothing"
)

// FolderCleaned is the evidence for one folder.
type FolderCleaned struct {
	Path           string `json:"path"`
	EntriesRemoved int64  `json:"entries_removed"`
	BytesFreed     int64  `json:"bytes_freed"`
	Outcome        string `json:"outcome"` // emptied, incomplete, not_there, skipped
	Reason         string `json:"reason,omitempty"`
}

// DeviceSanitized is the evidence for one block device.
type DeviceSanitized struct {
	Device     string `json:"device"`      // empty if there is none behind the mount point
	MountPoint string `json:"mount_point"` // empty for a disk that is not mounted as a data disk
	Serial     string `json:"serial"`
	Model      string `json:"model"`
	Transport  string `json:"transport"`
	SizeBytes  int64  `json:"size_bytes"`
	// WholeBytes is the size of the disk that the device is a part of. It is
	// zero if the device is the disk itself.
	WholeBytes int64 `json:"whole_bytes,omitempty"`
	// Method is what was done last, and Level its level: clear or purge.
	Method  string `json:"method"`
	Level   string `json:"level"`
	Outcome string `json:"outcome"` // sanitized, failed, refused, blank
	// Reason says why it was not sanitized, and which better methods the device
	// did not carry out.
	Reason string `json:"reason,omitempty"`
	// BytesCovered is to how much of the device the method was applied.
	BytesCovered int64 `json:"bytes_covered"`
	// Canaries are blocks of random bytes that were written and read back
	// before, and looked for afterwards. Found means that any sector of one
	// came back.
	CanariesPlanted int `json:"canaries_planted"`
	CanariesFound   int `json:"canaries_found"`
	// Samples are what was read afterwards. If the method leaves zeroes,
	// anything else is unclean; if it leaves anything, only the former content
	// is.
	SamplesRead    int    `json:"samples_read"`
	SampleBytes    int64  `json:"sample_bytes"`
	SamplesUnclean int    `json:"samples_unclean"`
	VerifiedBy     string `json:"verified_by"` // zeroes, absence, nothing
	Verified       bool   `json:"verified"`
	// Tool is the program and version that did it.
	Tool      string    `json:"tool"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// FilesystemRestored says that an empty file system of the same kind, name
	// and id is mounted where the former one was.
	FilesystemRestored bool `json:"filesystem_restored"`
}

// GPUScrubOutput is the evidence of a scrub.
type GPUScrubOutput struct {
	// Outcome is scrubbed, incomplete, or not_applicable if there is no GPU.
	Outcome string        `json:"outcome"`
	Reason  string        `json:"reason,omitempty"`
	Vendor  string        `json:"vendor"`
	GPUs    []GPUScrubbed `json:"gpus"`
}

// ScrubByReset is the method for GPUs whose memory cannot be overwritten: they
// are reset, and nothing is read back.
const ScrubByReset = "reset"

// GPUScrubbed is the evidence for one GPU.
type GPUScrubbed struct {
	UUID         string `json:"uuid"`
	Method       string `json:"method"`
	BytesTotal   int64  `json:"bytes_total"`
	BytesCovered int64  `json:"bytes_covered"`
	WordsNonzero int64  `json:"words_nonzero"`
	DurationMs   int64  `json:"duration_ms"`
	DeviceMicros int64  `json:"device_micros"`
	Reset        string `json:"reset"` // done, failed: reason, skipped: reason
	Error        string `json:"error,omitempty"`
}

// ValidateCleanOutput is the verdict, with everything that speaks against it.
type ValidateCleanOutput struct {
	Clean    bool           `json:"clean"`
	Findings []CleanFinding `json:"findings"`
	Checked  []CheckedKind  `json:"checked"`
	// Inventory is the present inventory of the installation. The control plane
	// compares it with the baseline. It is nil if the agent does not report it.
	Inventory *Inventory `json:"inventory,omitempty"`
	// Baseline says with what the control plane compared the inventory: present
	// or missing. Agents do not set it.
	Baseline string `json:"baseline,omitempty"`
	// NotCompared are places that the baseline does not cover, because the agent
	// that took it did not look there yet. No agent sets it.
	NotCompared []string `json:"not_compared,omitempty"`
}

// CheckedKind says how a kind of residue was looked for.
type CheckedKind struct {
	// users, processes, mounts, ipc, tmp, files, disks, gpu_memory, gpu_processes, terminals; what the control plane
	// compared adds baseline
	Kind   string `json:"kind"`
	Result string `json:"result"` // clean, findings, not_applicable
	// Detail says how much was looked at, or why there was nothing to look at.
	Detail string `json:"detail,omitempty"`
}

// CleanFinding is one thing that a tenant left behind.
type CleanFinding struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// SelfUpdateOutput says which agent runs now.
type SelfUpdateOutput struct {
	From       string `json:"from"`
	To         string `json:"to"`
	RolledBack bool   `json:"rolled_back"`
	Reason     string `json:"reason,omitempty"`
}

// UpdateVerifiersOutput holds the version that is in use now.
type UpdateVerifiersOutput struct {
	Version int64 `json:"version"`
}

// ProvisionUserOutput describes the account.
type ProvisionUserOutput struct {
	Username string `json:"username"`
	UID      int    `json:"uid"`
	GID      int    `json:"gid"`
	Home     string `json:"home"`
	Created  bool   `json:"created"` // false: it existed as wanted
}

// DeprovisionUserOutput says what was removed.
type DeprovisionUserOutput struct {
	Username       string `json:"username"`
	Existed        bool   `json:"existed"`
	ProcessesEnded int    `json:"processes_ended"`
	SessionsClosed int    `json:"sessions_closed"`
	HomeRemoved    bool   `json:"home_removed"`
}

// HealthProbeOutput lists the checks.
type HealthProbeOutput struct {
	Healthy bool          `json:"healthy"`
	Checks  []HealthCheck `json:"checks"`
}

// HealthCheck is one look at the machine.
type HealthCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warning, failed, not_applicable
	Detail string `json:"detail"`
}

// TerminalOpenOutput says that the agent has taken the session up.
type TerminalOpenOutput struct {
	SessionID string `json:"session_id"`
}

// TerminalCloseOutput says whether there was a session to end.
type TerminalCloseOutput struct {
	SessionID string `json:"session_id"`
	Existed   bool   `json:"existed"`
}
