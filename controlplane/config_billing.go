package controlplane

import (
	"time"

	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/metering"
)

// BillingConfig is how what is rented is charged.
type BillingConfig struct {
	RequireAccount bool          `koanf:"require_account" doc:"whether a tenant needs a billing account to rent; if not, a tenant without one rents free of charge, and the terms of each allocation say so"`
	ChargeEvery    time.Duration `koanf:"charge_every" doc:"how often what is rented is charged while it goes on; the sum does not depend on it. A start must be payable for this time where a tenant has limits"`
	Window         time.Duration `koanf:"window" doc:"how often balances are looked at, for warnings and releases; how far a tenant can go beyond its limit is what it uses in that time"`
	CloseAfter     time.Duration `koanf:"close_after" doc:"how long after its end a month is closed and its statement issued; what is booked after that goes to the next one"`
	CompareEvery   time.Duration `koanf:"compare_every" doc:"how often months that are over are closed, and the ledger is compared with rated usage"`
	MostRelief     time.Duration `koanf:"most_relief" doc:"how much of one repair or quarantine is given back to the tenant by itself, because operators decide how long they last; what goes beyond is for whoever may give credits"`
	PriceNotice    time.Duration `koanf:"price_notice" doc:"how long before it begins a price must be set that counts for what is rented already, because its terms follow the list; an administrator may go below it with a reason"`
	SilenceAfter   time.Duration `koanf:"silence_after" doc:"how long the agent of a rented node must be silent before that time is given back to the tenant; the control plane notices silence after nodes.offline_after"`
}

func defaultBilling() BillingConfig {
	return BillingConfig{
		ChargeEvery: time.Hour, Window: time.Minute, SilenceAfter: metering.LongSilence, CloseAfter: 6 * time.Hour,
		CompareEvery: time.Hour, MostRelief: metering.MostRelief, PriceNotice: price.Notice,
	}
}

// first is how long a start must be payable: nobody looks at it sooner.
func (c BillingConfig) first() time.Duration { return max(c.ChargeEvery, c.Window) }

func (c BillingConfig) check(bad func(string, string, ...any)) {
	if c.ChargeEvery < time.Second || c.ChargeEvery > 24*time.Hour {
		bad("billing.charge_every", "%s is not between a second and a day", c.ChargeEvery)
	}
	if c.Window < time.Second || c.Window > time.Hour || c.Window%time.Second != 0 {
		bad("billing.window", "%s is not a whole number of seconds between a second and an hour", c.Window)
	}
	if c.CloseAfter < 0 || c.CloseAfter > 14*24*time.Hour {
		bad("billing.close_after", "%s is not between 0 and two weeks", c.CloseAfter)
	}
	if c.CompareEvery < time.Second || c.CompareEvery > 24*time.Hour || c.CompareEvery%time.Second != 0 {
		bad("billing.compare_every", "%s is not a whole number of seconds between a second and a day", c.CompareEvery)
	}
	if c.MostRelief < time.Minute || c.MostRelief > 366*24*time.Hour {
		bad("billing.most_relief", "%s is not between a minute and a year", c.MostRelief)
	}
	if c.PriceNotice < 0 || c.PriceNotice > 366*24*time.Hour {
		bad("billing.price_notice", "%s is not between 0 and a year", c.PriceNotice)
	}
	if c.SilenceAfter < time.Minute {
		bad("billing.silence_after", "%s is shorter than a minute", c.SilenceAfter)
	}
}
