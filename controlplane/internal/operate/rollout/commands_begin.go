package rollout

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

// mostNodes bounds a rollout.
const mostNodes = 20000

// Order is a rollout that somebody asks for.
type Order struct {
	Version string
	Target  Target
	Plan    Plan
	Reason  string
}

// Preview says who would be in which wave, and why not.
func (s *Service) Preview(ctx context.Context, o Order) (Rollout, []Member, error) {
	var r Rollout
	var members []Member
	if err := s.check(ctx, o); err != nil {
		return r, nil, err
	}
	err := s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		r, members, err = s.plan(ctx, rolloutdb.New(tx), o)
		return err
	})
	return r, members, err
}

// check refuses what could never be given, or at no time.
func (s *Service) check(ctx context.Context, o Order) error {
	if err := o.Plan.checkWindows(s.Clock()); err != nil {
		return err
	}
	return s.Released(ctx, o.Version)
}

// plan freezes who is meant. It changes nothing.
func (s *Service) plan(ctx context.Context, q *rolloutdb.Queries, o Order) (Rollout, []Member, error) {
	labels, err := encoded(o.Target.Labels)
	if err != nil {
		return Rollout{}, nil, err
	}
	if len(o.Target.Labels) == 0 {
		labels = nil
	}
	rows, err := q.Candidates(ctx, rolloutdb.CandidatesParams{
		Channel: optional(o.Target.Channel), Region: optional(o.Target.Region), Site: optional(site(o.Target.Site)),
		Sku: optional(o.Target.SKU), Pool: optional(o.Target.Pool), Labels: labels, Version: o.Version,
		Most: mostNodes + 1,
	})
	if err != nil {
		return Rollout{}, nil, fmt.Errorf("list nodes for rollout: %w", err)
	}
	switch {
	case len(rows) == 0:
		return Rollout{}, nil, fault.New(fault.Conflict, "agent_rollout_no_nodes", "no node matches this target").
			WithRemedy("see what there is: gpuaas node list; nodes are assigned with gpuaas node update --agent-channel")
	case len(rows) > mostNodes:
		return Rollout{}, nil, fault.New(fault.Conflict, "agent_rollout_too_large", "more than %d nodes match this target",
			mostNodes).
			WithRemedy("narrow the target, by region for example")
	}
	r := Rollout{Version: o.Version, Status: Running, Target: o.Target, Plan: o.Plan.withDefaults(), Reason: o.Reason}
	nodes := make([]candidate, len(rows))
	meant := 0
	for i, row := range rows {
		nodes[i] = candidate{
			node: row.ID, hostname: row.Hostname, kind: row.SkuID + " " + row.Site, excluded: leftAlone(row, r, s.Clock()),
			offline: node.Status(row.Status) == node.Offline,
		}
		if nodes[i].excluded == "" {
			meant++
		}
	}
	var waves map[id.Node]int32
	waves, r.Waves = arrange(nodes, r.Plan)
	members := make([]Member, len(nodes))
	for i, n := range nodes {
		m := Member{Node: n.node, Hostname: n.hostname, Kind: n.kind, Outcome: Pending}
		if n.excluded != "" {
			m.Outcome, m.Detail = Excluded, n.excluded
		} else {
			wave := waves[n.node]
			m.Wave = &wave
		}
		members[i] = m
	}
	if meant == 0 {
		return r, members, fault.New(fault.Conflict, "agent_rollout_nothing_to_do",
			"none of the %d nodes of this target can be updated; the first one because: %s", len(rows), nodes[0].excluded).
			WithRemedy("assign nodes to a channel: gpuaas node update NODE --agent-channel stable; or choose others")
	}
	return r, members, nil
}

