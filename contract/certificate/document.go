package certificate

import "time"

// Format is the version of the form that this package reads and writes.
const Format = "gpuaas.certificate/1"

// Kind is the kind of document.
type Kind string

// The kinds of documents.
const (
	Certificate     Kind = "certificate"      // after a reimage, a retirement or a full decommission
	HandoverReceipt Kind = "handover_receipt" // after a soft reset
)

// Level says how thorough a sanitization was, in the words of NIST SP 800-88.
type Level string

// The levels. None makes no claim.
const (
	None  Level = "none"
	Clear Level = "clear"
	Purge Level = "purge"
)

// Outcome says what became of a subject.
type Outcome string

// The outcomes.
const (
	Sanitized Outcome = "sanitized" // a level is claimed
	Done      Outcome = "done"      // the intended effect was observed; no level is claimed
	Failed    Outcome = "failed"
	Refused   Outcome = "refused" // it was not touched, for the reason in detail
)

// Result is the outcome of a verification.
type Result string

// The results of a verification.
const (
	Passed        Result = "passed"
	NotPassed     Result = "failed"
	NotVerifiable Result = "none" // nobody looked
)

// Observer is who saw what a document states.
type Observer string

// The observers. What MAAS says is reported, never observed.
const (
	Agent        Observer = "agent" // on the node itself
	ControlPlane Observer = "control_plane"
)

// Document is what a certificate or a handover receipt states.
type Document struct {
	Format     string      `json:"format" enum:"gpuaas.certificate/1"`
	Kind       Kind        `json:"kind" enum:"certificate,handover_receipt"`
	ID         string      `json:"id" format:"uuid"`
	Seq        int         `json:"seq" doc:"Which one of the node it is, from 1."`
	Previous   Previous    `json:"previous" doc:"The one before it of the same node."`
	Issuer     string      `json:"issuer" doc:"Name of the deployment that issued it."`
	IssuedAt   time.Time   `json:"issued_at"`
	Node       Node        `json:"node"`
	Machine    Machine     `json:"machine"`
	Operation  Operation   `json:"operation"`
	Subjects   []Subject   `json:"subjects" nullable:"false" doc:"What was cleaned, device by device and area by area."`
	Validation *Validation `json:"validation" doc:"The look for what tenants left, after the cleaning; null: there was none."`
	Reported   []Report    `json:"reported" nullable:"false" doc:"What another system said and nobody here observed."`
	NotCovered []Gap       `json:"not_covered" nullable:"false" doc:"What this document says nothing about."`
	Downgrades []Downgrade `json:"downgrades" nullable:"false" doc:"Where less was done than was asked for."`
	Overrides  []Override  `json:"overrides" nullable:"false" doc:"What operators decided to go on without."`

	// Absent in documents of earlier releases.
	Access       *Access       `json:"access,omitempty" doc:"The most that somebody had on the node before; absent: it was not recorded yet."`
	Installation *Installation `json:"installation,omitempty" doc:"The installation that the node ran on when this was issued; absent: it was not recorded yet."`
}

// Had is the access that somebody may have had on a node.
type Had string

// The kinds of access.
const (
	NoAccess   Had = "none" // no known access
	UserAccess Had = "user"
	RootAccess Had = "root"
)

// Access is the most access that somebody had on the node.
type Access struct {
	Had   Had        `json:"had" enum:"none,user,root" doc:"root: only an installation made after it speaks for the node independently."`
	Cause string     `json:"cause,omitempty" doc:"How they had root." example:"sudo"`
	At    *time.Time `json:"at,omitempty" doc:"When they last had it, or were last let in."`
}

// Installation is what the node ran on.
type Installation struct {
	MadeAt      *time.Time `json:"made_at,omitempty" doc:"When it began to be made: nothing of it is older. Absent: no operation of the issuer made it, or that was not recorded."`
	MadeBy      string     `json:"made_by,omitempty" doc:"The operation that made it."`
	Generation  int64      `json:"generation" doc:"Of the identity of the node; it grows when the node is installed anew or enrolled again."`
	Independent bool       `json:"independent" doc:"Whether nobody is known to have had root on it."`
}

// Previous is the document before this one of the same node.
type Previous struct {
	Seq    int    `json:"seq" doc:"0: this is the first one."`
	Digest string `json:"digest" doc:"SHA-256 of its file in canonical form; empty: this is the first one."`
}

// Node is the node that the document is about, as the inventory had it.
type Node struct {
	ID       string `json:"id" format:"uuid"`
	Hostname string `json:"hostname"`
	SKU      string `json:"sku"`
	Region   string `json:"region"`
}

// Machine is the hardware, as far as it is known.
type Machine struct {
	SystemID string   `json:"system_id" doc:"What MAAS calls it; empty: it is not known there."`
	Serials  []Serial `json:"serials" nullable:"false"`
}

// Serial identifies a piece of hardware.
type Serial struct {
	Part   string `json:"part" doc:"What it is a number of." example:"gpu"`
	Name   string `json:"name" doc:"Which one." example:"0"`
	Value  string `json:"value"`
	Source string `json:"source" doc:"Who said so."`
}

