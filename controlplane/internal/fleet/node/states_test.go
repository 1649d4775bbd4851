package node_test

import (
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
)

// The edges of the state model are listed here a second time on purpose, so
// that nobody changes the table by accident.
func TestNodeEdgesAreThoseOfTheStateModel(t *testing.T) {
	want := map[[2]node.Status]bool{
		{"bootstrap_issued", "enrolling"}: true, {"bootstrap_issued", "deleted"}: true, {"enrolling", "deleted"}: true,
		{"enrolling", "active"}: true, {"enrolling", "quarantined"}: true,
		{"active", "offline"}: true, {"offline", "active"}: true, {"active", "quarantined"}: true,
		{"offline", "quarantined"}: true, {"quarantined", "active"}: true, {"quarantined", "draining"}: true,
		{"active", "draining"}: true, {"offline", "draining"}: true, {"draining", "retired"}: true,
		{"draining", "offline"}: true, {"draining", "enrolling"}: true, {"retired", "active"}: true,
		{"retired", "removing"}: true, {"removing", "retired"}: true, {"removing", "deleted"}: true,
	}
	for _, from := range node.Lifecycle.States {
		for _, event := range node.Lifecycle.AllEvents() {
			to, err := node.Lifecycle.Next(from.Name, event)
			if err != nil {
				if fault.KindOf(err) != fault.Conflict {
					t.Errorf("%s in %s: %v", event, from.Name, err)
				}
				continue
			}
			if !want[[2]node.Status{from.Name, to}] {
				t.Errorf("%s -> %s by %s is not in the state model", from.Name, to, event)
			}
			delete(want, [2]node.Status{from.Name, to})
		}
	}
	for edge := range want {
		t.Errorf("%s -> %s is missing", edge[0], edge[1])
	}
	for _, err := range node.Lifecycle.Validate() {
		t.Error(err)
	}
}

func TestOnlyReimageLeadsBackFromDrainingToEnrolling(t *testing.T) {
	for _, e := range node.Lifecycle.Edges {
		if e.From == node.Draining && e.To == node.Enrolling && e.Owner != "reimage" {
			t.Errorf("owned by %s", e.Owner)
		}
	}
}
