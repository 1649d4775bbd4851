package reconciliation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// withheldByBreaker says why an open breaker withholds an action. It returns "" if
// the breaker does not: it withholds what weighs much, and what rests on what MAAS
// says alone. Whoever shows the reason names the action beside it.
func withheldByBreaker(a Action) string {
	if a != Quarantine && a != Release && a != UpdateHost {
		return ""
	}
	return "the circuit breaker of the site is open: so many nodes would be quarantined that MAAS may be wrong, and an " +
		"operator must decide that"
}

// releasedHold is the reason that keeps a node out of scheduling while the
// breaker withholds its quarantine.
const releasedHold = "MAAS has released its machine"

// maxSetAside keeps one run from reading a whole site machine by machine.
const maxSetAside = 20

// setAside takes a node out of scheduling whose machine was released, as soon as
// a direct read of the machine confirms that. It is not a quarantine, ends with
// the finding, and so needs no decision.
func (c *cycle) setAside(ctx context.Context, d due) error {
	if d.Type != TypeReleased || !d.node.Schedulable || c.aside >= maxSetAside {
		return nil
	}
	c.aside++
	m, exists, err := c.region.Direct(ctx, d.SystemID)
	if err != nil {
		c.hitch(ctx, "machine "+d.SystemID, err)
		return nil
	}
	if exists && m.State == Installed {
		return nil
	}
	return c.inChange(ctx, func(ctx context.Context, tx change) error {
		_, err := node.SetAside(ctx, tx.tx, d.Node, node.Holding{Kind: node.ForDrift, Reason: releasedHold},
			fmt.Sprintf("%s: %s", d.Type, d.Message))
		return err
	})
}

// allowance is how many nodes of a site may be quarantined within the time of
// one sweep. The sweep meets a fault of MAAS part by part, so one cycle alone
// would not show how large it is.
func (c *cycle) allowance() int {
	percent := (len(c.bound)*c.settings.MaxQuarantinePercent + 99) / 100
	return max(percent, c.settings.MaxQuarantineNodes)
}

// breaker withholds quarantines when there are too many of them: then MAAS is
// more likely to be wrong than so many machines to be gone. It counts every
// node that a finding wants quarantined, not only those that are due in this
// run.
func (c *cycle) breaker(ctx context.Context, quarantines []due, why map[id.Finding]string) error {
	state, err := c.reads.SiteState(ctx, c.run.Site)
	if err != nil {
		return wrap("read reconciliation of site", err)
	}
	if state.TrippedAt == nil && len(quarantines) == 0 {
		return nil
	}
	wanted, err := c.reads.QuarantineWanted(ctx, c.run.Site)
	if err != nil {
		return wrap("list nodes that are to be quarantined", err)
	}
	if state.TrippedAt != nil {
		return c.tripped(ctx, state, wanted, quarantines, why)
	}
	return c.weigh(ctx, wanted, quarantines)
}

// weigh trips the breaker if more nodes are concerned than the allowance
// permits.
func (c *cycle) weigh(ctx context.Context, wanted []id.Node, quarantines []due) error {
	if len(quarantines) == 0 {
		return nil
	}
	recent, err := c.reads.ActedSince(ctx, reconciliationdb.ActedSinceParams{
		SiteID: c.run.Site, Action: string(Quarantine), ActedAt: ago(c.now(), c.settings.SweepWithin),
	})
	if err != nil {
		return wrap("count quarantines", err)
	}
	if int(recent)+len(wanted)+c.run.Report.Missing <= c.allowance() {
		return nil
	}
	c.trip = true
	return c.tripBreaker(ctx, wanted, int(recent))
}

// confirmedFor is how long a confirmation lasts: two cycles, and at least as
// long as it takes a run under way and the next one to see it.
func (c *cycle) confirmedFor() time.Duration { return max(2*c.settings.Every, time.Minute) }

// tripped handles an open breaker. It lets through what an operator confirmed,
// for a while, and closes the breaker when no finding asks for quarantine any
// more.
func (c *cycle) tripped(ctx context.Context, state reconciliationdb.ReconciliationSite, wanted []id.Node,
	quarantines []due, why map[id.Finding]string,
) error {
	listed := func(n id.Node) bool { return slices.Contains(state.TrippedNodes, n.String()) }
	left := slices.DeleteFunc(slices.Clone(wanted), func(n id.Node) bool { return !listed(n) })
	fresh := slices.DeleteFunc(slices.Clone(wanted), listed)
	switch {
	case state.ConfirmedAt != nil && len(left) > 0 && c.now().Sub(*state.ConfirmedAt) < c.confirmedFor():
		for _, d := range quarantines { // let through only what was confirmed
			if !listed(d.Node) {
				why[d.ID] = withheldByBreaker(d.Action)
			}
		}
		return nil
	case state.ConfirmedAt != nil:
		if err := c.closeBreaker(ctx, "what an operator confirmed is done"); err != nil {
			return err
		}
		return c.weigh(ctx, wanted, quarantines)
	case len(wanted) == 0:
		return c.closeBreaker(ctx, "none of its nodes is to be quarantined any more")
	}
	c.trip = true
	if len(fresh) == 0 {
		return nil
	}
	return c.tripBreaker(ctx, fresh, 0)
}

// tripBreaker opens the breaker, or adds nodes to an open one. It announces
// only the opening.
func (c *cycle) tripBreaker(ctx context.Context, concerned []id.Node, recent int) error {
	return c.inChange(ctx, func(ctx context.Context, tx change) error {
		state, err := tx.LockSite(ctx, c.run.Site)
		if err != nil {
			return wrap("lock reconciliation of site", err)
		}
		if state.ConfirmedAt != nil { // an operator confirmed meanwhile; that covers the listed nodes only
			return nil
		}
		nodes := distinct(append(slices.Clone(state.TrippedNodes), texts(concerned)...))
		at := c.now()
		if err := tx.Trip(ctx, reconciliationdb.TripParams{SiteID: c.run.Site, At: at, Nodes: nodes}); err != nil {
			return wrap("open the breaker", err)
		}
		if state.TrippedAt != nil {
			return nil
		}
		message := fmt.Sprintf("%d nodes of %s would be quarantined, %d were within the last %s, and MAAS left out %d "+
			"more; %d are allowed: nothing was touched",
			len(concerned), c.site.Name, recent, c.settings.SweepWithin, c.run.Report.Missing, c.allowance())
		rule, _ := RuleOf(TypeBreakerOpen)
		var tally Report
		if _, err := c.raise(ctx, tx, Finding{
			Site: c.run.Site, Type: rule.Type, Severity: rule.Severity, Subject: c.run.Site.String(), Hostname: "",
			Message:  message,
			Expected: fmt.Sprintf("at most %d", c.allowance()),
			Observed: strconv.Itoa(len(concerned) + recent + c.run.Report.Missing),
		}, true, map[string]any{"nodes": nodes}, &tally); err != nil {
			return err
		}
		if err := recordSite(ctx, tx.tx, "reconciliation.breaker_open", c.run.Site, message); err != nil {
			return err
		}
		return announceBreaker(ctx, tx.tx, eventwire.ReconciliationBreakerOpened, c.site, at, concerned, message)
	})
}

func (c *cycle) closeBreaker(ctx context.Context, because string) error {
	return c.inChange(ctx, func(ctx context.Context, tx change) error { return c.untrip(ctx, tx, c.site, because) })
}

// untrip closes the breaker of a site within the caller's transaction.
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
		Action: action, TargetKind: "site", TargetID: at.String(), Result: audit.Success, Reason: reason,
		Metadata: map[string]any{},
	})
}
