package statement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Statement is a month of a tenant that was closed, without its lines.
type Statement struct {
	ID                                  id.Statement
	Org                                 id.Org
	Currency                            string
	Number                              int32 // of the tenant, without gaps
	Label                               string
	Start, End                          time.Time
	Opening, Closing                    int64
	Usage, Relief, Corrections, MoneyIn int64
	Entries, Late                       int64
	Digest                              string
	IssuedAt                            time.Time
	IssuedBy                            string
}

// Document is a statement as it was frozen. All amounts are minor units of its currency.
type Document struct {
	StatementID  id.Statement   `json:"statement_id" doc:"Id of the statement."`
	Number       int32          `json:"number" doc:"Number of the statement; the tenant's are numbered without gaps."`
	Label        string         `json:"label" doc:"Number with the tenant; it names the statement in the whole installation." example:"ACME-0007"`
	Draft        bool           `json:"draft,omitempty" doc:"The month is open: nothing of this is frozen, and it has neither an id nor a number."`
	Issuer       string         `json:"issuer" doc:"Who issued it."`
	OrgID        id.Org         `json:"org_id" doc:"Id of the tenant."`
	Tenant       string         `json:"tenant" doc:"Its slug."`
	TenantName   string         `json:"tenant_name"`
	Currency     string         `json:"currency" example:"USD"`
	PeriodStart  time.Time      `json:"period_start" doc:"Beginning of the month, in UTC."`
	PeriodEnd    time.Time      `json:"period_end" doc:"Its end, which does not belong to it."`
	IssuedAt     time.Time      `json:"issued_at"`
	OpeningMinor int64          `json:"opening_minor" doc:"What the tenant had left before, in minor units."`
	UsageMinor   int64          `json:"usage_minor" doc:"What was charged for usage, and for nodes that were reserved and not used."`
	UnusedMinor  int64          `json:"unused_minor,omitempty" doc:"What of that is for nodes that were reserved and not used."`
	ReliefMinor  int64          `json:"relief_minor" doc:"What was given back because nodes could not be used."`
	MendedMinor  int64          `json:"corrections_minor" doc:"What corrections changed in the balance."`
	MoneyInMinor int64          `json:"money_in_minor" doc:"What came in: credits and payments, less refunds."`
	ClosingMinor int64          `json:"closing_minor" doc:"What the tenant has left then."`
	Entries      int64          `json:"entries" doc:"How many entries of the ledger it has."`
	LateEntries  int64          `json:"late_entries" doc:"How many of them belong to a time before, and were booked after its statement."`
	Lines        []Line         `json:"lines" nullable:"false" doc:"What was used, by allocation."`
	Reserved     []ReservedLine `json:"reserved,omitempty" nullable:"false" doc:"What was reserved and not used, by reservation."`
	Reliefs      []ReliefLine   `json:"reliefs" nullable:"false" doc:"What was given back."`
	Corrections  []MendLine     `json:"corrections" nullable:"false" doc:"What was corrected."`
	MoneyIn      []MoneyLine    `json:"money_in" nullable:"false" doc:"What came in."`
	Projects     []ProjectLine  `json:"projects" nullable:"false" doc:"Usage and what was given back of it, by project. What is reserved for all projects of the tenant belongs to none."`
}

