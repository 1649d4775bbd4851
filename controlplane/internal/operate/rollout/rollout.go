package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Status is how a rollout stands.
type Status string

// The statuses of rollouts. A rollout that is returning gives its nodes the version
// back that they had, and ends as aborted.
const (
	Running   Status = "running"
	Paused    Status = "paused"
	Returning Status = "returning"
	Completed Status = "completed"
	Aborted   Status = "aborted"
)

var statuses = []Status{Running, Paused, Returning, Completed, Aborted}

// Over reports whether nothing happens any more.
func (s Status) Over() bool { return s == Completed || s == Aborted }

// Outcome is how far a node has come.
type Outcome string

// The outcomes of nodes. Those in flight are updating, baking or on their way back.
const (
	Pending        Outcome = "pending"
	Updating       Outcome = "updating"
	Baking         Outcome = "baking"
	Verified       Outcome = "verified"
	Failed         Outcome = "failed"
	GoingBack      Outcome = "returning"
	Returned       Outcome = "returned"
	SkippedOffline Outcome = "skipped_offline"
	Excluded       Outcome = "excluded"
)

var outcomes = []Outcome{Pending, Updating, Baking, Verified, Failed, GoingBack, Returned, SkippedOffline, Excluded}

// Target says which nodes are meant; what is empty does not matter.
type Target struct {
	Channel string            `json:"channel,omitempty" enum:"stable,candidate" doc:"Nodes of this channel."`
	Region  string            `json:"region,omitempty" maxLength:"63" doc:"Nodes of this region."`
	Site    id.Site           `json:"site_id,omitzero" doc:"Nodes of this MAAS site."`
	SKU     string            `json:"sku,omitempty" maxLength:"63" doc:"Nodes of this SKU."`
	Pool    string            `json:"pool,omitempty" maxLength:"63" doc:"Nodes of this pool."`
	Labels  map[string]string `json:"labels,omitempty" maxProperties:"20" doc:"Nodes that have all these labels."`
}

// What happens to nodes that have the version when too many fail.
const (
	backNobody = "nobody"
	backWave   = "wave"
	backAll    = "all"
)

// What a rollout does with nodes that somebody rents.
const (
	rentedLeave  = "leave"
	rentedUpdate = "update"
)

// Plan says how careful a rollout is.
type Plan struct {
	Canaries       int32  `json:"canaries,omitempty" minimum:"0" maximum:"1000" doc:"Nodes of the first wave, of every SKU and site in turn; 0: by canary_percent."`
	CanaryPercent  int32  `json:"canary_percent,omitempty" minimum:"0" maximum:"100" doc:"Share of the nodes in the first wave, at least one of every SKU and site; 0 with no canaries: 5."`
	WavePercent    int32  `json:"wave_percent,omitempty" minimum:"0" maximum:"100" doc:"Share of the nodes in each later wave; 0: 25."`
	Parallel       int32  `json:"parallel,omitempty" minimum:"0" maximum:"1000" doc:"Nodes that are updated at the same time; 0: 10."`
	MaxUnavailable int32  `json:"max_unavailable,omitempty" minimum:"0" maximum:"1000" doc:"Nodes that are updated or failed at the same time, and those on their way back; 0: twice parallel."`
	BakeSeconds    int64  `json:"bake_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How long a node must be well with the version; 0: 300."`
	NodeSeconds    int64  `json:"node_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How long the update of a node may take; 0: 1800."`
	MaxFailures    int32  `json:"max_failures,omitempty" minimum:"0" maximum:"1000" doc:"Failed nodes that do not pause it, fewer than max_unavailable. A failed canary always does."`
	MemoryMiB      int32  `json:"memory_mib,omitempty" minimum:"0" maximum:"1048576" doc:"An agent that uses more than this after the bake time, and more than it did before, has failed; 0: 512."`
	MemoryPercent  int32  `json:"memory_percent,omitempty" minimum:"0" maximum:"100000" doc:"So has one that uses more than this share of what it used before, and 32 MiB more; 0: 200."`
	GoBack         string `json:"go_back,omitempty" enum:"nobody,wave,all" doc:"Who gets the version before back when it is paused for failures; absent: wave. A failed node always does."`
	Rented         string `json:"rented,omitempty" enum:"leave,update" doc:"Nodes that somebody rents; absent: leave."`
	Approve        bool   `json:"approve,omitempty" doc:"Somebody must approve each wave after the first."`
	// Nothing begins outside of the windows; what is under way goes to its end.
	Windows []Window `json:"windows,omitempty" maxItems:"21" doc:"When nodes may be begun with; none: always. What is under way when a window closes goes to its end."`
	Closed  []string `json:"closed,omitempty" maxItems:"400" doc:"Days on which no window begins, as 2026-12-24."`
}

func (p Plan) withDefaults() Plan {
	if p.Canaries == 0 {
		p.CanaryPercent = cmp.Or(p.CanaryPercent, 5)
	}
	p.WavePercent, p.Parallel = cmp.Or(p.WavePercent, 25), cmp.Or(p.Parallel, 10)
	p.MaxUnavailable = cmp.Or(p.MaxUnavailable, 2*p.Parallel)
	p.MaxFailures = min(p.MaxFailures, p.MaxUnavailable-1) // or it would neither pause nor go on
	p.BakeSeconds, p.NodeSeconds = cmp.Or(p.BakeSeconds, 300), cmp.Or(p.NodeSeconds, 1800)
	p.MemoryMiB, p.MemoryPercent = cmp.Or(p.MemoryMiB, 512), cmp.Or(p.MemoryPercent, 200)
	p.GoBack, p.Rented = cmp.Or(p.GoBack, backWave), cmp.Or(p.Rented, rentedLeave)
	return p
}

