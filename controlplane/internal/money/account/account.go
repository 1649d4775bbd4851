package account

import (
	"slices"
	"time"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/rating"
)

// Account is what a tenant pays with.
type Account struct {
	Org       id.Org
	Currency  string
	Paid      int32 // the share of a price that it pays, in ten-thousandths
	Pricing   Pricing
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
	UpdatedBy string
}

// Pricing says which prices count for an allocation.
type Pricing string

// The pricings.
const (
	Fixed       Pricing = "fixed"        // that of when it was made, as long as it lasts
	FollowsList Pricing = "follows_list" // each price of the list while it is in force
)

var pricings = []Pricing{Fixed, FollowsList}

// Wish is what an account is set to. What is left out stays.
type Wish struct {
	Currency string // it can be set once
	Paid     *int32
	Pricing  *Pricing
	Version  *int64 // of the account that the change is based on; nil: whichever it has
}

// FreeProject is a project that pays nothing.
type FreeProject struct {
	Project id.Project
	Reason  string
	Since   time.Time
	SetBy   string
}

// Basis is on what grounds an allocation is charged, or not.
type Basis string

// The bases.
const (
	Priced    Basis = "priced"
	Free      Basis = "free_project"
	Placed    Basis = "placed_by_operator"
	NoAccount Basis = "no_account"
)

var bases = []Basis{Priced, Free, Placed, NoAccount}

// Terms are what was agreed for an allocation when it was made.
type Terms struct {
	Allocation id.Allocation
	Org        id.Org
	Project    id.Project
	SKU        string
	Basis      Basis
	Currency   string   // empty: there was no account
	Price      id.Price // zero: there was no account
	Minor      int64    // price of a unit for an hour when it was made
	Pricing    Pricing
	List       []price.Span // of terms that follow the list: its prices
	Paid       int32        // the share of it that is paid, in ten-thousandths
	Units      int32
	Because    string    // why it is free
	FrozenAt   time.Time // of an offer: now
}

// Rating is how the allocation is rated.
func (t Terms) Rating() rating.Terms {
	if t.Pricing != FollowsList {
		return rating.Fixed(t.Units, t.Minor, t.Paid)
	}
	return rating.Terms{Units: t.Units, Rates: rates(t.List, t.Paid)}
}

// Cost is what the allocation costs for a time from the moment of its terms on, with what
// is known of the prices to come.
func (t Terms) Cost(lasts time.Duration) (int64, error) {
	return t.Rating().Until(t.FrozenAt, t.FrozenAt.Add(lasts))
}

// First is what the first window of an allocation costs. What costs anything costs at
// least one minor unit: who has nothing is let nothing, however short the window.
func (t Terms) First(window time.Duration) (int64, error) {
	if t.Basis != Priced || t.Paid == 0 || t.Units == 0 {
		return 0, nil
	}
	cost, err := t.Cost(window)
	if cost == 0 && t.Minor == 0 { // it is free, for as long as that
		return 0, err
	}
	return max(cost, 1), err
}

// Rented is an allocation that is being made.
type Rented struct {
	Allocation id.Allocation
	Org        id.Org
	Project    id.Project
	SKU        string
	GPUs       int32
	Placed     bool // an operator places it for somebody who did not ask for it
}

func invalid(path, message string) error {
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fault.Field{Path: "body." + path, Message: message})
}

func (w Wish) check() error {
	if !currency.Known(w.Currency) {
		return invalid("currency", "must be the code of a currency, such as USD")
	}
	if w.Paid != nil && (*w.Paid < 0 || *w.Paid > rating.Full) {
		return invalid("paid_share", "must be 0 to 10000 ten-thousandths")
	}
	if w.Pricing != nil && !slices.Contains(pricings, *w.Pricing) {
		return invalid("pricing", "must be fixed or follows_list")
	}
	return nil
}

// changed refuses a change of an account that is not as somebody saw it.
func changed() error {
	return fault.New(fault.Conflict, "billing_account_changed", "the billing account was changed meanwhile: nothing was set").
		WithRemedy("look at it (gpuaas billing account show), and repeat the change if it is still right").
		WithFields(fault.Field{Path: "body.version", Message: "is not the version that the account has"})
}

func missing() error {
	return fault.New(fault.NotFound, "billing_account_missing", "the tenant has no billing account").
		WithRemedy("an administrator of the platform opens one: gpuaas billing account set --tenant TENANT --currency USD")
}

func noTenant() error {
	return fault.New(fault.NotFound, "not_found", "there is no such tenant").
		WithRemedy("see which there are: gpuaas tenant list")
}

func notPriced(sku, code string) error {
	return fault.New(fault.Conflict, "sku_not_priced", "the SKU %s has no price in %s, the currency of the tenant", sku,
		code).WithRemedy("rent another SKU, or ask the platform for a price: gpuaas billing prices set %s --currency %s", sku,
		code)
}

func notPricedReserved(sku, code string) error {
	return fault.New(fault.Conflict, "sku_not_priced", "the SKU %s has no price in %s for nodes that are reserved and not used",
		sku, code).WithRemedy("set one (gpuaas billing prices set %s --currency %s --meter reserved), or reserve without charging",
		sku, code)
}

func projectFree() error {
	return fault.New(fault.Conflict, "project_free", "the project is free of charge: nothing that is reserved for it is charged").
		WithRemedy("reserve without charging, or end that it is free: gpuaas billing account free")
}
