package audit

import (
	"cmp"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/engine/auth"
)

// phrase is what an action does to its target, as it is said of the past and after "tried to".
// A percent sign stands for the target.
type phrase struct{ past, base string }

// phrases are the actions whose names alone do not make a sentence.
var phrases = map[string]phrase{
	"admin.recover":                     {"made a new token for administrators", "make a new token for administrators"},
	"agent_release.floor":               {"set the lowest agent version to %", "set the lowest agent version to %"},
	"agent_release.retreat":             {"sent nodes back to %", "send nodes back to %"},
	"allocation.force_cleanup":          {"forced the cleanup of %", "force the cleanup of %"},
	"allocation.force_release":          {"forced the release of %", "force the release of %"},
	"allocation.repair_begin":           {"began to repair %", "begin to repair %"},
	"allocation.repair_end":             {"finished the repair of %", "finish the repair of %"},
	"billing_account.charge_project":    {"began to charge a project of %", "charge a project of %"},
	"billing_account.free_project":      {"stopped charging a project of %", "stop charging a project of %"},
	"balance.set":                       {"set the limits of %", "set the limits of %"},
	"certificate.issue":                 {"issued %", "issue %"},
	"node.await":                        {"began to wait for the agent of %", "wait for the agent of %"},
	"node.clean":                        {"proved % clean", "prove % clean"},
	"node.heartbeat_check":              {"checked the contact with %", "check the contact with %"},
	"node.identity_conflict":            {"reported a second machine with the identity of %", "report a conflict of %"},
	"node.keep_out":                     {"kept % out of service", "keep % out of service"},
	"node.taint":                        {"marked % as tainted", "mark % as tainted"},
	"node.taint_root":                   {"marked % as tainted with root access", "mark % as tainted with root access"},
	"node_task.create_for_fleet":        {"started a task on many nodes", "start a task on many nodes"},
	"operation.ask_cancel":              {"asked to cancel %", "cancel %"},
	"operation.unpause":                 {"resumed %", "resume %"},
	"power_override.credentials_write":  {"stored the credentials of %", "store the credentials of %"},
	"pruning.begin":                     {"began to delete old rows", "delete old rows"},
	"pruning.end":                       {"finished deleting old rows", "finish deleting old rows"},
	"reconciliation.acknowledge":        {"acknowledged %", "acknowledge %"},
	"reconciliation.breaker_close":      {"closed the circuit breaker of %", "close the circuit breaker of %"},
	"reconciliation.breaker_confirm":    {"confirmed the circuit breaker of %", "confirm the circuit breaker of %"},
	"reconciliation.breaker_open":       {"opened the circuit breaker of %", "open the circuit breaker of %"},
	"reconciliation.resolve":            {"settled a finding of %", "settle a finding of %"},
	"reconciliation.run":                {"compared % with its MAAS", "compare % with its MAAS"},
	"rental_settings.set":               {"set the rental settings of %", "set the rental settings of %"},
	"roce_assignment.upsert":            {"set %", "set %"},
	"session.create":                    {"signed in", "sign in"},
	"site.credentials_write":            {"stored the credentials of %", "store the credentials of %"},
	"site.secrets_remove":               {"removed the secrets of %", "remove the secrets of %"},
	"site_profile.bundle_rollback":      {"rolled back the bundle of %", "roll back the bundle of %"},
	"site_profile.bundle_use":           {"changed the bundle of %", "change the bundle of %"},
	"system.restore":                    {"restored the control plane from a backup", "restore the control plane"},
	"terminal_session.close_on_request": {"asked to close %", "close %"},
	"terminal_session.issue_token":      {"was given a token for %", "get a token for %"},
	"trust.record":                      {"recorded what nodes trust", "record what nodes trust"},
}

// pasts are the verbs that do not end in -ed after the rules of spelling.
var pasts = map[string]string{
	"begin": "began", "bind": "bound", "drain": "drained", "enrol": "enrolled", "keep": "kept", "mint": "minted",
	"rebind": "rebound", "set": "set", "submit": "submitted", "unbind": "unbound", "run": "ran", "withdraw": "withdrew",
}

// pastOf is the past of a verb.
func pastOf(verb string) string {
	before, last := byte(0), byte(0)
	if len(verb) > 1 {
		before, last = verb[len(verb)-2], verb[len(verb)-1]
	}
	switch {
	case pasts[verb] != "":
		return pasts[verb]
	case last == 'e':
		return verb + "d"
	case last == 'y' && !strings.ContainsRune("aeiou", rune(before)):
		return strings.TrimSuffix(verb, "y") + "ied"
	}
	return verb + "ed"
}

// kinds are the targets that are not called as their kind is written.
var kinds = map[string]string{
	"decommission": "turnover", "decommission_batch": "turnover batch", "node_task": "task",
	"oidc_subject": "account of the identity provider", "roce_assignment": "RoCE address", "sku": "SKU",
	"ssh_key": "SSH key",
}

// spaced is a word of the code as people write it.
func spaced(word string) string {
	if named, ok := kinds[word]; ok {
		return named
	}
	return strings.ReplaceAll(word, "_", " ")
}

// phraseOf is what an action did. Most actions are a noun and a verb, which may say what of the
// target it was about: node.revoke_identity.
func phraseOf(action, kind string) phrase {
	if known, ok := phrases[action]; ok {
		return known
	}
	noun, rest, _ := strings.Cut(action, ".")
	verb, part, _ := strings.Cut(rest, "_")
	object := "%"
	if part != "" {
		object = "the " + spaced(part) + " of " + object
	}
	if noun != kind && !strings.HasPrefix(kind, noun+"_") {
		object = "the " + strings.TrimSpace(spaced(noun)+" "+spaced(part)) + " of %"
	}
	return phrase{pastOf(verb) + " " + object, verb + " " + object}
}

// Sentence says who did what to what. Who is told by the name in the log; what is called
// something now goes by that, and other things by their ids.
func (l Log) Sentence(actor, target string) string {
	who := l.ActorName
	switch {
	case l.ActorKind == auth.KindSystem:
		who = "The control plane"
	case l.ActorKind == auth.KindNode && actor == "":
		who = "The agent of a node"
	case l.ActorKind == auth.KindNode:
		who = "The agent of node " + actor
	case who == "" && l.ActorKind == auth.KindAnonymous:
		who = "Somebody who is not signed in"
	case who == "":
		who = l.ActorID
	case strings.HasPrefix(who, "the "):
		who = "T" + who[1:]
	}
	if l.Action == "authz.deny" {
		return who + " was not allowed to " + strings.ReplaceAll(l.TargetID, "-", " ") + "."
	}
	p := phraseOf(l.Action, l.TargetKind)
	said := p.past
	switch l.Result {
	case Success:
	case Failure:
		said = "tried to " + p.base + ", and failed"
	case Denied:
		said = "tried to " + p.base + ", and was refused"
	}
	what := strings.TrimSpace(spaced(l.TargetKind) + " " + cmp.Or(target, l.TargetID))
	switch {
	case target == ThePlatform:
		what = "somebody of the platform"
	case target != "" && slices.Contains([]string{"onboarding", "decommission"}, l.TargetKind):
		what = "the " + spaced(l.TargetKind) + " of " + target // they have the names of their machines
	}
	return who + " " + strings.TrimSpace(strings.ReplaceAll(said, "%", what)) + "."
}
