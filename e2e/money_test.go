package e2e

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/testkit"
)

// hurriedBilling are settings with which money is seen to move while a test runs.
func hurriedBilling() []string {
	return []string{
		"GPUAAS_BILLING_CHARGE_EVERY=2s", "GPUAAS_BILLING_WINDOW=2s", "GPUAAS_BILLING_COMPARE_EVERY=5s",
	}
}

// payer is a tenant with an account.
type payer struct {
	tenant
	admin *plane
	slug  string
	org   string
	unit  int64 // what a GPU costs for an hour, in minor units
}

// pays opens an account for a tenant, and gives its SKU a price.
func (m tenant) pays(t *testing.T, admin *plane, slug, price string) payer {
	t.Helper()
	cli := admin.cli(t)
	succeed(t, cli, "billing", "prices", "set", labSKU, "--price", price, "--currency", "USD")
	var account struct {
		OrgID string `json:"org_id"`
	}
	said := succeed(t, cli, "billing", "account", "set", "--tenant", slug, "--currency", "USD", "-o", "json")
	if err := json.Unmarshal([]byte(said), &account); err != nil {
		t.Fatal(err)
	}
	return payer{tenant: m, admin: admin, slug: slug, org: account.OrgID, unit: minor(t, price)}
}

// minor reads an amount with two digits.
func minor(t *testing.T, text string) int64 {
	t.Helper()
	n, ok := new(big.Int).SetString(strings.Replace(text, ".", "", 1), 10)
	if !ok || !strings.Contains(text, ".") {
		t.Fatalf("%q is no amount", text)
	}
	return n.Int64()
}

func (y payer) path(rest string) string { return "/api/v1/tenants/" + y.org + rest }

// credited gives the tenant money, and says which entry that is.
func (y payer) credited(t *testing.T, amount, reference string) (entry string) {
	t.Helper()
	var made struct {
		EntryID string `json:"entry_id"`
	}
	said := succeed(t, y.admin.cli(t), "billing", "credit", "--tenant", y.slug, "--amount", amount, "--currency", "USD",
		"--reference", reference, "--reason", "prepaid", "-o", "json")
	if err := json.Unmarshal([]byte(said), &made); err != nil {
		t.Fatal(err)
	}
	return made.EntryID
}

func (y payer) limited(t *testing.T, lowFor, releaseFor string) {
	t.Helper()
	succeed(t, y.admin.cli(t), "billing", "limit", "--tenant", y.slug, "--payment", "prepaid", "--low-for", lowFor,
		"--release-for", releaseFor)
}

// told waits for an event about the tenant.
func (y payer) told(t *testing.T, typ string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := apiclient.Stream(ctx, y.admin.client(t), apiclient.StreamRequest{Type: typ, After: "0"},
		func(i apiclient.StreamItem) error {
			if i.Event != nil && i.Event.OrgId != nil && i.Event.OrgId.String() == y.org {
				return errEnough
			}
			return nil
		})
	if !errors.Is(err, errEnough) {
		t.Fatalf("%s is not told: %v", typ, err)
	}
}

// owed is what allocations cost that have ended, by the formula and nothing else.
func (y payer) owed(t *testing.T, of ...rental) (sum int64) {
	t.Helper()
	for _, a := range of {
		if a.ActiveAt == nil || a.ReleaseRequestedAt == nil {
			t.Fatalf("allocation %s has not ended: %+v", a.AllocationID, a)
		}
		seconds := int64(a.ReleaseRequestedAt.Sub(*a.ActiveAt) / time.Second)
		sum += 8 * y.unit * seconds / 3600
	}
	return sum
}

// settled waits until everything that was used is booked, and says what is left.
func (y payer) settled(t *testing.T) (left int64) {
	t.Helper()
	testkit.Succeeds(t, "everything to be charged", 3*time.Minute, func() error {
		var now struct {
			BalanceMinor int64 `json:"balance_minor"`
			AccruedMinor int64 `json:"accrued_minor"`
			HeldMinor    int64 `json:"held_minor"`
		}
		a, err := y.admin.call(t.Context(), http.MethodGet, y.path("/balance"), nil)
		if err == nil {
			err = readJSON(a, &now)
		}
		if err == nil && (now.AccruedMinor != 0 || now.HeldMinor != 0) {
			err = fmt.Errorf("%d are not booked, %d are set aside", now.AccruedMinor, now.HeldMinor)
		}
		left = now.BalanceMinor
		return err
	})
	return left
}

