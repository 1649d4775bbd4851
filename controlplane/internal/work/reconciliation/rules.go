package reconciliation

import (
	"fmt"
	"slices"

	"gpuaas/controlplane/internal/fleet/node"
)

// Rules are all kinds of findings, in the order in which people read them. Of
// the rules that judge the state of a machine, at most one holds at a time.
var Rules = []Rule{
	// What the state of the machine means to the node.
	ruleReleased, ruleRedeploying, ruleDeployedElsewhere, ruleHardwareFailed, ruleAbsent, ruleRecreated,
	ruleRecommissioning, ruleStatusUnknown, rulePoweredOff, ruleAgentSilent, ruleRetiredDeployed, ruleRetiredPoweredOn,
	// Other things about the machine that are not as they should be.
	ruleDuplicateBinding, ruleHWSyncStale, ruleRoCEDrift, ruleHostnameDrift, ruleIPChanged, ruleAgentUnidentified,
	ruleLoginUnproven,
	// Findings that are not about a node and its machine.
	ruleBreakerOpen, ruleNoInformation, ruleUnusedPowerOverride, ruleUnmanagedMachine,
}

// RuleOf finds the rule of a type. A type of a newer release has none.
func RuleOf(t Type) (Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Type == t })
	if i < 0 {
		return Rule{}, false
	}
	return Rules[i], true
}

// Judged is a rule that holds for a subject, with its verdict.
type Judged struct {
	Rule    Rule
	Verdict Verdict
}

// Judge returns every rule that holds for a subject. For a subject that was not
// seen nothing is known, so no rule holds.
func Judge(s Subject) []Judged {
	var out []Judged
	for _, r := range Rules {
		if r.When == nil {
			continue
		}
		if v, holds := r.When(s); holds {
			if s.Tenant != "" {
				v.Message += "; a tenant works on it, and keeps it: " + s.Tenant
			}
			out = append(out, Judged{Rule: r, Verdict: v})
		}
	}
	return out
}

// judgedByMachine says whether the machine of the node must exist and be
// deployed. That includes quarantined nodes: their findings stay until they
// heal.
func (s Subject) judgedByMachine() bool { return s.Status.Is(node.Steady) }

// shows says whether the machine was seen in one of these states.
func (s Subject) shows(states ...State) bool {
	return s.Machine != nil && slices.Contains(states, s.Machine.State)
}

// reinstalled says whether the machine runs another installation than the
// node's. If either is unknown, it says no.
func (s Subject) reinstalled() bool {
	return s.shows(Installed) && s.Installation != 0 && s.Machine.Installation != 0 &&
		s.Installation != s.Machine.Installation
}

// inState makes the predicate of a rule that holds while a node is in service
// or quarantined and its machine is in one of these states.
func inState(message string, states ...State) func(Subject) (Verdict, bool) {
	return func(s Subject) (Verdict, bool) {
		if !s.judgedByMachine() || !s.shows(states...) {
			return Verdict{}, false
		}
		return Verdict{
			Expected: statusDeployed, Observed: s.Machine.Status, Message: fmt.Sprintf(message, s.Hostname, s.Machine.Status),
			Details: s.seen(),
		}, true
	}
}

// seen returns the facts that every finding about the machine carries.
func (s Subject) seen() map[string]any {
	if s.Machine == nil {
		return map[string]any{"maas_system_id": s.SystemID, "node_status": s.Status}
	}
	return map[string]any{
		"maas_system_id": s.SystemID, "node_status": s.Status, "maas_status": s.Machine.Status,
		"power_state": s.Machine.Power, "owner": s.Machine.Owner,
	}
}

// with adds facts to those that every finding carries.
func (s Subject) with(facts map[string]any) map[string]any {
	out := s.seen()
	for k, v := range facts {
		out[k] = v
	}
	return out
}

const (
	statusDeployed = "Deployed" // MAAS's own word
	absence        = "absent"
	powerOff       = "off"
	powerOn        = "on"
)

// Commands that several rules advise.
const (
	adviceShow       = "gpuaas drift show NODE: what MAAS showed, when, and what was done about it"
	adviceReturn     = `gpuaas drift resolve NODE return-to-service: once MAAS shows it as Deployed again; gpuaas checks the machine first`
	adviceReimage    = `gpuaas drift resolve NODE reimage: reinstall it under the same id, once nobody needs what runs on it; DESTROYS what is on it`
	adviceReinstall  = `gpuaas drift resolve NODE reimage: reinstall it under the same id; what happened to its disks is unknown, so the job stops until you adopt the machine as it is`
	adviceTakeOut    = `gpuaas decommission start NODE --mode full_decommission: if you no longer need the machine; DESTROYS what is on it`
	adviceQuarantine = `gpuaas drift resolve NODE quarantine: keep new work off it while you investigate`
	adviceAskMAAS    = "Find out in MAAS who did it: the machine's events name the account"
)
