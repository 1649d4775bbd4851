package node_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
)

// The one hold that a node had becomes a hold of whoever had set it.
func TestHoldsOfBeforeBecomeRows(t *testing.T) {
	const of = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c1aa"
	before := postgrestest.At(t, 65)
	reasons := map[string]string{ // by the kind that they become
		"operator": "fan", "drift": "MAAS has released its machine", "maintenance": "announced maintenance " + of,
		"repair":    "the node of allocation " + of + " is being repaired",
		"complaint": "the tenant of allocation " + of + " complains (gpu)",
	}
	type held struct{ set, want string }
	nodes := map[string]held{
		"free":    {`host = ''`, ""},
		"unclean": {`hold_reason = 'not proven clean', held_unclean = true`, "unclean//not proven clean"},
		"both": {
			`hold_reason = 'fan', held_by = 'decommission 1'`,
			"operation/decommission 1/held by decommission 1 operator//fan",
		},
	}
	for kind, reason := range reasons {
		owner := ""
		if strings.Contains(reason, of) {
			owner = of
		}
		nodes[kind] = held{`hold_reason = '` + reason + `'`, kind + "/" + owner + "/" + reason}
	}
	exec := func(statement string) {
		t.Helper()
		if _, err := before.Owner.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for name, n := range nodes {
		exec(`INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
			SELECT gen_random_uuid(), 'active', '` + name + `', '', min(id), 8, 'eu-1', 'manual' FROM skus`)
		exec(`UPDATE nodes SET schedulable = false, ` + n.set + ` WHERE hostname = '` + name + `'`)
	}
	before.Forward(t)
	for name, n := range nodes {
		var got string
		if err := before.Owner.QueryRow(t.Context(), `SELECT COALESCE(string_agg(
			h.kind || '/' || h.owner || '/' || h.reason, ' ' ORDER BY h.kind), '')
			FROM node_holds h JOIN nodes n ON n.id = h.node_id WHERE n.hostname = $1`, name).Scan(&got); err != nil || got != n.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, n.want, err)
		}
	}
}
