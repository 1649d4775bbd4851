package metering_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/rating"
)

// later is a moment from which on prices can still be set, however far clocks jump back:
// the database refuses those that begin in the past.
func later() time.Time {
	return time.Now().UTC().AddDate(0, 0, 40).Truncate(time.Second).Add(123_456 * time.Microsecond)
}

// Any interleaving of looks, repeated looks, deaths, clocks that jump, late ends and
// releases beside a charge with prices that are planned, withdrawn and begin at any
// moment, the very one of a window's beginning or end included, gives for whoever follows
// the list what the formula gives from the times and the list.
func TestAnyInterleavingFollowsTheList(t *testing.T) {
	w := newWorld(t)
	begin := later()
	cases := 0
	rapid.Check(t, func(r *rapid.T) {
		cases++
		w.now = begin
		s := storm{world: w, t: t, r: r, name: fmt.Sprintf("t%d", cases)}
		s.sku = s.likeH200(t, s.name)
		s.opens(account.FollowsList)
		for range rapid.IntRange(5, 20).Draw(r, "steps") {
			s.step(append(steps, "plan", "plan", "withdraw"))
		}
		s.finish(s.listed)
		s.sameInSQL()
		s.windowsKeepToOnePrice()
	})
}

// likeH200 makes another SKU with the price of that one.
func (w *world) likeH200(tb testing.TB, name string) string {
	tb.Helper()
	w.exec(tb, `INSERT INTO skus SELECT (jsonb_populate_record(s, jsonb_build_object('id', $1::text))).* FROM skus s WHERE s.id = $2`,
		name, h200)
	return name
}

// plan sets a price that begins at some moment to come, often one at which something else
// happens, too.
func (s *storm) plan() {
	at := s.moment().Add(s.span(20 * time.Hour))
	switch rapid.SampledFrom([]string{"any", "now", "whole", "charged", "active"}).Draw(s.r, "at") {
	case "now":
		at = s.moment()
	case "whole":
		at = at.Truncate(time.Hour)
	case "charged": // where a window has just ended
		if err := s.owner.QueryRow(s.t.Context(), `SELECT coalesce(max(charged_until), $2) FROM usage_meters WHERE org_id = $1`,
			s.org, at).Scan(&at); err != nil {
			s.t.Fatal(err)
		}
	case "active":
		if a := s.any(); a != nil {
			at = a.from
		}
	}
	_, err := price.New(s.db, 0).Set(s.t.Context(), price.Offer{
		SKU: s.sku, Currency: "USD", Minor: rapid.Int64Range(0, 5_000).Draw(s.r, "price"), From: &at,
	})
	if code := codeOf(err); code != "" && code != "price_exists" && code != "price_in_the_past" { // that time was charged
		s.t.Fatal(err)
	}
}

// withdraw takes a planned price back, if nobody was charged by it.
func (s *storm) withdraw() {
	var of id.Price
	if err := s.owner.QueryRow(s.t.Context(), `SELECT id FROM sku_prices WHERE sku_id = $1 ORDER BY md5(id::text || $2) LIMIT 1`,
		s.sku, strconv.Itoa(rapid.Int().Draw(s.r, "which"))).Scan(&of); err != nil {
		s.t.Fatal(err)
	}
	if err := price.New(s.db, 0).Withdraw(s.t.Context(), of); err != nil && fault.CodeOf(err) != "price_in_force" {
		s.t.Fatal(err)
	}
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return fault.CodeOf(err)
}

type listed struct {
	from  time.Time
	minor int64
}

// prices are those of the list as they were set.
func (s *storm) prices() (out []listed) {
	rows, err := s.owner.Query(s.t.Context(), `SELECT valid_from, price_minor FROM sku_prices WHERE sku_id = $1 AND currency = 'USD'
		AND meter = 'held' ORDER BY valid_from`, s.sku)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var p listed
		if err := rows.Scan(&p.from, &p.minor); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// listed is what a stay costs by the list: each of its whole seconds, which begin with
// the first whole second of the clock, at the price that is in force then.
func (s *storm) listed(a *stay) *big.Int {
	var paid, units int64
	if err := s.owner.QueryRow(s.t.Context(), `SELECT paid_share, units FROM allocation_terms WHERE allocation_id = $1`,
		a.id).Scan(&paid, &units); err != nil {
		s.t.Fatal(err)
	}
	first := a.from.Truncate(time.Second)
	if first.Before(a.from) {
		first = first.Add(time.Second)
	}
	seconds, prices := max(int64(a.to.Sub(a.from)/time.Second), 0), s.prices()
	// reached is the first second of the stay at which a price has begun.
	reached := func(i int) int64 {
		if i == len(prices) || prices[i].from.After(first.Add(time.Duration(seconds)*time.Second)) {
			return seconds
		}
		return min(max((int64(prices[i].from.Sub(first))+int64(time.Second)-1)/int64(time.Second), 0), seconds)
	}
	sum := new(big.Int)
	for i, p := range prices {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(p.minor), big.NewInt(reached(i+1)-reached(i))))
	}
	return sum.Mul(sum, big.NewInt(paid*units))
}

