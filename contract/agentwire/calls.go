package agentwire

import (
	"encoding/json"
	"time"
)

// Paths of the node-facing listener. {node_id} must equal the identity of the
// client certificate.
const (
	PathCA              = "/internal/v1/bootstrap/ca.pem"  // public: pinned by its fingerprint
	PathBootstrapScript = "/internal/v1/bootstrap/script"  // bootstrap token; ?mode=shell|cloud_init
	PathPackage         = "/internal/v1/bootstrap/package" // bootstrap token
	PathEnroll          = "/internal/v1/nodes/enroll"      // bootstrap or recovery token
	PathRenew           = "/internal/v1/nodes/{node_id}/cert/renew"
	PathTrust           = "/internal/v1/nodes/{node_id}/trust" // what to trust, signed; older control planes lack it
	PathReport          = "/internal/v1/nodes/{node_id}/report"
	PathNodePackage     = "/internal/v1/nodes/{node_id}/packages/{version}"
	PathWait            = "/internal/v1/nodes/{node_id}/tasks/wait"
	PathResult          = "/internal/v1/nodes/{node_id}/tasks/{task_id}/result"
	PathProgress        = "/internal/v1/nodes/{node_id}/tasks/{task_id}/progress"
	PathRegistry        = "/internal/v1/nodes/{node_id}/tasks/{task_id}/registry-credential"
	PathMint            = "/internal/v1/nodes/{node_id}/tasks/{task_id}/credentials/mint"
	PathTerminal        = "/internal/ws/terminal/{session_id}"
)

// Headers that an agent sends with every call after it has enrolled.
const (
	HeaderAgentVersion    = "Gpuaas-Agent-Version"
	HeaderAgentInstance   = "Gpuaas-Agent-Instance" // fingerprint of the machine
	HeaderAgentSession    = "Gpuaas-Agent-Session"  // random, one per start of the process
	HeaderVerifierVersion = "Gpuaas-Verifier-Version"
	HeaderTrustBundle     = "Gpuaas-Trust-Bundle"  // SHA-256 of the bundle with which it verifies the control plane
	HeaderTrustRefused    = "Gpuaas-Trust-Refused" // code and subject of what it last refused to trust; absent: nothing
	HeaderVitals          = "Gpuaas-Agent-Vitals"  // Vitals; agents of before do not send it
)

// Codes of refusals by the control plane that an agent distinguishes. The field
// "code" of a problem document holds them.
const (
	CodeCertificateMissing = "node_certificate_missing"
	CodeCertificateExpired = "node_certificate_expired" // recover with a recovery token
	CodeCertificateUnknown = "node_certificate_unknown_issuer"
	CodeCertificateRevoked = "node_certificate_revoked"
	CodeIdentityMismatch   = "node_identity_mismatch"
	CodeIdentityInUse      = "node_identity_in_use" // another machine or process uses this identity
	CodeNodeFenced         = "node_fenced"          // the state of the node forbids it; credentials are fine
	CodeTokenInvalid       = "node_token_invalid"   //nolint:gosec // a code: unknown, used by another key, or foreign
	CodeTokenExpired       = "node_token_expired"   //nolint:gosec // a code
	CodeTaskNotYours       = "node_task_not_yours"
	CodeTaskFinal          = "node_task_final"        // the task has ended; the answer says how
	CodeHardwareMismatch   = "node_hardware_mismatch" // this machine is not the node; the detail names the field
	CodeHardwareMissing    = "node_hardware_missing"  // the agent does not say which machine it runs on
	CodeAddressMismatch    = "node_address_mismatch"  // the site demands another source address
)

// Problem is the body of every refusal (RFC 9457).
type Problem struct {
	Status        int    `json:"status"`
	Code          string `json:"code"`
	Title         string `json:"title"`
	Detail        string `json:"detail"`
	Remedy        string `json:"remedy"`
	CorrelationID string `json:"correlation_id"`
}

// Build says which agent is talking.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

// EnrollRequest asks for the first certificate, or with a recovery token for a
// new one. The Authorization header holds the token. The private key of the
// request was made on the node and stays there.
type EnrollRequest struct {
	CSR          string       `json:"csr_pem"`
	Hostname     string       `json:"hostname"`
	Instance     string       `json:"instance"`
	Build        Build        `json:"build"`
	Capabilities Capabilities `json:"capabilities"`
	// Hardware is the machine that enrols. It is nil if the agent is too old.
	Hardware *Hardware `json:"hardware,omitempty"`
}

