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
		got := forTenants(entry)
		if got.ActorID+got.ActorAddr+got.Reason != "" || got.Metadata != nil || got.ActorName == entry.ActorName {
			t.Errorf("a tenant reads of a %s: %+v", role, got)
		}
		if got.Action != entry.Action || got.TargetID != "a1" || got.CorrelationID != "corr" || got.ActorRole != role {
			t.Errorf("what a %s did is hidden: %+v", role, got)
		}
	}
	entry.ActorRole = auth.ProjectAdmin
	if got := forTenants(entry); got.Reason != entry.Reason || got.ActorName != "Olga" || got.ActorAddr == "" {
		t.Errorf("a tenant cannot read what its own people did: %+v", got)
	}
	entry.ActorRole, entry.ActorKind = auth.PlatformAdmin, auth.KindSystem
	if got := forTenants(entry); got.Reason != entry.Reason {
		t.Errorf("a tenant cannot read why the platform did something by itself: %+v", got)
	}
}