// sameInSQL compares the cost of each stay at random moments as the database computes it
// with what rating says, and the list with one that is computed anew.
func (s *storm) sameInSQL() {
	for _, a := range s.lives {
		terms, err := s.accounts.TermsOf(s.t.Context(), s.project, a.id)
		if err != nil {
			s.t.Fatal(err)
		}
		for range 3 {
			at := a.from.Add(s.span(300 * time.Hour))
			want, err := terms.Rating().Until(a.from, at)
			if err != nil {
				s.t.Fatal(err)
			}
			if got := s.number(s.t, `SELECT allocation_cost(t, $2, $3) FROM allocation_terms t WHERE t.allocation_id = $1`, a.id,
				a.from, at); got != want {
				s.r.Fatalf("from %s to %s the database says %d, rating %d", a.from, at, got, want)
			}
		}
	}
	if wrong := s.number(s.t, `WITH before AS (SELECT * FROM sku_price_spans WHERE sku_id = $1), anew AS (
			SELECT b.begins, coalesce(sum(p.price_minor * extract(epoch FROM p.ends - p.begins)), 0) AS sum FROM before b
			LEFT JOIN (SELECT begins, price_minor, lead(begins) OVER (ORDER BY begins) AS ends FROM before) p ON p.ends <= b.begins
			GROUP BY b.begins)
		SELECT count(*) FROM before JOIN anew USING (begins) WHERE before_seconds <> anew.sum`, s.sku); wrong != 0 {
		s.r.Fatalf("%d sums of the list are wrong", wrong)
	}
}

// windowsKeepToOnePrice holds that no charge crosses the beginning of a price.
func (s *storm) windowsKeepToOnePrice() {
	if n := s.number(s.t, `SELECT count(*) FROM usage_windows w JOIN usage_meters m USING (allocation_id, meter) JOIN sku_price_spans p
		ON p.sku_id = $1 AND p.begins > w.starts_at AND p.begins < w.ends_at WHERE m.org_id = $2`, s.sku, s.org); n != 0 {
		s.r.Fatalf("%d charges cross the beginning of a price", n)
	}
}

// A list whose last price has no end is charged like any other, with prices that begin
// within a window, at its very beginning, at its very end and never.
func TestPricesAtTheEdgesOfWindows(t *testing.T) {
	begin := later().Truncate(time.Hour)
	for name, c := range map[string]struct {
		at   []time.Duration // when 4.00, 5.00 … begin, from the beginning of the allocation
		want int64           // what three hours of eight GPUs cost, at 90 %
	}{
		"no price but one that does not end": {nil, 3 * 350 * 8 * 9 / 10},
		"within a window":                    {[]time.Duration{30 * time.Minute}, (350 + 5*400) * 8 * 9 / 20},
		"at its beginning":                   {[]time.Duration{0}, 3 * 400 * 8 * 9 / 10},
		"at its end":                         {[]time.Duration{time.Hour}, (350 + 2*400) * 8 * 9 / 10},
		"at the end of all":                  {[]time.Duration{3 * time.Hour}, 3 * 350 * 8 * 9 / 10},
		"two in one second": {
			[]time.Duration{time.Hour - 900*time.Millisecond, time.Hour - 100*time.Millisecond},
			(350 + 2*500) * 8 * 9 / 10,
		},
		"one for each hour, and one to come": {
			[]time.Duration{time.Hour, 2 * time.Hour, 1000 * time.Hour}, (350 + 400 + 500) * 8 * 9 / 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.now = begin
			if _, err := w.accounts.Set(t.Context(), w.org, account.Wish{
				Currency: "USD", Pricing: new(account.FollowsList),
			}); err != nil {
				t.Fatal(err)
			}
			a := w.rent(t, 8)
			w.activate(t, a, begin)
			for i, after := range c.at {
				if _, err := price.New(w.db, 0).Set(t.Context(), price.Offer{
					SKU: h200, Currency: "USD", Minor: 400 + 100*int64(i), From: new(begin.Add(after)),
				}); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				w.now = w.now.Add(time.Hour)
				w.tend(t)
			}
			w.release(t, a, w.now)
			w.tend(t)
			if got := w.balance(t); got != -c.want {
				t.Errorf("charged are %d, the formula says %d", -got, c.want)
			}
		})
	}
	w := newWorld(t)
	if _, err := w.owner.Exec(t.Context(), `INSERT INTO sku_prices (id, sku_id, currency, price_minor, valid_from)
		VALUES (gen_random_uuid(), $1, 'USD', 1, 'infinity')`, h200); err == nil {
		t.Error("a price that never begins is let in")
	}
}

