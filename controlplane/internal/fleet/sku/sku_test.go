package sku_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/sku"
)

type world struct {
	db, owner *postgres.DB
	service   *sku.Service
	api       *httpapi.API
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.service = sku.New(w.db)
	w.api = httpapitest.New(w.db)
	w.service.Register(w.api)
	return w
}

type object = map[string]any

func (w *world) callAs(tb testing.TB, token, method, path, ifMatch string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: token, Method: method, Path: "/api/v1/admin/skus" + path, IfMatch: ifMatch, Body: body,
	})
}

func body(skuID string) object {
	return object{
		"sku_id": skuID, "display_name": "Eight of them", "gpu_vendor": "nvidia", "gpu_model": "B300", "gpus_total": 8,
		"capacity_shape": "slice", "allowed_counts": []int{8, 1, 2, 1}, "price_minor": 500, "price_currency": "EUR",
	}
}

func (w *world) count(tb testing.TB, query string, args ...any) (n int64) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestTheCatalogIsSeeded(t *testing.T) {
	w := newWorld(t)
	var list struct{ Items []sku.View }
	w.callAs(t, "member", http.MethodGet, "", "", nil).Decode(t, &list)
	var ids []string
	for _, v := range list.Items {
		ids = append(ids, v.SKUID)
		// A person could enter the seeded SKUs too.
		if _, err := w.service.Create(t.Context(), "copy-of-"+v.SKUID, v.Terms); err != nil {
			t.Errorf("%s: %v", v.SKUID, err)
		}
	}
	if !slices.Equal(ids, []string{"h200-sxm-baremetal-8g", "h200-sxm-slice", "mi300x.192g.8gpu"}) {
		t.Errorf("the catalog is %v", ids)
	}
}

