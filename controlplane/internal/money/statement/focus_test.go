package statement_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/money/statement"
)

// The rules of the Cost and Usage dataset of FOCUS that an export is held to, in our own
// words: which columns must be there, which must have a value, and what values may be.
var (
	focusMandatory = strings.Fields(`BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodStart
		BillingPeriodEnd ChargeCategory ChargeClass ChargeDescription ChargePeriodStart ChargePeriodEnd ContractedCost
		EffectiveCost HostProviderName InvoiceIssuerName ListCost PricingQuantity PricingUnit ServiceCategory ServiceName
		ServiceProviderName`)
	focusNeverNull = strings.Fields(`BilledCost BillingAccountId BillingCurrency BillingPeriodStart BillingPeriodEnd
		ChargeCategory ChargePeriodStart ChargePeriodEnd ContractedCost EffectiveCost HostProviderName InvoiceIssuerName
		ListCost ServiceCategory ServiceName ServiceProviderName`)
	focusKnown = strings.Fields(`CapacityReservationId CapacityReservationStatus ChargeFrequency ConsumedQuantity ConsumedUnit ContractedUnitPrice InvoiceDetailId InvoiceId ListUnitPrice
		PricingCategory RegionId RegionName ResourceId ResourceName ResourceType ServiceSubcategory SkuId SkuMeter
		SkuPriceDetails SkuPriceId SubAccountId SubAccountName Tags`)
	focusTimes    = []string{"BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"}
	focusDecimals = strings.Fields(`BilledCost ContractedCost EffectiveCost ListCost ContractedUnitPrice ListUnitPrice
		PricingQuantity ConsumedQuantity`)
	focusAllowed = map[string][]string{
		"ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"}, "ChargeClass": {"", "Correction"},
		"ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
		"PricingCategory": {"", "Standard", "Dynamic", "Committed", "Other"}, "ServiceCategory": {"Compute"},
	}
	decimalForm = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
)

