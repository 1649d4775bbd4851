package audit

import (
	"encoding/json"
	"testing"

	"gpuaas/controlplane/internal/engine/auth"
)

func TestTenantsReadWhatOperatorsDidAndNotWhatTheySaid(t *testing.T) {
	entry := Log{
		ActorKind: auth.KindUser, ActorID: "u1", ActorName: "Olga", ActorAddr: "192.0.2.7",
		Action:   "allocation.force_release",
		TargetID: "a1", Result: Success, Reason: "tenant of a2 broke it", CorrelationID: "corr",
		Metadata: json.RawMessage(`{"node":"c07u31"}`),
	}
	for _, role := range auth.PlatformRoles {
		entry.ActorRole = role
		got := forTenants(entry, nil)
		if got.ActorID+got.ActorAddr+got.Reason != "" || got.Metadata != nil || got.ActorName == entry.ActorName {
			t.Errorf("a tenant reads of a %s: %+v", role, got)
		}
		if got.Action != entry.Action || got.TargetID != "a1" || got.CorrelationID != "corr" || got.ActorRole != role {
			t.Errorf("what a %s did is hidden: %+v", role, got)
		}
	}
	entry.ActorRole = auth.ProjectAdmin
	if got := forTenants(entry, nil); got.Reason != entry.Reason || got.ActorName != "Olga" || got.ActorAddr == "" {
		t.Errorf("a tenant cannot read what its own people did: %+v", got)
	}
	got := forTenants(entry, Names{{"user", "u1"}: ThePlatform})
	if got.ActorName != ThePlatform || got.ActorID+got.ActorAddr != "" || got.Reason != entry.Reason {
		t.Errorf("an operator who is a member of the tenant is named to it: %+v", got)
	}
	entry.ActorRole, entry.ActorKind = auth.PlatformAdmin, auth.KindSystem
	if got = forTenants(entry, nil); got.Reason != entry.Reason {
		t.Errorf("a tenant cannot read why the platform did something by itself: %+v", got)
	}
}

func TestEntriesAreSentences(t *testing.T) {
	ada := Log{ActorKind: auth.KindUser, ActorName: "Ada", Result: Success}
	for _, c := range []struct {
		action, kind, target, named string
		result                      Result
		want                        string
	}{
		{"node.quarantine", "node", "n1", "c07u31", Success, "Ada quarantined node c07u31."},
		{"node.revoke_identity", "node", "n1", "c07u31", Success, "Ada revoked the identity of node c07u31."},
		{"tenant.create", "tenant", "t1", "", Success, "Ada created tenant t1."},
		{"decommission.request", "decommission", "d1", "c07u31", Success, "Ada requested the turnover of c07u31."},
		{"decommission.request", "decommission", "d1", "", Success, "Ada requested turnover d1."},
		{"budget.set", "project", "p1", "research", Success, "Ada set the budget of project research."},
		{"membership.remove", "user", "u1", "Bob", Success, "Ada removed the membership of user Bob."},
		{"outbox.requeue", "outbox_event", "e1", "", Success, "Ada requeued outbox event e1."},
		{"onboarding_batch.pause", "onboarding_batch", "b1", "", Success, "Ada paused onboarding batch b1."},
		{"ssh_key.add", "ssh_key", "k1", "", Success, "Ada added SSH key k1."},
		{"quota.apply", "quota", "q1", "", Success, "Ada applied quota q1."},
		{"membership.remove", "user", "u1", ThePlatform, Success, "Ada removed the membership of somebody of the platform."},
		{"session.create", "user", "u1", "", Denied, "Ada tried to sign in, and was refused."},
		{
			"allocation.force_release", "allocation", "a1", "", Failure,
			"Ada tried to force the release of allocation a1, and failed.",
		},
		{"authz.deny", "operation", "quarantine-node", "", Denied, "Ada was not allowed to quarantine node."},
	} {
		l := ada
		l.Action, l.TargetKind, l.TargetID, l.Result = c.action, c.kind, c.target, c.result
		if got := l.Sentence("", c.named); got != c.want {
			t.Errorf("%s of a %s reads %q, want %q", c.action, c.kind, got, c.want)
		}
	}
	for _, c := range []struct {
		who   Log
		named string
		want  string
	}{
		{Log{ActorKind: auth.KindSystem, ActorName: "workflow:x"}, "", "The control plane created tenant t1."},
		{Log{ActorKind: auth.KindNode, ActorID: "n1"}, "c07u31", "The agent of node c07u31 created tenant t1."},
		{Log{ActorKind: auth.KindNode, ActorID: "n1"}, "", "The agent of a node created tenant t1."},
		{Log{ActorKind: auth.KindAnonymous}, "", "Somebody who is not signed in created tenant t1."},
		{Log{ActorKind: auth.KindUser, ActorID: "u1"}, "", "u1 created tenant t1."},
		{
			Log{ActorKind: auth.KindUser, ActorName: ThePlatform},
			"",
			"The platform created tenant t1.",
		},
	} {
		c.who.Action, c.who.TargetKind, c.who.TargetID, c.who.Result = "tenant.create", "tenant", "t1", Success
		if got := c.who.Sentence(c.named, ""); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
