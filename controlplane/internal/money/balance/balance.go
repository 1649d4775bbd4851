package balance

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/rating"
)

// Payment is when a tenant pays.
type Payment string

// The ways of payment.
const (
	Prepaid  Payment = "prepaid"  // before: it may use what it has, and its credit line
	Postpaid Payment = "postpaid" // afterwards: up to its credit line, or without limit
)

var payments = []Payment{Prepaid, Postpaid}

// Settings are how far a tenant may go, and when it is warned.
type Settings struct {
	Payment      Payment
	CreditLine   *int64        // how far below zero it may go; nil: without limit
	LowMinor     int64         // it is warned when no more than this is left
	LowFor       time.Duration // or when what is left lasts no longer than this
	ReleaseFor   time.Duration // it is told of releases when what is left lasts no longer than this
	Grace        time.Duration // how long after the end allocations are released
	RearmPercent int32         // a warning is told again only after this share of its threshold was reached
}

// unlimited are the settings of a tenant for which nobody has set any.
func unlimited() Settings {
	return Settings{Payment: Postpaid, LowFor: 72 * time.Hour, ReleaseFor: 24 * time.Hour, RearmPercent: 125}
}

const (
	longestWindow = 366 * 24 * time.Hour
	longestGrace  = 30 * 24 * time.Hour
)

func (s Settings) check() error {
	var bad []fault.Field
	reject := func(path, message string) { bad = append(bad, fault.Field{Path: "body." + path, Message: message}) }
	if s.Payment != Prepaid && s.Payment != Postpaid {
		reject("payment", "must be prepaid or postpaid")
	}
	if s.CreditLine != nil && (*s.CreditLine < 0 || *s.CreditLine > rating.MostAmount) {
		reject("credit_line_minor", "must be 0 to 1000000000000000")
	}
	if s.LowMinor < 0 || s.LowMinor > rating.MostAmount {
		reject("low_minor", "must be 0 to 1000000000000000")
	}
	if s.LowFor < 0 || s.LowFor > longestWindow {
		reject("low_seconds", "must be 0 to 31622400")
	}
	if s.ReleaseFor < 0 || s.ReleaseFor > s.LowFor {
		reject("release_seconds", "must be 0 to low_seconds: the first warning comes first")
	}
	if s.Grace < 0 || s.Grace > longestGrace {
		reject("grace_seconds", "must be 0 to 2592000")
	}
	if s.RearmPercent < 100 || s.RearmPercent > 1000 {
		reject("rearm_percent", "must be 100 to 1000")
	}
	if len(bad) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(bad...)
}

// Standing is how a tenant stands at a moment.
type Standing struct {
	Settings
	Org      id.Org
	Currency string
	Version  int64 // zero: nobody has set anything
	Status   Status
	Since    time.Time // when the state was entered
	Posted   int64     // what was booked
	Accrued  int64     // what was used and is not booked yet
	Held     int64     // what is set aside for first windows, beyond what was used of it
	Burn     int64     // what an hour costs now, rounded up
	Live     int64     // how many allocations cost something
	Reserved int64     // how many reservations do
	At       time.Time

	rate    *big.Int // the exact cost of an hour, in ten-thousandths of a minor unit
	entered *big.Int // what it was when the state was entered
}

// Left is what the tenant has, with its credit line; false: it is not limited. What is set
// aside for a first window is still there: it is used by that allocation.
func (s Standing) Left() (int64, bool) {
	if s.CreditLine == nil {
		return 0, false
	}
	return s.Posted - s.Accrued + *s.CreditLine, true
}

// Available is what new allocations may use; false: it is not limited.
func (s Standing) Available() (int64, bool) {
	left, limited := s.Left()
	if !limited {
		return 0, false
	}
	return left - s.Held, true
}

// Runway is how long what is left lasts; false: for ever, as things are.
func (s Standing) Runway() (time.Duration, bool) { return s.lasts(s.rate) }

// lasts is how long what is left lasts if an hour costs so much.
func (s Standing) lasts(rate *big.Int) (time.Duration, bool) {
	left, limited := s.Left()
	if !limited || rate == nil || rate.Sign() <= 0 {
		return 0, false
	}
	if left <= 0 {
		return 0, true
	}
	n := new(big.Int).Mul(big.NewInt(left), big.NewInt(3600*rating.Full))
	n.Div(n, rate)
	if most := int64(math.MaxInt64 / time.Second); !n.IsInt64() || n.Int64() > most {
		return 0, false
	}
	return time.Duration(n.Int64()) * time.Second, true
}

