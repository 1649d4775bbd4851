package budget

import (
	"slices"
	"time"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/rating"
)

// Period is the time that a budget is for.
type Period string

// Month is a month of the calendar, in UTC, as statements have it.
const Month Period = "month"

var periods = []Period{Month}

// around is the period that a moment lies in, half-open.
func (Period) around(at time.Time) rating.Period {
	year, month, _ := at.UTC().Date()
	return rating.Period{
		From: time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), To: time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Wish is what a budget is set to.
type Wish struct {
	Minor    int64
	Currency string // must be the tenant's: nobody sets a budget by mistake in another one
	Period   Period
	Alerts   []int32 // percentages
	HardStop bool
}

const (
	mostAlerts  = 10
	mostPercent = 1000
)

// checked is a wish with its alerts in order.
func (w Wish) checked() (Wish, error) {
	var bad []fault.Field
	reject := func(path, message string) { bad = append(bad, fault.Field{Path: "body." + path, Message: message}) }
	if w.Minor < 1 || w.Minor > rating.MostAmount {
		reject("amount_minor", "must be 1 to 1000000000000000")
	}
	if !slices.Contains(periods, w.Period) {
		reject("period", "must be month")
	}
	w.Alerts = slices.Clone(w.Alerts)
	slices.Sort(w.Alerts)
	w.Alerts = slices.Compact(w.Alerts)
	switch n := len(w.Alerts); {
	case n > mostAlerts:
		reject("alerts", "must be ten percentages at most")
	case n > 0 && (w.Alerts[0] < 1 || w.Alerts[n-1] > mostPercent):
		reject("alerts", "must be percentages from 1 to 1000")
	}
	if len(bad) == 0 {
		return w, nil
	}
	return w, fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(bad...)
}

// Alert is a percentage that was told.
type Alert struct {
	Percent int32
	At      time.Time
}

// Budget is what a project means to spend, and how far it has come.
type Budget struct {
	Project   id.Project
	Org       id.Org
	Currency  string
	Minor     int64
	Period    Period
	Alerts    []int32
	HardStop  bool
	Version   int64
	UpdatedAt time.Time
	UpdatedBy string

	Now      rating.Period // the period that it is in
	At       time.Time
	Spent    int64   // in this period, less what was given back
	Aside    int64   // what first windows come to, beyond what was used of them
	Forecast int64   // spent at the end of the period, as things are
	Told     []Alert // in this period
}

// reached says whether a percentage of the amount is spent.
func (b Budget) reached(percent int32) bool {
	p := int64(percent)
	return b.Spent >= b.Minor/100*p+(b.Minor%100*p+99)/100
}

// Percent is how much of the amount is spent, cut off.
func (b Budget) Percent() int64 { return b.Spent/b.Minor*100 + b.Spent%b.Minor*100/b.Minor }

// due are the percentages that are reached and were not told.
func (b Budget) due() []int32 {
	var out []int32
	for _, p := range b.Alerts {
		if b.reached(p) && !slices.ContainsFunc(b.Told, func(a Alert) bool { return a.Percent == p }) {
			out = append(out, p)
		}
	}
	return out
}

// untrue are the percentages that were told and are not reached: the amount was raised.
func (b Budget) untrue() []int32 {
	var out []int32
	for _, a := range b.Told {
		if !b.reached(a.Percent) {
			out = append(out, a.Percent)
		}
	}
	return out
}

// exceeded refuses what goes beyond a budget with a hard stop.
func (b Budget) exceeded(asked int64, window time.Duration) error {
	amount := func(minor int64) string { return currency.Format(minor, b.Currency) }
	text := "budget " + amount(b.Minor) + ", spent " + amount(b.Spent)
	if b.Aside > 0 {
		text += ", set aside for what was just rented " + amount(b.Aside)
	}
	text += ", asked " + amount(asked)
	return fault.New(fault.Forbidden, "budget_exceeded",
		"the budget of the project for %s is %s: %s are spent, and the first %s of this cost %s",
		b.Now.From.Format("January 2006"), amount(b.Minor), amount(b.Spent+b.Aside), window, amount(asked)).
		WithFields(fault.Field{Path: "budget", Message: text}).
		WithRemedy("ask for less, wait for the next month, or have an administrator of the tenant raise the budget: " +
			"gpuaas billing budget set")
}

func notSet() error {
	return fault.New(fault.NotFound, "budget_not_found", "the project has no budget").
		WithRemedy("an administrator of the tenant sets one: gpuaas billing budget set --project PROJECT --amount 1000.00")
}

func otherCurrency(of, given string) error {
	return fault.New(fault.Conflict, "currency_mismatch", "the tenant pays in %s, the budget is in %q", of, given).
		WithRemedy("convert the amount, and set the budget in %s", of)
}
