package allocation

import (
	"encoding/json"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/sku"
)

// Only an agent that takes it is told what was handed over: earlier ones refuse
// fields that they do not know.
func TestWhatTheTenantIsToldAtHandover(t *testing.T) {
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	a := Allocation{
		ID: id.New[id.Allocation](), Project: id.New[id.Project](), Hostname: "c07u31", SKU: "h200-sxm-baremetal-8g",
		Terms: sku.Terms{GPUsTotal: 8}, Username: "a1", UID: 20001, ExpiresAt: &end,
	}
	for facts, tells := range map[string]bool{
		`{"gpu.vendor":"nvidia"}`: false, ``: false, `{"agent.handover":"1"}`: true,
	} {
		n := node.Node{Capabilities: json.RawMessage(facts)}
		r := a.request(Errand{What: errandAccount}, n.TakesHandover())
		p, ok := r.Params.(agentwire.ProvisionUserParams)
		if !ok || (p.Handover != nil) != tells {
			t.Errorf("%q: it is told %+v", facts, p.Handover)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%q: %v", facts, err)
		}
		if tells && (p.Handover.ExpiresAt != "2026-12-01T00:00:00Z" || p.Handover.GPUs != 8) {
			t.Errorf("it is told %+v", p.Handover)
		}
	}
	later := end.Add(time.Hour)
	extended := a
	extended.ExpiresAt = &later
	if e := (Errand{What: errandAccount}); a.request(e, true).IdempotencyKey == extended.request(e, true).IdempotencyKey {
		t.Error("an extension would be taken for the same request, and refused")
	}
}