// holdToFocus checks an export, and returns the sum of its billed costs.
func holdToFocus(t *testing.T, export []byte) (rows []map[string]string, billed *big.Rat) {
	t.Helper()
	all, err := csv.NewReader(bytes.NewReader(export)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range focusMandatory {
		if !slices.Contains(all[0], column) {
			t.Errorf("the mandatory column %s is missing", column)
		}
	}
	for i, column := range all[0] {
		if slices.Contains(all[0][:i], column) {
			t.Errorf("the column %s appears twice", column)
		}
		if !slices.Contains(focusMandatory, column) && !slices.Contains(focusKnown, column) &&
			!strings.HasPrefix(column, "x_") {
			t.Errorf("FOCUS has no column %s: ours begin with x_", column)
		}
	}
	billed = new(big.Rat)
	details := map[string]bool{}
	for _, cells := range all[1:] {
		r := map[string]string{}
		for i, column := range all[0] {
			r[column] = cells[i]
		}
		holdRowToFocus(t, r)
		detail := r["InvoiceDetailId"]
		if (detail == "") != (r["InvoiceId"] == "") || detail != "" && details[detail] {
			t.Errorf("the row %q of the invoice %q has no name, or one that another row has", detail, r["InvoiceId"])
		}
		details[detail] = true
		billed.Add(billed, rat(t, r["BilledCost"]))
		rows = append(rows, r)
	}
	return rows, billed
}

func rat(t *testing.T, text string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return r
}

func holdRowToFocus(t *testing.T, r map[string]string) {
	t.Helper()
	for _, column := range focusNeverNull {
		if r[column] == "" {
			t.Errorf("%s is null in %v", column, r)
		}
	}
	for column, values := range focusAllowed {
		if !slices.Contains(values, r[column]) {
			t.Errorf("%s is %q", column, r[column])
		}
	}
	times := map[string]time.Time{}
	for _, column := range focusTimes {
		at, err := time.Parse("2006-01-02T15:04:05Z", r[column])
		if err != nil || at.Nanosecond() != 0 { // Parse takes parts of seconds that a form does not have
			t.Errorf("%s is %q: %v", column, r[column], err)
		}
		times[column] = at
	}
	if !times["ChargePeriodEnd"].After(times["ChargePeriodStart"]) ||
		!times["BillingPeriodEnd"].After(times["BillingPeriodStart"]) {
		t.Errorf("a time ends before it begins in %v", r)
	}
	// What is of another month is a correction.
	if r["ChargeClass"] == "" && (times["ChargePeriodStart"].Before(times["BillingPeriodStart"]) ||
		times["ChargePeriodEnd"].After(times["BillingPeriodEnd"])) {
		t.Errorf("a charge outside of its billing period is no correction: %v", r)
	}
	for _, column := range focusDecimals {
		if r[column] != "" && !decimalForm.MatchString(r[column]) {
			t.Errorf("%s is %q", column, r[column])
		}
	}
	if !currency.Known(r["BillingCurrency"]) {
		t.Errorf("BillingCurrency is %q", r["BillingCurrency"])
	}
	if (r["PricingQuantity"] == "") != (r["PricingUnit"] == "") ||
		(r["ConsumedQuantity"] == "") != (r["ConsumedUnit"] == "") {
		t.Errorf("a quantity without a unit: %v", r)
	}
	for _, column := range []string{"Tags", "SkuPriceDetails"} {
		if r[column] != "" && !json.Valid([]byte(r[column])) {
			t.Errorf("%s is %q", column, r[column])
		}
	}
	// Cost is price times quantity, but for the one rounding: less than a minor unit.
	if r["ChargeCategory"] == "Usage" && r["ChargeClass"] == "" {
		for price, cost := range map[string]string{"ListUnitPrice": "ListCost", "ContractedUnitPrice": "ContractedCost"} {
			off := new(big.Rat).Mul(rat(t, r[price]), rat(t, r["PricingQuantity"]))
			off.Sub(off, rat(t, r[cost]))
			if off.Abs(off).Cmp(big.NewRat(1, 100)) >= 0 {
				t.Errorf("%s is off by %s in %v", cost, off.FloatString(9), r)
			}
		}
	}
}

func TestTheExportKeepsTheRulesOfFocus(t *testing.T) {
	d := sample()
	export, err := d.Focus()
	if err != nil {
		t.Fatal(err)
	}
	rows, billed := holdToFocus(t, export)
	// Usage, what costs nothing, what was given back and the correction of a charge; money that came in is no charge.
	if len(rows) != 4 || billed.Cmp(big.NewRat(d.ChargesMinor(), 100)) != 0 || d.ChargesMinor() != 248_220-5_040-2_520 {
		t.Errorf("%d rows bill %s, the statement charges %d", len(rows), billed.FloatString(2), d.ChargesMinor())
	}
}

// What is on no invoice has no place on one, and what lies within a second still has a time.
func TestADraftAndAPartOfASecondInFocus(t *testing.T) {
	d := sample()
	d.Draft = true
	l := &d.Lines[0]
	l.From = l.From.Add(200 * time.Millisecond)
	l.To, l.Seconds, l.UsageMinor, l.ListMinor = l.From.Add(300*time.Millisecond), 0, 0, 0
	export, err := d.Focus()
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := holdToFocus(t, export)
	if rows[0]["InvoiceDetailId"] != "" || rows[0]["ChargePeriodStart"] != l.From.UTC().Format("2006-01-02T15:04:05Z") {
		t.Errorf("the draft has the row %v", rows[0])
	}
}

// The billed costs of a statement that was issued sum to what its month cost.
func TestBilledCostsSumToTheStatement(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, w.tenant, 8, `{"team": "vision"}`, month(2).Add(hour), month(4).Add(77*time.Second))
	w.repair(t, a, w.node, month(2).Add(2*hour), month(2).Add(3*hour))
	w.now = month(5)
	w.meter(t)
	var total big.Rat
	for m := time.February; m <= time.April; m++ {
		d := w.close(t, m)
		export, err := statement.Document.Focus(d)
		if err != nil {
			t.Fatal(err)
		}
		_, billed := holdToFocus(t, export)
		if billed.Cmp(big.NewRat(d.ChargesMinor(), 100)) != 0 {
			t.Errorf("%s: %s billed, %d charged", d.Label, billed.FloatString(2), d.ChargesMinor())
		}
		total.Add(&total, billed)
	}
	if booked := -w.number(t, `SELECT balance_minor FROM ledger_balances WHERE account = 'tenant'`); total.Cmp(
		big.NewRat(booked, 100)) != 0 {
		t.Errorf("%s billed, %d booked", total.FloatString(2), booked)
	}
}
