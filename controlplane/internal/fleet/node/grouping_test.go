package node_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/fleet/node"
)

// Nodes get rack, pool and labels when they are added and later, and are found
// by them.
func TestNodesAreSelectedByRackPoolAndLabels(t *testing.T) {
	w := newWorld(t)
	type group = map[string]any
	for hostname, g := range map[string]group{
		"c07u01": {"rack": "c07", "pool": "training", "labels": map[string]string{"fabric": "ib0", "psu": "2n"}},
		"c07u02": {"rack": "c07", "labels": map[string]string{"fabric": "ib1"}},
		"c08u01": {"rack": "c08", "pool": "training"},
		"c09u01": {},
	} {
		g["hostname"], g["sku"], g["region_code"] = hostname, someSKU, "eu-1"
		if a := w.call(t, http.MethodPost, "", "", g); a.Status != http.StatusCreated {
			t.Fatalf("%s: %d %s", hostname, a.Status, a.Body)
		}
	}
	for query, want := range map[string]string{
		"rack=c07":                          "c07u01 c07u02",
		"pool=training":                     "c07u01 c08u01",
		"rack=c07&pool=training":            "c07u01",
		"label=fabric%3Dib0":                "c07u01",
		"label=fabric%3Dib0&label=psu%3D2n": "c07u01",
		"label=fabric%3Dib1&label=psu%3D2n": "",
		"label=fabric%3D":                   "",
	} {
		var got []string
		for _, n := range w.throughout(t, query) {
			got = append(got, n.Hostname)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s finds %v, want %s", query, got, want)
		}
	}
	for _, query := range []string{"label=fabric", "label=%3Dib0", "label=a%3Db&label=a%3Dc", "label=A%3Db"} {
		if a := w.call(t, http.MethodGet, "?"+query, "", nil); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s answers %d %s", query, a.Status, a.Body)
		}
	}
}

func TestGroupingChangesAndIsKeptInTheHistory(t *testing.T) {
	w := newWorld(t)
	n, _ := w.make(t, "c07u31")
	rack, labels := "c07", map[string]string{"fabric": "ib0"}
	after, err := w.service.Update(system(t), n.ID, n.Version, node.Change{Rack: &rack, Labels: &labels})
	if err != nil || after.Rack != "c07" || after.Labels["fabric"] != "ib0" || after.Pool != "" {
		t.Fatalf("%+v, %v", after.Grouping, err)
	}
	none := map[string]string{}
	later, err := w.service.Update(system(t), n.ID, after.Version, node.Change{Labels: &none})
	if err != nil || later.Rack != "c07" || len(later.Labels) != 0 {
		t.Fatalf("%+v, %v", later.Grouping, err)
	}
	entries, err := w.service.History(system(t), n.ID, 0, nil, 20)
	if err != nil || len(entries) < 2 {
		t.Fatalf("%+v, %v", entries, err)
	}
	then, err := w.service.NodeAt(system(t), n.ID, entries[1].OccurredAt)
	if err != nil || then.Labels["fabric"] != "ib0" {
		t.Errorf("as it was: %+v, %v", then.Grouping, err)
	}
}

func TestGroupingsThatCanNeverBeRight(t *testing.T) {
	many := map[string]string{}
	for i := range node.MaxLabels + 1 {
		many[fmt.Sprintf("k%d", i)] = ""
	}
	for name, g := range map[string]node.Grouping{
		"rack with a space":   {Rack: "row 7"},
		"rack, too long":      {Rack: strings.Repeat("r", 64)},
		"pool with a slash":   {Pool: "a/b"},
		"too many labels":     {Labels: many},
		"key in capitals":     {Labels: map[string]string{"Fabric": "x"}},
		"empty key":           {Labels: map[string]string{"": "x"}},
		"key ends with a dot": {Labels: map[string]string{"a.": "x"}},
		"value with a line":   {Labels: map[string]string{"a": "x\ny"}},
		"value, too long":     {Labels: map[string]string{"a": strings.Repeat("v", 64)}},
	} {
		if bad := g.Rejected("body."); len(bad) == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
	if bad := (node.Grouping{
		Rack: "c07", Pool: "training",
		Labels: map[string]string{"nvidia.com/gpu": "8:9+x"},
	}).Rejected(
		""); len(bad) > 0 {
		t.Errorf("sound words are refused: %+v", bad)
	}
}
