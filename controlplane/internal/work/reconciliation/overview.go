package reconciliation

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// Overview is how all sites stand.
type Overview struct {
	Totals Totals         `json:"totals"`
	Sites  []SiteOverview `json:"sites" nullable:"false"`
}

// Totals are counts over all sites. A node is one of ok, drifted or
// unreconciled.
type Totals struct {
	Nodes        int64 `json:"nodes" doc:"Nodes that have a machine of MAAS."`
	OK           int64 `json:"ok" doc:"Those of them that MAAS showed as they should be, not long ago."`
	Drifted      int64 `json:"drifted" doc:"Those that are not as they should be."`
	Unreconciled int64 `json:"unreconciled" doc:"Those that were never looked at, or not for long."`
	StaleSites   int64 `json:"stale_sites" doc:"Active sites whose MAAS has not told all that was asked for long."`
}

// SiteState is how reconciliation of a site stands.
type SiteState string

// The states of a site.
const (
	SiteOK          SiteState = "ok"
	SiteStale       SiteState = "stale"          // MAAS has not told all that was asked for long
	SitePaused      SiteState = "paused"         // the site is disabled
	SiteBreakerOpen SiteState = "breaker_open"   // an operator must decide
	SiteUnheard     SiteState = "no_information" // the last cycle learned nothing
	SiteNever       SiteState = "never"          // there was no cycle yet
)

// SiteOverview is how one site stands.
type SiteOverview struct {
	SiteID         id.Site          `json:"site_id"`
	Name           string           `json:"name" example:"dc1"`
	State          SiteState        `json:"state" enum:"ok,stale,paused,breaker_open,no_information,never"`
	Stale          bool             `json:"stale" doc:"Whether MAAS has not told all that was asked for long, whatever else is the matter."`
	LastCycleAt    *time.Time       `json:"last_cycle_at,omitempty" doc:"Absent: there was none yet."`
	LastInformedAt *time.Time       `json:"last_informed_at,omitempty" doc:"When MAAS last answered all that a cycle asked; absent: never."`
	LastError      *RunError        `json:"last_error,omitempty" doc:"Why the last cycle did not learn all; absent: it did."`
	SweepEndedAt   *time.Time       `json:"sweep_ended_at,omitempty" doc:"When every machine had last been read; absent: that was not yet."`
	Nodes          int64            `json:"nodes" doc:"Nodes that have a machine of it."`
	OK             int64            `json:"ok"`
	Drifted        int64            `json:"drifted"`
	Unreconciled   int64            `json:"unreconciled"`
	Findings       FindingCounts    `json:"findings" doc:"Findings that are not over, those that are not about nodes included."`
	Breaker        *BreakerOverview `json:"breaker,omitempty" doc:"Absent: it is closed, and nodes are quarantined where that is due."`
	Remedy         string           `json:"remedy,omitempty" doc:"What an operator does best now; absent when there is nothing to do." example:"gpuaas drift --site dc1"`
}

// FindingCounts are how many findings there are, by severity.
type FindingCounts struct {
	Critical int64 `json:"critical"`
	Warning  int64 `json:"warning"`
	Info     int64 `json:"info"`
	Debug    int64 `json:"debug"`
}

func (c *FindingCounts) add(s Severity, n int64) {
	switch s {
	case Critical:
		c.Critical += n
	case Warning:
		c.Warning += n
	case Info:
		c.Info += n
	case Debug:
		c.Debug += n
	}
}

// BreakerOverview is the circuit breaker of a site that is open: too many nodes
// would have been quarantined, and none is until somebody decides.
type BreakerOverview struct {
	Since       time.Time     `json:"since"`
	Nodes       []BreakerNode `json:"nodes" nullable:"false" doc:"The nodes that would have been quarantined."`
	ConfirmedAt *time.Time    `json:"confirmed_at,omitempty" doc:"When an operator said that they are to be; absent: nobody did."`
}

// BreakerNode is a node that would have been quarantined.
type BreakerNode struct {
	NodeID   id.Node `json:"node_id"`
	Hostname string  `json:"hostname"`
}

// RunError is why something was not learned, or not done.
type RunError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// staleAfter is how many periods without information make a site stale, and
// unreadAfter how many sweeps without a look a node unreconciled.
const (
	staleAfter  = 3
	unreadAfter = 2
)

// judge says how the site stands, and what to do about that. A site that is new
// has as long to be heard of as one that was.
func (o *SiteOverview) judge(active bool, created time.Time, outcome Outcome, every time.Duration, now time.Time) {
	heard := created
	if o.LastInformedAt != nil {
		heard = *o.LastInformedAt
	}
	o.Stale = active && now.Sub(heard) > staleAfter*every
	switch {
	case !active:
		o.State = SitePaused
	case o.Breaker != nil:
		o.State = SiteBreakerOpen
	case o.Stale:
		o.State = SiteStale
	case o.LastCycleAt == nil:
		o.State = SiteNever
	case outcome == Unheard:
		o.State = SiteUnheard
	default:
		o.State = SiteOK
	}
	o.Remedy = o.remedy()
}

