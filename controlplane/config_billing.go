package controlplane

import (
	"time"

	"gpuaas/controlplane/internal/money/metering"
)

// BillingConfig is how what is rented is charged.
type BillingConfig struct {
	RequireAccount bool          `koanf:"require_account" doc:"whether a tenant needs a billing account to rent; if not, a tenant without one rents free of charge, and the terms of each allocation say so"`
	ChargeEvery    time.Duration `koanf:"charge_every" doc:"how often what is rented is charged while it goes on; the sum does not depend on it"`
	SilenceAfter   time.Duration `koanf:"silence_after" doc:"how long the agent of a rented node must be silent before that time is given back to the tenant; the control plane notices silence after nodes.offline_after"`
}

func defaultBilling() BillingConfig {
	return BillingConfig{ChargeEvery: time.Hour, SilenceAfter: metering.LongSilence}
}

func (c BillingConfig) check(bad func(string, string, ...any)) {
	if c.ChargeEvery < time.Minute || c.ChargeEvery > 24*time.Hour {
		bad("billing.charge_every", "%s is not between a minute and a day", c.ChargeEvery)
	}
	if c.SilenceAfter < time.Minute {
		bad("billing.silence_after", "%s is shorter than a minute", c.SilenceAfter)
	}
}
