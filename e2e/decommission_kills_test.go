package e2e

import (
	"net/http"
	"testing"

	"gpuaas/contract/apiclient"
)

// decommissions cleans some of the nodes, installs some anew and takes the rest
// out of the inventory, all at once, while everything is killed.
func (w *killable) decommissions(t *testing.T) {
	t.Helper()
	nodes := all[apiclient.NodeView](t, w.api, "/api/v1/admin/nodes")
	before, modes := map[string]string{}, map[string]string{}
	chosen := map[string][]string{}
	for i, n := range nodes {
		mode := []string{"soft_reset", "soft_reset", "reimage", "full_decommission", "soft_reset"}[i%5]
		chosen[mode] = append(chosen[mode], n.NodeId.String())
		before[n.Hostname], modes[n.Hostname] = n.NodeId.String(), mode
	}
	var paths []string
	for mode, ids := range chosen {
		var made struct {
			Batch struct {
				BatchID string `json:"batch_id"`
			} `json:"batch"`
		}
		body := map[string]any{
			"mode": mode, "reason": "everything is killed", "selector": map[string]any{"node_ids": ids},
			"max_parallel": 4, "max_failures": 0,
		}
		w.api.do(t, http.MethodPost, "/api/v1/admin/decommissions/batch", body, http.StatusAccepted, &made)
		paths = append(paths, "/api/v1/admin/decommission-batches/"+made.Batch.BatchID)
	}
	look := w.counted(t, paths...)
	w.kills(t, look)
	w.awaitAll(t, look, func() string { return w.explained(t, "decommission", "decommission_id") })
	w.checkDecommissioned(t, before, modes)
	w.deployedEach(t, func(hostname string) int {
		if modes[hostname] == "reimage" {
			return 2
		}
		return 1
	})
}

// checkDecommissioned looks whether each node is what its operation promises,
// and that each got exactly one document.
func (w *killable) checkDecommissioned(t *testing.T, before, modes map[string]string) {
	t.Helper()
	left := map[string]apiclient.NodeView{}
	for _, n := range all[apiclient.NodeView](t, w.api, "/api/v1/admin/nodes") {
		left[n.Hostname] = n
	}
	issued := map[string]int{}
	for _, c := range all[struct {
		NodeID string `json:"node_id"`
		Kind   string `json:"kind"`
	}](t, w.api, "/api/v1/admin/certificates") {
		issued[c.NodeID+" "+c.Kind]++
	}
	for hostname, mode := range modes {
		n, there := left[hostname]
		kind := "certificate"
		if mode == "soft_reset" {
			kind = "handover_receipt"
		}
		switch {
		case mode == "full_decommission" && there:
			t.Errorf("%s is still %s", hostname, n.Status)
		case mode != "full_decommission" && (!there || n.NodeId.String() != before[hostname]):
			t.Errorf("%s is not the node that it was: %+v", hostname, n)
		case mode != "full_decommission" && n.Status != "active" && n.Status != "offline":
			t.Errorf("%s is %s", hostname, n.Status)
		}
		if got := issued[before[hostname]+" "+kind]; got != 1 {
			t.Errorf("%s has %d of %s", hostname, got, kind)
		}
	}
}
