package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
)

// Backend says what carries the steps out.
type Backend string

// The backends. Only versions of NodeAgent can be activated today.
const (
	NodeAgent    Backend = "node_agent"
	K8sAdapter   Backend = "k8s_adapter"
	SlurmAdapter Backend = "slurm_adapter"
	RayAdapter   Backend = "ray_adapter"
)

// Risk says how much can go wrong.
type Risk string

// The risks.
const (
	Low    Risk = "low"
	Medium Risk = "medium"
	High   Risk = "high"
)

// TargetKind is what an operation may be asked for.
type TargetKind string

// The kinds of targets.
const (
	TargetNode       TargetKind = "node"
	TargetAllocation TargetKind = "allocation"
	TargetGroup      TargetKind = "group"
)

// Rented says who may have the node while the operation runs.
type Rented string

// Who may have the node.
const (
	// RentedNone: nobody.
	RentedNone Rented = "none"
	// RentedProject: only the project that asks.
	RentedProject Rented = "project"
	// RentedAny: anybody. Only what changes nothing may say so.
	RentedAny Rented = "any"
)

// NoApproval is the approval of definitions that need none.
const NoApproval = "none"

// Definition is the document of one version.
type Definition struct {
	Type               string                     `json:"type"`
	Version            string                     `json:"version"`
	Title              string                     `json:"title"`
	Description        string                     `json:"description,omitempty"`
	Backend            Backend                    `json:"backend"`
	Risk               Risk                       `json:"risk"`
	RiskText           string                     `json:"risk_text"`
	Inputs             json.RawMessage            `json:"inputs"` // a JSON schema
	Targets            []TargetKind               `json:"targets"`
	Requires           map[string]Accepted        `json:"requires,omitempty"` // facts of the node, all of them
	Safety             Safety                     `json:"safety"`
	Approval           string                     `json:"approval"` // NoApproval, or the role that must approve
	Artifacts          *Artifacts                 `json:"artifacts,omitempty"`
	Commands           []agentwire.CommandProfile `json:"commands,omitempty"` // steps name them by their ids
	MaxDurationSeconds int                        `json:"max_duration_seconds"`
	Steps              []Step                     `json:"steps"`
}

// Safety says who may be on a node, and what must come first.
type Safety struct {
	// IdleOnly: only nodes that nobody has and on which nothing else runs.
	IdleOnly bool `json:"idle_only,omitempty"`
	// AfterDrain: only nodes that were taken out of scheduling.
	AfterDrain bool   `json:"after_drain,omitempty"`
	Rented     Rented `json:"rented"`
}

// Artifacts bound what steps may fetch.
type Artifacts struct {
	// Repositories are the prefixes that artifacts must come from.
	Repositories      []string `json:"repositories"`
	SignatureRequired bool     `json:"signature_required,omitempty"`
}

// Step is one step of a definition.
type Step struct {
	ID             string          `json:"id"`
	Kind           string          `json:"kind"`
	Title          string          `json:"title,omitempty"`
	With           json.RawMessage `json:"with,omitempty"`
	TimeoutSeconds int             `json:"timeout_seconds"`
	Retry          *Retry          `json:"retry,omitempty"`
	OnFailure      OnFailure       `json:"on_failure"`
	// Repeat: a resume does it again, although it succeeded.
	Repeat bool `json:"repeat,omitempty"`
}

// OnFailure says what follows a step that failed.
type OnFailure string

// What follows a step that failed.
const (
	Stop     OnFailure = "stop"
	Continue OnFailure = "continue"
)

// Retry says how often the node tries a step, and after which failures.
type Retry struct {
	Attempts       int      `json:"attempts"`
	Classes        []string `json:"classes"`
	BackoffSeconds int      `json:"backoff_seconds,omitempty"`
}

// Accepted are the values of a fact that are accepted: one, or one of a list.
type Accepted []string

// UnmarshalJSON reads one value or a list.
func (a *Accepted) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = Accepted{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("a text or a list of texts was expected: %w", err)
	}
	*a = list
	return nil
}

// Ref is what people call a version: type@version.
type Ref struct{ Type, Version string }

func (r Ref) String() string { return r.Type + "@" + r.Version }

// Ref is the name of the version.
func (d Definition) Ref() Ref { return Ref{d.Type, d.Version} }

// ParseRef reads type@version.
func ParseRef(text string) (Ref, error) {
	name, version, ok := strings.Cut(text, "@")
	if !ok || !typeForm.MatchString(name) || !versionForm.MatchString(version) {
		return Ref{}, fault.New(fault.Invalid, "operation_definition_name", "%q is no version of a definition", text).
			WithRemedy("write TYPE@VERSION, such as node.health.check@v1; see which there are: " +
				"gpuaas operation definition list")
	}
	return Ref{name, version}, nil
}

// Version is a version of a definition, as it is kept.
type Version struct {
	Definition
	Status   Status
	Digest   string // sha256:… of Document
	Document json.RawMessage
	Origin   Origin
	Revision int64
	// StatusReason is what was said when it was deprecated or retired.
	StatusReason string
	CreatedAt    time.Time
	CreatedBy    string
	UpdatedAt    time.Time
	UpdatedBy    string
	ActivatedAt  *time.Time
}

// Origin says where a version came from.
type Origin string

// Where versions come from.
const (
	BuiltIn    Origin = "built_in" // shipped with the program
	Registered Origin = "registered"
)

// Canonical is the document in the one form that its digest is made of.
func (d Definition) Canonical() (json.RawMessage, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode definition: %w", err)
	}
	canonical, err := agentwire.Canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("encode definition: %w", err)
	}
	return canonical, nil
}

// digest is how versions are told apart.
func digest(document []byte) string {
	sum := sha256.Sum256(document)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// number is the number of a version: 2 of v2.
func number(version string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(version, "v"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
