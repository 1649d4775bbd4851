package metering

import (
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/rating"
)

// Held is the meter of time in which an allocation is held.
const Held = "held"

// LongSilence is the shortest silence of an agent that is given back, unless a setting
// says otherwise.
const LongSilence = 15 * time.Minute

// MostRelief is how much of one repair or quarantine is given back by itself, unless a
// setting says otherwise.
const MostRelief = 24 * time.Hour

// reading is what is known of a meter and its allocation at a moment.
type reading struct {
	Allocation id.Allocation
	Org        id.Org
	Node       id.Node
	Currency   string
	Terms      rating.Terms
	Active     *time.Time // nil: the tenant could never use it
	Ended      *time.Time // when it asked for the release, or the end that was agreed, if that came first
	Expires    *time.Time // the end that was agreed; nil: none was
	Root       bool       // the tenant is root on the node
	Live       bool       // the tenant has it, or is about to
	Until      *time.Time // end of the last window
	Now        time.Time
}

// over says whether nothing more will become billable.
func (r reading) over() bool { return !r.Live || r.Ended != nil }

// window is what is to be charged now; false: nothing. Of what goes on, less than an
// interval is not charged: whoever had the meter before has just charged it. A window
// ends with its month and with its price, so that it belongs to one line of a statement.
func (r reading) window(every time.Duration) (ledger.Window, bool) {
	if r.Active == nil {
		return ledger.Window{}, false
	}
	w := ledger.Window{Allocation: r.Allocation, Meter: Held, Start: *r.Active, End: r.Now}
	if r.Until != nil {
		w.Start = *r.Until
	}
	if r.Expires != nil && r.Expires.Before(w.End) { // that we are late is not the tenant's
		w.End = *r.Expires
	}
	if r.Ended != nil {
		w.End = *r.Ended
	}
	if end := r.next(w.Start); end.Before(w.End) {
		w.End = end
		return w, true
	}
	return w, w.End.After(w.Start) && (r.over() || w.End.Sub(w.Start) >= every)
}

// next is where a window that begins at a moment ends at the latest.
func (r reading) next(from time.Time) time.Time {
	end := endOfMonth(from)
	for _, rate := range r.Terms.Rates {
		if rate.From.After(from) && rate.From.Before(end) {
			return rate.From
		}
	}
	return end
}

// endOfMonth is when the next month begins, in UTC.
func endOfMonth(at time.Time) time.Time {
	year, month, _ := at.UTC().Date()
	return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
}

// outage is a time in which the tenant could not use the node.
type outage struct {
	reference, reason string
	from              time.Time
	to                *time.Time // nil: it goes on
}

// lasted is how long an outage has lasted.
func (o outage) lasted(now time.Time) time.Duration {
	if o.to != nil {
		now = *o.to
	}
	return now.Sub(o.from)
}

// within bounds what somebody's word alone gives back: beyond it, a person who may give
// money does.
func (o outage) within(most time.Duration) outage {
	if end := o.from.Add(most); most > 0 && (o.to == nil || o.to.After(end)) {
		o.to = &end
	}
	return o
}

// owed is the time of an outage that is given back: what of it was charged and was not
// given back for another reason.
func (r reading) owed(o outage, given []rating.Period) []rating.Period {
	if r.Until == nil {
		return nil
	}
	p := rating.Period{From: o.from, To: *r.Until}
	if o.to != nil && o.to.Before(p.To) {
		p.To = *o.to
	}
	if r.Ended != nil && r.Ended.Before(p.To) {
		p.To = *r.Ended
	}
	if r.Active != nil && r.Active.After(p.From) {
		p.From = *r.Active
	}
	return rating.Without(p, given...)
}

// relief is what some periods give back that come to those that were given back before:
// the difference of two costs, so that no split of an outage changes the sum.
func (r reading) relief(given, pieces []rating.Period) (int64, error) {
	before, err := r.Terms.Of(*r.Active, given...)
	if err != nil {
		return 0, err
	}
	after, err := r.Terms.Of(*r.Active, append(slices.Clone(given), pieces...)...)
	return after - before, err
}

// excess is what was charged beyond the end, less what of it was given back already.
func (r reading) excess(p rating.Period, given []rating.Period) (int64, error) {
	charged, err := r.Terms.Between(*r.Active, p.From, p.To)
	if err != nil {
		return 0, err
	}
	before := make([]rating.Period, len(given))
	for i, g := range given {
		before[i] = rating.Period{From: g.From, To: slices.MinFunc([]time.Time{g.To, p.From}, time.Time.Compare)}
	}
	back, err := r.relief(before, given)
	return charged - back, err
}

// beyond is the time after the end of the allocation that was charged all the same,
// because the clock of the database went back in between; false: none.
func (r reading) beyond() (rating.Period, bool) {
	if r.Ended == nil || r.Until == nil || !r.Until.After(*r.Ended) {
		return rating.Period{}, false
	}
	return rating.Period{From: *r.Ended, To: *r.Until}, true
}
