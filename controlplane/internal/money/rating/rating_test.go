package rating_test

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuaas/controlplane/internal/money/rating"
)

var start = time.Date(2026, 2, 27, 23, 59, 58, 123_456_000, time.UTC)

// naive is the cost written from the formula, in rationals: it asks of every second
// which rate holds where it begins, and which period it ends in.
func naive(t rating.Terms, origin time.Time, periods ...rating.Period) int64 {
	sum := new(big.Rat)
	for n := int64(0); ; n++ {
		begins, ends := origin.Add(time.Duration(n)*time.Second), origin.Add(time.Duration(n+1)*time.Second)
		last := true
		for _, p := range periods {
			last = last && begins.After(p.To)
		}
		if last {
			break
		}
		// A period has the seconds that end after its beginning and until its end.
		if !slices.ContainsFunc(periods, func(p rating.Period) bool {
			return p.To.After(p.From) && ends.After(p.From) && !ends.After(p.To)
		}) {
			continue
		}
		rate := t.Rates[0]
		for _, r := range t.Rates[1:] {
			if r.From.Before(ends) {
				rate = r
			}
		}
		hour := new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(rate.Price), big.NewInt(int64(t.Units))))
		hour.Mul(hour, big.NewRat(int64(rate.Paid), rating.Full))
		sum.Add(sum, hour.Mul(hour, big.NewRat(1, 3600)))
	}
	return new(big.Int).Div(sum.Num(), sum.Denom()).Int64()
}

func instant(t *rapid.T, name string, within time.Duration) time.Time {
	return start.Add(time.Duration(rapid.Int64Range(0, int64(within/time.Microsecond)).Draw(t, name)) * time.Microsecond)
}

func anyTerms(t *rapid.T, within time.Duration) rating.Terms {
	terms := rating.Terms{Units: rapid.Int32Range(1, 64).Draw(t, "units")}
	for range rapid.IntRange(1, 4).Draw(t, "rates") {
		terms.Rates = append(terms.Rates, rating.Rate{
			From: instant(t, "from", within), Price: rapid.Int64Range(0, 100_000).Draw(t, "price"),
			Paid: rapid.Int32Range(0, rating.Full).Draw(t, "paid"),
		})
	}
	slices.SortFunc(terms.Rates, func(a, b rating.Rate) int { return a.From.Compare(b.From) })
	return terms
}

func must(t interface{ Fatal(args ...any) }) func(int64, error) int64 {
	return func(n int64, err error) int64 {
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func TestTheCostIsWhatTheFormulaSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const within = 3 * time.Minute
		terms := anyTerms(t, within)
		var periods []rating.Period
		for range rapid.IntRange(1, 3).Draw(t, "periods") {
			periods = append(periods, rating.Period{From: instant(t, "a", within), To: instant(t, "b", within)})
		}
		// Where periods overlap or touch inside a second, that second is counted once or not at all; the
		// formula is about their union.
		periods = rating.Union(periods...)
		if got, want := must(t)(terms.Of(start, periods...)), naive(terms, start, periods...); got != want {
			t.Fatalf("costs %d, the formula says %d", got, want)
		}
	})
}

func TestNoSplitOfTimeChangesTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const within = 400 * 24 * time.Hour
		terms := anyTerms(t, within)
		cuts := []time.Time{start, start.Add(within)}
		for range rapid.IntRange(0, 20).Draw(t, "cuts") {
			cuts = append(cuts, instant(t, "cut", within))
		}
		slices.SortFunc(cuts, time.Time.Compare)
		var sum int64
		for i := range cuts[1:] {
			part := must(t)(terms.Between(start, cuts[i], cuts[i+1]))
			if part < 0 {
				t.Fatalf("a charge of %d", part)
			}
			sum += part
		}
		if whole := must(t)(terms.Until(start, start.Add(within))); sum != whole {
			t.Fatalf("the parts cost %d, the whole %d", sum, whole)
		}
	})
}

