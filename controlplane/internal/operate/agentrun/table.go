package agentrun

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
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
