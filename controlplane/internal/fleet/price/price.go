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

// Price is what one GPU of a SKU, or a machine without GPUs, costs for one hour: while
// somebody holds the machine, or while it is reserved and not used.
type Price struct {
	ID       id.Price
	SKU      string
	Meter    string
	Currency string
	Minor    int64
	From     time.Time
	Until    *time.Time // when the next one begins; nil: none is set
	InForce  bool
	Reason   string
	SetAt    time.Time
	SetBy    string // empty: it came with the SKU
}

// Notice is how long before it begins those must know of a price whose terms follow the
// list, unless a setting says otherwise.
const Notice = 24 * time.Hour

// Offer is a price to set.
type Offer struct {
	SKU      string
	Meter    string // empty: Held
	Currency string
	Minor    int64
	From     *time.Time // nil: now
	Reason   string
	AtOnce   bool // whoever follows the list is not told in time; the reason says why
}

func (o Offer) check() error {
	var fields []fault.Field
	add := func(path, format string, args ...any) {
		fields = append(fields, fault.Field{Path: "body." + path, Message: fmt.Sprintf(format, args...)})
	}
	if !currency.Known(o.Currency) {
		add("currency", "must be the code of a currency, such as USD")
	}
	if o.Meter != Held && o.Meter != Reserved {
		add("meter", "must be held or reserved")
	}
	if o.Minor < 0 || o.Minor > Most {
		add("price_minor", "must be 0 to %d", int64(Most))
	}
	if len(o.Reason) > 500 {
		add("reason", "must be at most 500 characters long")
	}
	if o.AtOnce && o.Reason == "" {
		add("reason", "must say why those who follow the list are not told in time")
	}
	if len(fields) > 0 {
		return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fields...)
	}
	return nil
}

// withoutNotice refuses a price that would surprise whoever follows the list.
func withoutNotice(o Offer, followers int64, notice time.Duration) error {
	return fault.New(fault.Conflict, "price_without_notice",
		"the price of %d allocations follows the list of %s in %s, and must be known %s before it begins", followers, o.SKU,
		o.Currency, notice).
		WithRemedy("name a later beginning (gpuaas billing prices set --from); if it must begin sooner, say so and why: " +
			"--at-once --reason WHY").
		WithFields(fault.Field{Path: "body.valid_from", Message: fmt.Sprintf("must be at least %s from now", notice)})
}

// notMeant refuses a price of zero that nobody called free, and a price that is no zero
// and was called free.
func notMeant(free bool) error {
	message := "must be above zero; who means to give it away says so: free"
	if free {
		message = "must be zero, because it is free"
	}
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fault.Field{Path: "body.price_minor", Message: message})
}

func inThePast() error {
	return fault.New(fault.Invalid, "price_in_the_past", "a price cannot begin in the past: what was rented "+
		"until now was rented at the price of then").WithRemedy("leave out when it begins, or name a time to come").
		WithFields(fault.Field{Path: "body.valid_from", Message: "must not be in the past"})
}

func notFound() error {
	return fault.New(fault.NotFound, "price_not_found", "there is no such price").
		WithRemedy("see which there are: gpuaas billing prices list")
}

func noSKU(sku string) error {
	return fault.New(fault.NotFound, "not_found", "there is no such SKU").
		WithRemedy("gpuaas sku list shows those that there are; %q is not among them", sku)
}
