package eventwire

import "time"

// The event types of work on nodes.
const (
	OperationDefinitionChanged Type = "operation_definition.changed"
	OperationPolicyChanged     Type = "operation_policy.changed"

	ArtifactChanged    Type = "artifact.changed"
	ArtifactKeyChanged Type = "artifact_key.changed"

	OperationRequested  Type = "operation.requested"
	OperationProgressed Type = "operation.progress"
	OperationPaused     Type = "operation.paused"
	OperationCompleted  Type = "operation.completed"
	OperationFailed     Type = "operation.failed"
	OperationCanceled   Type = "operation.canceled"
)

// OperationDefinition is the payload of the event about what work on nodes may be.
type OperationDefinition struct {
	OperationType string `json:"operation_type"`
	Version       string `json:"version" doc:"of the definition, such as v1"`
	Status        string `json:"status" words:"operation_definition"`
	Digest        string `json:"digest" doc:"SHA-256 of its document"`
	Revision      int64  `json:"revision" doc:"grows with every change of the version"`
}

// OperationPolicy is the payload of the event about what a level allows of operations.
type OperationPolicy struct {
	OperationType string `json:"operation_type" doc:"a type of operation, or * for all of them"`
	Scope         string `json:"scope" enum:"global,tenant,project"`
	Version       int64  `json:"version" doc:"grows with every change; 0: it was removed"`
}

// Artifact is the payload of the event about something that nodes fetch.
type Artifact struct {
	ArtifactID string `json:"artifact_id" format:"uuid"`
	Name       string `json:"name"`
	Digest     string `json:"digest"`
	Status     string `json:"status" doc:"active, deprecated, revoked or retired"`
	Signature  string `json:"signature" doc:"verified, unsigned or refused"`
	Change     string `json:"change" doc:"registered, verified, deprecated, revoked or retired"`
}

// ArtifactKey is the payload of the event about a key whose signatures of artifacts count.
type ArtifactKey struct {
	KeyID       string `json:"key_id" format:"uuid"`
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint" doc:"SHA-256 of the public key"`
	Change      string `json:"change" doc:"trusted or withdrawn"`
}

// Operation is the payload of events about runs of operations on nodes.
type Operation struct {
	OperationID   string `json:"operation_id" format:"uuid"`
	OperationType string `json:"operation_type"`
	Version       string `json:"version"`
	ResourceName  string `json:"resource_name"`
	CorrelationID string `json:"correlation_id"`
	TraceID       string `json:"trace_id,omitempty"`
	Status        string `json:"status" doc:"queued, running, succeeded, failed or canceled"`
	TriggerSource string `json:"trigger_source" doc:"allocation_provision, allocation_release, admin or tenant_request"`
	RequestedBy   string `json:"requested_by"`
	AllocationID  string `json:"allocation_id,omitempty" format:"uuid" doc:"absent: it is about several, or none"`
	NodeID        string `json:"node_id,omitempty" format:"uuid" doc:"absent: it is about several"`
	TotalSteps    int    `json:"total_steps"`
	Targets       int    `json:"targets"`
	Succeeded     int    `json:"succeeded"`
	Failed        int    `json:"failed"`
	Skipped       int    `json:"skipped"`
	Canceled      int    `json:"canceled"`
	ErrorCode     string `json:"error_code,omitempty"`
	Message       string `json:"message,omitempty"`
}

// OperationProgress is the payload of events about how far a node has come with a run.
type OperationProgress struct {
	OperationID      string     `json:"operation_id" format:"uuid"`
	OperationType    string     `json:"operation_type"`
	ResourceName     string     `json:"resource_name"`
	CorrelationID    string     `json:"correlation_id"`
	TargetID         string     `json:"target_id" format:"uuid"`
	NodeID           string     `json:"node_id" format:"uuid"`
	TargetStatus     string     `json:"target_status" doc:"running, succeeded, failed or canceled"`
	CurrentStepIndex int        `json:"current_step_index" doc:"from 0"`
	TotalSteps       int        `json:"total_steps"`
	CurrentStepName  string     `json:"current_step_name"`
	StepStatus       string     `json:"step_status"`
	StepStartedAt    *time.Time `json:"step_started_at,omitempty"`
	StepPercent      *int       `json:"step_percent,omitempty"`
	ErrorCode        string     `json:"error_code,omitempty"`
}

func operationEvents() []Definition {
	return []Definition{
		{
			OperationDefinitionChanged, ToPlatform, "A definition of an operation was registered, changed or moved to another state.",
			OperationDefinition{},
		},
		{
			OperationPolicyChanged, ToProject, "What the platform, a tenant or a project allows of operations was changed.",
			OperationPolicy{},
		},
		{ArtifactChanged, ToProject, "Something that nodes fetch was registered, verified or moved to another state.", Artifact{}},
		{ArtifactKeyChanged, ToTenant, "A key whose signatures of artifacts count was trusted or withdrawn.", ArtifactKey{}},
		{OperationRequested, ToProject, "Somebody asked for a run of an operation, or has one resumed.", Operation{}},
		{OperationProgressed, ToProject, "A node has come further with a run of an operation.", OperationProgress{}},
		{OperationPaused, ToProject, "A run of an operation hands out nothing more: somebody paused it, or too many nodes failed.", Operation{}},
		{OperationCompleted, ToProject, "A run of an operation succeeded on every node that could be worked on.", Operation{}},
		{OperationFailed, ToProject, "A run of an operation ended, and failed on some nodes.", Operation{}},
		{OperationCanceled, ToProject, "A run of an operation was stopped before every node was done.", Operation{}},
	}
}
