package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/adapter/courier"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/balance"
	"gpuaas/controlplane/internal/money/budget"
	"gpuaas/controlplane/internal/money/metering"
	"gpuaas/controlplane/internal/money/reserved"
	"gpuaas/controlplane/internal/money/statement"
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance"
	"gpuaas/controlplane/internal/rent/quota"
	"gpuaas/controlplane/internal/rent/reservation"
	"gpuaas/controlplane/internal/rent/webhook"
)

// admission holds those who rent to their quotas, and to what can be charged.
type admission struct {
	quotas   *quota.Service
	accounts *account.Service
	balances *balance.Service
	budgets  *budget.Service
}

// Admit refuses what would exceed a quota, could not be charged, cannot be paid for its
// first window, or goes beyond a budget that stops its project.
func (a admission) Admit(ctx context.Context, tx pgx.Tx, r allocation.Admitted) error {
	each := account.Rented{
		Org: r.Org, Project: r.Project, SKU: r.SKU, GPUs: r.GPUs / max(r.Nodes, 1), Placed: r.Placed,
	}
	offer, err := a.accounts.Offer(ctx, tx, each)
	if err == nil {
		err = payable(ctx, tx, a.balances, a.budgets, offer, r.Nodes)
	}
	if err != nil {
		return err
	}
	return a.quotas.Admit(ctx, tx, quota.Ask{
		Org: r.Org, Project: r.Project, SKU: r.SKU, GPUs: r.GPUs, Nodes: r.Nodes, Waits: r.Waits,
	})
}

// payable refuses what a tenant cannot pay, or a project does not mean to. The row of the
// tenant is locked before that of the project.
func payable(
	ctx context.Context, tx pgx.Tx, balances *balance.Service, budgets *budget.Service, offer account.Terms, nodes int32,
) error {
	if err := balances.Admit(ctx, tx, offer, nodes); err != nil {
		return err
	}
	return budgets.Admit(ctx, tx, offer, nodes)
}

// pricing freezes the terms of allocations, opens their meters, and sets their first
// window aside.
type pricing struct {
	accounts *account.Service
	meters   *metering.Service
	balances *balance.Service
	budgets  *budget.Service
}

func rented(of allocation.Priced) account.Rented {
	return account.Rented{
		Allocation: of.Allocation, Org: of.Org, Project: of.Project, SKU: of.SKU, GPUs: of.GPUs, Placed: of.Placed,
	}
}

// priced is what an allocation costs by its terms.
func priced(of allocation.Priced, t account.Terms) (allocation.Price, error) {
	price := allocation.Price{Minor: t.Minor, Currency: t.Currency}
	if t.Basis == account.NoAccount {
		return price, nil
	}
	var err error
	if price.Hour, err = balance.Cost(t, time.Hour); err == nil {
		price.Whole, err = balance.Cost(t, of.Lasts)
	}
	return price, err
}

// Quote says what an allocation would cost, and whether so many of them can be paid.
func (p pricing) Quote(ctx context.Context, tx pgx.Tx, of allocation.Priced) (allocation.Price, error) {
	terms, err := p.accounts.Offer(ctx, tx, rented(of))
	if err != nil {
		return allocation.Price{}, err
	}
	refused := payable(ctx, tx, p.balances, p.budgets, terms, of.Machines)
	if refused != nil && fault.KindOf(refused) != fault.Forbidden {
		return allocation.Price{}, refused
	}
	price, err := priced(of, terms)
	if why, is := fault.As(refused); is {
		price.Refused = &allocation.Refusal{Code: why.Code, Message: why.Message, Remedy: why.Remedy}
	}
	return price, err
}

// Freeze agrees on what an allocation costs.
func (p pricing) Freeze(ctx context.Context, tx pgx.Tx, of allocation.Priced) (allocation.Price, error) {
	terms, err := p.accounts.Freeze(ctx, tx, rented(of))
	if err == nil {
		err = p.meters.Open(ctx, tx, terms)
	}
	if err == nil {
		err = p.balances.Hold(ctx, tx, terms)
	}
	if err != nil {
		return allocation.Price{}, err
	}
	return priced(of, terms)
}

// charging agrees on what reservations cost. What is paid from is locked in the order in
// which those who rent lock it.
type charging struct {
	accounts *account.Service
	balances *balance.Service
	budgets  *budget.Service
	reserved *reserved.Service
}

func offered(w reservation.Wish, gpus int32) account.Rented {
	return account.Rented{Org: w.Org, Project: w.Project, SKU: w.SKU, GPUs: gpus}
}

