package price

import (
	"fmt"
	"time"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Most is the highest price, in minor units.
const Most = 1_000_000_000_000

// Price is what one GPU of a SKU, or a machine without GPUs, costs for one hour.
type Price struct {
	ID       id.Price
	SKU      string
	Currency string
	Minor    int64
	From     time.Time
	Until    *time.Time // when the next one begins; nil: none is set
	InForce  bool
	Reason   string
	SetAt    time.Time
	SetBy    string // empty: it came with the SKU
}

// Offer is a price to set.
type Offer struct {
	SKU      string
	Currency string
	Minor    int64
	From     *time.Time // nil: now
	Reason   string
}

func (o Offer) check() error {
	var fields []fault.Field
	add := func(path, format string, args ...any) {
		fields = append(fields, fault.Field{Path: "body." + path, Message: fmt.Sprintf(format, args...)})
	}
	if !currency.Known(o.Currency) {
		add("currency", "must be the code of a currency, such as USD")
	}
	if o.Minor < 0 || o.Minor > Most {
		add("price_minor", "must be 0 to %d", int64(Most))
	}
	if len(o.Reason) > 500 {
		add("reason", "must be at most 500 characters long")
	}
	if len(fields) > 0 {
		return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fields...)
	}
	return nil
}

func notFound() error {
	return fault.New(fault.NotFound, "price_not_found", "there is no such price").
		WithRemedy("see which there are: gpuaas billing prices list")
}

func noSKU(sku string) error {
	return fault.New(fault.NotFound, "not_found", "there is no such SKU").
		WithRemedy("gpuaas sku list shows those that there are; %q is not among them", sku)
}