// A year of a thousand allocations that end somewhere, charged in random windows, is
// to the minor unit what an independent calculation gives.
func TestAYearOfAThousandAllocations(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 1))
	var charged, expected int64
	for range 1000 {
		began := start.Add(time.Duration(random.Int64N(int64(365 * 24 * time.Hour))))
		lasted := time.Duration(random.Int64N(int64(365 * 24 * time.Hour)))
		price, paid, units := random.Int64N(2000), random.Int32N(rating.Full+1), 1+random.Int32N(16)
		terms := rating.Fixed(units, price, paid)
		for at, end := began, began.Add(lasted); at.Before(end); {
			next := at.Add(time.Duration(random.Int64N(int64(30 * 24 * time.Hour))))
			if next.After(end) {
				next = end
			}
			charged += must(t)(terms.Between(began, at, next))
			at = next
		}
		cost := new(big.Int).Mul(big.NewInt(price*int64(paid)), big.NewInt(int64(units)*int64(lasted/time.Second)))
		expected += cost.Div(cost, big.NewInt(3600*10_000)).Int64()
	}
	if charged != expected || charged == 0 {
		t.Errorf("charged %d, expected %d", charged, expected)
	}
}

func TestKnownAmounts(t *testing.T) {
	for name, c := range map[string]struct {
		terms  rating.Terms
		lasted time.Duration
		want   int64
	}{
		"eight GPUs for an hour":           {rating.Fixed(8, 350, rating.Full), time.Hour, 2800},
		"one second":                       {rating.Fixed(8, 450, rating.Full), time.Second, 1},
		"a second less a nanosecond":       {rating.Fixed(8, 450, rating.Full), time.Second - 1, 0},
		"fifteen percent off":              {rating.Fixed(8, 350, 8500), time.Hour, 2380},
		"all of it off":                    {rating.Fixed(8, 350, 0), time.Hour, 0},
		"no time":                          {rating.Fixed(8, 350, rating.Full), 0, 0},
		"time that runs backwards":         {rating.Fixed(8, 350, rating.Full), -time.Hour, 0},
		"a price that no second divides":   {rating.Fixed(1, 343, rating.Full), 10 * time.Second, 0},
		"the same for long enough":         {rating.Fixed(1, 343, rating.Full), 11 * time.Second, 1},
		"a machine without GPUs is a unit": {rating.Fixed(rating.Units(0), 100, rating.Full), time.Hour, 100},
		"a leap day at a high price":       {rating.Fixed(64, 1_000_000, rating.Full), 24 * time.Hour, 1_536_000_000},
	} {
		if got := must(t)(c.terms.Until(start, start.Add(c.lasted))); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestWhatIsOutOfBoundsIsRefused(t *testing.T) {
	hour := start.Add(time.Hour)
	for name, terms := range map[string]rating.Terms{
		"no units": rating.Fixed(0, 1, 1), "too many units": rating.Fixed(rating.MostUnits+1, 1, 1),
		"a negative price": rating.Fixed(1, -1, 1), "too high a price": rating.Fixed(1, rating.MostPrice+1, 1),
		"a negative share": rating.Fixed(1, 1, -1), "more than the full share": rating.Fixed(1, 1, rating.Full+1),
		"no rate":            {Units: 1},
		"rates out of order": {Units: 1, Rates: []rating.Rate{{}, {From: hour}, {From: start}}},
	} {
		if n, err := terms.Until(start, hour); err == nil || errors.Is(err, rating.ErrBounds) || n != 0 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	dear := rating.Fixed(rating.MostUnits, rating.MostPrice, rating.Full)
	for _, lasted := range []time.Duration{time.Hour, 100 * 365 * 24 * time.Hour} {
		if n, err := dear.Until(start, start.Add(lasted)); !errors.Is(err, rating.ErrBounds) || n != 0 {
			t.Errorf("%s: %d, %v", lasted, n, err)
		}
	}
	ages := start.AddDate(500, 0, 0)
	if n, err := rating.Fixed(1, 1, 1).Until(start, ages); !errors.Is(err, rating.ErrBounds) || n != 0 {
		t.Errorf("five hundred years: %d, %v", n, err)
	}
	if got := must(t)(rating.Fixed(1, rating.MostPrice, rating.Full).Until(start, start.Add(1000*time.Hour))); got !=
		rating.MostAmount {
		t.Errorf("the highest amount is %d", got)
	}
}
