package statement

import (
	"time"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/rating"
)

// mostFound is how many disagreements a comparison names; it counts all.
const mostFound = 100

// Comparison is how the ledger compares with what rating says.
type Comparison struct {
	At            time.Time
	Allocations   int64
	Tenants       int64
	Disagreements int64
	Found         []Disagreement
	NeverCharged  int64
	Unmetered     []Unmetered // the first of them
}

// Unmetered is something that is used and will never be charged, because it was rented
// without a meter. It is no disagreement: the ledger is right about it.
type Unmetered struct {
	OrgID        id.Org        `json:"org_id" doc:"Id of the tenant."`
	AllocationID id.Allocation `json:"allocation_id" doc:"Id of the allocation."`
	SKU          string        `json:"sku"`
	ActiveAt     time.Time     `json:"active_at" doc:"Since when it is used."`
	Message      string        `json:"message" doc:"Why it is never charged."`
}

// unmetered says why something has no meter, by the basis of its terms.
func unmetered(basis account.Basis) string {
	switch basis {
	case "":
		return "it was rented before there was billing, or through a release that knew none: nothing was agreed"
	case account.NoAccount:
		return "its tenant had no billing account when it was rented"
	default:
		return "it has terms and no meter: somebody changed rows"
	}
}

// Disagreement is one place where the ledger is not what it should be.
type Disagreement struct {
	OrgID         id.Org          `json:"org_id" doc:"Id of the tenant."`
	AllocationID  *id.Allocation  `json:"allocation_id,omitempty" doc:"Id of the allocation. Left out, as that of the reservation: it is about the balance of the tenant."`
	ReservationID *id.Reservation `json:"reservation_id,omitempty" doc:"Id of the reservation, of nodes that are reserved and not used."`
	Message       string          `json:"message" doc:"What disagrees."`
	WantMinor     int64           `json:"want_minor" doc:"What it should be, in minor units."`
	GotMinor      int64           `json:"got_minor" doc:"What it is."`
}

// charged is what an allocation was charged, by several accounts of it.
type charged struct {
	Org             id.Org
	Allocation      id.Allocation
	Currency        string
	Terms           rating.Terms
	Active, Until   *time.Time
	Windows, Ledger int64
}

// disagrees compares what was charged with what rating says, to the minor unit.
func (c charged) disagrees() (Disagreement, bool) {
	d := Disagreement{OrgID: c.Org, AllocationID: &c.Allocation}
	if c.Active != nil && c.Until != nil {
		want, err := c.Terms.Until(*c.Active, *c.Until)
		if err != nil {
			d.Message = "it cannot be rated: " + err.Error()
			return d, true
		}
		d.WantMinor = want
	}
	return compared(d, c.Currency, c.Windows, c.Ledger)
}

// compared compares windows and ledger with what is rated.
func compared(d Disagreement, code string, windows, ledger int64) (Disagreement, bool) {
	switch rated := ", rated are " + currency.Format(d.WantMinor, code); {
	case ledger != d.WantMinor:
		d.GotMinor, d.Message = ledger, "the ledger has "+currency.Format(ledger, code)+rated
	case windows != d.WantMinor:
		d.GotMinor, d.Message = windows, "its windows have "+currency.Format(windows, code)+rated
	default:
		return d, false
	}
	return d, true
}

// balances are the balance of a tenant, by several accounts of it.
type balances struct {
	Org                          id.Org
	Currency                     string
	Kept, Posted, Stated, Closed int64
}

func (b balances) disagree() (Disagreement, bool) {
	d := Disagreement{OrgID: b.Org}
	switch {
	case b.Kept != b.Posted:
		d.WantMinor, d.GotMinor = b.Posted, b.Kept
		d.Message = "the balance is " + currency.Format(b.Kept, b.Currency) + ", its entries sum to " +
			currency.Format(b.Posted, b.Currency)
	case b.Stated != b.Closed:
		d.WantMinor, d.GotMinor = b.Closed, b.Stated
		d.Message = "the last statement closes with " + currency.Format(b.Stated, b.Currency) + ", its entries sum to " +
			currency.Format(b.Closed, b.Currency)
	default:
		return d, false
	}
	return d, true
}

func (c *Comparison) note(d Disagreement, wrong bool) {
	if !wrong {
		return
	}
	c.Disagreements++
	if len(c.Found) < mostFound {
		c.Found = append(c.Found, d)
	}
}