// Operation says what was asked for, by whom, and when it happened.
type Operation struct {
	DecommissionID string    `json:"decommission_id" format:"uuid"`
	Mode           string    `json:"mode" enum:"soft_reset,reimage,full_decommission,retire"`
	Reason         string    `json:"reason"`
	RequestedBy    string    `json:"requested_by"`
	RequestedAt    time.Time `json:"requested_at"`
	StartedAt      time.Time `json:"started_at"`
	EndedAt        time.Time `json:"ended_at" doc:"When the last stage before this document ended."`
	Actors         []Actor   `json:"actors" nullable:"false" doc:"Everybody who had a hand in it."`
}

// Actor is somebody who took part in the operation.
type Actor struct {
	Name string    `json:"name"`
	Did  string    `json:"did"`
	At   time.Time `json:"at"`
}

// Evidence points at what the control plane keeps as evidence of a claim.
type Evidence struct {
	Seq    int64  `json:"seq" doc:"Its number in the record of the operation."`
	Stage  string `json:"stage" doc:"The stage that saw it."`
	Kind   string `json:"kind"`
	Digest string `json:"digest" doc:"SHA-256 of the evidence in canonical JSON."`
}

// Subject is one device or area, and what was done to it.
type Subject struct {
	Kind         string       `json:"kind" enum:"disk,gpu,folder,memory,mounts,accounts,power,agent,secrets,inventory" doc:"What sort of thing it is."`
	Identifier   string       `json:"identifier" doc:"Which one: a serial number, UUID or path."`
	Description  string       `json:"description" doc:"What it is, for people; may be empty."`
	ObservedBy   Observer     `json:"observed_by" enum:"agent,control_plane"`
	Outcome      Outcome      `json:"outcome" enum:"sanitized,done,failed,refused"`
	Detail       string       `json:"detail" doc:"More on the outcome, for people; may be empty."`
	Method       string       `json:"method"`
	Level        Level        `json:"level" enum:"none,clear,purge" doc:"As NIST SP 800-88 names it; none: no claim."`
	CoveredBytes int64        `json:"covered_bytes"`
	TotalBytes   int64        `json:"total_bytes"`
	Verification Verification `json:"verification"`
	Tool         string       `json:"tool"`
	ToolVersion  string       `json:"tool_version"`
	StartedAt    time.Time    `json:"started_at"`
	EndedAt      time.Time    `json:"ended_at"`
	Evidence     []Evidence   `json:"evidence" nullable:"false"`

	NotIndependent string `json:"not_independent,omitempty" doc:"Why what is said here is not independent: somebody had root on the installation that says it. It claims nothing then. Absent: it is independent."`
}

// Verification is the check of a subject after it was sanitized.
type Verification struct {
	How             string `json:"how" doc:"What was done to find out."`
	Samples         int64  `json:"samples" doc:"Places that were read back."`
	BytesRead       int64  `json:"bytes_read"`
	SamplesUnclean  int64  `json:"samples_unclean" doc:"Places that held what they must not."`
	CanariesPlanted int64  `json:"canaries_planted" doc:"Known values written before."`
	CanariesFound   int64  `json:"canaries_found" doc:"Those of them that were still there afterwards."`
	Result          Result `json:"result" enum:"passed,failed,none"`
}

// Validation is the search for what tenants left behind.
type Validation struct {
	At         time.Time  `json:"at"`
	ObservedBy Observer   `json:"observed_by" enum:"agent,control_plane"`
	Clean      bool       `json:"clean"`
	Looked     []Look     `json:"looked" nullable:"false" doc:"What was looked at."`
	Findings   []Finding  `json:"findings" nullable:"false"`
	Evidence   []Evidence `json:"evidence" nullable:"false"`

	NotIndependent string `json:"not_independent,omitempty" doc:"Why the look is not independent; absent: it is."`
}

// Look is one thing that was looked at.
type Look struct {
	Kind   string `json:"kind"`
	Result string `json:"result"`
	Detail string `json:"detail"`
}

// Finding is one thing that was found.
type Finding struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// Report is what another system said.
type Report struct {
	By        string     `json:"by" doc:"Who said it." example:"MAAS"`
	Subject   string     `json:"subject"`
	Statement string     `json:"statement"`
	At        time.Time  `json:"at"`
	Evidence  []Evidence `json:"evidence" nullable:"false" doc:"The record of its having been said."`
}

// Gap is something that the document does not cover.
type Gap struct {
	Subject string `json:"subject" doc:"Identifier of the subject it belongs to; empty: it is not one of them."`
	What    string `json:"what"`
	Why     string `json:"why"`
}

// Downgrade says that less was done than was asked for, and who allowed it.
type Downgrade struct {
	Subject      string    `json:"subject"`
	Requested    string    `json:"requested"`
	Achieved     string    `json:"achieved"`
	Why          string    `json:"why"`
	DecidedBy    string    `json:"decided_by" doc:"A person, or the policy that allows it."`
	At           time.Time `json:"at"`
	ResidualRisk string    `json:"residual_risk"`
}

// Override is the decision of an operator to go on without something.
type Override struct {
	Stage        string    `json:"stage"`
	By           string    `json:"by"`
	Why          string    `json:"why"`
	ResidualRisk string    `json:"residual_risk"`
	At           time.Time `json:"at"`
}