// DepletesAt is when nothing is left, as things are; nil: never, or it is not limited.
func (s Standing) DepletesAt() *time.Time {
	lasts, ends := s.Runway()
	if !ends || lasts > 100*longestWindow {
		return nil
	}
	at := s.At.Add(lasts).UTC()
	return &at
}

// Next is the state that the tenant is in by what it has. A state is left for a better
// one only above a higher level than the one it was entered at.
func (s Standing) Next() Status {
	left, limited := s.Left()
	switch {
	case !limited:
		return Healthy
	case left <= 0:
		return Depleted
	case s.lastsOnly(s.ReleaseFor, s.Status == Pending || s.Status == Depleted):
		return Pending
	case s.lastsOnly(s.LowFor, s.Status != Healthy), left <= s.above(s.LowMinor, s.Status != Healthy):
		return Low
	}
	return Healthy
}

// lastsOnly says whether what is left lasts no longer than a threshold, or than the
// level above it at which that is armed again. That nothing runs at the moment arms
// nothing: then it counts what an hour cost when the state was entered.
func (s Standing) lastsOnly(threshold time.Duration, raised bool) bool {
	lasts, ends := s.Runway()
	if !ends && raised {
		lasts, ends = s.lasts(s.entered)
	}
	return ends && int64(lasts/time.Second) <= s.above(int64(threshold/time.Second), raised)
}

func (s Standing) above(threshold int64, raised bool) int64 {
	if !raised {
		return threshold
	}
	return threshold/100*int64(s.RearmPercent) + threshold%100*int64(s.RearmPercent)/100
}

// costs says whether anything goes on that costs something.
func (s Standing) costs() bool { return s.Live > 0 || s.Reserved > 0 }

// releases says whether what the tenant has is to be ended now: reservations, and
// allocations.
func (s Standing) releases() bool {
	return s.Status == Depleted && s.Next() == Depleted && s.costs() && !s.At.Before(s.Since.Add(s.Grace))
}

// endsSooner says whether something will be ended, at once or within the time of the last
// warning, that was not to be ended before, or not so soon.
func (s Standing) endsSooner(before Standing) bool {
	if !s.costs() || s.Status != Depleted && s.Status != Pending {
		return false
	}
	then := before.releasesAt()
	const apart = time.Minute // two looks round what is left, each by itself
	return then == nil || s.releasesAt().Add(apart).Before(*then)
}

// releasesAt is when allocations are released, as things are; nil: never.
func (s Standing) releasesAt() *time.Time {
	at := s.DepletesAt()
	if s.Status == Depleted {
		at = &s.Since
	}
	if s.CreditLine == nil || at == nil {
		return nil
	}
	return new(at.Add(s.Grace).UTC())
}

// wouldRelease refuses limits that end what the tenant rents.
func (s Standing) wouldRelease() error {
	left, _ := s.Left()
	return fault.New(fault.Conflict, "limits_would_release",
		"the tenant would have %s left, and its %s would be released from %s on",
		currency.Format(left, s.Currency), s.ending(), s.releasesAt().Format("2006-01-02 15:04 UTC")).
		WithRemedy("credit the tenant first, or give it a credit line or a grace period; if its allocations are to end, " +
			"say so: release (gpuaas billing limit --release)")
}

// ending is what would be ended, in words.
func (s Standing) ending() string {
	switch {
	case s.Reserved == 0:
		return fmt.Sprintf("%d allocations", s.Live)
	case s.Live == 0:
		return fmt.Sprintf("%d reservations", s.Reserved)
	}
	return fmt.Sprintf("%d reservations and %d allocations", s.Reserved, s.Live)
}

// insufficient refuses what cannot be paid for its first window.
func (s Standing) insufficient(asked int64, window time.Duration) error {
	left, _ := s.Available()
	has, costs := currency.Format(left, s.Currency), currency.Format(asked, s.Currency)
	return fault.New(fault.Forbidden, "insufficient_balance",
		"the tenant has %s available, and the first %s of this cost %s", has, window, costs).
		WithFields(fault.Field{Path: "balance", Message: "available " + has + ", asked " + costs + ", missing " +
			currency.Format(asked-left, s.Currency)}).
		WithRemedy("ask for less, release something, or have the tenant credited: gpuaas billing balance shows what it has")
}

func noAccount() error {
	return fault.New(fault.NotFound, "billing_account_missing", "the tenant has no billing account").
		WithRemedy("an administrator of the platform opens one: gpuaas billing account set --tenant TENANT --currency USD")
}
