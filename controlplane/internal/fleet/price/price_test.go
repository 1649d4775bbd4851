package price_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/fleet/sku"
)

const (
	path = "/api/v1/admin/prices"
	h200 = "h200-sxm-baremetal-8g" // seeded: 3.50 USD
)

type object = map[string]any

type world struct {
	db, owner *postgres.DB
	api       *httpapi.API
	skus      *sku.Service
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.api, w.skus = httpapitest.New(w.db), sku.New(w.db)
	price.New(w.db, price.Notice).Register(w.api)
	w.skus.Register(w.api)
	return w
}

func (w *world) call(tb testing.TB, as, method, at string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{As: as, Method: method, Path: at, Body: body})
}

func (w *world) list(tb testing.TB, query string) (items []price.View) {
	tb.Helper()
	for cursor := ""; ; {
		var page struct {
			Items      []price.View
			NextCursor string `json:"next_cursor"`
		}
		w.call(tb, "member", http.MethodGet, path+query+cursor, nil).Into(tb, http.StatusOK, &page)
		items = append(items, page.Items...)
		if page.NextCursor == "" {
			return items
		}
		cursor = "&cursor=" + page.NextCursor
	}
}

func (w *world) inForce(tb testing.TB, of, currency string) int64 {
	tb.Helper()
	p, ok, err := price.InForce(tb.Context(), w.db, of, price.Held, currency)
	if err != nil {
		tb.Fatal(err)
	}
	if !ok {
		return -1
	}
	return p.Minor
}