// Hardware says which machine an agent runs on, by its firmware and its network
// interfaces. What cannot be read is empty. It is a claim: the control plane
// compares it with what it knows.
type Hardware struct {
	UUID          string   `json:"uuid,omitempty"` // of the system, by SMBIOS
	SystemSerial  string   `json:"system_serial,omitempty"`
	BoardSerial   string   `json:"board_serial,omitempty"`
	ChassisSerial string   `json:"chassis_serial,omitempty"`
	MACs          []string `json:"macs,omitempty"` // of interfaces with a device; of bond members the permanent ones
}

// EnrollResponse makes the node part of the fleet. Enrolment is complete only
// after the first successful poll.
type EnrollResponse struct {
	NodeID string `json:"node_id"`
	Issued
}

// Issued is a certificate with everything that comes with it. Only at an
// enrolment may a node believe NodeCA, Verifiers and TrustBundle as they are.
// Later it believes only Trust; the rest is for agents that do not know Trust.
type Issued struct {
	Certificate string `json:"certificate_pem"`
	// issuer of node certificates; never merged with the CA of the control plane
	NodeCA      string      `json:"node_ca_pem"`
	NotAfter    time.Time   `json:"not_after"`
	RenewAfter  time.Time   `json:"renew_after"`
	Generation  int64       `json:"generation"`
	Verifiers   VerifierSet `json:"verifiers"`
	TrustBundle TrustBundle `json:"trust_bundle"`
	Trust       []Statement `json:"trust,omitempty"`
}

// TrustBundle is the bundle with which an agent verifies the control plane.
type TrustBundle struct {
	Version     string    `json:"trust_bundle_version"`
	Environment string    `json:"environment_name"`
	Domain      string    `json:"environment_domain"`
	PEM         string    `json:"bundle_pem"`
	Fingerprint string    `json:"sha256_fingerprint"`
	PublishedAt time.Time `json:"published_at"`
	Replaces    string    `json:"replaces_version,omitempty"`
}

// RenewRequest asks for a new certificate with the present one.
type RenewRequest struct {
	CSR string `json:"csr_pem"`
}

// Report is what an agent says about itself and its machine, at every start and
// after every change.
type Report struct {
	Build           Build        `json:"build"`
	VerifierVersion int64        `json:"verifier_version"`
	Capabilities    Capabilities `json:"capabilities"`
	// Hardware is the machine that the agent runs on. It is nil if the agent is
	// too old.
	Hardware *Hardware `json:"hardware,omitempty"`
}

// Capabilities is what inspection found on the machine.
type Capabilities struct {
	// Facts holds the taxonomy of the scheduler: gpu.vendor, gpu.architecture,
	// gpu.driver_series, compute.runtime, fabric.type, container.runtime.
	Facts       map[string]string `json:"facts"`
	CPUModel    string            `json:"cpu_model"`
	CPUs        int               `json:"cpus"`
	MemoryBytes int64             `json:"memory_bytes"`
	NUMANodes   int               `json:"numa_nodes"`
	Disks       []Disk            `json:"disks"`
	NICs        []NIC             `json:"nics"`
	// Addresses are those by which others reach the machine, sorted and without
	// prefix lengths. They may be on bonds, VLANs and bridges, which are no
	// NICs. If there are none, the agent does not know.
	Addresses []string `json:"addresses,omitempty"`
	GPUs      []GPU    `json:"gpus"`
	Kernel    string   `json:"kernel"`
	OS        string   `json:"os"`
	// StepKinds are the kinds of steps that the agent carries out. An agent that
	// names none is given no operations.
	StepKinds []string `json:"step_kinds,omitempty"`
	// ResolverVersion is the version of the resolver configuration in use. Zero:
	// it has none.
	ResolverVersion int64 `json:"resolver_version,omitempty"`
}

// FactArchitecture is the fact by which an agent says what it is built for, in Go's
// words. Agents of before do not say it.
const FactArchitecture = "agent.architecture"

// Disk is one block device.
type Disk struct {
	Name       string `json:"name"`
	Model      string `json:"model,omitempty"`
	SizeBytes  int64  `json:"size_bytes"`
	Rotational bool   `json:"rotational"`
}

