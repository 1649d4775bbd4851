package node

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathNodes = "/api/v1/admin/nodes"
	pathNode  = pathNodes + "/{node_id}"
	tag       = "Nodes"
)

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerReads(api)
	s.registerChanges(api)
	s.registerActions(api)
	s.registerHolds(api)
	s.registerHistory(api)
	s.registerIdentity(api)
	s.registerHardware(api)
}

// Path names a node in the path. It is exported because the framework reads
// embedded parameters only from exported types.
type Path struct {
	NodeID id.Node `path:"node_id" doc:"Id of the node."`
}

// stored is JSON that the API passes on as the database keeps it, so that a
// page of a thousand nodes is not decoded and encoded again. T is the type that
// the schema shows.
type stored[T any] struct{ json.RawMessage }

// MarshalJSON returns the stored bytes.
func (v stored[T]) MarshalJSON() ([]byte, error) { return v.RawMessage, nil }

// Schema returns the schema of T.
func (stored[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// Facts are what the scheduler uses to choose nodes.
type Facts map[string]string

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// Present is the state of a node that is in the fleet.
type Present Status

// Schema is the enum of the contract: the states of the lifecycle but the
// terminal ones. It implements huma.SchemaProvider.
func (Present) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(Lifecycle.Lasting()) }

// Schema implements huma.SchemaProvider.
func (UpdatePath) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(updatePaths) }

// Schema implements huma.SchemaProvider.
func (Badge) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(badges) }

// Schema implements huma.SchemaProvider.
func (Drift) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(drifts) }

// Schema implements huma.SchemaProvider.
func (Channel) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(channels) }

// Schema implements huma.SchemaProvider.
func (Delivery) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(deliveries) }

// Schema implements huma.SchemaProvider.
func (Sort) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(sorts) }

// Schema implements huma.SchemaProvider.
func (HoldKind) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(holdKinds) }

// Schema implements huma.SchemaProvider.
func (Kind) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(kinds) }

// Schema implements huma.SchemaProvider.
func (Source) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(sources) }

// View is a node as the API shows it.
type View struct {
	NodeID          id.Node           `json:"node_id" doc:"Id of the node."`
	Status          Status            `json:"status" doc:"Its coarse state."`
	StatusChangedAt time.Time         `json:"status_changed_at"`
	Hostname        string            `json:"hostname" doc:"Its name, once in a region." example:"c07u31"`
	Host            string            `json:"host" doc:"Where it is reached." example:"10.20.0.31"`
	Port            int32             `json:"port" doc:"Port of its SSH server." example:"22"`
	SSHUsername     string            `json:"ssh_username"`
	AccessMethod    string            `json:"access_method" enum:"agent,ssh" doc:"How the control plane acts on it."`
	SKU             string            `json:"sku" doc:"Which kind of machine it is." example:"h200-sxm-baremetal-8g"`
	GPUsTotal       int32             `json:"gpus_total" example:"8"`
	RegionCode      string            `json:"region_code" example:"eu-1"`
	Rack            string            `json:"rack" doc:"The rack that it stands in; empty: nobody said." example:"c07"`
	Pool            string            `json:"pool" doc:"What it is kept for; empty: the general pool." example:"training"`
	Labels          map[string]string `json:"labels" nullable:"false" doc:"Words of the operators that nodes are selected by."`
	OnboardingMode  Mode              `json:"onboarding_mode" enum:"manual,maas"`
	Schedulable     bool              `json:"schedulable" doc:"Whether new work may be placed on it: it is active and nothing holds it."`
	HoldReason      string            `json:"hold_reason" doc:"Why it must not be scheduled although it may be active: all reasons of its holds, divided by semicolons; empty: there is none."`
	HeldBy          string            `json:"held_by" doc:"The operation that keeps it out of scheduling; empty: none does." example:"decommission 0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1aa"`
	Holds           []HoldView        `json:"holds,omitempty" doc:"What keeps it out of scheduling, one by one and the oldest first; hold_reason and held_by sum it up. Absent: nothing does, or it is shown as it was."`
	Tainted         bool              `json:"tainted" doc:"Whether a tenant had access, or it was found unclean, since it was last proven clean."`
	TaintedAt       *time.Time        `json:"tainted_at,omitempty" doc:"When a tenant last got access, or it was found unclean; absent: never."`
	CleanAt         *time.Time        `json:"clean_at,omitempty" doc:"When the last validation looked that found nothing left behind; absent: none did. With root.accepted_at it proves nothing of what root may have left: that risk was accepted."`
	Access          Access            `json:"taint_kind,omitempty" enum:"user,root" doc:"The most that somebody had on it since it was last proven clean; root: only an installation made after that can testify. Absent: nothing."`
	Root            *RootView         `json:"root,omitempty" doc:"Who had root on it, as long as that is not proven away; absent: nobody is known to."`
	InstalledAt     *time.Time        `json:"installed_at,omitempty" doc:"When the installation that it runs on began to be made; absent: no operation of ours made it."`
	Generation      int64             `json:"generation" doc:"Grows when the node is taken over; tasks of an older generation are void."`
	LastContactAt   *time.Time        `json:"last_agent_contact_at,omitempty" doc:"When its agent was last heard of, to a few seconds; absent when never."`
	Agent           AgentView         `json:"agent" doc:"Its agent."`
	Capabilities    stored[Facts]     `json:"capabilities" doc:"What the scheduler goes by, such as gpu.vendor; empty until the agent has enrolled."`
	Version         int64             `json:"version" doc:"Grows with every change."`
	CreatedAt       time.Time         `json:"created_at"`
	UpdatedAt       time.Time         `json:"updated_at"`

	place place
}