// checkMoney lets a tenant that pays beforehand come to the end of what it has. All that
// it is told, charged and released for comes from schedules of the durable engine. It
// says what the tenant has left.
func (p *plane) checkMoney(t *testing.T) (y payer, left int64) {
	t.Helper()
	began := time.Now()
	y = p.newTenant(t, "payer").pays(t, p, "payer", "1000.00")
	y.credited(t, "60.00", "wire 1")
	much := y.credited(t, "100000.00", "wire 2")
	y.limited(t, "1m", "1m")
	var made [2]rental
	for i := range made {
		made[i] = y.becomes(t, y.ask(t, 1, http.StatusCreated).Allocations[0].AllocationID, "active")
	}
	y.limited(t, "1d", "1m") // what is left lasts for hours
	y.told(t, "billing.low_balance_warning")
	y.limited(t, "1d", "1d")
	y.told(t, "billing.auto_release_pending")
	succeed(t, p.cli(t), "billing", "correct", much, "--tenant", y.slug, "--reason", "the bank took it back")
	y.told(t, "billing.balance_depleted") // after seconds
	for i, a := range made {
		made[i] = y.becomes(t, a.AllocationID, "released")
	}
	if !made[1].ReleaseRequestedAt.Before(*made[0].ReleaseRequestedAt) {
		t.Errorf("the newest was released at %s, the one before at %s", made[1].ReleaseRequestedAt,
			made[0].ReleaseRequestedAt)
	}
	if refused := y.do(t, http.MethodPost, y.tenant.path, map[string]any{"sku": labSKU}, http.StatusForbidden,
		nil); !strings.Contains(string(refused.body), "insufficient_balance") {
		t.Errorf("who has nothing left is answered %s", refused)
	}
	left = y.settled(t)
	if want := 6000 - y.owed(t, made[:]...); left != want {
		t.Errorf("%d are left, the formula says %d", left, want)
	}
	y.checkStatement(t, left, y.owed(t, made[:]...))
	y.checkTold(t)
	y.checkCompared(t)
	t.Logf("a tenant came to the end of what it has after %s", time.Since(began).Round(100*time.Millisecond))
	return y, left
}

// checkTold checks that each warning was told once, and each release too.
func (y payer) checkTold(t *testing.T) {
	t.Helper()
	awaitDelivered(t, y.admin)
	want := map[string]int{
		"billing.low_balance_warning": 1, "billing.auto_release_pending": 1, "billing.balance_depleted": 1,
		"provisioning.force_release_requested": 2, "payments.balance_credited": 2,
	}
	got := map[string]int{}
	for _, e := range readEvents(t, y.admin, "") {
		if e.OrgId != nil && e.OrgId.String() == y.org {
			got[e.EventType]++
		}
	}
	for typ, n := range want {
		if got[typ] != n {
			t.Errorf("%s was told %d times, want %d", typ, got[typ], n)
		}
	}
}

// checkStatement adds up what the open month is exported as.
func (y payer) checkStatement(t *testing.T, left, used int64) {
	t.Helper()
	cli := y.admin.cli(t)
	show := func(as string) string {
		t.Helper()
		return succeed(t, cli, "billing", "statement", "show", "open", "--tenant", y.slug, "--as", as)
	}
	var sum, closing int64
	for _, row := range table(t, show("csv")) {
		if row["kind"] == "closing" {
			closing = minor(t, row["amount"])
			continue
		}
		sum += minor(t, row["amount"])
	}
	if sum != left || closing != left {
		t.Errorf("the lines of the statement sum to %d, it closes with %d, left are %d", sum, closing, left)
	}
	var billed int64
	for _, row := range table(t, show("focus")) {
		billed += minor(t, row["BilledCost"])
	}
	if billed != used {
		t.Errorf("FOCUS bills %d, used are %d", billed, used)
	}
	var whole struct {
		Draft        bool
		UsageMinor   int64 `json:"usage_minor"`
		ClosingMinor int64 `json:"closing_minor"`
	}
	said := succeed(t, cli, "billing", "statement", "show", "open", "--tenant", y.slug, "-o", "json")
	if err := json.Unmarshal([]byte(said), &whole); err != nil || !whole.Draft || whole.UsageMinor != used ||
		whole.ClosingMinor != left {
		t.Errorf("the open month: %+v, %v", whole, err)
	}
	if page := show("html"); !strings.Contains(page, "The month is open") {
		t.Errorf("the page of the open month does not say that it is open:\n%s", page)
	}
}

// table reads comma-separated values with a head.
func table(t *testing.T, text string) (rows []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(all) < 2 {
		t.Fatalf("%d lines, %v:\n%s", len(all), err, text)
	}
	for _, line := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// checkCompared waits until the ledgers were compared by their schedule, and checks that
// they agree.
func (y payer) checkCompared(t *testing.T) {
	t.Helper()
	since := time.Now()
	var all apiclient.StatementCheckView
	testkit.Succeeds(t, "the ledgers to be compared", 2*time.Minute, func() error {
		y.admin.do(t, http.MethodGet, "/api/v1/admin/ledger-check", nil, http.StatusOK, &all)
		if all.CheckedAt == nil || all.CheckedAt.Before(since) {
			return fmt.Errorf("it was last done at %v", all.CheckedAt)
		}
		return nil
	})
	if !all.Agrees || all.Allocations == 0 {
		t.Errorf("the ledgers do not agree: %+v", all)
	}
	succeed(t, y.admin.cli(t), "billing", "check", "--tenant", y.slug)
	succeed(t, y.admin.cli(t), "billing", "check")
}
