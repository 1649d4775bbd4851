package rating

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

const (
	// Full is the paid share of somebody without a discount, in ten-thousandths.
	Full = 10_000
	// MostPrice is the highest price of one unit for one hour, in minor units.
	MostPrice = 1_000_000_000_000
	// MostUnits is the highest number of units of one allocation.
	MostUnits = 1024
	// MostAmount is the highest amount of money that is computed, in minor units.
	MostAmount = 1_000_000_000_000_000

	perHour = 3600 * Full
	// longest is the longest time that is rated, in seconds: a hundred years.
	longest = 100 * 366 * 24 * 3600
)

// ErrBounds says that an amount is higher than any that is accepted.
var ErrBounds = errors.New("the amount is out of bounds")

// Rate is what one unit costs for one hour from a moment on.
type Rate struct {
	From  time.Time // of the first rate: ignored, it counts from the origin
	Price int64     // in minor units
	Paid  int32     // the share that is paid, in ten-thousandths
}

// Terms are how an allocation is rated.
type Terms struct {
	Units int32  // GPUs; one for a machine without
	Rates []Rate // in the order of their beginnings
}

// Fixed are terms with one price for ever.
func Fixed(units int32, price int64, paid int32) Terms {
	return Terms{Units: units, Rates: []Rate{{Price: price, Paid: paid}}}
}

// Units is how many units a machine with so many GPUs counts as.
func Units(gpus int32) int32 { return max(gpus, 1) }

// Period is a half-open time: From belongs to it, To does not.
type Period struct{ From, To time.Time }

func (t Terms) check() error {
	if t.Units < 1 || t.Units > MostUnits {
		return fmt.Errorf("rate: %d units are not between 1 and %d", t.Units, MostUnits)
	}
	if len(t.Rates) == 0 {
		return errors.New("rate: there is no rate")
	}
	for i, r := range t.Rates {
		if r.Price < 0 || r.Price > MostPrice {
			return fmt.Errorf("rate: a price of %d is not between 0 and %d", r.Price, MostPrice)
		}
		if r.Paid < 0 || r.Paid > Full {
			return fmt.Errorf("rate: a paid share of %d is not between 0 and %d", r.Paid, Full)
		}
		if i > 1 && r.From.Before(t.Rates[i-1].From) {
			return errors.New("rate: the rates are not in the order of their beginnings")
		}
	}
	return nil
}

// Until is the cost from the origin until an instant.
func (t Terms) Until(origin, to time.Time) (int64, error) {
	return t.Of(origin, Period{From: origin, To: to})
}

// Between is the charge for the time between two instants: the cost until the
// second less the cost until the first.
func (t Terms) Between(origin, from, to time.Time) (int64, error) {
	before, err := t.sum(origin, Period{From: origin, To: from})
	if err != nil {
		return 0, err
	}
	after, err := t.sum(origin, Period{From: origin, To: to})
	if err != nil {
		return 0, err
	}
	if after-before > MostAmount {
		return 0, ErrBounds
	}
	return after - before, nil
}

// Of is the cost of some periods together. Seconds count from the origin; what lies
// before it is free, and what lies in two periods counts once.
func (t Terms) Of(origin time.Time, periods ...Period) (int64, error) {
	amount, err := t.sum(origin, periods...)
	if err == nil && amount > MostAmount {
		return 0, ErrBounds
	}
	return amount, err
}

// sum is a cost that may be higher than what is accepted at once.
func (t Terms) sum(origin time.Time, periods ...Period) (int64, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	var total exact
	for _, p := range Union(periods...) {
		for i, r := range t.Rates {
			from, to := p.From, p.To
			if i > 0 && r.From.After(from) {
				from = r.From
			}
			if i+1 < len(t.Rates) && t.Rates[i+1].From.Before(to) {
				to = t.Rates[i+1].From
			}
			n := Seconds(origin, to) - Seconds(origin, from)
			if n <= 0 {
				continue
			}
			if n > longest {
				return 0, fmt.Errorf("rate %d seconds: %w", n, ErrBounds)
			}
			total = total.plus(uint64(r.Price)*uint64(r.Paid), uint64(t.Units)*uint64(n)) //nolint:gosec // checked: none is negative
		}
	}
	return total.floor()
}

// Seconds are the whole seconds from the origin to an instant, none before it.
func Seconds(origin, at time.Time) int64 {
	if !at.After(origin) {
		return 0
	}
	whole := at.Unix() - origin.Unix() // a difference of times saturates after 292 years, this does not
	if at.Nanosecond() < origin.Nanosecond() {
		whole--
	}
	return whole
}

// Union are the periods in their order, with those joined that touch or overlap,
// and without those that are empty.
func Union(periods ...Period) []Period {
	sorted := slices.Clone(periods)
	slices.SortFunc(sorted, func(a, b Period) int { return a.From.Compare(b.From) })
	var out []Period
	for _, p := range sorted {
		switch last := len(out) - 1; {
		case !p.To.After(p.From):
		case last >= 0 && !p.From.After(out[last].To):
			if p.To.After(out[last].To) {
				out[last].To = p.To
			}
		default:
			out = append(out, p)
		}
	}
	return out
}

// Without is what is left of a period without others, in its order.
func Without(p Period, others ...Period) []Period {
	var out []Period
	for _, o := range Union(others...) {
		if !o.To.After(p.From) {
			continue
		}
		if !o.From.Before(p.To) {
			break
		}
		if o.From.After(p.From) {
			out = append(out, Period{From: p.From, To: o.From})
		}
		p.From = o.To
	}
	if p.To.After(p.From) {
		out = append(out, p)
	}
	return out
}

// exact is a sum of products with 128 bits. A product is less than 2^95 (a price, a
// share, units and a hundred years, each at its highest), so 2^32 of them fit.
type exact struct{ hi, lo uint64 }

func (e exact) plus(a, b uint64) exact {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(e.lo, lo, 0)
	hi, _ = bits.Add64(e.hi, hi, carry)
	return exact{hi, lo}
}

// floor is the sum in whole minor units.
func (e exact) floor() (int64, error) {
	if e.hi >= perHour {
		return 0, ErrBounds
	}
	amount, _ := bits.Div64(e.hi, e.lo, perHour)
	if amount > math.MaxInt64 {
		return 0, ErrBounds
	}
	return int64(amount), nil
}