// RootView says who had root on a node.
type RootView struct {
	At          time.Time  `json:"at" doc:"When somebody last had it, or was last let in with it."`
	Cause       RootCause  `json:"cause" enum:"sudo,root_shell,privileged_container,physical_console,found,operation" doc:"How; found: a validation found what only root leaves; operation: a tenant's run changed the node."`
	Compromised bool       `json:"compromised" doc:"Whether it runs on the same installation since: what that says of itself is not independent, and never enough."`
	AcceptedAt  *time.Time `json:"accepted_at,omitempty" doc:"When somebody accepted the risk; absent: it stands."`
	Risk        string     `json:"residual_risk,omitempty" doc:"The risk that was accepted, in words."`
	AcceptedBy  string     `json:"accepted_by,omitempty" doc:"Who accepted it; absent: see the history of the node."`
}

func (n Node) showRoot() *RootView {
	if !n.Root.Stands() && !n.Root.Accepted() {
		return nil
	}
	v := &RootView{At: n.Root.At.UTC(), Cause: n.Root.Cause, Compromised: n.Compromised()}
	if n.Root.Accepted() {
		v.AcceptedAt, v.Risk, v.AcceptedBy = utc(n.Root.EndedAt), n.Root.Risk, n.Root.AcceptedBy
	}
	return v
}

