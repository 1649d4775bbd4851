package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Mode is how a node joins the fleet.
type Mode string

// The modes: a person runs the bootstrap on the machine, or onboarding drives
// MAAS.
const (
	Manual Mode = "manual"
	MAAS   Mode = "maas"
)

// Channel says which releases of the agent a node takes.
type Channel string

// The channels.
const (
	Stable    Channel = "stable"
	Candidate Channel = "candidate"
	Pinned    Channel = "pinned"

	Unassigned Channel = "unassigned" // nobody has decided; nothing is wanted of it
)

var channels = []Channel{Stable, Candidate, Pinned, Unassigned}

// Delivery is how a new version of the agent reaches a node.
type Delivery string

// The deliveries.
const (
	ByReimage       Delivery = "reimage"
	ByManualInstall Delivery = "manual_install"
	ByRebootstrap   Delivery = "rebootstrap"
)

var deliveries = []Delivery{ByReimage, ByManualInstall, ByRebootstrap}

// Drift says whether the agent of a node is the one it should be.
type Drift string

// The drift states. Old verifiers count as drift of the configuration.
const (
	InSync                Drift = "in_sync"
	VersionDrift          Drift = "version_drift"
	ConfigDrift           Drift = "config_drift"
	CertificateRepairOnly Drift = "certificate_only_repair_needed"
	UnknownDrift          Drift = "unknown"
)

var drifts = []Drift{InSync, VersionDrift, ConfigDrift, CertificateRepairOnly, UnknownDrift}

// Node is one machine of the inventory. The history stores its JSON form, so
// fields may be added but not renamed.
type Node struct {
	ID         id.Node `json:"node_id"`
	Status     Status  `json:"status"`
	Hostname   string  `json:"hostname"`
	Host       string  `json:"host"`
	Port       int32   `json:"port"`
	SKU        string  `json:"sku"`
	GPUsTotal  int32   `json:"gpus_total"`
	RegionCode string  `json:"region_code"`
	Grouping
	OnboardingMode Mode   `json:"onboarding_mode"`
	SSHUsername    string `json:"ssh_username"`
	AccessMethod   string `json:"access_method"`
	Schedulable    bool   `json:"schedulable"`
	// what its holds come to, but for that of an operation
	HoldReason string `json:"hold_reason"`
	// that is nothing but that it is not proven clean
	HeldUnclean bool   `json:"held_unclean,omitempty"`
	HeldBy      string `json:"held_by,omitempty"` // operation that keeps it out of scheduling
	// a tenant got access, or it was found unclean
	TaintedAt                 *time.Time      `json:"tainted_at,omitempty"`
	CleanAt                   *time.Time      `json:"clean_at,omitempty"`    // when the last clean validation looked
	Root                      Root            `json:"root,omitzero"`         // who had root on it
	Installation              Installation    `json:"installation,omitzero"` // what it runs on
	Generation                int64           `json:"generation"`
	AgentChannel              Channel         `json:"agent_channel"`
	DesiredAgentVersion       string          `json:"desired_agent_version"`
	DesiredDeliveryMode       Delivery        `json:"desired_delivery_mode"`
	ReportedAgentVersion      string          `json:"reported_agent_version"`
	ReportedAgentCommit       string          `json:"reported_agent_commit"`
	LastDeliveryAttemptAt     *time.Time      `json:"last_delivery_attempt_at,omitempty"`
	LastDeliveryResult        string          `json:"last_delivery_result"`
	LastDeliveryCorrelationID string          `json:"last_delivery_correlation_id"`
	AgentInstance             string          `json:"agent_instance"`
	VerifierVersion           int64           `json:"verifier_version"`
	TrustBundle               string          `json:"trust_bundle,omitempty"`
	TrustRefused              string          `json:"trust_refused,omitempty"`
	CertificateNotAfter       *time.Time      `json:"certificate_not_after,omitempty"`
	AwaitedBy                 string          `json:"awaited_by,omitempty"`    // workflow that waits for the first poll
	FirstPollAt               *time.Time      `json:"first_poll_at,omitempty"` // with the present identity
	IdentityVoid              string          `json:"identity_void,omitempty"` // why no machine is the node
	HardwareSaid              bool            `json:"hardware_said,omitempty"` // the agent says which machine it runs on
	Capabilities              json.RawMessage `json:"capabilities,omitempty"`  // facts for the scheduler, as an object
	Version                   int64           `json:"version"`
	CreatedAt                 time.Time       `json:"created_at"`
	UpdatedAt                 time.Time       `json:"updated_at"`
	StatusChangedAt           time.Time       `json:"status_changed_at"`

	// Inspection is what was found on the machine. It is large: only reading
	// one node loads it, and only history entries about it keep it.
	Inspection json.RawMessage `json:"inspection,omitempty"`
	// Observed is how the machine was last seen from outside. It is nil if it
	// never was, and wherever Inspection is not loaded.
	Observed *Observed `json:"-"`
	// Holds are what keeps it out of scheduling, one by one. They are nil where
	// only HoldReason and HeldBy were read.
	Holds []Holding `json:"-"`
	// LastContactAt is when the agent last called, to a few seconds. It is nil
	// if it never called, and in the results of commands.
	LastContactAt *time.Time `json:"-"`
	// What the agent said about its process then; nil: it does not say it.
	AgentMemory     *int64     `json:"-"`
	AgentStartedAt  *time.Time `json:"-"`
	place           place      // where it stands in a listing by last contact
	verifiersWanted int64
	channelWants    string // the release that its channel wants
}

// WantedAgentVersion is the version that the node should run: its own, or else that of
// its channel. It is empty where nobody wants a certain one.
func (n Node) WantedAgentVersion() string { return cmp.Or(n.DesiredAgentVersion, n.channelWants) }