// NIC is one network interface.
type NIC struct {
	Name      string `json:"name"`
	MAC       string `json:"mac,omitempty"`
	SpeedMbps int64  `json:"speed_mbps,omitempty"`
	Driver    string `json:"driver,omitempty"`
	RDMA      bool   `json:"rdma"`
}

// GPU is one graphics processor.
type GPU struct {
	Index        int    `json:"index"`
	UUID         string `json:"uuid"`
	Name         string `json:"name"`
	Architecture string `json:"architecture,omitempty"`
	MemoryBytes  int64  `json:"memory_bytes"`
	PCIBusID     string `json:"pci_bus_id,omitempty"`
}

// Limits of a poll. The control plane answers 204 without a body if no task
// came up. The query parameter is wait_seconds.
const (
	MinWaitSeconds     = 1
	MaxWaitSeconds     = 55
	DefaultWaitSeconds = 50
)

// ResultRequest ends a task.
type ResultRequest struct {
	Attempt    int             `json:"attempt"`
	Status     string          `json:"status"` // succeeded, failed, refused or cancelled
	Output     json.RawMessage `json:"output,omitempty"`
	Error      *TaskError      `json:"error,omitempty"`
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt time.Time       `json:"finished_at"`
	Build      Build           `json:"build"`
	// Amends is what the task changed of the installation. It is nil if the
	// baseline does not describe any of it.
	Amends *Amendment `json:"amends,omitempty"`
}

// Statuses of a result.
const (
	ResultSucceeded = "succeeded"
	ResultFailed    = "failed"
	ResultRefused   = "refused" // Error.Code is the Reason
	ResultCancelled = "cancelled"
)

// TaskError says why a task failed.
type TaskError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// ProgressRequest renews the lease of a task and reports its steps.
type ProgressRequest struct {
	Attempt int    `json:"attempt"`
	Steps   []Step `json:"steps,omitempty"`
}

// Step is one step of a task.
type Step struct {
	Seq     int       `json:"seq"` // from 1, per attempt
	Name    string    `json:"name"`
	Status  string    `json:"status"` // started, succeeded, failed or skipped
	Message string    `json:"message,omitempty"`
	Percent *int      `json:"percent,omitempty"`
	At      time.Time `json:"at"`
}

// ProgressResponse says how long the lease lasts and whether to go on.
type ProgressResponse struct {
	LeaseExpiresAt time.Time `json:"lease_expires_at"`
	Cancel         bool      `json:"cancel"` // stop as soon as it is safe and report cancelled
}

// Types of credentials that a task can ask for.
const (
	CredentialOCIPull     = "oci_pull"
	CredentialS3Read      = "s3_read"
	CredentialGCSRead     = "gcs_read"
	CredentialHFToken     = "hf_token"
	CredentialClusterJoin = "cluster_join_token"
	// CredentialSourceRead is a signed address of one file that a step fetches. Agents ask
	// for it by themselves; who signs it, S3, GCS or Hugging Face, is the source's.
	CredentialSourceRead = "source_read"
	// CredentialMAASMachineToken is the key of the machine to its MAAS. The
	// machine keeps it: it is valid until MAAS revokes it at a release.
	CredentialMAASMachineToken = "maas_machine_token"
)

// Values of credentials.
const (
	ValueToken = "token" // sent as a bearer token
	ValueURL   = "url"   // an address that is read without anything else
)

// MintRequest asks for a credential under the identity of a task.
type MintRequest struct {
	Attempt        int               `json:"attempt"`
	OperationID    string            `json:"operation_id,omitempty"`
	StepID         string            `json:"step_id"`
	CredentialType string            `json:"credential_type"`
	Intent         map[string]string `json:"intent"` // what it is for, for example repository and digest
}

// RegistryRequest asks for a pull credential of one repository at one digest.
type RegistryRequest struct {
	Attempt    int    `json:"attempt"`
	StepID     string `json:"step_id"`
	Repository string `json:"repository"`
	Digest     string `json:"digest"`
}

// Credential is secret material. It is held only in memory and wiped when the
// task has ended. A long-lived credential has no expiry; its task installs it
// on the machine.
type Credential struct {
	CredentialType string            `json:"credential_type"`
	Values         map[string]string `json:"values"`
	ExpiresAt      time.Time         `json:"expires_at,omitzero"`
}
