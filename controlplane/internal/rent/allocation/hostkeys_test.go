package allocation_test

import (
	"net/http"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
)

// A tenant is told by which keys to recognise its node, and hears of it when the
// node shows others; what it was told stays.
func TestATenantIsToldTheHostKeysOfItsNode(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "gpu-1")
	const told = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	const other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	nodes := node.New(node.Config{DB: w.db, OnHostKeys: w.service.HostKeysChanged})
	shows := func(line string) {
		t.Helper()
		if err := nodes.KeepHostKeys(t.Context(), n, agentwire.HostKeysRequest{Keys: []string{line}}); err != nil {
			t.Fatal(err)
		}
	}
	api := httpapitest.New(w.db)
	w.service.Register(api)
	a := w.active(t, allocation.Ask{})
	see := func() (v allocation.View) {
		t.Helper()
		httpapitest.Call(t, api.Handler(), httpapitest.Request{
			As: httpapitest.Root, Method: http.MethodGet, Path: "/api/v1/allocations/" + a.ID.String(),
		}).Into(t, http.StatusOK, &v)
		return v
	}
	if v := see(); v.Host == "" || len(v.HostKeys) != 0 || v.HostKeysChangedAt != nil {
		t.Fatalf("nobody knows its keys yet: %+v", v)
	}
	shows(told)
	v := see()
	if len(v.HostKeys) != 1 || v.HostKeys[0].PublicKey != told || v.HostKeys[0].Algorithm != "ssh-ed25519" ||
		!strings.HasPrefix(v.HostKeys[0].Fingerprint, "SHA256:") || v.HostKeysChangedAt != nil {
		t.Fatalf("the tenant is told %+v", v.HostKeys)
	}
	shows(other)
	v = see()
	if len(v.HostKeys) != 1 || v.HostKeys[0].PublicKey != told || v.HostKeysChangedAt == nil ||
		len(v.HostKeysShown) != 1 ||
		v.HostKeysShown[0].PublicKey != other {
		t.Errorf("after a change the tenant is told %+v, changed %v, shown %+v", v.HostKeys, v.HostKeysChangedAt,
			v.HostKeysShown)
	}
	heard := w.count(t, `SELECT count(*) FROM outbox_events
		WHERE event_type = 'allocation.host_keys_changed' AND aggregate_id = $1`, a.ID.String())
	noted := w.count(t, `SELECT count(*) FROM allocation_events WHERE event = 'host_keys_changed' AND allocation_id = $1`, a.ID)
	if heard != 1 || noted != 1 {
		t.Errorf("the tenant heard of it %d times, and reads it %d times", heard, noted)
	}
}
