package node

import (
	"encoding/json"
	"fmt"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Mode is how a node becomes part of the fleet.
type Mode string

// The modes: somebody runs the bootstrap on it, or onboarding drives MAAS.
const (
	Manual Mode = "manual"
	MAAS   Mode = "maas"
)

// Channel is which releases of the agent a node takes.
type Channel string

// The channels.
const (
	Stable    Channel = "stable"
	Candidate Channel = "candidate"
	Pinned    Channel = "pinned"
)

// Delivery is how another version of the agent comes to a node.
type Delivery string

// The deliveries.
const (
	ByReimage       Delivery = "reimage"
	ByManualInstall Delivery = "manual_install"
	ByRebootstrap   Delivery = "rebootstrap"
)

// Drift says whether the agent of a node is what it should be.
type Drift string

// The drift states. Stale verifiers are drift of the configuration.
const (
	InSync                Drift = "in_sync"
	VersionDrift          Drift = "version_drift"
	ConfigDrift           Drift = "config_drift"
	CertificateRepairOnly Drift = "certificate_only_repair_needed"
	UnknownDrift          Drift = "unknown"
)

// Node is one machine of the inventory. Its JSON form is what the history
// keeps, so fields may be added but not renamed.
type Node struct {
	ID                        id.Node         `json:"node_id"`
	Status                    Status          `json:"status"`
	Hostname                  string          `json:"hostname"`
	Host                      string          `json:"host"`
	Port                      int32           `json:"port"`
	SKU                       string          `json:"sku"`
	GPUsTotal                 int32           `json:"gpus_total"`
	RegionCode                string          `json:"region_code"`
	OnboardingMode            Mode            `json:"onboarding_mode"`
	SSHUsername               string          `json:"ssh_username"`
	AccessMethod              string          `json:"access_method"`
	Schedulable               bool            `json:"schedulable"`
	HoldReason                string          `json:"hold_reason"`
	HeldUnclean               bool            `json:"held_unclean,omitempty"` // HoldReason is that it is not proven clean, and no operator's
	HeldBy                    string          `json:"held_by,omitempty"`      // operation that keeps it out of scheduling
	TaintedAt                 *time.Time      `json:"tainted_at,omitempty"`   // a tenant got access, or it was found unclean
	CleanAt                   *time.Time      `json:"clean_at,omitempty"`     // a validation that found nothing looked then
	Root                      Root            `json:"root,omitzero"`          // who had root on it
	Installation              Installation    `json:"installation,omitzero"`  // that it runs on
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
	IdentityVoid              string          `json:"identity_void,omitempty"` // why nobody is the node since its token was last issued
	HardwareSaid              bool            `json:"hardware_said,omitempty"` // the agent says which machine it runs on
	Capabilities              json.RawMessage `json:"capabilities,omitempty"`  // facts the scheduler goes by, as an object
	Version                   int64           `json:"version"`
	CreatedAt                 time.Time       `json:"created_at"`
	UpdatedAt                 time.Time       `json:"updated_at"`
	StatusChangedAt           time.Time       `json:"status_changed_at"`

	// Inspection is what was found on the machine. It is large: only reading
	// one node brings it along, and only history about it keeps it.
	Inspection json.RawMessage `json:"inspection,omitempty"`
	// Observed is how it was last seen from outside; nil when never, and wherever
	// the inspection is not brought along.
	Observed *Observed `json:"-"`
	// LastContactAt is when the agent was last heard of, to a few seconds; nil
	// when never, and in what a command returns.
	LastContactAt   *time.Time `json:"-"`
	verifiersWanted int64
}

// Facts are what the scheduler goes by: gpu.vendor, fabric.type and so on.
func (n Node) Facts() (map[string]string, error) {
	var facts map[string]string
	if err := json.Unmarshal(n.Capabilities, &facts); err != nil {
		return nil, fmt.Errorf("decode capabilities of node %s: %w", n.ID, err)
	}
	return facts, nil
}

// RenewsPins says whether the agent knows that the program which reports hardware
// is pinned. Agents came to know it together with saying which machine they run on;
// those of before refuse a task that names the digest.
func (n Node) RenewsPins() bool { return n.HardwareSaid }

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

// Build is which agent a node has, beside which it should have.
type Build struct {
	Version             string // reported; empty until it has enrolled
	Commit              string // reported
	Desired             string // empty: any
	CertificateNotAfter *time.Time
	Verifiers           int64
	VerifiersWanted     int64
}

// Unknown reports whether nobody can tell what the agent was built of.
func (b Build) Unknown() bool {
	return b.Version == "" || b.Version == "dev" || b.Commit == "unknown" || b.Commit == ""
}

// Drift says whether the agent is what it should be. ListNodes says the same in
// SQL.
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

// AgentState is what an operator has to know of an agent before all else.
type AgentState string

// The states of agents; the agent of every node in service is in one of them.
const (
	NoAgent           AgentState = "" // to speak of
	AgentCurrent      AgentState = "current"
	AgentDrift        AgentState = "drift"
	AgentUnknownBuild AgentState = "unknown_build" // also where there is none yet
)

// State says whether something is to be done about the agent of a node in this
// state. Where nobody can tell what it was built of, that is said before whatever
// else is due. About that of a node taken out of service nothing is ever due: its
// certificate is not renewed. ListNodes says the same in SQL.
func (b Build) State(s Status, now time.Time) AgentState {
	switch {
	case s == Retired, s == Removing, s == Deleted:
		return NoAgent
	case b.Unknown():
		return AgentUnknownBuild
	case b.Drift(now) == InSync:
		return AgentCurrent
	}
	return AgentDrift
}

// Drift is computed, never stored: what is wanted changes without the node.
func (n Node) Drift(now time.Time) Drift {
	return Build{
		Version: n.ReportedAgentVersion, Commit: n.ReportedAgentCommit, Desired: n.DesiredAgentVersion,
		CertificateNotAfter: n.CertificateNotAfter, Verifiers: n.VerifierVersion, VerifiersWanted: n.verifiersWanted,
	}.Drift(now)
}

// fenced reports whether the state of a node keeps its agent out.
func (s Status) fenced() bool { return s == Retired || s == Deleted }

// takesToken reports whether a node in this state may enrol by a token.
func (s Status) takesToken(p Purpose) bool {
	switch p {
	case Bootstrap:
		return s == BootstrapIssued || s == Enrolling
	case Recovery:
		return s != Retired && s != Removing && s != Deleted
	}
	return false
}

func notFound() error {
	return fault.New(fault.NotFound, "node_not_found", "there is no such node").WithRemedy("list them with: gpuaas node list")
}

func atVersion(have, based int64) error {
	if have == based {
		return nil
	}
	return fault.New(fault.Stale, "version_stale", "it was changed since it was read: the newest version is %d, the change is based on %d", have, based).
		WithRemedy("read it again and repeat the change with the new ETag")
}

func rejected(fields []fault.Field) error {
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").WithFields(fields...)
}