func (p Plan) bake() time.Duration { return time.Duration(p.BakeSeconds) * time.Second }
func (p Plan) node() time.Duration { return time.Duration(p.NodeSeconds) * time.Second }

// Rollout is a release on its way.
type Rollout struct {
	ID            id.Rollout
	Version       string
	Status        Status
	Target        Target
	Plan          Plan
	Waves, Wave   int32 // how many there are, and which one is under way
	PausedBecause string
	PausedCode    string
	Forgiven      int32
	ApprovedWave  int32
	Reason        string
	RequestedBy   string
	CreatedAt     time.Time
	UpdatedAt     time.Time
	FinishedAt    *time.Time
	RowVersion    int64
	Counts        []Count
}

// Count is how many nodes of a wave have an outcome.
type Count struct {
	Wave     int32 // -1: the rollout leaves them alone
	Outcome  Outcome
	Nodes    int64
	Failures int64
}

func (r Rollout) number(of ...Outcome) (n int64) {
	for _, c := range r.Counts {
		if slices.Contains(of, c.Outcome) {
			n += c.Nodes
		}
	}
	return n
}

// proven reports whether a canary runs the version and is well.
func (r Rollout) proven() bool {
	return slices.ContainsFunc(r.Counts, func(c Count) bool { return c.Wave == 0 && c.Outcome == Verified })
}

// failures are those that count, and those of canaries among them.
func (r Rollout) failures() (all, canaries int64) {
	for _, c := range r.Counts {
		all += c.Failures
		if c.Wave == 0 {
			canaries += c.Failures
		}
	}
	return all, canaries
}

// Member is a node of a rollout.
type Member struct {
	Rollout        id.Rollout
	Node           id.Node
	Hostname       string
	Kind           string // SKU and site, which canaries are drawn from
	Wave           *int32
	Outcome        Outcome
	Detail         string
	From           string
	WasSchedulable bool
	MemoryBefore   int64 // bytes that its agent used before; 0: nobody knows
	Task           id.NodeTask
	Failures       int32
	Silent         bool // its failure was silence: it may come back with the version
	StartedAt      *time.Time
	DeadlineAt     *time.Time
	BakeUntil      *time.Time
	FinishedAt     *time.Time
}

func (m Member) ended(o Outcome, now time.Time, format string, args ...any) Member {
	m.Outcome, m.Detail, m.FinishedAt, m.DeadlineAt = o, fmt.Sprintf(format, args...), &now, nil
	if o == Failed {
		m.Failures++
	}
	return m
}

// candidate is a node that a target means.
type candidate struct {
	node           id.Node
	hostname, kind string
	excluded       string // why it is left alone; empty: it is not
	offline        bool   // it proves nothing as a canary
}

// arrange draws canaries of every kind in turn, and puts the others into waves. It
// returns the wave of each node, and how many waves there are.
func arrange(nodes []candidate, p Plan) (waves map[id.Node]int32, count int32) {
	var kinds []string
	byKind := map[string][]candidate{}
	total := int32(0)
	for _, n := range nodes {
		if n.excluded != "" {
			continue
		}
		if byKind[n.kind] == nil {
			kinds = append(kinds, n.kind)
		}
		byKind[n.kind] = append(byKind[n.kind], n)
		total++
	}
	for _, k := range kinds {
		slices.SortStableFunc(byKind[k], func(a, b candidate) int { return yes(a.offline) - yes(b.offline) })
	}
	canaries := p.Canaries
	if canaries == 0 {
		canaries = max(share(total, p.CanaryPercent), int32(len(kinds))) //nolint:gosec // at most as many as nodes
	}
	waves = map[id.Node]int32{}
	for round := 0; canaries > 0 && int32(len(waves)) < total; round++ { //nolint:gosec // likewise
		for _, k := range kinds {
			if round < len(byKind[k]) && canaries > 0 {
				waves[byKind[k][round].node] = 0
				canaries--
			}
		}
	}
	size, wave, in := max(1, share(total, p.WavePercent)), int32(1), int32(0)
	for _, n := range nodes {
		if _, canary := waves[n.node]; canary || n.excluded != "" {
			continue
		}
		if in == size {
			wave, in = wave+1, 0
		}
		waves[n.node] = wave
		in++
	}
	if in == 0 {
		return waves, 1
	}
	return waves, wave + 1
}

func yes(b bool) int {
	if b {
		return 1
	}
	return 0
}

// share is a percentage of a number, rounded up.
func share(of, percent int32) int32 { return (of*percent + 99) / 100 }

func missing() error {
	return fault.New(fault.NotFound, "agent_rollout_not_found", "there is no such rollout").
		WithRemedy("list them: gpuaas agent rollout list")
}

func encoded(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode rollout: %w", err)
	}
	return raw, nil
}
