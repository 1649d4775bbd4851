package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/adapter/courier"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/metering"
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance"
	"gpuaas/controlplane/internal/rent/quota"
	"gpuaas/controlplane/internal/rent/webhook"
)

// admission holds those who rent to their quotas, and to what can be charged.
type admission struct {
	quotas   *quota.Service
	accounts *account.Service
}

// Admit refuses what would exceed a quota, or could not be charged.
func (a admission) Admit(ctx context.Context, tx pgx.Tx, r allocation.Admitted) error {
	if err := a.accounts.Admit(ctx, tx, r.Org, r.Project, r.SKU); err != nil {
		return err
	}
	return a.quotas.Admit(ctx, tx, quota.Ask(r))
}

// pricing freezes the terms of allocations, and opens their meters.
type pricing struct {
	accounts *account.Service
	meters   *metering.Service
}

// Freeze agrees on what an allocation costs.
func (p pricing) Freeze(ctx context.Context, tx pgx.Tx, of allocation.Priced) (allocation.Price, error) {
	terms, err := p.accounts.Freeze(ctx, tx, account.Rented(of))
	if err == nil {
		err = p.meters.Open(ctx, tx, terms)
	}
	return allocation.Price{Minor: terms.Minor, Currency: terms.Currency}, err
}

// meterEvery is how often is looked for what is to be charged.
const meterEvery = time.Minute

// heardWithin is how lately an agent must have polled before its node is let. It is
// shorter than the patience with a task that nobody fetches, so that one request
// does not try nodes that have fallen silent.
const heardWithin = 90 * time.Second

func (p *parts) heardWithin() time.Duration { return min(p.cfg.Nodes.OfflineAfter, heardWithin) }

// newRent puts together what tenants rent.
func (p *parts) newRent() {
	p.accounts = account.New(p.db, p.cfg.Billing.RequireAccount)
	meters := metering.New(metering.Config{
		DB: p.db, Every: p.cfg.Billing.ChargeEvery, Silence: p.cfg.Billing.SilenceAfter,
	})
	p.quotas = quota.New(p.db, allocation.Holdings{})
	allowed, _ := networks(p.cfg.Webhooks.AllowedNetworks) // validated
	forbidden, _ := networks(p.cfg.Webhooks.ForbiddenNetworks)
	p.webhooks = webhook.New(webhook.Config{
		DB: p.db, Secrets: p.secrets, Logger: p.logger, DisableAfter: p.cfg.Webhooks.DisableAfter,
		Courier: courier.New(courier.Config{
			Allowed: allowed, Forbidden: forbidden, ForbiddenHosts: p.cfg.Webhooks.ForbiddenHosts,
			PlainHTTP: p.cfg.Webhooks.PlainHTTP,
		}),
	})
	cfg := allocation.Config{
		DB: p.db, Tasks: p.fleet.tasks, Cleanups: p.decommissions, Terminals: p.fleet.terminals, Papers: p.certificates,
		Logger:      p.logger,
		HeardWithin: p.heardWithin(), WithoutGPUs: p.cfg.Nodes.WithoutGPUs,
		Admission: admission{p.quotas, p.accounts}, Pricing: pricing{p.accounts, meters}, Members: p.identity,
		Runs: operation.Runs{},
	}
	if p.opts.HurryRetries {
		cfg.Patience = hurriedPatience
	}
	if p.opts.Mischief != nil {
		cfg.Mischief = rentMischief{mischief{p.opts.Mischief}}
	}
	p.allocations = allocation.New(cfg)
	p.fleet.hostKeys = p.allocations.HostKeysChanged
	p.maintenances = maintenance.New(p.db, p.allocations)
	charge := everySo(meterEvery, meters.Tend)
	p.fleet.rent = func(ctx context.Context) error {
		return errors.Join(p.allocations.Tend(ctx), p.maintenances.Tend(ctx), p.operations.Tend(ctx), charge(ctx))
	}
}
