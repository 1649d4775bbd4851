package ledger

import (
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/rating"
)

// Kind is what an entry is about.
type Kind string

// The kinds.
const (
	Credit     Kind = "credit"
	Usage      Kind = "usage"
	Relief     Kind = "relief"
	Correction Kind = "correction"
	Payment    Kind = "payment"
	Refund     Kind = "refund"
)

var kinds = []Kind{Credit, Usage, Relief, Correction, Payment, Refund}

// Purse is one of the accounts that an entry moves money between, each per tenant.
type Purse string

// The purses.
const (
	Tenant  Purse = "tenant"   // what the tenant has left
	Revenue Purse = "revenue"  // what was earned
	Credits Purse = "credits"  // what was given
	Paid    Purse = "payments" // what came through payment providers
)

var purses = []Purse{Tenant, Revenue, Credits, Paid, "adjustments"}

// Posting moves an amount into a purse, or out of it.
type Posting struct {
	Purse Purse
	Minor int64
}

// Window is the time on an allocation, or of a reservation, that an entry is about.
type Window struct {
	Allocation  id.Allocation
	Reservation id.Reservation // of nodes that are reserved and not used; then there is no allocation
	Meter       string
	Start, End  time.Time
}

// Entry is one movement of money.
type Entry struct {
	ID        id.LedgerEntry
	Org       id.Org
	Currency  string
	Kind      Kind
	Reference string
	Reason    string
	Window    *Window        // of usage and relief
	Corrects  id.LedgerEntry // of a correction
	MadeBy    string
	BookedAt  time.Time
	Postings  []Posting
	Corrected id.LedgerEntry // the entry that corrects this one; zero: none does
}

// Balance is what a tenant has left.
type Balance struct {
	Org      id.Org
	Currency string
	Minor    int64
}

// move is a movement between two purses.
func move(from, to Purse, minor int64) []Posting { return []Posting{{from, -minor}, {to, minor}} }

// reversed are the opposite postings.
func reversed(of []Posting) []Posting {
	out := make([]Posting, len(of))
	for i, p := range of {
		out[i] = Posting{p.Purse, -p.Minor}
	}
	return out
}

func invalid(path, message string) error {
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fault.Field{Path: "body." + path, Message: message})
}

func checkAmount(minor int64) error {
	if minor < 1 || minor > rating.MostAmount {
		return invalid("amount_minor", "must be 1 to 1000000000000000")
	}
	return nil
}

func checkReason(reason string) error {
	if reason == "" || len(reason) > 500 {
		return invalid("reason", "must be 1 to 500 characters long")
	}
	return nil
}

func notFound() error {
	return fault.New(fault.NotFound, "ledger_entry_not_found", "the tenant has no such entry in its ledger").
		WithRemedy("see which there are: gpuaas billing ledger")
}
