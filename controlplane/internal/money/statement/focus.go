package statement

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"

	"gpuaas/controlplane/internal/money/rating"
)

// FocusColumns are the columns of the Cost and Usage dataset of FOCUS that an export has:
// all that are mandatory, those that what is rented here calls for, and our own, which
// begin with x_. The source is named in docs/billing-design.md.
var FocusColumns = []string{
	"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
	"CapacityReservationId", "CapacityReservationStatus",
	"ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
	"ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "HostProviderName",
	"InvoiceDetailId", "InvoiceId", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory",
	"PricingQuantity", "PricingUnit",
	"RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName",
	"ServiceProviderName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId",
	"SubAccountName", "Tags", "x_EntryId", "x_Late", "x_NodeName", "x_RequestedBy",
}

// The words that rows of an export use.
const (
	focusUsage      = "Usage"
	focusCredit     = "Credit"
	focusCorrection = "Correction"
	focusUnit       = "GPU-Hours"
)

// focusTime is a time as FOCUS wants it: in UTC, to the second.
func focusTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// span is the time of a charge. Times are cut to the second, so that charges which follow
// each other still do; what lies within a second is shown as that second, which the charge
// that follows may have, too.
func (r focusRow) span(from, to time.Time) {
	from, to = from.Truncate(time.Second), to.Truncate(time.Second)
	if !to.After(from) {
		to = from.Add(time.Second)
	}
	r["ChargePeriodStart"], r["ChargePeriodEnd"] = focusTime(from), focusTime(to)
}

