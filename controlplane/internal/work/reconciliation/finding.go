package reconciliation

import (
	"encoding/json"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// Type is the kind of a finding: one file each.
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

// Action is what reconciliation does about a finding by itself.
type Action string

// The actions.
const (
	None        Action = ""
	Quarantine  Action = "quarantine"      // the node leaves scheduling; what runs on it is not touched
	MarkOffline Action = "mark_offline"    // the node is what its agent would make of it soon
	UpdateHost  Action = "update_host"     // the inventory follows
	Reseed      Action = "reseed_hw_sync"  // the agent gets the token of its machine anew
	Release     Action = "release_machine" // MAAS releases the machine and powers it off
)

// Verdict is what a rule says about a subject for which it holds.
type Verdict struct {
	Expected string         // such as: Deployed
	Observed string         // such as: Ready
	Message  string         // what happened, to what, for people
	Details  map[string]any // never a secret
	// Withheld says why the action of the rule must not be taken this time; empty:
	// nothing is in its way.
	Withheld string
	// Host is what UpdateHost sets.
	Host string
}

// Rule is one kind of disagreement. A new one is a new file and a line in Rules.
type Rule struct {
	Type     Type
	Severity Severity
	Title    string // a few words
	Means    string // what it means to those on the node, a sentence
	Holds    string // when it does, in words
	Runbook  string // the name of its runbook; empty: it needs none
	// Looks is how many looks must show it before it is believed: 2 where one can
	// be wrong.
	Looks int
	// When says whether it holds. It is pure: the same subject gives the same
	// verdict. Nil: it is not about a node and its machine, but found elsewhere.
	When func(s Subject) (Verdict, bool)
	// Action is what is done once it is believed; None: people decide.
	Action Action
	// Advice is what the operator should do, best first, as commands with NODE and
	// SITE in them.
	Advice []string
	// Adopt says whether an operator may accept what was observed.
	Adopt bool
	// Standing findings are not read anew in each cycle, only by the sweep.
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