// RenewsPins says whether the agent understands that the program which reports
// hardware is pinned. Agents learned that in the release in which they began to
// say which machine they run on. Older ones refuse a task that names the
// digest.
func (n Node) RenewsPins() bool { return n.HardwareSaid }

// TakesHandover says whether the agent writes down for a tenant what was handed
// over. Agents of earlier versions refuse to be told.
func (n Node) TakesHandover() bool {
	var facts map[string]string
	return json.Unmarshal(n.Capabilities, &facts) == nil && facts[agentwire.FactHandover] != ""
}

// inspection is a report about a machine in the two forms that are stored.
type inspection struct{ facts, found json.RawMessage }

func inspectionOf(c agentwire.Capabilities) (inspection, error) {
	found, err := json.Marshal(c)
	if err != nil {
		return inspection{}, fmt.Errorf("encode inspection: %w", err)
	}
	if c.Facts == nil {
		c.Facts = map[string]string{}
	}
	facts, err := json.Marshal(c.Facts)
	if err != nil {
		return inspection{}, fmt.Errorf("encode capabilities: %w", err)
	}
	return inspection{facts: facts, found: found}, nil
}

// Build is the agent that a node runs and the one it should run.
type Build struct {
	Version             string // as reported; empty before it enrolled
	Commit              string // as reported
	Desired             string // empty: any version
	CertificateNotAfter *time.Time
	Verifiers           int64
	VerifiersWanted     int64
}

// Unknown reports whether nobody can tell which source the agent was built
// from.
func (b Build) Unknown() bool {
	return b.Version == "" || b.Version == "dev" || b.Commit == "unknown" || b.Commit == ""
}

// Drift says whether the agent is the one it should be. The query ListNodes
// implements the same rule in SQL.
func (b Build) Drift(now time.Time) Drift {
	switch {
	case b.Version == "":
		return UnknownDrift
	case b.CertificateNotAfter == nil || !b.CertificateNotAfter.After(now):
		return CertificateRepairOnly
	case b.Unknown(), b.Desired != "" && b.Desired != b.Version:
		return VersionDrift
	case b.Verifiers < b.VerifiersWanted:
		return ConfigDrift
	}
	return InSync
}

// AgentState is the most important thing that an operator has to know about an
// agent.
type AgentState string

// The states of agents. The agent of every node in service has one of them.
const (
	NoAgent           AgentState = "" // there is no agent worth mentioning
	AgentCurrent      AgentState = "current"
	AgentDrift        AgentState = "drift"
	AgentUnknownBuild AgentState = "unknown_build" // also if there is none yet
)

// State says whether an operator has to do something about the agent of a node
// in this state. An unknown build comes before everything else. For a node that
// was taken out of service nothing is ever due: its certificate is not renewed.
// The query ListNodes implements the same rule in SQL.
func (b Build) State(s Status, now time.Time) AgentState {
	switch {
	case s.Is(Out):
		return NoAgent
	case b.Unknown():
		return AgentUnknownBuild
	case b.Drift(now) == InSync:
		return AgentCurrent
	}
	return AgentDrift
}

// Badge is the agent of a node in a word, wherever the node is shown.
type Badge string

// The badges. An unknown build comes before everything else: nobody can tell whether
// such an agent is outdated.
const (
	BadgeCurrent      Badge = "current"
	BadgeOutdated     Badge = "outdated"
	BadgeConfigDrift  Badge = "config_drift"
	BadgeCertRepair   Badge = "cert_repair"
	BadgeUnknownBuild Badge = "unknown_build"
)

var badges = []Badge{BadgeCurrent, BadgeOutdated, BadgeConfigDrift, BadgeCertRepair, BadgeUnknownBuild}

// Badges lists them all.
func Badges() []Badge { return append([]Badge{}, badges...) }

// Badge says how an agent is shown.
func (b Build) Badge(now time.Time) Badge {
	if b.Unknown() {
		return BadgeUnknownBuild
	}
	switch b.Drift(now) {
	case VersionDrift:
		return BadgeOutdated
	case ConfigDrift:
		return BadgeConfigDrift
	case CertificateRepairOnly:
		return BadgeCertRepair
	case UnknownDrift:
		return BadgeUnknownBuild
	case InSync:
	}
	return BadgeCurrent
}

// Drift is computed and never stored, because the wanted version changes
// without the node.
func (n Node) Drift(now time.Time) Drift { return n.build().Drift(now) }

func (n Node) build() Build {
	return Build{
		Version: n.ReportedAgentVersion, Commit: n.ReportedAgentCommit, Desired: n.WantedAgentVersion(),
		CertificateNotAfter: n.CertificateNotAfter, Verifiers: n.VerifierVersion, VerifiersWanted: n.verifiersWanted,
	}
}

// fenced reports whether the state of a node keeps its agent out.
func (s Status) fenced() bool { return s.Is(Fenced) }

// takesToken reports whether a node in this state may enrol with a token.
func (s Status) takesToken(p Purpose) bool {
	switch p {
	case Bootstrap:
		return s.Is(Joining)
	case Recovery:
		return !s.Is(Out)
	}
	return false
}

func notFound() error {
	return fault.New(fault.NotFound, "node_not_found",
		"there is no such node").WithRemedy("list them with: gpuaas node list")
}

func atVersion(have, based int64) error {
	if have == based {
		return nil
	}
	return fault.New(fault.Stale, "version_stale",
		"it was changed since it was read: the newest version is %d, the change is based on %d", have, based).
		WithRemedy("read it again and repeat the change with the new ETag")
}

func rejected(fields []fault.Field) error {
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error",
		"the request has fields that cannot be accepted").WithFields(fields...)
}
