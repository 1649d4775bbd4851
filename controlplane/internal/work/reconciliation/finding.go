package reconciliation

import (
	"encoding/json"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// Type is the kind of a finding. Each has its own file.
type Type string

// Severity says how much a finding matters.
type Severity string

// The severities.
const (
	Debug    Severity = "debug"
	Info     Severity = "info"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

var severities = []Severity{Debug, Info, Warning, Critical}

// Action is what reconciliation does about a finding without asking anybody.
type Action string

// The actions.
const (
	None        Action = ""
	Quarantine  Action = "quarantine"      // the node leaves scheduling; tenants on it keep running
	MarkOffline Action = "mark_offline"    // the node is marked offline before the missing contact would do it
	UpdateHost  Action = "update_host"     // the inventory takes over the new address
	Reseed      Action = "reseed_hw_sync"  // the agent gets the token of its machine again
	Release     Action = "release_machine" // MAAS releases the machine and powers it off
	PowerOff    Action = "power_off_machine"
)

// Verdict is what a rule says about a subject that it holds for.
type Verdict struct {
	Expected string         // for example Deployed
	Observed string         // for example Ready
	Message  string         // for people: what happened, and to what
	Details  map[string]any // never a secret
	// Withheld says why the action must not be taken this time. If it is empty,
	// nothing prevents the action.
	Withheld string
	// Host is the address that UpdateHost sets.
	Host string
}

// Rule is one kind of disagreement. To add one, add a file and a line in Rules.
type Rule struct {
	Type     Type
	Severity Severity
	Title    string // a few words
	Means    string // one sentence: what it means to those on the node
	Holds    string // in words: when the rule holds
	Runbook  string // name of its runbook; empty: none needed
	// Looks is how many looks must show it before it is believed: 2 where a
	// single look can be wrong.
	Looks int
	// When says whether the rule holds. It is pure: the same subject gives the
	// same verdict. It is nil for findings that are not about a node and its
	// machine; other code finds those.
	When func(s Subject) (Verdict, bool)
	// Action is taken once the finding is believed. With None, people decide.
	Action Action
	// Advice is what the operator should do, the best first, as commands with
	// the placeholders NODE and SITE.
	Advice []string
	// Adopt says whether an operator may accept what was observed as right.
	Adopt bool
	// Standing findings are read again only by the sweep, not in each cycle.
	Standing bool
}

// Finding is a disagreement that was found.
type Finding struct {
	ID              id.Finding
	Site            id.Site
	Node            id.Node // zero: not about a node
	Type            Type
	Severity        Severity
	Subject         string
	Status          Status
	SystemID        string
	Hostname        string
	Expected        string
	Observed        string
	Message         string
	Details         json.RawMessage
	Looks           int32
	Occurrence      int32
	Action          Action
	Withheld        string
	ActionNote      string
	OpenedAt        time.Time
	LastSeenAt      time.Time
	ConfirmedAt     *time.Time
	ActedAt         *time.Time
	AcknowledgedAt  *time.Time
	AcknowledgedBy  string
	Acknowledgement string
	ClosedAt        *time.Time
	ClosedBecause   string
}
