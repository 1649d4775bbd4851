package cli

import (
	"maps"
	"net/http"
)

const (
	priceID   = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c2a1"
	priceJSON = `{"price_id":"` + priceID + `","sku":"h200-sxm-baremetal-8g","currency":"USD","price_minor":350,` +
		`"valid_from":"2026-03-04T05:06:07Z","valid_until":"2026-04-01T00:00:00Z","in_force":true,` +
		`"set_at":"2026-03-04T05:06:07Z"}`
	coming = `{"price_id":"` + priceID + `","sku":"h200-sxm-baremetal-8g","currency":"JPY","price_minor":600,` +
		`"valid_from":"2026-04-01T00:00:00Z","in_force":false,"reason":"new year","set_by":"` + userID + `",` +
		`"set_at":"2026-03-04T05:06:07Z"}`
)

var moneyErrands = []errand{
	{"billing-prices-list", "billing prices list --sku h200-sxm-baremetal-8g --currency USD"},
	{
		"billing-prices-set",
		"billing prices set h200-sxm-baremetal-8g --price 600 --currency JPY --from 2026-04-01 --reason new-year",
	},
	{"billing-prices-set-wrong", "billing prices set h200-sxm-baremetal-8g --price 3.505"},
	{"billing-prices-withdraw", "billing prices withdraw " + priceID},
}

// billingAnswers are what the fake API says about money.
func billingAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	maps.Copy(into, map[string]http.HandlerFunc{
		"list-prices": pageOf(priceJSON, coming), "create-price": answer(201, coming), "withdraw-price": nothing,
	})
	return into
}
