package eventwire

import "time"

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
