package reconciliation

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/audit"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/reconciliation/internal/reconciliationdb"
	"gpuaas/controlplane/internal/site"
)

const breakerOpen = "the circuit breaker of the site is open: too many nodes would be quarantined, and an operator must confirm that"

// allowance is how many nodes of a site may be quarantined within the time of a
// sweep: a fault of MAAS shows itself part by part, as the sweep goes on.
func (c *cycle) allowance() int {
	percent := (len(c.bound)*c.settings.MaxQuarantinePercent + 99) / 100
	return max(percent, c.settings.MaxQuarantineNodes)
}

// breaker withholds quarantines when there are too many: then it is more likely
// that what MAAS shows is wrong than that so many machines are gone.
func (c *cycle) breaker(ctx context.Context, quarantines []due, why map[id.Finding]string) error {
	state, err := c.reads.SiteState(ctx, c.run.Site)
	if err != nil {
		return wrap("read reconciliation of site", err)
	}
	if state.TrippedAt != nil {
		return c.tripped(ctx, state, quarantines, why)
	}
	if len(quarantines) == 0 {
		return nil
	}
	recent, err := c.reads.ActedSince(ctx, reconciliationdb.ActedSinceParams{
		SiteID: c.run.Site, Action: string(Quarantine), ActedAt: ago(c.now(), c.settings.SweepWithin),
	})
	if err != nil {
		return wrap("count quarantines", err)
	}
	if int(recent)+len(quarantines) <= c.allowance() {
		return nil
	}
	c.trip = true
	return c.tripBreaker(ctx, quarantines, int(recent))
}

// tripped goes on while the breaker is open: what an operator confirmed is let
// through; when nothing asks for it any more the breaker closes by itself.
func (c *cycle) tripped(ctx context.Context, state reconciliationdb.ReconciliationSite, quarantines []due, why map[id.Finding]string) error {
	listed := map[string]bool{}
	for _, n := range state.TrippedNodes {
		listed[n] = true
	}
	var fresh []due
	for _, d := range quarantines {
		if !listed[d.Node.String()] {
			fresh = append(fresh, d)
		}
	}
	wanted, err := c.reads.QuarantineWanted(ctx, reconciliationdb.QuarantineWantedParams{SiteID: c.run.Site, Nodes: state.TrippedNodes})
	if err != nil {
		return wrap("look whether the breaker is still needed", err)
	}
	switch {
	case wanted && state.ConfirmedAt != nil: // what was confirmed is let through, and nothing else
		for _, d := range fresh {
			why[d.ID] = breakerOpen
		}
		return nil
	case state.ConfirmedAt != nil:
		if err := c.closeBreaker(ctx, "what an operator confirmed is done"); err != nil {
			return err
		}
		return c.breaker(ctx, fresh, why)
	case !wanted && len(fresh) == 0:
		return c.closeBreaker(ctx, "none of its nodes is to be quarantined any more")
	}
	c.trip = true
	if len(fresh) == 0 {
		return nil
	}
	return c.tripBreaker(ctx, fresh, 0)
}

// tripBreaker opens it, or adds nodes to one that is open. It tells once.
func (c *cycle) tripBreaker(ctx context.Context, quarantines []due, recent int) error {
	return c.inChange(ctx, func(ctx context.Context, tx change) error {
		state, err := tx.LockSite(ctx, c.run.Site)
		if err != nil {
			return wrap("lock reconciliation of site", err)
		}
		nodes := slices.Clone(state.TrippedNodes)
		for _, d := range quarantines {
			nodes = append(nodes, d.Node.String())
		}
		nodes = distinct(nodes)
		at := c.now()
		if err := tx.Trip(ctx, reconciliationdb.TripParams{SiteID: c.run.Site, At: at, Nodes: nodes}); err != nil {
			return wrap("open the breaker", err)
		}
		if state.TrippedAt != nil {
			return nil
		}
		message := fmt.Sprintf("%d nodes of %s would be quarantined, %d were within the last %s; %d are allowed: nothing was touched",
			len(quarantines), c.site.Name, recent, c.settings.SweepWithin, c.allowance())
		rule, _ := RuleOf(TypeBreakerOpen)
		var tally Report
		if _, err := c.open1(ctx, tx, Finding{
			Site: c.run.Site, Type: rule.Type, Severity: rule.Severity, Subject: c.run.Site.String(), Hostname: "", Message: message,
			Expected: fmt.Sprintf("at most %d", c.allowance()), Observed: strconv.Itoa(len(quarantines) + recent),
		}, true, map[string]any{"nodes": nodes}, &tally); err != nil {
			return err
		}
		ids := make([]id.Node, len(quarantines))
		for i, d := range quarantines {
			ids[i] = d.Node
		}
		if err := recordSite(ctx, tx.tx, "reconciliation.breaker_open", c.run.Site, message); err != nil {
			return err
		}
		return announceBreaker(ctx, tx.tx, eventwire.ReconciliationBreakerOpened, c.site, at, ids, message)
	})
}

func (c *cycle) closeBreaker(ctx context.Context, because string) error {
	return c.inChange(ctx, func(ctx context.Context, tx change) error { return c.untrip(ctx, tx, c.site, because) })
}

// untrip closes the breaker of a site, within a transaction.
func (s *Service) untrip(ctx context.Context, tx change, at site.Site, because string) error {
	state, err := tx.LockSite(ctx, at.ID)
	if err != nil {
		return wrap("lock reconciliation of site", err)
	}
	if state.TrippedAt == nil {
		return nil
	}
	if err := tx.Untrip(ctx, at.ID); err != nil {
		return wrap("close the breaker", err)
	}
	rows, err := tx.PresentOfSite(ctx, at.ID)
	if err != nil {
		return wrap("list findings of site", err)
	}
	var tally Report
	for _, f := range findingsFrom(rows) {
		if f.Type == TypeBreakerOpen {
			if err := closeFinding(ctx, tx, f, Heal, because, s.now(), &tally); err != nil {
				return err
			}
		}
	}
	if err := recordSite(ctx, tx.tx, "reconciliation.breaker_close", at.ID, because); err != nil {
		return err
	}
	return announceBreaker(ctx, tx.tx, eventwire.ReconciliationBreakerClosed, at, *state.TrippedAt, nil, because)
}

func recordSite(ctx context.Context, tx pgx.Tx, action string, at id.Site, reason string) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "site", TargetID: at.String(), Result: audit.Success, Reason: reason, Metadata: map[string]any{},
	})
}
