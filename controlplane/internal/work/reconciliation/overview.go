package reconciliation

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// Overview is the state of reconciliation at all sites.
type Overview struct {
	Totals Totals         `json:"totals"`
	Sites  []SiteOverview `json:"sites" nullable:"false"`
}

// Totals are counts over all sites. Each node counts as ok, drifted or
// unreconciled.
type Totals struct {
	Nodes        int64 `json:"nodes" doc:"Nodes that have a machine of MAAS."`
	OK           int64 `json:"ok" doc:"Those of them that MAAS showed as they should be, not long ago."`
	Drifted      int64 `json:"drifted" doc:"Those that are not as they should be."`
	Unreconciled int64 `json:"unreconciled" doc:"Those that were never looked at, or not for long."`
	StaleSites   int64 `json:"stale_sites" doc:"Active sites whose MAAS has not told all that was asked for long."`
}

// SiteState is the state of reconciliation at a site.
type SiteState string

// The states of a site.
const (
	SiteOK          SiteState = "ok"
	SiteStale       SiteState = "stale"          // for long, MAAS has not answered all questions
	SitePaused      SiteState = "paused"         // the site is disabled
	SiteBreakerOpen SiteState = "breaker_open"   // an operator must decide
	SiteUnheard     SiteState = "no_information" // the last cycle learned nothing
	SiteNever       SiteState = "never"          // there was no cycle yet
)

// SiteOverview is the state of reconciliation at one site.
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

// FindingCounts counts findings by severity.
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

// BreakerOverview is the open circuit breaker of a site: too many nodes would
// have been quarantined, so none is until an operator decides.
type BreakerOverview struct {
	Since       time.Time     `json:"since"`
	Nodes       []BreakerNode `json:"nodes" nullable:"false" doc:"The nodes that would have been quarantined."`
	ConfirmedAt *time.Time    `json:"confirmed_at,omitempty" doc:"When an operator said that they are to be; absent: nobody did."`
}

// BreakerNode is a node that the breaker keeps from being quarantined.
type BreakerNode struct {
	NodeID   id.Node `json:"node_id"`
	Hostname string  `json:"hostname"`
}

// RunError says why something was not learned or not done.
type RunError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// A site is stale after staleAfter periods without information. A node is
// unreconciled after unreadAfter sweeps without a look.
const (
	staleAfter  = 3
	unreadAfter = 2
)

// judge decides the state of the site and what the operator should do. A new
// site gets as much time until its first information as others between two.
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
		return "gpuaas reconcile status --site " + o.Name // lists the nodes and both decisions
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

// FindingShown is a finding with the names that people know.
type FindingShown struct {
	Finding
	SiteName string
}

// Advice is something that an operator may do.
type Advice struct {
	Command string `json:"command,omitempty" doc:"Absent: it is not done with a command." example:"gpuaas drift show c07u43"`
	What    string `json:"what" doc:"What that is good for, or what to do."`
}

// Advised returns what the operator should do now, the best first.
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

// adviceOf separates the command from the text about it.
func adviceOf(text string) Advice {
	if command, what, both := strings.Cut(text, ": "); both && strings.HasPrefix(command, "gpuaas ") {
		return Advice{Command: command, What: what}
	}
	if strings.HasPrefix(text, "gpuaas ") {
		return Advice{Command: text}
	}
	return Advice{What: text}
}

// The placeholders of advice, as whole words.
var (
	nodeWord = regexp.MustCompile(`\bNODE\b`)
	siteWord = regexp.MustCompile(`\bSITE\b`)
)

// fillIn replaces NODE and SITE in advice. Without a name, the placeholder
// stays.
func fillIn(advice, hostname, site string) string {
	if hostname != "" {
		advice = nodeWord.ReplaceAllLiteralString(advice, hostname)
	}
	if site != "" {
		advice = siteWord.ReplaceAllLiteralString(advice, site)
	}
	return strings.TrimSpace(advice)
}

// Drift is a node with the findings about it.
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
	Findings    []FindingShown // not over, the worst first
	History     []FindingShown // over, the newest first; filled for a single node only
	worst       int32          // its rank in a listing
}

// Advised returns what the operator should do now: the advice of the worst
// finding first, each piece once.
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

// DriftFilter filters the listing of nodes that drift. A node is listed if at
// least one of its findings matches.
type DriftFilter struct {
	Site     id.Site // zero: all sites
	Severity Severity
	Type     Type
	Repeated bool // only findings that keep coming back
}

// repeatedFrom is how many occurrences within a month make a finding a repeated
// one.
const repeatedFrom = 3

// DriftPosition is where the next page of nodes that drift begins.
type DriftPosition struct {
	Worst    int32   `json:"w"`
	Hostname string  `json:"h"`
	Node     id.Node `json:"n"`
}

// FindingFilter narrows the listing of findings.
type FindingFilter struct {
	Site     id.Site // zero: all sites
	Node     id.Node // zero: all findings, also those about no node
	Type     Type
	Severity Severity
	Status   string // a status of the lifecycle, or present for all that are not over
	Since    time.Time
}

// FindingPosition is where the next page of findings begins.
type FindingPosition struct {
	At time.Time  `json:"a"`
	ID id.Finding `json:"i"`
}

// RunShown is a run with the names that people know.
type RunShown struct {
	Run
	SiteName string
	Hostname string // the node of a resolution
}

// RunPosition is where the next page of runs begins.
type RunPosition struct {
	At time.Time            `json:"a"`
	ID id.ReconciliationRun `json:"i"`
}

// RunFilter narrows the listing of runs.
type RunFilter struct {
	Site    id.Site // zero: all sites
	Trigger Trigger
}
