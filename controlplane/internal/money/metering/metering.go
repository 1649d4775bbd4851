package metering

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/rating"
)

// Held is the meter of time in which an allocation is held.
const Held = "held"

// reading is what is known of a meter and its allocation at a moment.
type reading struct {
	Allocation id.Allocation
	Org        id.Org
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

// repaired is the time of a repair that is given back: what of it is billable.
func (r reading) repaired(began time.Time, ended *time.Time) rating.Period {
	p := rating.Period{From: began, To: r.Now}
	if ended != nil {
		p.To = *ended
	}
	if r.Ended != nil && r.Ended.Before(p.To) {
		p.To = *r.Ended
	}
	if r.Active != nil && r.Active.After(p.From) {
		p.From = *r.Active
	}
	return p
}
