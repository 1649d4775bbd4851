package agentrun

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/agentrun/internal/agentrundb"
)

// Order is a run that somebody asks for.
type Order struct {
	Mode     node.Delivery
	Scenario Scenario
	Target   string
	Safety   Safety
	Reason   string
}

// Begun is a new run, with what is shown this once.
type Begun struct {
	Run
	Bootstrap *node.BootstrapView // nil: nobody runs anything on the machine, or not yet
}

// Begin records a run and starts it.
func (s *Service) Begin(ctx context.Context, of id.Node, o Order) (Begun, error) {
	n, err := node.Get(ctx, s.DB, of)
	if err != nil {
		return Begun{}, err
	}
	rule, err := s.check(ctx, n, &o)
	if err != nil {
		return Begun{}, err
	}
	busy, err := s.busy(ctx, agentrundb.New(s.DB), n, Run{Node: of, Safety: o.Safety, Way: rule.Way})
	if err != nil {
		return Begun{}, err
	}
	var out Begun
	err = s.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		out.Run, err = s.insert(ctx, tx, n, o, rule, busy)
		return err
	})
	if postgres.Violates(err, "agent_runs_live") {
		return Begun{}, fault.New(fault.Conflict, codeStillAlive, "another run has the agent of node %s", n.Hostname).
			WithRemedy("see it: gpuaas node agent %[1]s; end it: gpuaas node agent cancel %[1]s", n.Hostname)
	}
	if err != nil || out.Status != AwaitingOperator {
		return out, err
	}
	// Not before: a token that is issued voids those of before, which somebody may be typing.
	if out.Bootstrap, err = s.bootstrap(ctx, n); err != nil {
		return out, fault.Wrap(err, fault.Unavailable, "agent_run_bootstrap_failed", "the run has begun, but the command "+
			"for the machine of node %s could not be made", n.Hostname).WithRemedy("print it: %s", out.bootstrap())
	}
	return out, nil
}

func (s *Service) bootstrap(ctx context.Context, n node.Node) (*node.BootstrapView, error) {
	purpose := node.Recovery
	if n.Status.Is(node.Joining) {
		purpose = node.Bootstrap
	}
	v, err := s.Nodes.IssueBootstrap(ctx, n.ID, purpose)
	return &v, err
}

// check refuses what could never be done, and fills in the version that is meant.
func (s *Service) check(ctx context.Context, n node.Node, o *Order) (Rule, error) {
	rule, err := ruleOf(o.Scenario, o.Mode)
	if err == nil {
		err = rule.permitted(ctx)
	}
	if err != nil {
		return rule, err
	}
	now := s.Clock()
	switch {
	case n.Status.Is(node.Out) || n.Status == node.Deleted:
		return rule, fault.New(fault.Conflict, codeLeft, "node %s is %s, and has no agent to care for", n.Hostname, n.Status).
			WithRemedy("return it to service first: gpuaas node reactivate %s", n.Hostname)
	case rule.Way != ByDecommission && n.Status == node.Quarantined:
		return rule, fault.New(fault.Conflict, codeQuarantined, "node %s is quarantined, and could not prove that it is well",
			n.Hostname).WithRemedy("return it to service first: gpuaas node return %s; or reinstall it: --mode reimage", n.Hostname)
	case rule.Way == ByDecommission && n.Status.Is(node.Joining):
		return rule, fault.New(fault.Conflict, codeJoining, "node %s is %s: it was never in service, so nothing reinstalls it",
			n.Hostname, n.Status).WithRemedy("onboard its machine again, or choose --mode manual_install")
	case o.Scenario == InPlaceUpgrade && o.Target == "":
		return rule, fault.New(fault.Invalid, "agent_run_version_required", "an upgrade needs the version to install").
			WithRemedy("give target_version; see which there are: gpuaas agent release list")
	case o.Scenario == DriftReconcile && o.Target == "" && n.Drift(now) == node.InSync:
		return rule, fault.New(fault.Conflict, codeNothing, "the agent of node %s is what it should be", n.Hostname).
			WithRemedy("see what it is: gpuaas node agent %s", n.Hostname)
	}
	in, err := agentrundb.New(s.DB).InRollout(ctx, n.ID)
	if err != nil {
		return rule, fmt.Errorf("look for rollout of node: %w", err)
	}
	if in != "" {
		return rule, fault.New(fault.Conflict, codeInRollout, "rollout %s updates the agent of node %s", in, n.Hostname).
			WithRemedy("wait until it is done with the node, or abort it: gpuaas agent rollout show %s", in)
	}
	rule = rule.on(n, now)
	asked := o.Target != ""
	if !asked {
		o.Target = meant(o.Scenario, n)
	}
	if o.Target == "" {
		return rule, nil
	}
	rule = rule.again(n, o.Target)
	_, err = s.update(ctx, n.ID, o.Target)
	kind := fault.KindOf(err)
	if rule.Way != BySelfUpdate && !asked && (kind == fault.Conflict || kind == fault.NotFound) {
		o.Target, err = "", nil // whatever comes with the installation will do
	}
	return rule, err
}

