package cli

import (
	"maps"
	"net/http"
	"strings"
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

const (
	entryID            = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c2a2"
	billingAccountJSON = `{"org_id":"` + orgID + `","currency":"USD","paid_share":8500,"pricing":"fixed","updated_by":"` + userID + `",` +
		`"version":7,"created_at":"2026-03-04T05:06:07Z","updated_at":"2026-03-04T05:06:07Z"}`
	freeJSON  = `{"project_id":"` + projectID + `","reason":"research","since":"2026-03-04T05:06:07Z","set_by":"` + userID + `"}`
	termsJSON = `{"allocation_id":"` + allocationID + `","sku":"h200-sxm-baremetal-8g","basis":"priced","currency":"USD",` +
		`"price_id":"` + priceID + `","price_minor":340,"paid_share":8500,"units":8,"frozen_at":"2026-03-04T05:06:07Z",` +
		`"pricing":"follows_list","prices":[{"price_id":"` + priceID + `","price_minor":340,"from":"2026-03-01T00:00:00Z"},` +
		`{"price_id":"` + priceID + `","price_minor":350,"from":"2026-03-04T05:06:07Z"},` +
		`{"price_id":"` + priceID + `","price_minor":360,"from":"2099-04-01T00:00:00Z"}]}`
	creditJSON = `{"entry_id":"` + entryID + `","org_id":"` + orgID + `","kind":"credit","amount_minor":100000,"currency":"USD",` +
		`"reference":"invoice-17","reason":"prepaid","made_by":"` + userID + `","booked_at":"2026-03-04T05:06:07Z",` +
		`"postings":[{"account":"credits","amount_minor":-100000},{"account":"tenant","amount_minor":100000}]}`
	correctionJSON = `{"entry_id":"0198c5f0-6f0a-7c3e-9d53-0a5f5be1c2a3","org_id":"` + orgID + `","kind":"correction",` +
		`"amount_minor":-100000,"currency":"USD","reason":"wrong tenant","made_by":"` + userID + `",` +
		`"corrects_entry_id":"` + entryID + `","booked_at":"2026-03-04T05:07:07Z",` +
		`"postings":[{"account":"credits","amount_minor":100000},{"account":"tenant","amount_minor":-100000}]}`
	balanceJSON = `{"org_id":"` + orgID + `","balance_minor":-1205,"currency":"USD","accrued_minor":1400,"held_minor":0,` +
		`"available_minor":97395,"burn_minor_per_hour":2800,"runway_hours":34.78,"depletes_at":"2026-03-05T15:52:07Z",` +
		`"status":"low","since":"2026-03-04T05:06:07Z","payment":"postpaid","credit_line_minor":100000,"low_minor":0,` +
		`"low_seconds":259200,"release_seconds":86400,"grace_seconds":0,"rearm_percent":125,"version":1}`
)

var moneyErrands = []errand{
	{"billing-prices-list", "billing prices list --sku h200-sxm-baremetal-8g --currency USD"},
	{
		"billing-prices-set",
		"billing prices set h200-sxm-baremetal-8g --price 600 --currency JPY --from 2026-04-01 --reason new-year",
	},
	{"billing-prices-set-free", "billing prices set h200-sxm-baremetal-8g --price 0 --free --currency JPY --at-once --reason gift"},
	{"billing-prices-set-plain", "billing prices set h200-sxm-baremetal-8g --price 3.50"},
	{
		"billing-prices-set-offset",
		"billing prices set h200-sxm-baremetal-8g --price 3.50 --currency USD --from 2026-04-01T00:00+02:00",
	},
	{"billing-prices-set-wrong", "billing prices set h200-sxm-baremetal-8g --price 3.505"},
	{"billing-account-show", "billing account show --tenant acme"},
	{"billing-account-set", "billing account set --tenant acme --currency USD --discount 15"},
	{"billing-account-set-discount", "billing account set --tenant acme --discount 12"},
	{"billing-account-set-pricing", "billing account set --tenant acme --currency USD --pricing follows_list"},
	{"billing-account-set-version", "billing account set --tenant acme --currency USD --discount 15 --if-version 6"},
	{"billing-account-set-wrong", "billing account set --tenant acme --currency USD --discount 101"},
	{"billing-account-free-projects", "billing account free-projects --tenant acme"},
	{"billing-account-free", "billing account free --project acme/training --reason research"},
	{"billing-account-charge", "billing account charge --project acme/training"},
	{"billing-account-terms", "billing account terms " + allocationID + " --project acme/training"},
	{"billing-account-terms-named", "billing account terms train --project acme/training"},
	{
		"billing-credit",
		"billing credit --tenant acme --amount 1000.00 --currency USD --reference invoice-17 --reason prepaid",
	},
	{"billing-correct", "billing correct " + entryID + " --tenant acme --reason wrong-tenant"},
	{"billing-ledger", "billing ledger --tenant acme --kind credit"},
	{"billing-ledger-nobody", "billing ledger"},
	{"billing-balance", "billing balance --tenant acme"},
	{"billing-limit", "billing limit --tenant acme --payment postpaid --credit-line 1000.00 --low-for 3d --grace 0s"},
	{"billing-limit-wrong", "billing limit --tenant acme --payment postpaid --credit-line 1000.001"},
	{"billing-prices-withdraw", "billing prices withdraw " + priceID},
	{
		"billing-budget-set",
		"billing budget set --project acme/training --amount 5000.00 --period month --alert 50,80,100 --hard-stop",
	},
	{"billing-budget-set-wrong", "billing budget set --project acme/training --amount 5000.001"},
	{"billing-budget-show", "billing budget show --project acme/training"},
	{"billing-budget-list", "billing budget list --tenant acme"},
	{"billing-budget-remove", "billing budget remove --project acme/training"},
	{"billing-payment-list", "billing payment list --tenant acme"},
	{"billing-payment-secret", "billing payment secret --provider stripe --secret-file testdata/billing/signing-secret"},
	{"billing-payment-secret-wrong", "billing payment secret"},
	{"billing-usage", "billing usage --by project,sku,node,user,label,day --label team --from 2026-03-01 --to 2026-04-01"},
	{"billing-usage-tenant", "billing usage --tenant acme --by label --label team -o json"},
	{"billing-usage-csv", "billing usage --project acme/training --by tenant,label,user --label team --csv"},
	{"billing-usage-wrong", "billing usage --by rack"},
	{"billing-statement-list", "billing statement list --tenant acme"},
	{"billing-statement-show", "billing statement show ACME-0007 --tenant acme"},
	{"billing-statement-show-html", "billing statement show 2026-02 --tenant acme --as html"},
	{"billing-statement-show-csv", "billing statement show 7 --tenant acme --as csv"},
	{"billing-statement-show-focus", "billing statement show " + statementID + " --tenant acme --as focus"},
	{"billing-statement-show-wrong", "billing statement show 7 --tenant acme --as pdf"},
	{"billing-statement-show-missing", "billing statement show 8 --tenant acme"},
	{"billing-statement-show-open", "billing statement show open --tenant acme"},
	{"billing-statement-show-open-html", "billing statement show open --tenant acme --as html"},
	{"billing-statement-show-open-csv", "billing statement show open --tenant acme --as csv"},
	{"billing-statement-show-open-focus", "billing statement show open --tenant acme --as focus"},
	{"billing-statement-close", "billing statement close --month 2026-02 --tenant acme"},
	{"billing-check", "billing check"},
	{"billing-check-tenant", "billing check --tenant acme"},
}

const budgetJSON = `{"project_id":"` + projectID + `","org_id":"` + orgID + `","currency":"USD","amount_minor":500000,` +
	`"period":"month","period_start":"2026-03-01T00:00:00Z","period_end":"2026-04-01T00:00:00Z","spent_minor":410000,` +
	`"spent_percent":82,"aside_minor":2800,"forecast_minor":620000,"alerts":[50,80,100],` +
	`"told":[{"percent":50,"told_at":"2026-03-02T05:06:07Z"},{"percent":80,"told_at":"2026-03-04T05:06:07Z"}],` +
	`"hard_stop":true,"version":1,"updated_at":"2026-03-01T05:06:07Z","updated_by":"` + userID + `"}`

const paymentJSON = `{"entry_id":"` + entryID + `","org_id":"` + orgID + `","provider":"stripe","kind":"refund",` +
	`"object_id":"re_1","payment_id":"pi_1","amount_minor":5000,"currency":"USD","received_at":"2026-03-04T05:06:07Z"}`

const usageJSON = `{"from":"2026-03-01T00:00:00Z","to":"2026-04-01T00:00:00Z","made_at":"2026-03-04T05:06:07Z",` +
	`"by":["project"],"label":"team","lines":[{"org_id":"` + orgID + `","tenant":"acme","project_id":"` + projectID + `",` +
	`"project":"training","sku":"h200-sxm-baremetal-8g","node_id":"` + nodeID + `","hostname":"c07u31",` +
	`"requested_by":"` + userID + `","requested_by_name":"Ada","label":"=1+1","day":"2026-03-02","currency":"USD",` +
	`"allocations":2,"seconds":5437,"unit_seconds":43496,"cost_minor":3805,"not_charged_minor":5,"relief_minor":700,` +
	`"corrections_minor":-20,"net_minor":3125},{"tenant":"free","project":"p","allocations":1,"seconds":3600,` +
	`"unit_seconds":3600,"cost_minor":0,"not_charged_minor":0,"relief_minor":0,"corrections_minor":0,"net_minor":0}]}`

const (
	statementID   = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1c2a3"
	statementPart = `"statement_id":"` + statementID + `","org_id":"` + orgID + `","number":7,"label":"ACME-0007",` +
		`"currency":"USD","period_start":"2026-02-01T00:00:00Z","period_end":"2026-03-01T00:00:00Z","opening_minor":100000,` +
		`"usage_minor":25200,"relief_minor":2520,"corrections_minor":-5,"money_in_minor":1000,"closing_minor":78315,` +
		`"entries":30,"late_entries":1,"issued_at":"2026-03-04T05:06:07Z"`
	statementJSON     = `{` + statementPart + `,"digest":"ab","issued_by":"system:billing"}`
	statementDocument = `{` + statementPart + `,"issuer":"Example","tenant":"acme","tenant_name":"Acme","lines":[],"reliefs":[],` +
		`"corrections":[],"money_in":[],"projects":[]}`
)

func plain(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body))
	}
}