// Line is what one allocation was charged.
type Line struct {
	AllocationID    id.Allocation     `json:"allocation_id" doc:"Id of the allocation."`
	Name            string            `json:"name,omitempty"`
	ProjectID       id.Project        `json:"project_id" doc:"Id of the project."`
	Project         string            `json:"project" doc:"Its slug."`
	SKU             string            `json:"sku"`
	PriceID         *id.Price         `json:"price_id,omitempty" doc:"Id of the price."`
	Region          string            `json:"region"`
	NodeID          id.Node           `json:"node_id" doc:"Id of the node."`
	Hostname        string            `json:"hostname"`
	RequestedBy     string            `json:"requested_by" doc:"Id of who asked for it."`
	RequestedByName string            `json:"requested_by_name,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	FreeBecause     string            `json:"free_because,omitempty" doc:"Why nothing is charged."`
	Units           int32             `json:"units" doc:"GPUs; one for a machine without."`
	PriceMinor      int64             `json:"price_minor" doc:"Price of a unit for one hour."`
	PaidShare       int32             `json:"paid_share" doc:"The share of it that is paid, in ten-thousandths."`
	From            time.Time         `json:"from"`
	To              time.Time         `json:"to" doc:"End of the time that is charged, which does not belong to it."`
	Seconds         int64             `json:"seconds"`
	ListMinor       int64             `json:"list_minor" doc:"What it would cost without a discount."`
	UsageMinor      int64             `json:"usage_minor" doc:"What was charged."`
	Late            bool              `json:"late,omitempty" doc:"It belongs to a time before, whose statement was issued already."`
}

// ReservedLine is what one reservation was charged for nodes of it that were not used.
type ReservedLine struct {
	ReservationID id.Reservation `json:"reservation_id" doc:"Id of the reservation."`
	ProjectID     *id.Project    `json:"project_id,omitempty" doc:"Id of the project. Left out: it is for all projects of the tenant."`
	Project       string         `json:"project,omitempty" doc:"Its slug."`
	SKU           string         `json:"sku"`
	PriceID       id.Price       `json:"price_id" doc:"Id of the price."`
	Region        string         `json:"region,omitempty" doc:"Left out: any."`
	Nodes         int32          `json:"nodes" doc:"How many nodes are reserved."`
	Units         int32          `json:"units" doc:"GPUs of a node; one for a node without."`
	PriceMinor    int64          `json:"price_minor" doc:"Price of a unit for one hour."`
	PaidShare     int32          `json:"paid_share" doc:"The share of it that is paid, in ten-thousandths."`
	From          time.Time      `json:"from"`
	To            time.Time      `json:"to" doc:"End of the time that is charged, which does not belong to it."`
	NodeSeconds   int64          `json:"node_seconds" doc:"Seconds in which nodes were not used, times how many. What was lacking is not counted."`
	ListMinor     int64          `json:"list_minor" doc:"What it would cost without a discount."`
	UsageMinor    int64          `json:"usage_minor" doc:"What was charged."`
	Late          bool           `json:"late,omitempty" doc:"It belongs to a time before, whose statement was issued already."`
}

// ReliefLine is what was given back of charges.
type ReliefLine struct {
	EntryID      id.LedgerEntry `json:"entry_id" doc:"Id of the entry of the ledger."`
	AllocationID id.Allocation  `json:"allocation_id" doc:"Id of the allocation."`
	From         time.Time      `json:"from"`
	To           time.Time      `json:"to"`
	Reason       string         `json:"reason"`
	AmountMinor  int64          `json:"amount_minor"`
	Late         bool           `json:"late,omitempty" doc:"It belongs to a time before, whose statement was issued already."`
}

// MendLine is a correction.
type MendLine struct {
	EntryID       id.LedgerEntry  `json:"entry_id" doc:"Id of the entry of the ledger."`
	CorrectsID    id.LedgerEntry  `json:"corrects_entry_id" doc:"The entry that it corrects."`
	Of            string          `json:"of" doc:"What was wrong in the end: usage, relief, or the kind of money that came in."`
	AllocationID  *id.Allocation  `json:"allocation_id,omitempty" doc:"Id of the allocation, of usage and relief."`
	ReservationID *id.Reservation `json:"reservation_id,omitempty" doc:"Id of the reservation, of nodes that were reserved and not used."`
	From          *time.Time      `json:"from,omitempty" doc:"Beginning of the time that was charged wrongly."`
	To            *time.Time      `json:"to,omitempty" doc:"Its end."`
	Reason        string          `json:"reason"`
	BookedAt      time.Time       `json:"booked_at"`
	AmountMinor   int64           `json:"amount_minor" doc:"What it changes in the balance."`
}

// ofCharges says whether a correction is about charges, and not about money that came in.
func (m MendLine) ofCharges() bool { return m.AllocationID != nil || m.ReservationID != nil }

// MoneyLine is money that came in.
type MoneyLine struct {
	EntryID     id.LedgerEntry `json:"entry_id" doc:"Id of the entry of the ledger."`
	Kind        string         `json:"kind"`
	Reference   string         `json:"reference"`
	Reason      string         `json:"reason"`
	BookedAt    time.Time      `json:"booked_at"`
	AmountMinor int64          `json:"amount_minor"`
	Late        bool           `json:"late,omitempty" doc:"It came before the month, after its statement was issued."`
}

// ProjectLine is what a project was charged.
type ProjectLine struct {
	ProjectID   id.Project `json:"project_id" doc:"Id of the project."`
	Project     string     `json:"project" doc:"Its slug."`
	Seconds     int64      `json:"unit_seconds" doc:"Time of its allocations times their units."`
	UsageMinor  int64      `json:"usage_minor"`
	ReliefMinor int64      `json:"relief_minor"`
}

// ChargesMinor is what the month costs: what was charged, less what was given back and
// corrected of it. Money that came in is none of it.
func (d Document) ChargesMinor() int64 {
	sum := d.UsageMinor - d.ReliefMinor
	for _, m := range d.Corrections {
		if m.ofCharges() {
			sum -= m.AmountMinor
		}
	}
	return sum
}

// sum adds the lines up and puts them in order.
func (d *Document) sum() {
	slices.SortFunc(d.Lines, func(a, b Line) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(a.SKU, b.SKU), a.From.Compare(b.From),
			strings.Compare(a.AllocationID.String(), b.AllocationID.String()))
	})
	of := map[id.Allocation]*ProjectLine{}
	projects := map[id.Project]*ProjectLine{}
	project := func(of id.Project, slug string) *ProjectLine {
		if projects[of] == nil {
			projects[of] = &ProjectLine{ProjectID: of, Project: slug}
		}
		return projects[of]
	}
	for _, l := range d.Reserved {
		d.UsageMinor += l.UsageMinor
		d.UnusedMinor += l.UsageMinor
		if l.ProjectID != nil {
			project(*l.ProjectID, l.Project).UsageMinor += l.UsageMinor
		}
	}
	for _, l := range d.Lines {
		p := project(l.ProjectID, l.Project)
		of[l.AllocationID] = p
		p.Seconds += l.Seconds * int64(l.Units)
		p.UsageMinor += l.UsageMinor
		d.UsageMinor += l.UsageMinor
	}
	for _, r := range d.Reliefs {
		d.ReliefMinor += r.AmountMinor
		if p := of[r.AllocationID]; p != nil {
			p.ReliefMinor += r.AmountMinor
		}
	}
	for _, m := range d.Corrections {
		d.MendedMinor += m.AmountMinor
	}
	for _, m := range d.MoneyIn {
		d.MoneyInMinor += m.AmountMinor
	}
	d.Projects = make([]ProjectLine, 0, len(projects))
	for _, p := range projects {
		d.Projects = append(d.Projects, *p)
	}
	slices.SortFunc(d.Projects, func(a, b ProjectLine) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(a.ProjectID.String(), b.ProjectID.String()))
	})
	d.ClosingMinor = d.OpeningMinor - d.UsageMinor + d.ReliefMinor + d.MendedMinor + d.MoneyInMinor
}

// draftLabel names what a month has until now.
func draftLabel(tenant string) string { return strings.ToUpper(tenant) + "-DRAFT" }

// labelOf names a statement in the whole installation.
func labelOf(tenant string, number int32) string {
	return fmt.Sprintf("%s-%04d", strings.ToUpper(tenant), number)
}

// monthOf reads a month such as 2026-03.
func monthOf(text string) (time.Time, error) {
	at, err := time.ParseInLocation("2006-01", text, time.UTC)
	if err != nil {
		return at, invalid("body.month", "must be a month such as 2026-03")
	}
	return at, nil
}

// inTurn refuses to close another month than the first that is open, or one that is
// not over.
func inTurn(month, open, now time.Time) error {
	name := month.Format("2006-01")
	switch {
	case month.Before(open):
		return fault.New(fault.Conflict, "period_closed", "%s is closed for the tenant: the first open month is %s", name,
			open.Format("2006-01")).WithRemedy("see its statement: gpuaas billing statement list; what is booked now goes to an open month")
	case month.AddDate(0, 1, 0).After(now):
		return fault.New(fault.Conflict, "period_not_over", "%s is not over", name).
			WithRemedy("close it after %s; until then see gpuaas billing statement show open", month.AddDate(0, 1, 0).Format(time.RFC3339))
	case month.After(open):
		return fault.New(fault.Conflict, "period_not_next", "%s cannot be closed before %s, which is open", name,
			open.Format("2006-01")).WithRemedy("close the months in their order")
	}
	return nil
}

func notReady(n int64, until time.Time) error {
	return fault.New(fault.Conflict, "period_not_charged", "%d allocations or reservations are not charged until %s yet", n,
		until.Format(time.RFC3339)).
		WithRemedy("repeat it in an hour; if that stays so, workers say in their log what metering lacks")
}

func notFound() error {
	return fault.New(fault.NotFound, "statement_not_found", "the tenant has no such statement").
		WithRemedy("see which there are: gpuaas billing statement list")
}