func TestPricesAreSetSupersededAndWithdrawn(t *testing.T) {
	w := newWorld(t)
	if n := w.inForce(t, h200, "USD"); n != 350 {
		t.Fatalf("the seeded price is %d", n)
	}
	if n := w.inForce(t, h200, "EUR"); n != -1 {
		t.Fatalf("a price in EUR: %d", n)
	}
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	for _, b := range []object{
		{"sku": h200, "currency": "USD", "price_minor": 400, "reason": "more"},
		{"sku": h200, "currency": "EUR", "price_minor": 0, "free": true},
		{"sku": h200, "currency": "USD", "price_minor": 450, "valid_from": later},
	} {
		w.call(t, "root", http.MethodPost, path, b).Wants(t, http.StatusCreated, "")
	}
	if usd, eur := w.inForce(t, h200, "USD"), w.inForce(t, h200, "EUR"); usd != 400 || eur != 0 {
		t.Errorf("in force are %d USD and %d EUR", usd, eur)
	}
	prices := w.list(t, "?page_size=1&sku="+h200)
	if len(prices) != 4 || prices[0].Currency != "EUR" || !prices[0].InForce || prices[1].PriceMinor != 450 ||
		prices[1].InForce || prices[1].ValidUntil != nil || prices[2].PriceMinor != 400 || !prices[2].InForce ||
		prices[2].ValidUntil == nil || !prices[2].ValidUntil.Equal(later) || prices[2].SetBy == "" ||
		prices[3].PriceMinor != 350 || prices[3].InForce || !prices[3].ValidUntil.Equal(prices[2].ValidFrom) {
		t.Fatalf("%+v", prices)
	}
	if usd := w.list(t, "?currency=USD"); len(usd) != 5 { // two more SKUs are seeded
		t.Errorf("%d prices in USD", len(usd))
	}
	begun, coming := path+"/"+prices[2].PriceID.String(), path+"/"+prices[1].PriceID.String()
	w.call(t, "root", http.MethodDelete, begun, nil).Wants(t, http.StatusConflict, "price_in_force")
	w.call(t, "member", http.MethodDelete, coming, nil).Wants(t, http.StatusForbidden, "insufficient_permissions")
	w.call(t, "root", http.MethodDelete, coming, nil).Wants(t, http.StatusNoContent, "")
	w.call(t, "root", http.MethodDelete, coming, nil).Wants(t, http.StatusNotFound, "price_not_found")
	var entries, events int
	if err := w.owner.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM audit_logs WHERE action LIKE 'price.%'),
		(SELECT count(*) FROM outbox_events WHERE event_type = 'price.changed')`).Scan(&entries, &events); err != nil ||
		entries != 4 || events != 4 {
		t.Errorf("%d entries, %d events, %v", entries, events, err)
	}
}

func TestBadPricesAreRefusedAndNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	before := len(w.list(t, "?page_size=100"))
	for name, c := range map[string]struct {
		change object
		status int
		code   string
	}{
		"unknown SKU":      {object{"sku": "nothing"}, http.StatusNotFound, "not_found"},
		"no currency":      {object{"currency": "XXX"}, http.StatusUnprocessableEntity, "validation_error"},
		"negative":         {object{"price_minor": -1}, http.StatusUnprocessableEntity, "validation_error"},
		"nothing":          {object{"price_minor": 0}, http.StatusUnprocessableEntity, "validation_error"},
		"free for money":   {object{"free": true}, http.StatusUnprocessableEntity, "validation_error"},
		"at once, no word": {object{"at_once": true}, http.StatusUnprocessableEntity, "validation_error"},
		"too high":         {object{"price_minor": 1e12 + 1}, http.StatusUnprocessableEntity, "validation_error"},
		"more than 64 bit": {object{"price_minor": 1e30}, http.StatusUnprocessableEntity, "validation_error"},
		"in the past": {
			object{"valid_from": time.Now().Add(-time.Minute)}, http.StatusUnprocessableEntity, "price_in_the_past",
		},
	} {
		b := object{"sku": h200, "currency": "USD", "price_minor": 1}
		for k, v := range c.change {
			b[k] = v
		}
		t.Run(name, func(t *testing.T) { w.call(t, "root", http.MethodPost, path, b).Wants(t, c.status, c.code) })
	}
	later := time.Now().Add(time.Hour)
	b := object{"sku": h200, "currency": "CHF", "price_minor": 1, "valid_from": later}
	w.call(t, "root", http.MethodPost, path, b).Wants(t, http.StatusCreated, "")
	w.call(t, "root", http.MethodPost, path, b).Wants(t, http.StatusConflict, "price_exists")
	w.call(t, "member", http.MethodPost, path, b).Wants(t, http.StatusForbidden, "insufficient_permissions")
	if after := len(w.list(t, "?page_size=100")); after != before+1 {
		t.Errorf("%d prices were written", after-before)
	}
}

// Whoever owns the tables cannot change what somebody rented at either.
func TestAttackAPriceThatHasBegunStays(t *testing.T) {
	w := newWorld(t)
	for _, query := range []string{
		`UPDATE sku_prices SET price_minor = 1`, `DELETE FROM sku_prices WHERE sku_id = 'h200-sxm-slice'`,
		`TRUNCATE sku_prices`,
		`INSERT INTO sku_prices (id, sku_id, currency, price_minor, valid_from)
			VALUES (gen_random_uuid(), 'h200-sxm-slice', 'USD', 1, now() - interval '1 day')`,
	} {
		for who, db := range map[string]*postgres.DB{"the product": w.db, "the owner": w.owner} {
			if _, err := db.Exec(t.Context(), query); err == nil {
				t.Errorf("%s may: %s", who, query)
			}
		}
	}
	if n := w.inForce(t, "h200-sxm-slice", "USD"); n != 380 {
		t.Errorf("the price is %d", n)
	}
}

// The SKU shows the price in force in its currency, and a change of it is a price.
func TestTheSKUShowsThePriceInForce(t *testing.T) {
	w := newWorld(t)
	shown := func() string {
		v, err := w.skus.Get(t.Context(), h200)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []sku.View }
		w.call(t, "member", http.MethodGet, "/api/v1/admin/skus", nil).Into(t, http.StatusOK, &list)
		if list.Items[0].SKUID != h200 || list.Items[0].PriceMinor != v.PriceMinor {
			t.Fatalf("%+v", list)
		}
		return fmt.Sprintf("%d %s", v.PriceMinor, v.PriceCurrency)
	}
	update := func(c sku.Change) {
		v, err := w.skus.Get(t.Context(), h200)
		if err == nil {
			_, err = w.skus.Update(t.Context(), h200, v.Version, c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.call(t, "root", http.MethodPost, path, object{"sku": h200, "currency": "USD", "price_minor": 400}).
		Wants(t, http.StatusCreated, "")
	if shown() != "400 USD" {
		t.Errorf("it shows %s", shown())
	}
	update(sku.Change{DisplayName: new("another name")})
	if shown() != "400 USD" || len(w.list(t, "?page_size=10&sku="+h200)) != 2 {
		t.Errorf("it shows %s: %+v", shown(), w.list(t, "?page_size=10&sku="+h200))
	}
	update(sku.Change{PriceMinor: new(int64(350))}) // what the column says still
	if shown() != "350 USD" || w.inForce(t, h200, "USD") != 350 {
		t.Errorf("it shows %s", shown())
	}
	update(sku.Change{PriceMinor: new(int64(320)), PriceCurrency: new("EUR")})
	if shown() != "320 EUR" || w.inForce(t, h200, "EUR") != 320 || w.inForce(t, h200, "USD") != 350 {
		t.Errorf("it shows %s", shown())
	}
	// A release that knows no prices writes the column only.
	if _, err := w.db.Exec(t.Context(), `UPDATE skus SET price_minor = 333 WHERE id = $1`, h200); err != nil {
		t.Fatal(err)
	}
	if shown() != "333 EUR" || w.inForce(t, h200, "EUR") != 333 {
		t.Errorf("it shows %s", shown())
	}
}

// Within a transaction a price is in force from the next statement on.
func TestAPriceIsInForceInItsOwnTransaction(t *testing.T) {
	w := newWorld(t)
	if err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := price.Put(ctx, tx, price.Offer{SKU: h200, Currency: "USD", Minor: 7}); err != nil {
			return err
		}
		p, ok, err := price.InForce(ctx, tx, h200, price.Held, "USD")
		if !ok || p.Minor != 7 {
			t.Errorf("%+v", p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A change of a SKU that is not about its price leaves prices alone, also where one has
// begun since the SKU was read.
func TestARenamedSKUBringsNoPriceBack(t *testing.T) {
	w := newWorld(t)
	prices := price.New(w.db, price.Notice)
	if _, err := prices.Set(t.Context(), price.Offer{SKU: h200, Currency: "USD", Minor: 400}); err != nil {
		t.Fatal(err)
	}
	// It begins between the moment in which the SKU is read and the one in which it is written.
	for _, query := range []string{
		`CREATE FUNCTION meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO sku_prices (id, sku_id, currency, price_minor, valid_from)
			VALUES (gen_random_uuid(), NEW.id, 'USD', 500, transaction_timestamp()); RETURN NEW; END $$`,
		`CREATE TRIGGER meanwhile BEFORE UPDATE ON skus FOR EACH ROW EXECUTE FUNCTION meanwhile()`,
		`GRANT INSERT ON sku_prices TO gpuaas_app`,
	} {
		if _, err := w.owner.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	name := "another name"
	if _, err := w.skus.Update(t.Context(), h200, 1, sku.Change{DisplayName: &name}); err != nil {
		t.Fatal(err)
	}
	if got := w.inForce(t, h200, "USD"); got != 500 {
		t.Errorf("the price is %d: the one before is back", got)
	}
}