// billingAnswers are what the fake API says about money.
func billingAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	nothing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	maps.Copy(into, map[string]http.HandlerFunc{
		"list-prices": pageOf(priceJSON, coming), "create-price": answer(201, coming), "withdraw-price": nothing,
		"get-billing-account": answer(200, billingAccountJSON), "put-billing-account": answer(200, billingAccountJSON),
		"list-free-projects": pageOf(freeJSON), "put-free-project": answer(200, freeJSON), "remove-free-project": nothing,
		"get-allocation-terms": answer(200, termsJSON), "create-credit": answer(201, creditJSON),
		"correct-ledger-entry": answer(201, correctionJSON), "list-ledger": pageOf(correctionJSON, creditJSON),
		"get-balance": answer(200, balanceJSON), "get-usage": answer(200, usageJSON),
		"list-statements": pageOf(statementJSON), "get-statement": answer(200, statementDocument),
		"close-period":             answer(201, statementDocument),
		"get-open-statement":       answer(200, strings.ReplaceAll(statementDocument, "ACME-0007", "ACME-DRAFT")),
		"get-open-statement-html":  plain("text/html", "<!DOCTYPE html>\n<p>draft</p>\n"),
		"get-open-statement-csv":   plain("text/csv", "statement,kind\nACME-DRAFT,opening\n"),
		"get-open-statement-focus": plain("text/csv", "BilledCost\n1.00\n"),
		"get-statement-html":       plain("text/html", "<!DOCTYPE html>\n<p>7</p>\n"),
		"get-statement-csv":        plain("text/csv", "statement,kind\nACME-0007,opening\n"),
		"get-statement-focus":      plain("text/csv", "BilledCost\n1.00\n"),
		"get-ledger-check": answer(200, `{"agrees":true,"allocations":12,"tenants":2,"disagreements":0,"found":[],`+
			`"checked_at":"2026-03-04T05:06:07Z","never_charged":0,"unmetered":[]}`),
		"get-tenant-ledger-check": answer(200, `{"agrees":false,"allocations":2,"tenants":1,"disagreements":1,`+
			`"checked_at":"2026-03-04T05:06:07Z","found":[{"org_id":"`+orgID+`","allocation_id":"`+allocationID+`",`+
			`"message":"the ledger has 1.00 USD, rated are 1.01 USD","want_minor":101,"got_minor":100}],"never_charged":1,`+
			`"unmetered":[{"org_id":"`+orgID+`","allocation_id":"`+allocationID+`","sku":"h200-sxm-baremetal-8g",`+
			`"active_at":"2026-03-01T05:06:07Z","message":"its tenant had no billing account when it was rented"}]}`),
		"get-tenant-usage": answer(200, usageJSON), "get-project-usage": answer(200, usageJSON),
		"put-balance-limits": answer(200, balanceJSON), "put-budget": answer(200, budgetJSON),
		"list-payments":      pageOf(paymentJSON),
		"put-payment-secret": nothing,
		"get-budget":         answer(200, budgetJSON), "list-budgets": pageOf(budgetJSON), "remove-budget": nothing,
	})
	return into
}
