package metering

import (
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

// reading is what is known of a meter and its allocation at a moment.
type reading struct {
	Allocation id.Allocation
	Org        id.Org
	Node       id.Node
	Currency   string
	Terms      rating.Terms
	Active     *time.Time // nil: the tenant could never use it
	Ended      *time.Time // when it asked for the release
	Live       bool       // the tenant has it, or is about to
	Until      *time.Time // end of the last window
	Now        time.Time
}

// over says whether nothing more will become billable.
func (r reading) over() bool { return !r.Live || r.Ended != nil }

// window is what is to be charged now; false: nothing. Of what goes on, less than an
// interval is not charged: whoever had the meter before has just charged it.
func (r reading) window(every time.Duration) (ledger.Window, bool) {
	if r.Active == nil {
		return ledger.Window{}, false
	}
	w := ledger.Window{Allocation: r.Allocation, Meter: Held, Start: *r.Active, End: r.Now}
	if r.Until != nil {
		w.Start = *r.Until
	}
	if r.Ended != nil {
		w.End = *r.Ended
	}
	return w, w.End.After(w.Start) && (r.over() || w.End.Sub(w.Start) >= every)
}

// outage is a time in which the tenant could not use the node.
type outage struct {
	reference, reason string
	from              time.Time
	to                *time.Time // nil: it goes on
}

// over says whether an outage can be given back: it has ended, or what was rented has.
func (o outage) over(r reading) bool { return o.to != nil || r.over() }

// lasted is how long an outage has lasted.
func (o outage) lasted(now time.Time) time.Duration {
	if o.to != nil {
		now = *o.to
	}
	return now.Sub(o.from)
}

// owed is the time of an outage that is given back: what of it is billable and was not
// given back for another reason.
func (r reading) owed(o outage, given []rating.Period) []rating.Period {
	p := rating.Period{From: o.from, To: r.Now}
	if o.to != nil {
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

// beyond is the time after the end of the allocation that was charged all the same,
// because the clock of the database went back in between; false: none.
func (r reading) beyond() (rating.Period, bool) {
	if r.Ended == nil || r.Until == nil || !r.Until.After(*r.Ended) {
		return rating.Period{}, false
	}
	return rating.Period{From: *r.Ended, To: *r.Until}, true
}