// Offer refuses what cannot be charged, or whose first window cannot be paid if it begins
// now.
func (c charging) Offer(ctx context.Context, tx pgx.Tx, w reservation.Wish, gpus int32) (time.Time, error) {
	terms, err := c.accounts.OfferReserved(ctx, tx, offered(w, gpus))
	if err == nil {
		err = reserved.Affordable(terms, w.Nodes)
	}
	if err == nil && !w.StartsAt.After(terms.FrozenAt) {
		err = payable(ctx, tx, c.balances, c.budgets, terms, w.Nodes)
	}
	if err != nil {
		return time.Time{}, err
	}
	return c.reserved.Begin(ctx, tx, w.Org, w.SKU)
}

// Freeze agrees on what a reservation costs.
func (c charging) Freeze(ctx context.Context, tx pgx.Tx, r reservation.Reservation, gpus int32) error {
	terms, err := c.accounts.OfferReserved(ctx, tx, offered(r.Wish, gpus))
	if err != nil {
		return err
	}
	return c.reserved.Freeze(ctx, tx, reserved.Reservation{
		ID: r.ID, Region: r.Region, Nodes: r.Nodes, StartsAt: r.StartsAt, EndsAt: r.EndsAt,
	}, terms)
}

// Costs are those of reservations that are charged.
func (c charging) Costs(ctx context.Context, of []id.Reservation) (map[id.Reservation]reservation.Cost, error) {
	costs, err := c.reserved.Costs(ctx, of)
	out := make(map[id.Reservation]reservation.Cost, len(costs))
	for of, cost := range costs {
		out[of] = reservation.Cost{
			Currency: cost.Currency, Minor: cost.Minor, Paid: cost.Paid, Units: cost.Units, Unused: cost.Unused,
			Hour: cost.Hour, Until: cost.Until,
		}
	}
	return out, err
}

// charges books what is held, and what is reserved and not used.
type charges struct {
	held     *metering.Service
	reserved *reserved.Service
}

// Tend charges everything that is due. What fails of one does not hold up the other.
func (c charges) Tend(ctx context.Context) error {
	return errors.Join(c.reserved.Tend(ctx), c.held.Tend(ctx))
}

// keepBilling is how often it is made sure that billing is scheduled.
const keepBilling = 10 * time.Second

// unpaid ends allocations and reservations that cannot be paid. What ends them is made after what asks
// for it.
type unpaid struct{ p *parts }

// EndUnpaid ends a reservation.
func (u unpaid) EndUnpaid(ctx context.Context, tx pgx.Tx, of id.Reservation, reason string) (bool, error) {
	return u.p.reservations.EndUnpaid(ctx, tx, of, reason)
}

// ReleaseUnpaid ends an allocation.
func (u unpaid) ReleaseUnpaid(ctx context.Context, tx pgx.Tx, of id.Allocation, reason string) (bool, error) {
	return u.p.allocations.ReleaseUnpaid(ctx, tx, of, reason)
}

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
		Most: p.cfg.Billing.MostRelief,
	})
	p.budgets = budget.New(budget.Config{DB: p.db, First: p.cfg.Billing.first()})
	unused := reserved.New(reserved.Config{
		DB: p.db, Every: p.cfg.Billing.ChargeEvery,
		Kept: func(ctx context.Context, sku string) (map[id.Reservation]int64, error) {
			return p.reservations.Kept(ctx, sku)
		},
	})
	p.balances = balance.New(balance.Config{
		DB: p.db, Releases: unpaid{p}, Charges: charges{meters, unused}, Budgets: p.budgets, Schedules: p.temporal,
		First: p.cfg.Billing.first(), Every: p.cfg.Billing.Window,
	})
	p.reservations = reservation.New(p.db, p.heardWithin(), charging{p.accounts, p.balances, p.budgets, unused})
	p.statements = statement.New(statement.Config{
		DB: p.db, Schedules: p.temporal, Issuer: p.cfg.Nodes.EnvironmentName, CloseAfter: p.cfg.Billing.CloseAfter,
		Every: p.cfg.Billing.CompareEvery,
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
		Admission: admission{p.quotas, p.accounts, p.balances, p.budgets}, Members: p.identity, Runs: operation.Runs{},
		Pricing: pricing{p.accounts, meters, p.balances, p.budgets}, Ahead: p.ahead,
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
	keep, schedule := everySo(keepBilling, p.balances.Keep), everySo(keepBilling, p.statements.Tend)
	p.fleet.rent = func(ctx context.Context) error {
		return errors.Join(p.allocations.Tend(ctx), p.maintenances.Tend(ctx), p.operations.Tend(ctx), keep(ctx),
			schedule(ctx))
	}
}
