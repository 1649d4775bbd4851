package allocation_test

import (
	"reflect"
	"testing"

	"gpuaas/controlplane/internal/rent/allocation"
)

// Tenants read which regions, labels and capabilities they can ask for, and nothing
// that is not for them.
func TestTenantsSeeWhatTheyCanAskFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	facts := `capabilities = '{"gpu.driver_series": "570", "secret": "x"}'`
	w.node(t, "n1", facts, `labels = '{"public/tier": "fast", "owner": "somebody"}'`)
	w.node(t, "n2", `labels = '{"public/tier": "slow"}'`,
		`capabilities = '{"gpu.driver_series": "call +1 555 0100 to get this node: a tenant with root wrote this"}'`)
	w.node(t, "n3", `region_code = 'eu-north'`, facts)
	w.node(t, "n4", `region_code = 'hidden-pool'`, `pool = 'spare'`)
	w.node(t, "n5", `region_code = 'hidden-state'`, `status = 'quarantined', schedulable = false`)
	got, err := w.service.Choices(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	none := []allocation.Option{}
	series := []allocation.Option{{Key: "gpu.driver_series", Values: []string{"570"}}}
	want := map[string]allocation.Choice{
		"eu-north": {SKU: h200, Region: "eu-north", NodeLabels: none, Capabilities: series},
		"eu": {
			SKU: h200, Region: "eu", Capabilities: series,
			NodeLabels: []allocation.Option{{Key: "public/tier", Values: []string{"fast", "slow"}}},
		},
	}
	seen := map[string]allocation.Choice{}
	for _, c := range got.Choices {
		seen[c.Region] = c
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("tenants see %+v, not %+v", seen, want)
	}
}
