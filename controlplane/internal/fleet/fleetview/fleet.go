package fleetview

import (
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// Filter filters what is shown. A zero field filters nothing.
type Filter struct {
	SKU        string
	RegionCode string
	Site       id.Site
	Search     string // as node.Filter has it
	Drift      node.Drift
	Agent      node.AgentState
	Held       *bool
	Tainted    *bool
}

// byNode reports whether the filter names a property of nodes. Then findings
// and jobs without a node do not match.
func (f Filter) byNode() bool { return f.SKU != "" || f.Search != "" || f.byCondition() }

// byCondition reports whether the filter names a computed condition. It can be
// applied only after the nodes were read, and only nodes have one.
func (f Filter) byCondition() bool {
	return f.Drift != "" || f.Agent != "" || f.Held != nil || f.Tainted != nil
}

func (f Filter) wants(n Alike) bool {
	return (f.Drift == "" || n.Drift == f.Drift) && (f.Agent == "" || n.Agent == f.Agent) &&
		(f.Held == nil || n.Held == *f.Held) && (f.Tainted == nil || n.Tainted == *f.Tainted)
}

// Kind is the kind of job that works on a node, such as onboarding.
type Kind string

// Family is a kind of jobs that the view counts and shows.
type Family struct {
	Noun     Kind
	Statuses []string // of its jobs that are not over
}

// running and parked name the fields that count jobs of a kind.
func (k Kind) running() string { return string(k) + "s_running" }
func (k Kind) parked() string  { return string(k) + "s_parked" }

// Job is a job that is not over.
type Job struct {
	Kind   Kind
	ID     string
	Node   id.Node // that exists or will exist; zero: it is about none
	Status string
	Parked bool // it waits for somebody
}

// Node is a node with the few facts that the map shows.
type Node struct {
	ID          id.Node
	Hostname    string
	Status      node.Status
	Schedulable bool
	RegionCode  string
	Rack        string  // empty: nobody said
	Site        id.Site // zero: of no site
	Drift       node.Drift
	Severity    string // of its worst finding; empty: it has none
	Job         *Job   // the job that works on it; nil: none
}

// Alike are nodes that a summary counts as one group.
type Alike struct {
	Number      int64
	Node        id.Node // set only where the single node matters
	Status      node.Status
	Schedulable bool
	Held        bool
	Tainted     bool
	GPUs        int32 // of each
	SKU         string
	RegionCode  string
	Site        id.Site // zero: of no site
	Drift       node.Drift
	Agent       node.AgentState
}

// Finding counts the findings of one severity that are not over.
type Finding struct {
	Node     id.Node // zero: not about a node
	Severity string
	Number   int64
}

// Site is a site that nodes may be of.
type Site struct {
	ID         id.Site
	Name       string
	RegionCode string
	Deleted    bool
}

// severities are the severities of findings, the worst last.
var severities = []string{"debug", "info", "warning", "critical"}

func worse(a, b string) bool { return slices.Index(severities, a) > slices.Index(severities, b) }

// mark adds findings and jobs to nodes. If several jobs work on a node, it shows
// the one that was asked for last, which is the last of the list.
func mark(nodes []Node, findings []Finding, jobs []Job) {
	at := make(map[id.Node]*Node, len(nodes))
	for i := range nodes {
		at[nodes[i].ID] = &nodes[i]
	}
	for _, f := range findings {
		if n := at[f.Node]; n != nil && worse(f.Severity, n.Severity) {
			n.Severity = f.Severity
		}
	}
	for i := range jobs {
		if n := at[jobs[i].Node]; n != nil {
			n.Job = &jobs[i]
		}
	}
}

// summarise counts nodes, findings and jobs.
func summarise(f Filter, nodes []Alike, findings []Finding, jobs []Job, sites []Site, none JobCounts) Summary {
	s := Summary{ByStatus: noNodes(), Jobs: none, Regions: []Region{}, Sites: []SiteCount{}, SKUs: []SKUCount{}}
	regions, skus, of := map[string]*Region{}, map[string]int64{}, map[id.Site]*Counted{}
	known := map[id.Node]bool{}
	for _, n := range nodes {
		if !n.Node.IsZero() {
			known[n.Node] = true
		}
		s.add(n)
		if regions[n.RegionCode] == nil {
			regions[n.RegionCode] = &Region{RegionCode: n.RegionCode, Counted: Counted{ByStatus: noNodes()}}
		}
		regions[n.RegionCode].add(n.Status, n.Number)
		skus[n.SKU] += n.Number
		if of[n.Site] == nil {
			of[n.Site] = &Counted{ByStatus: noNodes()}
		}
		of[n.Site].add(n.Status, n.Number)
	}
	for _, found := range findings {
		if !f.byNode() || known[found.Node] {
			s.Findings.add(found.Severity, found.Number)
		}
	}
	for _, j := range jobs {
		if !f.byCondition() || known[j.Node] {
			s.Jobs.add(j)
		}
	}
	for _, r := range regions {
		s.Regions = append(s.Regions, *r)
	}
	slices.SortFunc(s.Regions, func(a, b Region) int { return strings.Compare(a.RegionCode, b.RegionCode) })
	for sku, total := range skus {
		s.SKUs = append(s.SKUs, SKUCount{SKU: sku, Total: total})
	}
	slices.SortFunc(s.SKUs, func(a, b SKUCount) int { return strings.Compare(a.SKU, b.SKU) })
	s.Sites = countSites(f, sites, of)
	return s
}

// countSites also lists sites without nodes, as long as the site exists:
// somebody is about to fill it.
func countSites(f Filter, sites []Site, of map[id.Site]*Counted) []SiteCount {
	out := []SiteCount{}
	for _, site := range sites {
		counted := of[site.ID]
		wanted := !site.Deleted && (f.Site.IsZero() || f.Site == site.ID) &&
			(f.RegionCode == "" || f.RegionCode == site.RegionCode)
		switch {
		case counted != nil:
			out = append(out, SiteCount{SiteID: site.ID, Name: site.Name, RegionCode: site.RegionCode, Counted: *counted})
		case wanted:
			none := Counted{ByStatus: noNodes()}
			out = append(out, SiteCount{SiteID: site.ID, Name: site.Name, RegionCode: site.RegionCode, Counted: none})
		}
	}
	return out
}

// keep returns the nodes whose condition matches.
func (f Filter) keep(nodes []Alike) []Alike {
	return slices.DeleteFunc(nodes, func(n Alike) bool { return !f.wants(n) })
}

// Summary describes the fleet in numbers.
type Summary struct {
	AsOf        time.Time     `json:"as_of" doc:"When it was so; nothing here is older."`
	Total       int64         `json:"total" doc:"Nodes that are not deleted."`
	GPUsTotal   int64         `json:"gpus_total" doc:"GPUs of them all."`
	Schedulable int64         `json:"schedulable" doc:"Nodes that new work may be placed on."`
	Held        int64         `json:"held" doc:"Nodes that an operator or an operation keeps out of scheduling."`
	Tainted     int64         `json:"tainted" doc:"Nodes not proven clean since a tenant had access or they were found unclean."`
	ByStatus    StatusCounts  `json:"by_status" doc:"Nodes by their state."`
	Agents      AgentCounts   `json:"agents" doc:"Nodes in service by their agent; each is counted once. Those that are retired or being removed have no agent to speak of and are not counted."`
	Findings    FindingCounts `json:"findings" doc:"Findings of reconciliation that are not over. Those that are not about a node are counted unless something but region_code and site_id narrows."`
	Jobs        JobCounts     `json:"jobs" doc:"Jobs that are not over."`
	Regions     []Region      `json:"regions" nullable:"false" doc:"The regions that have nodes."`
	Sites       []SiteCount   `json:"sites" nullable:"false" doc:"The sites, those without nodes included."`
	SKUs        []SKUCount    `json:"skus" nullable:"false" doc:"The kinds of machines that there are."`
}

func (s *Summary) add(n Alike) {
	s.Total += n.Number
	s.GPUsTotal += n.Number * int64(n.GPUs)
	s.ByStatus[n.Status] += n.Number
	if n.Schedulable {
		s.Schedulable += n.Number
	}
	if n.Held {
		s.Held += n.Number
	}
	if n.Tainted {
		s.Tainted += n.Number
	}
	switch n.Agent {
	case node.AgentUnknownBuild:
		s.Agents.UnknownBuild += n.Number
	case node.AgentCurrent:
		s.Agents.Current += n.Number
	case node.AgentDrift:
		s.Agents.Drift += n.Number
	case node.NoAgent: // is not counted
	}
}

// StatusCounts counts nodes by state, zeroes included.
type StatusCounts map[node.Status]int64

// noNodes has a number for every state that a node of the fleet can have.
func noNodes() StatusCounts {
	c := StatusCounts{}
	for _, s := range node.Lifecycle.Lasting() {
		c[s] = 0
	}
	return c
}

// AgentCounts counts nodes in service by the state of their agent.
type AgentCounts struct {
	Current      int64 `json:"current" doc:"The agent is what it should be."`
	Drift        int64 `json:"drift" doc:"Another version, configuration or certificate is due."`
	UnknownBuild int64 `json:"unknown_build" doc:"Nobody can tell what the agent was built of, or there is none yet."`
}

// FindingCounts counts findings by severity.
type FindingCounts struct {
	Critical int64 `json:"critical"`
	Warning  int64 `json:"warning"`
	Info     int64 `json:"info"`
	Debug    int64 `json:"debug"`
}

func (c *FindingCounts) add(severity string, n int64) {
	switch severity {
	case "critical":
		c.Critical += n
	case "warning":
		c.Warning += n
	case "info":
		c.Info += n
	default:
		c.Debug += n
	}
}

// JobCounts counts jobs that are not over, zeroes included. A job that is not
// parked counts as running, even while it waits for its turn.
type JobCounts map[string]int64

// noJobs has both numbers for every kind of jobs.
func noJobs(families []Family) JobCounts {
	c := JobCounts{}
	for _, f := range families {
		c[f.Noun.running()], c[f.Noun.parked()] = 0, 0
	}
	return c
}

func (c JobCounts) add(j Job) {
	if j.Parked {
		c[j.Kind.parked()]++
		return
	}
	c[j.Kind.running()]++
}

// Counted counts nodes.
type Counted struct {
	Total    int64        `json:"total" doc:"Nodes that it has."`
	ByStatus StatusCounts `json:"by_status"`
}

func (c *Counted) add(s node.Status, n int64) {
	c.Total += n
	c.ByStatus[s] += n
}

// Region counts the nodes of a region.
type Region struct {
	RegionCode string `json:"region_code" example:"eu-1"`
	Counted
}

// SiteCount counts the nodes of a site.
type SiteCount struct {
	SiteID     id.Site `json:"site_id"`
	Name       string  `json:"name" example:"dc1"`
	RegionCode string  `json:"region_code" example:"eu-1"`
	Counted
}

// SKUCount counts the nodes of a SKU.
type SKUCount struct {
	SKU   string `json:"sku" example:"h200-sxm-baremetal-8g"`
	Total int64  `json:"total"`
}