// quotient is a decimal with nine digits at most.
func quotient(num, den int64) string {
	text := big.NewRat(num, den).FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Focus is the statement in the columns of FOCUS, as comma-separated values. The billed
// costs sum to what the month costs; money that came in is no charge and has no row.
func (d Document) Focus() ([]byte, error) {
	rows, err := d.focusRows()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	all := [][]string{FocusColumns}
	for _, r := range rows {
		row := make([]string, len(FocusColumns))
		for i, column := range FocusColumns {
			row[i] = r[column]
		}
		all = append(all, row)
	}
	if err := w.WriteAll(all); err != nil {
		return nil, fmt.Errorf("write CSV: %w", err)
	}
	return b.Bytes(), nil
}

type focusRow map[string]string

func (d Document) focusRows() ([]focusRow, error) {
	rows := make([]focusRow, 0, len(d.Lines)+len(d.Reserved)+len(d.Reliefs)+len(d.Corrections))
	of := map[string]Line{}
	for _, l := range d.Lines {
		of[l.AllocationID.String()] = l
		r, err := d.focusOf(l)
		if err != nil {
			return nil, err
		}
		r["InvoiceDetailId"] = d.detailOf(l)
		d.cost(r, l.UsageMinor)
		r["ChargeCategory"], r["ChargeDescription"] = focusUsage, "Use of "+l.SKU
		r.span(l.From, l.To)
		r["ListCost"], r["PricingCategory"] = amount(l.ListMinor, d.Currency), "Standard"
		r["ListUnitPrice"] = amount(l.PriceMinor, d.Currency)
		r["ContractedUnitPrice"] = d.contracted(l.PriceMinor, l.PaidShare)
		r["PricingQuantity"], r["PricingUnit"] = quotient(l.Seconds*int64(l.Units), 3600), focusUnit
		r["ConsumedQuantity"], r["ConsumedUnit"] = r["PricingQuantity"], focusUnit
		if l.Late { // FOCUS: what changes a month whose statement was issued
			r["ChargeClass"], r["x_Late"] = focusCorrection, "true"
		}
		rows = append(rows, r)
	}
	for _, l := range d.Reserved {
		r, err := d.focusReserved(l)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	for _, relief := range d.Reliefs {
		r, err := d.focusAbout(of, relief.AllocationID.String())
		if err != nil {
			return nil, err
		}
		d.cost(r, -relief.AmountMinor)
		r["ChargeCategory"], r["ChargeDescription"] = focusCredit, cell(relief.Reason)
		r["x_EntryId"], r["InvoiceDetailId"] = relief.EntryID.String(), d.detail(relief.EntryID.String())
		r.span(relief.From, relief.To)
		if relief.Late {
			r["ChargeClass"], r["x_Late"] = focusCorrection, "true"
		}
		rows = append(rows, r)
	}
	for _, m := range d.Corrections {
		if !m.ofCharges() {
			continue
		}
		r, err := d.focusCorrected(of, m)
		if err != nil {
			return nil, err
		}
		d.cost(r, -m.AmountMinor)
		r["ChargeCategory"], r["ChargeClass"] = focusUsage, focusCorrection
		if m.Of == "relief" {
			r["ChargeCategory"] = focusCredit
		}
		r["ChargeDescription"], r["x_EntryId"] = cell(m.Reason), m.EntryID.String()
		r["InvoiceDetailId"] = d.detail(m.EntryID.String())
		r.span(*m.From, *m.To)
		rows = append(rows, r)
	}
	return rows, nil
}

// detail names a row by what it is about, so that it has that name for ever, whatever other
// rows a later release adds. FOCUS: what is on no invoice has none.
func (d Document) detail(of ...string) string {
	if d.Draft {
		return ""
	}
	return strings.Join(append([]string{d.Label}, of...), "/")
}

// detailOf names the row of a line: an allocation has one per price in a month, and of each
// another one for what came late.
func (d Document) detailOf(l Line) string {
	of := []string{l.AllocationID.String()}
	if l.PriceID != nil {
		of = append(of, l.PriceID.String())
	}
	if l.Late {
		of = append(of, "late")
	}
	return d.detail(of...)
}

// contracted is the price of a unit for an hour after the discount.
func (d Document) contracted(price int64, paid int32) string {
	// The price has as many digits as the currency; a share of it in ten-thousandths has four more at most.
	whole := new(big.Rat).Mul(decimal(amount(price, d.Currency)), big.NewRat(int64(paid), rating.Full))
	text := whole.FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func decimal(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return new(big.Rat)
	}
	return r
}

// cost sets all costs of a row to what was booked.
func (d Document) cost(r focusRow, minor int64) {
	for _, column := range []string{"BilledCost", "ContractedCost", "EffectiveCost", "ListCost"} {
		r[column] = amount(minor, d.Currency)
	}
}

// focusAbout is a row about an allocation, which may have no usage in this statement.
func (d Document) focusAbout(of map[string]Line, allocation string) (focusRow, error) {
	if l, there := of[allocation]; there {
		return d.focusOf(l)
	}
	r := d.focusBase()
	r["ResourceId"], r["ResourceType"] = allocation, "Allocation"
	return r, nil
}

func (d Document) focusBase() focusRow {
	invoice := d.Label
	if d.Draft { // FOCUS: charges that are not on an invoice have none
		invoice = ""
	}
	return focusRow{
		"BillingAccountId": d.OrgID.String(), "BillingAccountName": d.TenantName, "BillingCurrency": d.Currency,
		"BillingPeriodStart": focusTime(d.PeriodStart), "BillingPeriodEnd": focusTime(d.PeriodEnd),
		"ChargeFrequency": "Usage-Based", "HostProviderName": d.Issuer, "InvoiceId": invoice, "InvoiceIssuerName": d.Issuer,
		"ServiceProviderName": d.Issuer, "ServiceCategory": "Compute", "ServiceName": "GPU nodes",
		"ServiceSubcategory": "Virtual Machines",
	}
}

func (d Document) focusOf(l Line) (focusRow, error) {
	r := d.focusBase()
	r["SubAccountId"], r["SubAccountName"] = l.ProjectID.String(), l.Project
	r["ResourceId"], r["ResourceName"], r["ResourceType"] = l.AllocationID.String(), cell(l.Name), "Allocation"
	r["RegionId"], r["RegionName"] = l.Region, l.Region
	r["SkuId"], r["SkuMeter"] = l.SKU, "GPU time"
	if l.PriceID != nil {
		r["SkuPriceId"] = l.PriceID.String()
	}
	r["x_NodeName"], r["x_RequestedBy"] = cell(l.Hostname), cell(l.RequestedByName)
	if err := r.priced(l.Units, l.PaidShare); err != nil {
		return nil, err
	}
	if len(l.Labels) > 0 {
		tags, err := json.Marshal(l.Labels)
		if err != nil {
			return nil, fmt.Errorf("encode labels: %w", err)
		}
		r["Tags"] = string(tags)
	}
	return r, nil
}

// priced says how a price counts.
func (r focusRow) priced(units, paid int32) error {
	details, err := json.Marshal(map[string]any{"x_Units": units, "x_PaidShare": paid})
	if err != nil {
		return fmt.Errorf("encode details of price: %w", err)
	}
	r["SkuPriceDetails"] = string(details)
	return nil
}