// leftAlone says why a rollout does not touch a node; empty: it does.
func leftAlone(n rolloutdb.CandidatesRow, r Rollout, now time.Time) string {
	status := node.Status(n.Status)
	path, because := node.PathOf(n.Hostname, n.ReportedAgentVersion, n.Protocol, n.CertificateNotAfter, now)
	switch {
	case n.AgentChannel == string(node.Unassigned):
		return "nobody assigned it to a channel"
	case n.AgentChannel == string(node.Pinned) || n.DesiredAgentVersion != "":
		return "it is pinned to version " + cmp.Or(n.DesiredAgentVersion, n.ReportedAgentVersion)
	case n.BusyWith != "":
		return "rollout " + n.BusyWith + " has it"
	case status != node.Active && status != node.Offline:
		return "it is " + n.Status
	case n.ReportedAgentVersion == r.Version:
		return "it runs the version already"
	case path != node.PathInPlace:
		return because
	case n.ForeignArchitecture != "":
		return foreign(n.ForeignArchitecture)
	case n.Rented && r.Plan.Rented == rentedLeave:
		return "somebody rents it"
	}
	return ""
}

func foreign(architecture string) string {
	return "it is of architecture " + architecture + ", for which the release has no package"
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func site(s id.Site) string {
	if s.IsZero() {
		return ""
	}
	return s.String()
}

// Begin freezes who is meant, and starts.
func (s *Service) Begin(ctx context.Context, o Order) (Rollout, error) {
	var made Rollout
	if err := s.check(ctx, o); err != nil {
		return made, err
	}
	err := s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := rolloutdb.New(tx)
		r, members, err := s.plan(ctx, q, o)
		if err != nil {
			return err
		}
		if made, err = insert(ctx, q, r, members); err != nil {
			return err
		}
		if err := record(ctx, tx, "agent_rollout.begin", made, o.Reason); err != nil {
			return err
		}
		if err := announce(ctx, tx, eventwire.AgentUpgradeStarted, made); err != nil {
			return err
		}
		return outbox.StartWorkflow(ctx, tx, *start(made.ID))
	})
	if postgres.Violates(err, "agent_rollout_targets_live") {
		return Rollout{}, fault.New(fault.Conflict, "agent_rollout_overlaps",
			"another rollout has just taken one of the nodes").
			WithRemedy("see which: gpuaas agent rollout list; then begin again, which leaves its nodes alone")
	}
	if err != nil {
		return Rollout{}, err
	}
	return s.Get(ctx, made.ID)
}

// start is the workflow of a rollout. Whoever acts starts it again, should Temporal have
// lost it.
func start(of id.Rollout) *outbox.WorkflowStart {
	return &outbox.WorkflowStart{ID: workflowID(of), Queue: queue, Type: workflowType, Input: Input{ID: of}}
}

func insert(ctx context.Context, q *rolloutdb.Queries, r Rollout, members []Member) (Rollout, error) {
	target, err := encoded(r.Target)
	if err != nil {
		return Rollout{}, err
	}
	plan, err := encoded(r.Plan)
	if err != nil {
		return Rollout{}, err
	}
	row, err := q.InsertRollout(ctx, rolloutdb.InsertRolloutParams{
		ID: id.New[id.Rollout](), Version: r.Version, Target: target, Plan: plan, Waves: r.Waves, Reason: r.Reason,
		RequestedBy: auth.From(ctx).ID,
	})
	if err != nil {
		return Rollout{}, fmt.Errorf("insert rollout: %w", err)
	}
	for _, m := range members {
		if err := q.InsertTarget(ctx, rolloutdb.InsertTargetParams{
			RolloutID: row.ID, NodeID: m.Node, Hostname: m.Hostname, Kind: m.Kind, Status: string(m.Outcome),
			Detail: m.Detail, Wave: m.Wave,
		}); err != nil {
			return Rollout{}, fmt.Errorf("insert node of rollout: %w", err)
		}
	}
	return from(row)
}

func record(ctx context.Context, tx pgx.Tx, action string, r Rollout, reason string) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "agent_rollout", TargetID: r.ID.String(), Result: audit.Success, Reason: reason,
		Metadata: map[string]any{"version": r.Version, "status": string(r.Status), "wave": r.Wave},
	})
}

func announce(ctx context.Context, tx pgx.Tx, event eventwire.Type, r Rollout) error {
	return outbox.Append(ctx, tx, outbox.Event{
		Type: event, AggregateKind: "agent_rollout", AggregateID: r.ID.String(),
		Payload: eventwire.AgentRollout{
			RolloutID: r.ID.String(), Version: r.Version, Status: string(r.Status), Wave: r.Wave, Waves: r.Waves,
			Because: r.PausedBecause,
		},
	})
}
