package agentrun

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node"
)

// Scenario is what is wrong with the agent of a node, or missing.
type Scenario string

// The scenarios.
const (
	BootstrapInstall  Scenario = "bootstrap_install"
	InPlaceUpgrade    Scenario = "in_place_upgrade"
	RepairReinstall   Scenario = "repair_reinstall"
	CertificateRepair Scenario = "certificate_repair"
	DriftReconcile    Scenario = "drift_reconcile"
)

var scenarios = []Scenario{BootstrapInstall, InPlaceUpgrade, RepairReinstall, CertificateRepair, DriftReconcile}

// Safety says when a node may be touched.
type Safety string

// The policies.
const (
	IdleOnly   Safety = "idle_only"
	AfterDrain Safety = "after_drain"
	Force      Safety = "force"
)

var safeties = []Safety{IdleOnly, AfterDrain, Force}

// Way is what is done.
type Way string

// The ways: a decommission that reinstalls the machine, the task that lets the agent
// replace itself, and somebody on the machine.
const (
	ByDecommission Way = "decommission"
	BySelfUpdate   Way = "self_update"
	ByOperator     Way = "operator"
)

var ways = []Way{ByDecommission, BySelfUpdate, ByOperator}

// Rule is a row of the table: what a mode does in a scenario.
type Rule struct {
	Scenario Scenario
	Mode     node.Delivery
	Way      Way
	// Brokered says why the mode leaves a step to somebody on the machine; empty: it does
	// not, or the mode is about nothing else.
	Brokered string
}

const (
	noAgentYet  = "there is no agent yet that could install itself"
	noIdentity  = "an agent without a valid certificate is refused, so it cannot be told anything"
	sameVersion = "the agent does not install again the version that it runs"
	oldSettings = "what the agent trusts is renewed by enrolling anew"
)

// Table is what is done in each scenario, by each mode.
var Table = []Rule{
	{BootstrapInstall, node.ByReimage, ByDecommission, ""},
	{BootstrapInstall, node.ByManualInstall, ByOperator, ""},
	{BootstrapInstall, node.ByRebootstrap, ByOperator, noAgentYet},
	{InPlaceUpgrade, node.ByReimage, ByDecommission, ""},
	{InPlaceUpgrade, node.ByManualInstall, ByOperator, ""},
	{InPlaceUpgrade, node.ByRebootstrap, BySelfUpdate, ""},
	{RepairReinstall, node.ByReimage, ByDecommission, ""},
	{RepairReinstall, node.ByManualInstall, ByOperator, ""},
	{RepairReinstall, node.ByRebootstrap, BySelfUpdate, ""},
	{CertificateRepair, node.ByReimage, ByDecommission, ""},
	{CertificateRepair, node.ByManualInstall, ByOperator, ""},
	{CertificateRepair, node.ByRebootstrap, ByOperator, noIdentity},
	{DriftReconcile, node.ByReimage, ByDecommission, ""},
	{DriftReconcile, node.ByManualInstall, ByOperator, ""},
	{DriftReconcile, node.ByRebootstrap, BySelfUpdate, ""},
}

func ruleOf(s Scenario, m node.Delivery) (Rule, error) {
	for _, r := range Table {
		if r.Scenario == s && r.Mode == m {
			return r, nil
		}
	}
	return Rule{}, fault.New(fault.Invalid, "agent_run_invalid", "there is no way for scenario %.40q and mode %.40q", s,
		m).WithRemedy("see what there is: gpuaas node agent start --help")
}

// permitted refuses whoever may not do by themselves what a rule does for them.
func (r Rule) permitted(ctx context.Context) error {
	needs := map[Way]auth.Permission{ByDecommission: auth.DecommissionManage, BySelfUpdate: auth.NodeTaskRun}[r.Way]
	if needs == "" || auth.From(ctx).Decide(needs, auth.Target{}) == auth.Allowed {
		return nil
	}
	return fault.New(fault.Forbidden, "insufficient_permissions", "what this mode does needs the permission %s, too",
		needs).WithRemedy("ask an operator of the platform")
}

// again leaves a step to somebody on the machine where the agent would be told to install
// the version that it runs: it would find nothing to do, whatever is wrong with its files.
func (r Rule) again(n node.Node, target string) Rule {
	if r.Way == BySelfUpdate && r.Scenario == RepairReinstall && target == n.ReportedAgentVersion {
		r.Way, r.Brokered = ByOperator, sameVersion
	}
	return r
}

// on is the rule as it applies to a node: an agent that cannot be told to replace
// itself leaves the step to somebody on the machine.
func (r Rule) on(n node.Node, now time.Time) Rule {
	if r.Way != BySelfUpdate {
		return r
	}
	path, because := n.UpdatePath(now)
	switch {
	case path != node.PathInPlace:
		r.Way, r.Brokered = ByOperator, because
	case n.Status != node.Active:
		r.Way, r.Brokered = ByOperator, "its agent is not heard: the node is "+string(n.Status)
	case r.Scenario == DriftReconcile && n.Drift(now) == node.ConfigDrift:
		r.Way, r.Brokered = ByOperator, oldSettings
	}
	return r
}