// meant is the version that a scenario is about if nobody says one.
func meant(s Scenario, n node.Node) string {
	switch s {
	case DriftReconcile:
		return cmp.Or(n.WantedAgentVersion(), n.ReportedAgentVersion)
	case RepairReinstall:
		return n.ReportedAgentVersion
	case BootstrapInstall:
		return n.WantedAgentVersion()
	case CertificateRepair, InPlaceUpgrade:
	}
	return ""
}

// update are the signed parameters of an update to a version. It refuses one that no
// node may be given.
func (s *Service) update(ctx context.Context, of id.Node, version string) (json.RawMessage, error) {
	asked, err := json.Marshal(agentwire.SelfUpdateParams{Action: "update", Version: version})
	if err != nil {
		return nil, fmt.Errorf("encode update: %w", err)
	}
	return s.Prepare(ctx, of, asked)
}

func (s *Service) insert(ctx context.Context, tx pgx.Tx, n node.Node, o Order, rule Rule, busy string) (
	Run, error,
) {
	now, who := s.Clock(), auth.From(ctx)
	status, detail, patience := Waiting, busy, patienceBusy
	if rule.Way == ByOperator && busy == "" {
		status, detail, patience = AwaitingOperator, awaits, patienceOperator
	}
	deadline := now.Add(patience)
	row, err := agentrundb.New(tx).Insert(ctx, agentrundb.InsertParams{
		ID: id.New[id.AgentRun](), NodeID: n.ID, Hostname: n.Hostname, Mode: string(o.Mode), Scenario: string(o.Scenario),
		SafetyPolicy: string(o.Safety), TargetVersion: o.Target, Way: string(rule.Way), BrokeredBecause: rule.Brokered,
		Status: string(status), Detail: detail, FromVersion: n.ReportedAgentVersion, Generation: n.Generation,
		HadCertificate: certified(n, now), WasSchedulable: n.Schedulable, DeadlineAt: &deadline, Reason: o.Reason,
		RequestedBy: who.ID, RequestedByName: who.Name, CorrelationID: telemetry.Correlation(ctx),
	})
	if err != nil {
		return Run{}, fmt.Errorf("insert agent run: %w", err)
	}
	r := from(row)
	if err := keepOff(ctx, tx, r); err != nil {
		return r, err
	}
	if err := record(ctx, tx, r, "begin", o.Reason); err != nil {
		return r, err
	}
	return r, outbox.StartWorkflow(ctx, tx, *start(r.ID))
}

const awaits = "it waits for somebody to act on the machine, and for the report of the node after that"

// keepOff holds new work off the node of a run that drains it first.
func keepOff(ctx context.Context, tx pgx.Tx, r Run) error {
	if r.Safety != AfterDrain {
		return nil
	}
	_, err := node.SetAside(ctx, tx, r.Node, node.Holding{
		Kind: node.ForMaintenance, Owner: r.owner(), Reason: "its agent is worked on: " + string(r.Scenario),
	}, r.owner())
	return err
}

func letBack(ctx context.Context, tx pgx.Tx, r Run) error {
	if r.Safety != AfterDrain {
		return nil
	}
	_, err := node.LetBack(ctx, tx, r.Node, node.ForMaintenance, r.owner(), r.owner())
	return err
}

// busy says what keeps a run off its node; empty: nothing does. What an agent was told
// that is not heard keeps nobody waiting: when it enrols anew, that is void.
func (s *Service) busy(ctx context.Context, q *agentrundb.Queries, n node.Node, r Run) (string, error) {
	if r.Safety == Force {
		return "", nil
	}
	kinds, err := q.Occupied(ctx, agentrundb.OccupiedParams{NodeID: r.Node, OwnTask: r.Task.String()})
	if err != nil {
		return "", fmt.Errorf("look what node is busy with: %w", err)
	}
	var with []string
	for _, kind := range kinds {
		if kind == "task" && (n.Status != node.Active || !certified(n, s.Clock())) {
			continue
		}
		with = append(with, kind)
	}
	if len(with) == 0 {
		return "", nil
	}
	return "it waits until the node is idle; there is still: " + strings.Join(with, ", "), nil
}
