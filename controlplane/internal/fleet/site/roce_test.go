package site_test

import (
	"net/http"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/site"
)

func row(host, iface, cidr string) object {
	return object{"hostname": host, "interface": iface, "ipv4_cidr": cidr}
}

func (w *world) roce(tb testing.TB, path string, rows ...object) (httpapitest.Answer, site.UpsertedView) {
	tb.Helper()
	a := w.call(tb, http.MethodPost, path+"/roce-assignments", "", object{"items": rows})
	var v site.UpsertedView
	if a.Status == http.StatusOK {
		a.Decode(tb, &v)
	}
	return a, v
}

func TestRoCEAssignmentsAreWrittenTogetherOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	if a, v := w.roce(t, path, row("C07U31", "enp28s0np0", "172.30.9.61/31"),
		row("c07u31", "enp29s0np0", "172.29.1.219/31"),
		row("c07u32", "enp28s0np0", "172.30.9.65/31")); v != (site.UpsertedView{Created: 3}) {
		t.Fatalf("answer is %d %s", a.Status, a.Body)
	}
	// One bad row spoils all, and is named with its field.
	a, _ := w.roce(t, path, row("new", "eth0", "172.30.9.70/31"), row("bad_name", "eth0", "172.30.9.71/33"),
		row("c07u31", "name-that-is-too-long", "172.30.9.72/31"),
		row("new", "eth0", "172.30.9.73/31"), row("x", "eth1", "172.30.9.70/24"),
		object{"hostname": "y", "interface": "e", "ipv4_cidr": "10.0.0.1/24", "mtu": 100})
	a.Wants(t, http.StatusUnprocessableEntity, "validation_error")
	a, _ = w.roce(t, path, row("new", "eth0", "172.30.9.70/31"), row("bad_name", "eth0", "172.30.9.71/33"),
		row("new", "eth0", "172.30.9.73/31"), row("x", "eth1", "172.30.9.70/24"),
		object{"hostname": "y", "interface": "e", "ipv4_cidr": "10.0.0.1/24", "mtu": 100})
	a.Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.items[1].hostname", "body.items[1].ipv4_cidr",
		"body.items[2].interface",
		"body.items[3].ipv4_cidr", "body.items[4].mtu")
	// An address that another interface has is refused, too.
	a, _ = w.roce(t, path, row("new", "eth0", "172.30.9.70/31"), row("new", "eth1", "172.30.9.61/24"))
	a.Wants(t, http.StatusConflict, "roce_address_taken", "body.items[1].ipv4_cidr")
	if n := w.rows(t, `SELECT count(*) FROM maas_roce_assignments`); n != 3 {
		t.Errorf("%d rows are there", n)
	}
	// But addresses can be exchanged, and only what differs is changed.
	swap := []object{
		row("c07u31", "enp28s0np0", "172.30.9.65/31"), row("c07u32", "enp28s0np0", "172.30.9.61/31"),
		row("c07u31", "enp29s0np0", "172.29.1.219/31"),
	}
	if a, v := w.roce(t, path, swap...); v != (site.UpsertedView{Updated: 2, Unchanged: 1}) {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	// The same address in another site is nobody's business.
	_, other := w.site(t, "dc2")
	if a, v := w.roce(t, other, swap...); v.Created != 3 {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	a, _ = w.roce(t, path)
	a.Wants(t, http.StatusUnprocessableEntity, "validation_error")
}

func TestRoCEAssignmentsAreListedAndDeleted(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	w.roce(t, path, row("b", "e1", "10.0.0.1/24"), row("a", "e1", "10.0.0.2/24"), row("a", "e0", "10.0.0.3/24"))
	type listing struct {
		Items      []site.AssignmentView
		NextCursor string `json:"next_cursor"`
	}
	var keys []string
	var last site.AssignmentView
	for cursor := ""; ; {
		var page listing
		w.call(t, http.MethodGet, path+"/roce-assignments?page_size=1&cursor="+cursor, "", nil).Decode(t, &page)
		for _, v := range page.Items {
			keys, last = append(keys, v.Hostname+"/"+v.Interface), v
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if strings.Join(keys, " ") != "a/e0 a/e1 b/e1" {
		t.Errorf("listed %v", keys)
	}
	for query, want := range map[string]int{
		"hostname=a": 2, "interface=e1": 2, "hostname=a&interface=e1": 1,
		"hostname=z": 0,
	} {
		var page listing
		w.call(t, http.MethodGet, path+"/roce-assignments?"+query, "", nil).Decode(t, &page)
		if len(page.Items) != want {
			t.Errorf("%s lists %d", query, len(page.Items))
		}
	}
	one := path + "/roce-assignments/" + last.AssignmentID.String()
	if a := w.call(t, http.MethodDelete, one, "", nil); a.Status != http.StatusNoContent {
		t.Errorf("deletion answers %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodDelete, one, "", nil).Wants(t, http.StatusNotFound, "not_found")
}
