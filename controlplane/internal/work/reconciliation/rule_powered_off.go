package reconciliation

import (
	"fmt"
	"time"
)

// TypePoweredOff says: the machine is off.
const TypePoweredOff Type = "powered_off"

// heardLately is how recent a call of the agent must be to outweigh the power
// state that MAAS shows: MAAS may have asked the BMC minutes ago.
const heardLately = time.Minute

var rulePoweredOff = Rule{
	Type: TypePoweredOff, Severity: Warning, Looks: 2, Action: MarkOffline,
	Title: "Powered off",
	Means: "Nothing runs on the node, and nothing can be placed on it, until it is switched on.",
	When:  whenPoweredOff,
	Advice: []string{
		adviceShow, "Find out who switched it off, or whether its power supply or BMC failed; switch it on in MAAS",
		"The node returns on its own when its agent polls again", adviceQuarantine,
	},
	Holds: "The machine of a node that is active or offline is Deployed and its power is off. Nothing is done if " +
		"its agent was heard from within the last minute.",
	Runbook: "machine-failed-or-off",
}

func whenPoweredOff(s Subject) (Verdict, bool) {
	if !s.InService() || !s.shows(Installed) || s.Machine.Power != powerOff || s.reinstalled() {
		return Verdict{}, false
	}
	v := Verdict{
		Expected: "power on", Observed: "power " + s.Machine.Power,
		Message: fmt.Sprintf("the machine of %s is powered off", s.Hostname),
		Details: s.with(map[string]any{"last_agent_contact_at": s.LastContact}),
	}
	if !s.Silent(heardLately) {
		v.Withheld = "its agent was heard from within the last minute: the two contradict each other, and what MAAS knows of " +
			"the power may be old or wrong"
	}
	return v, true
}