// AgentView is the agent that a node runs and the one it should run.
type AgentView struct {
	Badge                     Badge      `json:"badge" doc:"The drift in a word; unknown_build comes before everything else and counts as drift."`
	Drift                     Drift      `json:"drift_state" doc:"Whether the agent is what it should be; config_drift: it does not use the newest verifiers of tasks."`
	Channel                   Channel    `json:"agent_channel"`
	DesiredVersion            string     `json:"desired_agent_version" doc:"The version that this node is to run whatever its channel wants; empty: that of its channel."`
	WantedVersion             string     `json:"wanted_agent_version" doc:"The version that it should run, its own or that of its channel; empty: any."`
	DesiredDeliveryMode       Delivery   `json:"desired_delivery_mode"`
	ReportedVersion           string     `json:"reported_agent_version" doc:"Empty until it has enrolled."`
	ReportedCommit            string     `json:"reported_agent_commit"`
	Instance                  string     `json:"agent_instance" doc:"Fingerprint of the machine that enrolled."`
	VerifierVersion           int64      `json:"verifier_version" doc:"Version of the verifiers of tasks that it uses."`
	TrustBundle               string     `json:"trust_bundle" doc:"SHA-256 of the bundle that it verifies the control plane with; empty: it does not say."`
	TrustRefused              string     `json:"trust_refused" doc:"What it last refused to trust, as code and subject; empty: nothing." example:"trust_unsigned verifiers"`
	CertificateNotAfter       *time.Time `json:"certificate_not_after,omitempty" doc:"End of its newest certificate; absent: it has none."`
	LastDeliveryAttemptAt     *time.Time `json:"last_delivery_attempt_at,omitempty" doc:"When a bootstrap was last issued, or a run last told its agent something."`
	LastDeliveryResult        string     `json:"last_delivery_result" doc:"issued, enrolled or revoked; of a run: delivering, delivered, or failed with its code. Empty: never tried."`
	LastDeliveryCorrelationID string     `json:"last_delivery_correlation_id"`
	UpdatePath                UpdatePath `json:"update_path" doc:"How its agent can get another version: in_place, by a task or a rollout; bootstrap_install, certificate_repair or manual_install, by somebody on the machine or a reimage; control_plane_upgrade, by a control plane that understands it; none: the node is out of service."`
	UpdatePathBecause         string     `json:"update_path_because" doc:"Why it cannot be updated in place, and what to do; empty: it can, or it is out of service."`
	MemoryBytes               *int64     `json:"memory_bytes,omitempty" doc:"What its process had in memory when it was last heard of; absent in lists, and for an agent that does not say it."`
	StartedAt                 *time.Time `json:"started_at,omitempty" doc:"When its process started, to a few seconds; absent likewise."`
}

func (s *Service) show(n Node) View {
	return View{
		NodeID: n.ID, Status: n.Status, StatusChangedAt: n.StatusChangedAt.UTC(), Hostname: n.Hostname, Host: n.Host,
		Port:        n.Port,
		SSHUsername: n.SSHUsername, AccessMethod: n.AccessMethod, SKU: n.SKU, GPUsTotal: n.GPUsTotal,
		RegionCode: n.RegionCode, Rack: n.Rack, Pool: n.Pool, Labels: showLabels(n.Labels),
		OnboardingMode: n.OnboardingMode, Schedulable: n.Schedulable, HoldReason: n.HoldReason,
		HeldBy: n.HeldBy, Holds: showHolds(n.Holds), Tainted: n.Tainted(), TaintedAt: utc(n.TaintedAt),
		CleanAt:    utc(n.CleanAt),
		Generation: n.Generation,
		Access:     n.Access(), Root: n.showRoot(), InstalledAt: utc(n.Installation.MadeAt),
		LastContactAt: utc(n.LastContactAt), place: n.place, Agent: s.showAgent(n), Version: n.Version,
		Capabilities: stored[Facts]{n.Capabilities}, CreatedAt: n.CreatedAt.UTC(), UpdatedAt: n.UpdatedAt.UTC(),
	}
}

func showLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

func (s *Service) showAgent(n Node) AgentView {
	path, because := n.UpdatePath(s.now())
	return AgentView{
		UpdatePath: path, UpdatePathBecause: because,
		Badge: n.build().Badge(s.now()), Drift: n.Drift(s.now()), Channel: n.AgentChannel,
		DesiredVersion:      n.DesiredAgentVersion,
		WantedVersion:       n.WantedAgentVersion(),
		DesiredDeliveryMode: n.DesiredDeliveryMode,
		ReportedVersion:     n.ReportedAgentVersion, ReportedCommit: n.ReportedAgentCommit, Instance: n.AgentInstance,
		VerifierVersion: n.VerifierVersion, TrustBundle: n.TrustBundle, TrustRefused: n.TrustRefused,
		CertificateNotAfter:   utc(n.CertificateNotAfter),
		LastDeliveryAttemptAt: utc(n.LastDeliveryAttemptAt), LastDeliveryResult: n.LastDeliveryResult,
		LastDeliveryCorrelationID: n.LastDeliveryCorrelationID, MemoryBytes: n.AgentMemory,
		StartedAt: utc(n.AgentStartedAt),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
