package eventwire

import "time"

// The types of events about money.
const (
	SKUChanged   Type = "sku.changed"
	PriceChanged Type = "price.changed"

	BalanceCredited Type = "payments.balance_credited"
	LedgerCorrected Type = "billing.entry_corrected"
	BalanceLow      Type = "billing.low_balance_warning"
	BalanceEnding   Type = "billing.auto_release_pending"
	BalanceDepleted Type = "billing.balance_depleted"
	BudgetReached   Type = "billing.budget_reached"
)

// SKU is the payload of the event about the catalog of what can be rented.
type SKU struct {
	SKUID   string `json:"sku_id"`
	Status  string `json:"status" enum:"active,disabled,deleted"`
	Version int64  `json:"version" doc:"grows with every change of the SKU"`
}

// Price is the payload of the event about what SKUs cost.
type Price struct {
	PriceID    string    `json:"price_id" format:"uuid"`
	SKUID      string    `json:"sku_id"`
	Meter      string    `json:"meter,omitempty" doc:"held: of a node that somebody rents; reserved: of one that is reserved and not used"`
	Currency   string    `json:"currency" doc:"code of ISO 4217"`
	PriceMinor int64     `json:"price_minor" doc:"of one GPU, or of a machine without GPUs, for one hour, in minor units"`
	ValidFrom  time.Time `json:"valid_from" doc:"when it begins"`
	Withdrawn  bool      `json:"withdrawn,omitempty" doc:"it was taken back before it began"`
}

// Credit is the payload of the event about money that a tenant was given.
type Credit struct {
	OrgID       string `json:"org_id" format:"uuid"`
	EntryID     string `json:"entry_id" format:"uuid" doc:"the entry of the ledger"`
	AmountMinor int64  `json:"amount_minor" doc:"in minor units"`
	Currency    string `json:"currency" doc:"code of ISO 4217"`
	Reference   string `json:"reference" doc:"what names it elsewhere"`
}

// LedgerCorrection is the payload of the event about an entry that was taken back.
type LedgerCorrection struct {
	OrgID           string `json:"org_id" format:"uuid"`
	EntryID         string `json:"entry_id" format:"uuid" doc:"the entry of the ledger"`
	CorrectsEntryID string `json:"corrects_entry_id" format:"uuid" doc:"the entry that was wrong"`
	Of              string `json:"of" doc:"what the entry was that was wrong"`
	AmountMinor     int64  `json:"amount_minor" doc:"what it changed in the balance of the tenant, in minor units; negative: it has less"`
	Currency        string `json:"currency" doc:"code of ISO 4217"`
}

// Balance is the payload of the events about what a tenant has left.
type Balance struct {
	OrgID            string     `json:"org_id" format:"uuid"`
	Status           string     `json:"status" enum:"healthy,low,auto_release_pending,depleted"`
	Currency         string     `json:"currency" doc:"code of ISO 4217"`
	AvailableMinor   int64      `json:"available_minor" doc:"what may still be used, in minor units"`
	BurnMinorPerHour int64      `json:"burn_minor_per_hour" doc:"what an hour costs with all that is rented"`
	RunwaySeconds    *int64     `json:"runway_seconds,omitempty" doc:"how long it lasts, as things are"`
	DepletesAt       *time.Time `json:"depletes_at,omitempty" doc:"when nothing is left, as things are"`
	ReleasesAt       *time.Time `json:"releases_at,omitempty" doc:"when allocations are released"`
}

// Budget is the payload of the event about what a project has spent of its budget.
type Budget struct {
	OrgID         string    `json:"org_id" format:"uuid"`
	ProjectID     string    `json:"project_id" format:"uuid"`
	Percent       int32     `json:"percent" doc:"the percentage that is reached"`
	Currency      string    `json:"currency" doc:"code of ISO 4217"`
	AmountMinor   int64     `json:"amount_minor" doc:"the budget, in minor units"`
	SpentMinor    int64     `json:"spent_minor" doc:"what was spent in the period"`
	ForecastMinor int64     `json:"forecast_minor" doc:"what will be spent at its end, as things are"`
	PeriodStart   time.Time `json:"period_start"`
	PeriodEnd     time.Time `json:"period_end"`
	HardStop      bool      `json:"hard_stop" doc:"whether new requests are refused beyond the budget"`
}