func (o *SiteOverview) remedy() string {
	switch o.State {
	case SitePaused:
		return "gpuaas site enable " + o.Name
	case SiteBreakerOpen:
		return "gpuaas reconcile status --site " + o.Name // lists the nodes, and both decisions
	case SiteStale, SiteUnheard:
		return "gpuaas site doctor " + o.Name
	case SiteNever:
		return "gpuaas reconcile --site " + o.Name
	case SiteOK:
	}
	if o.Drifted > 0 {
		return "gpuaas drift --site " + o.Name
	}
	return ""
}

// FindingShown is a finding with what names it to people.
type FindingShown struct {
	Finding
	SiteName string
}

// Advice is something that an operator may do.
type Advice struct {
	Command string `json:"command,omitempty" doc:"Absent: it is not done with a command." example:"gpuaas drift show c07u43"`
	What    string `json:"what" doc:"What that is good for, or what to do."`
}

// Advised is what an operator does best now, the best first.
func (f FindingShown) Advised() []Advice {
	out := []Advice{}
	rule, known := RuleOf(f.Type)
	if !known || f.Status == Closed {
		return out
	}
	for _, text := range rule.Advice {
		out = append(out, adviceOf(fillIn(text, f.Hostname, f.SiteName)))
	}
	return out
}

// adviceOf takes a command from what is said about it.
func adviceOf(text string) Advice {
	if command, what, both := strings.Cut(text, ": "); both && strings.HasPrefix(command, "gpuaas ") {
		return Advice{Command: command, What: what}
	}
	if strings.HasPrefix(text, "gpuaas ") {
		return Advice{Command: text}
	}
	return Advice{What: text}
}

// Placeholders of advice are words of their own.
var (
	nodeWord = regexp.MustCompile(`\bNODE\b`)
	siteWord = regexp.MustCompile(`\bSITE\b`)
)

// fillIn puts names where advice has NODE and SITE. Where there is no name, the
// placeholder stays.
func fillIn(advice, hostname, site string) string {
	if hostname != "" {
		advice = nodeWord.ReplaceAllLiteralString(advice, hostname)
	}
	if site != "" {
		advice = siteWord.ReplaceAllLiteralString(advice, site)
	}
	return strings.TrimSpace(advice)
}

// Drift is a node beside what is not as it should be about it.
type Drift struct {
	Node        id.Node
	Hostname    string
	Site        id.Site
	SiteName    string
	Status      node.Status
	Schedulable bool
	HoldReason  string
	HeldBy      string
	SystemID    string
	MAASStatus  string
	Power       string
	ReadAt      *time.Time // nil: never
	Drifted     bool
	Findings    []FindingShown // that are not over, the worst first
	History     []FindingShown // that are, the newest first; of a single node only
	worst       int32          // where it stands in a listing
}

// Advised is what an operator does best now: what the worst finding needs first,
// each once.
func (d Drift) Advised() []Advice {
	out := []Advice{}
	for _, f := range d.Findings {
		for _, a := range f.Advised() {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// DriftFilter narrows the listing of nodes that drift. A node counts when one of
// its findings is as the filter wants.
type DriftFilter struct {
	Site     id.Site // zero: all
	Severity Severity
	Type     Type
	Repeated bool // only findings that came back again and again
}

// repeatedFrom is the occurrence within a month that makes a finding a repeated
// one.
const repeatedFrom = 3

// DriftPosition is where a listing of nodes that drift goes on.
type DriftPosition struct {
	Worst    int32   `json:"w"`
	Hostname string  `json:"h"`
	Node     id.Node `json:"n"`
}

// FindingFilter narrows the listing of findings.
type FindingFilter struct {
	Site     id.Site // zero: all
	Node     id.Node // zero: all, those that are not about nodes included
	Type     Type
	Severity Severity
	Status   string // of the lifecycle, or present: not over
	Since    time.Time
}

// FindingPosition is where a listing of findings goes on.
type FindingPosition struct {
	At time.Time  `json:"a"`
	ID id.Finding `json:"i"`
}

// RunShown is a run with what names it to people.
type RunShown struct {
	Run
	SiteName string
	Hostname string // of the node of a resolution
}

// RunPosition is where a listing of runs goes on.
type RunPosition struct {
	At time.Time            `json:"a"`
	ID id.ReconciliationRun `json:"i"`
}

// RunFilter narrows the listing of runs.
type RunFilter struct {
	Site    id.Site // zero: all
	Trigger Trigger
}
