package reconciliation

import "fmt"

// TypeLoginUnproven is a finding: nobody knows which account the machine was set up
// by, and only the one that the site names now was looked at.
const TypeLoginUnproven Type = "login_unproven"

var ruleLoginUnproven = Rule{
	Type: TypeLoginUnproven, Severity: Info, Looks: 1, Action: None,
	Title: "Deploy login not proven to be locked",
	Means: "The machine was deployed before the name of its deploy user was kept. The agent looked only at the " +
		"deploy user that the site has now: " +
		"if the site used another name then, that account may still be open. An agent of this release finds it and locks " +
		"it automatically.",
	When: whenLoginUnproven,
	Advice: []string{
		"gpuaas node bootstrap NODE --recovery: run it on the machine; it installs the agent that this control plane " +
			"publishes, which finds the account and locks it within a day",
		"gpuaas drift resolve NODE reimage: the next installation has a login of its own, which is locked",
	},
	Holds: "The node is in service, its agent was asked to lock the present `deploy_user` of the site, " +
		"did not look for others, " +
		"and the deployment did not keep the name.",
}

func whenLoginUnproven(s Subject) (Verdict, bool) {
	if !s.InService() || s.LoginTried == "" {
		return Verdict{}, false
	}
	return Verdict{
		Expected: "the account that the machine was set up by is locked",
		Observed: "only the account " + s.LoginTried + " was looked at",
		Message: fmt.Sprintf("on %s only the account %s was checked, and it is not known which account was used to set it up",
			s.Hostname, s.LoginTried),
		Details: s.seen(),
	}, true
}
