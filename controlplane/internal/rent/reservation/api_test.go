package reservation

import (
	"maps"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
)

// Where nodes stand, and the words of operators about them, are not for tenants.
func TestAttackTenantsDoNotReadTheWordsOfOperatorsInReservations(t *testing.T) {
	r := Reservation{Wish: Wish{Selector: Selector{
		Region: "eu", Rack: "r7", Pool: "burn-in", Labels: map[string]string{"owner": "acme", "public/tier": "fast"},
	}}}
	seen := func(p *auth.Principal) View { return show(auth.With(t.Context(), p))(r) }
	tenant := seen(&auth.Principal{Tenants: map[id.Org]auth.Role{id.New[id.Org](): auth.TenantAdmin}})
	if tenant.Region != "eu" || tenant.Rack != "" || tenant.Pool != "" ||
		!maps.Equal(tenant.NodeLabels, map[string]string{"public/tier": "fast"}) {
		t.Errorf("a tenant sees %+v", tenant)
	}
	operator := seen(&auth.Principal{Platform: auth.Operator})
	if operator.Rack != "r7" || operator.Pool != "burn-in" || len(operator.NodeLabels) != 2 {
		t.Errorf("an operator sees %+v", operator)
	}
}