// A price that is set by mistake does not count for those who rent already: it is refused,
// unless it is set in time or somebody says why not.
func TestWhoFollowsTheListKnowsInTime(t *testing.T) {
	w := newWorld(t)
	set := func(o price.Offer) string {
		o.SKU, o.Currency = h200, "USD"
		_, err := price.New(w.db, price.Notice).Set(t.Context(), o)
		return codeOf(err)
	}
	soon, inTime := time.Now().Add(price.Notice-time.Hour), time.Now().Add(price.Notice+time.Hour)
	w.rent(t, 8) // its price stays
	if code := set(price.Offer{Minor: 360}); code != "" {
		t.Fatalf("nobody follows the list: %s", code)
	}
	if _, err := w.accounts.Set(t.Context(), w.org, account.Wish{
		Currency: "USD", Pricing: new(account.FollowsList),
	}); err != nil {
		t.Fatal(err)
	}
	a := w.rent(t, 8)
	for _, o := range []price.Offer{{Minor: 99_999}, {Minor: 99_999, From: &soon}} {
		if code := set(o); code != "price_without_notice" {
			t.Errorf("%+v: %q", o, code)
		}
	}
	if code := set(price.Offer{Minor: 400, From: &inTime}); code != "" {
		t.Errorf("in time: %s", code)
	}
	if code := set(price.Offer{Minor: 390, AtOnce: true}); code != "validation_error" {
		t.Errorf("at once without a word: %q", code)
	}
	if code := set(price.Offer{Minor: 390, AtOnce: true, Reason: "agreed by telephone"}); code != "" {
		t.Errorf("at once: %s", code)
	}
	terms, err := w.accounts.TermsOf(t.Context(), w.project, a)
	if err != nil || terms.Pricing != account.FollowsList || terms.Minor != 360 ||
		terms.List[len(terms.List)-1].Minor != 400 {
		t.Errorf("%+v, %v", terms, err)
	}
}

// The cost of the database by a list is that of rating for prices that begin at any
// moment and stays of any length.
func TestTheListInTheDatabaseIsThatOfRating(t *testing.T) {
	w := newWorld(t)
	begin := later()
	for range 60 {
		at := begin.Add(time.Duration(rand.Int64N(int64(400 * time.Hour)))).Truncate(time.Microsecond)
		if _, err := price.New(w.db, 0).Set(t.Context(), price.Offer{
			SKU: h200, Currency: "USD", Minor: rand.Int64N(price.Most), From: &at,
		}); err != nil && fault.CodeOf(err) != "price_exists" {
			t.Fatal(err)
		}
	}
	spans, err := price.Spans(t.Context(), w.db, h200, price.Held, "USD")
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		from := begin.Add(time.Duration(rand.Int64N(int64(400 * time.Hour)))).Truncate(time.Microsecond)
		to := from.Add(time.Duration(rand.Int64N(int64(100*time.Hour))) - time.Hour).Truncate(time.Microsecond)
		terms := account.Terms{
			Pricing: account.FollowsList, List: spans, Paid: 1 + rand.Int32N(rating.Full), Units: 1 + rand.Int32N(16),
		}
		want, err := terms.Rating().Until(from, to)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.number(t, `SELECT list_cost($1, 'held', 'USD', $2::bigint, $3, $4)`, h200,
			int64(terms.Paid)*int64(terms.Units), from, to); got != want {
			t.Fatalf("from %s to %s: %d, rating says %d", from, to, got, want)
		}
	}
}
