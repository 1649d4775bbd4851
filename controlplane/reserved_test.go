package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/auth"
)

// Who may take money of tenants has what is reserved charged, and nobody else: a
// reservation that is made as before costs nothing.
func TestReservationsAreChargedThroughTheAPI(t *testing.T) {
	const sku = "h200-sxm-baremetal-8g"
	h := newHouse(t)
	h.addNodes(t, sku, 3)
	ends := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	send := func(role auth.Role, method, path, body string, want int, into any) {
		t.Helper()
		w := h.ask(t, role, method, path, body)
		if w.Code != want {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		if into == nil {
			return
		}
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	type problem struct{ Code string }
	reserve := func(role auth.Role, more string, want int, into any) {
		t.Helper()
		send(role, http.MethodPost, "/api/v1/reservations", fmt.Sprintf(
			`{"org_id": %q, "sku": %q, "nodes": 2, "ends_at": %q%s}`, h.org, sku, ends, more), want, into)
	}
	type charge struct {
		PriceMinor  int64 `json:"price_minor"`
		UnusedNodes int64 `json:"unused_nodes"`
		Hour        int64 `json:"burn_minor_per_hour"`
	}
	var made struct {
		ID     string `json:"reservation_id"`
		Charge *charge
	}
	var refused problem
	reserve(auth.Operator, `, "charge": true`, http.StatusForbidden, &refused)
	if refused.Code != "insufficient_permissions" {
		t.Errorf("an operator has something charged: %+v", refused)
	}
	reserve(auth.Operator, "", http.StatusCreated, &made)
	if made.Charge != nil {
		t.Errorf("a reservation that nobody wanted to be charged costs %+v", made.Charge)
	}
	send(auth.PlatformAdmin, http.MethodPost, "/api/v1/reservations/"+made.ID+"/cancel", `{"reason": "again"}`, http.StatusOK, nil)
	reserve(auth.PlatformAdmin, `, "charge": true`, http.StatusNotFound, &refused)
	account := "/api/v1/tenants/" + h.org.String() + "/billing-account"
	send(auth.PlatformAdmin, http.MethodPut, account, `{"currency": "USD"}`, http.StatusOK, nil)
	reserve(auth.PlatformAdmin, `, "charge": true`, http.StatusConflict, &refused)
	if refused.Code != "sku_not_priced" {
		t.Errorf("without a price it is refused with %+v", refused)
	}
	send(auth.PlatformAdmin, http.MethodPost, "/api/v1/admin/prices",
		fmt.Sprintf(`{"sku": %q, "currency": "USD", "price_minor": 120, "meter": "reserved"}`, sku), http.StatusCreated, nil)
	reserve(auth.PlatformAdmin, `, "charge": true, "force": true`, http.StatusUnprocessableEntity, &refused)
	made.Charge = nil
	reserve(auth.PlatformAdmin, `, "charge": true`, http.StatusCreated, &made)
	if c := made.Charge; c == nil || c.PriceMinor != 120 || c.UnusedNodes != 2 || c.Hour != 2*8*120 {
		t.Errorf("it costs %+v", c)
	}
	made.Charge = nil
	send(auth.TenantAdmin, http.MethodGet, "/api/v1/reservations/"+made.ID, "", http.StatusOK, &made)
	if made.Charge == nil || made.Charge.Hour != 2*8*120 {
		t.Errorf("the tenant reads %+v", made.Charge)
	}
	var balance struct {
		Burn int64 `json:"burn_minor_per_hour"`
	}
	send(auth.TenantAdmin, http.MethodGet, "/api/v1/tenants/"+h.org.String()+"/balance", "", http.StatusOK, &balance)
	if balance.Burn != 2*8*120 {
		t.Errorf("an hour of the tenant costs %d", balance.Burn)
	}
	made.Charge = nil
	send(auth.PlatformAdmin, http.MethodPost, "/api/v1/reservations/"+made.ID+"/cancel", `{"reason": "moved"}`, http.StatusOK, &made)
	if made.Charge == nil || made.Charge.UnusedNodes != 0 {
		t.Errorf("after its end it costs %+v", made.Charge)
	}
}