func TestSKUOverTheAPI(t *testing.T) {
	w := newWorld(t)
	a := w.callAs(t, "root", http.MethodPost, "", "", body("b300"))
	var v sku.View
	a.Decode(t, &v)
	if a.Status != http.StatusCreated || v.Status != sku.Active || !slices.Equal(v.AllowedCounts, []int32{1, 2, 8}) ||
		v.Version != 1 || !v.Allows(8) || v.Allows(4) {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	w.callAs(t, "root", http.MethodPost, "", "", body("b300")).Wants(t, http.StatusConflict, "sku_id_taken")
	w.callAs(t, "root", http.MethodPatch, "/b300", `"1"`, object{"gpus_total": 4}).
		Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.allowed_counts")
	a = w.callAs(t, "root", http.MethodPatch, "/b300", `"1"`, object{"price_minor": 450, "status": "disabled"})
	a.Decode(t, &v)
	if a.Status != http.StatusOK || v.PriceMinor != 450 || v.Status != sku.Disabled || a.Header.Get("ETag") != `"2"` ||
		v.GPUModel != "B300" {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	w.callAs(t, "root", http.MethodPatch, "/b300", `"1"`, object{"price_minor": 1}).Wants(t, http.StatusPreconditionFailed,
		"version_stale")
	w.callAs(t, "root", http.MethodPatch, "/b300", "", object{"price_minor": 1}).Wants(t, http.StatusPreconditionRequired,
		"precondition_required")
	var list struct{ Items []sku.View }
	w.callAs(t, "root", http.MethodGet, "?status=disabled", "", nil).Decode(t, &list)
	if len(list.Items) != 1 || list.Items[0].SKUID != "b300" {
		t.Errorf("disabled are %v", list.Items)
	}

	w.callAs(t, "member", http.MethodGet, "/b300", "", nil).Wants(t, http.StatusOK, "")
	w.callAs(t, "guest", http.MethodGet, "/b300", "", nil).Wants(t, http.StatusForbidden, "insufficient_permissions")
	w.callAs(t, "member", http.MethodPatch, "/b300", `"2"`, object{"price_minor": 1}).Wants(t, http.StatusForbidden,
		"insufficient_permissions")
	w.callAs(t, "member", http.MethodDelete, "/b300", "", nil).Wants(t, http.StatusForbidden, "insufficient_permissions")

	w.callAs(t, "root", http.MethodDelete, "/b300", "", nil).Wants(t, http.StatusNoContent, "")
	w.callAs(t, "root", http.MethodGet, "/b300", "", nil).Wants(t, http.StatusNotFound, "not_found")
	w.callAs(t, "root", http.MethodDelete, "/b300", "", nil).Wants(t, http.StatusNotFound, "not_found")
	w.callAs(t, "root", http.MethodPost, "", "", body("b300")).Wants(t, http.StatusConflict, "sku_id_taken")
	if n := w.count(t,
		`SELECT count(*) FROM outbox_events WHERE event_type = 'sku.changed' AND aggregate_id = 'b300'`); n != 3 {
		t.Errorf("%d changes were told", n)
	}
	for _, action := range []string{"sku.create", "sku.update", "sku.delete"} {
		if n := w.count(t, `SELECT count(*) FROM audit_logs WHERE action = $1 AND target_id = 'b300'`, action); n != 1 {
			t.Errorf("%d entries %s", n, action)
		}
	}
}

func TestRejectedSKUsNameTheirFields(t *testing.T) {
	w := newWorld(t)
	before := w.count(t, `SELECT count(*) FROM skus`)
	for field, value := range map[string]any{
		"sku_id": "No Name", "display_name": "", "gpu_vendor": "3dfx", "gpu_model": "", "gpus_total": 65,
		"capacity_shape": "rack",
		"allowed_counts": []int{0, 1}, "price_minor": -1, "price_currency": "euro",
	} {
		b := body("b300")
		b[field] = value
		w.callAs(t, "root", http.MethodPost, "", "", b).Wants(t, http.StatusUnprocessableEntity, "validation_error", "body."+
			field)
	}
	for name, change := range map[string]object{
		"more than there are": {"allowed_counts": []int{9}}, "none at all": {"allowed_counts": []int{}},
		"GPUs of nobody": {"gpu_vendor": "none"}, "a vendor of no GPUs": {"gpus_total": 0},
	} {
		b := body("b300")
		for k, v := range change {
			b[k] = v
		}
		if a := w.callAs(t, "root", http.MethodPost, "", "", b); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: answer is %d %s", name, a.Status, a.Body)
		}
	}
	if after := w.count(t, `SELECT count(*) FROM skus`); after != before {
		t.Errorf("%d SKUs were written", after-before)
	}
}

func TestASKUInUseStays(t *testing.T) {
	w := newWorld(t)
	if _, err := w.owner.Exec(t.Context(), `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES (gen_random_uuid(), 'retired', 'n', 'n', 'h200-sxm-slice', 8, 'eu-1', 'manual')`); err != nil {
		t.Fatal(err)
	}
	w.callAs(t, "root", http.MethodDelete, "/h200-sxm-slice", "", nil).Wants(t, http.StatusConflict, "sku_in_use")
	w.callAs(t, "root", http.MethodPatch, "/h200-sxm-slice", `"1"`, object{"gpus_total": 4, "allowed_counts": []int{1}}).
		Wants(t, http.StatusConflict, "sku_in_use") // tenants would pay for 4 and have 8
	if _, err := w.owner.Exec(t.Context(), `UPDATE nodes SET status = 'deleted'`); err != nil {
		t.Fatal(err)
	}
	w.callAs(t, "root", http.MethodDelete, "/h200-sxm-slice", "", nil).Wants(t, http.StatusNoContent, "")
}

// A command that makes a node of a SKU and one that deletes the SKU wait for
// each other.
func TestASKUIsNotDeletedWhileItIsBeingUsed(t *testing.T) {
	w := newWorld(t)
	deleted := make(chan error, 1)
	err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := sku.ForUse(ctx, tx, "h200-sxm-slice"); err != nil {
			return err
		}
		go func() { deleted <- w.service.Delete(t.Context(), "h200-sxm-slice") }()
		for blocked := int64(0); blocked == 0; { // until the deletion waits for this transaction
			blocked = w.count(t,
				`SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database()`)
		}
		_, err := tx.Exec(ctx, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
			VALUES (gen_random_uuid(), 'active', 'n', 'n', 'h200-sxm-slice', 8, 'eu-1', 'manual')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; fault.CodeOf(err) != "sku_in_use" {
		t.Errorf("deletion says %v", err)
	}
}

func TestOnlyWhatIsEnabledIsUsed(t *testing.T) {
	w := newWorld(t)
	use := func(name string) error {
		return w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := sku.ForUse(ctx, tx, name)
			return err
		})
	}
	if err := use("h200-sxm-slice"); err != nil {
		t.Error(err)
	}
	off := sku.Disabled
	if _, err := w.service.Update(t.Context(), "h200-sxm-slice", 1, sku.Change{Status: &off}); err != nil {
		t.Fatal(err)
	}
	if err := use("h200-sxm-slice"); fault.CodeOf(err) != "sku_disabled" {
		t.Errorf("%v", err)
	}
	if err := use("nothing"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}
