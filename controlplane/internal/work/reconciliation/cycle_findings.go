package reconciliation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// siteFindings keeps the findings that are not about a node and its machine.
func (c *cycle) siteFindings(ctx context.Context) error {
	if c.run.DryRun || c.run.Trigger == BySuspicion {
		return nil
	}
	if err := c.orphans(ctx); err != nil {
		return err
	}
	if last := c.state.SettingsAt; last != nil && c.now().Sub(*last) < c.settings.SweepWithin && !c.run.Full {
		return nil
	}
	at := c.now()
	c.state.SettingsAt = &at
	if err := c.forgetUnmanaged(ctx); err != nil {
		return err
	}
	return c.unusedOverrides(ctx)
}

// orphans closes findings about nodes that no longer belong to the site.
func (c *cycle) orphans(ctx context.Context) error {
	rows, err := c.reads.OrphanFindings(ctx, c.run.Site)
	if err != nil {
		return wrap("list findings about former nodes", err)
	}
	for _, f := range findingsFrom(rows) {
		err := c.inChange(ctx, func(ctx context.Context, tx change) error {
			return c.heal(ctx, tx, f, "the node is not a node of the site any more", &c.run.Report)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unusedOverrides reports BMC credentials that no node and no job uses.
func (c *cycle) unusedOverrides(ctx context.Context) error {
	rows, err := c.reads.UnusedOverrides(ctx,
		reconciliationdb.UnusedOverridesParams{SiteID: c.run.Site, MadeBefore: c.now().Add(-c.settings.UnusedAfter)})
	if err != nil {
		return wrap("list unused power overrides", err)
	}
	wanted := make([]Finding, len(rows))
	for i, r := range rows {
		wanted[i] = Finding{
			Subject: r.ID.String(), Expected: "a node or an onboarding that it is for", Observed: "none",
			Message: fmt.Sprintf("the power credentials for %s %s are used by nothing", r.SelectorType, r.SelectorValue),
		}
	}
	return c.standing(ctx, TypeUnusedPowerOverride, wanted, "something uses it, or it is gone",
		func(Finding) bool { return true })
}

// unmanaged remembers machines that are no nodes and on which no job works.
func (c *cycle) unmanaged(ctx context.Context, machines []Machine) error {
	if c.run.DryRun {
		return nil
	}
	if err := c.under(ctx); err != nil {
		return err
	}
	var wanted []Finding
	for _, m := range machines {
		if slices.ContainsFunc(c.working, func(w at) bool { return w.SystemID == m.SystemID }) {
			continue
		}
		wanted = append(wanted, Finding{
			Subject: m.SystemID, SystemID: m.SystemID, Hostname: m.Hostname, Expected: "a node", Observed: m.Status,
			Message: fmt.Sprintf("MAAS has a machine %s that is no node", m.Hostname),
		})
	}
	return c.standing(ctx, TypeUnmanagedMachine, wanted, "the machine is a node", func(f Finding) bool {
		_, known := c.bound[f.SystemID]
		return known
	})
}

// forgetUnmanaged closes findings about machines that MAAS no longer has. It
// asks MAAS for each of them: a listing that lacks one proves nothing.
func (c *cycle) forgetUnmanaged(ctx context.Context) error {
	if c.region == nil {
		return nil
	}
	rows, err := c.reads.PresentOfSite(ctx, c.run.Site)
	if err != nil {
		return wrap("list findings of site", err)
	}
	var ids []string
	byID := map[string]Finding{}
	for _, f := range findingsFrom(rows) {
		if f.Type == TypeUnmanagedMachine && len(ids) < readChunk {
			ids = append(ids, f.SystemID)
			byID[f.SystemID] = f
		}
	}
	if len(ids) == 0 {
		return nil
	}
	machines, err := c.region.Read(ctx, ids)
	if err != nil {
		c.hitch(ctx, "machines that are no nodes", err)
		return nil
	}
	lost := missing(ids, machines)
	for _, m := range lost[:min(len(lost), maxDirect)] {
		_, exists, err := c.region.Direct(ctx, m)
		if err != nil {
			c.hitch(ctx, "machine "+m, err)
			continue
		}
		if exists {
			continue
		}
		err = c.inChange(ctx, func(ctx context.Context, tx change) error {
			return c.heal(ctx, tx, byID[m], "MAAS does not have the machine any more", &c.run.Report)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// standing opens the wanted findings of a type at a site. It closes the others
// if over says that they no longer hold.
func (c *cycle) standing(ctx context.Context, t Type, wanted []Finding, because string, over func(Finding) bool) error {
	rows, err := c.reads.PresentOfSite(ctx, c.run.Site)
	if err != nil {
		return wrap("list findings of site", err)
	}
	rule, _ := RuleOf(t)
	present := slices.DeleteFunc(findingsFrom(rows), func(f Finding) bool { return f.Type != t })
	var open, done []Finding
	for _, w := range wanted {
		if !slices.ContainsFunc(present, func(p Finding) bool { return p.Subject == w.Subject }) &&
			len(present)+len(open) < maxUnmanaged {
			open = append(open, w)
		}
	}
	for _, p := range present {
		if !slices.ContainsFunc(wanted, func(w Finding) bool { return w.Subject == p.Subject }) && over(p) {
			done = append(done, p)
		}
	}
	if len(open)+len(done) == 0 {
		return nil
	}
	return c.inChange(ctx, func(ctx context.Context, tx change) error {
		for _, f := range open {
			f.Site, f.Type, f.Severity = c.run.Site, t, rule.Severity
			if _, err := c.raise(ctx, tx, f, true, nil, &c.run.Report); err != nil {
				return err
			}
		}
		for _, f := range done {
			if err := c.heal(ctx, tx, f, because, &c.run.Report); err != nil {
				return err
			}
		}
		return nil
	})
}

// unheardAfter is after how many silent cycles of MAAS a finding opens.
const unheardAfter = 3

// hearing opens or closes the finding that MAAS does not answer, in the
// transaction that ends a run.
func (c *cycle) hearing(ctx context.Context, tx change, outcome Outcome) error {
	rows, err := tx.PresentOfSite(ctx, c.run.Site)
	if err != nil {
		return wrap("list findings of site", err)
	}
	present := findingsFrom(rows)
	i := slices.IndexFunc(present, func(f Finding) bool { return f.Type == TypeNoInformation })
	at, since := c.now(), c.site.CreatedAt
	if c.state.LastInformedAt != nil {
		since = *c.state.LastInformedAt
	}
	switch {
	case outcome != Unheard && i >= 0:
		if err := c.heal(ctx, tx, present[i], "MAAS answers again", &c.run.Report); err != nil {
			return err
		}
		return announceHearing(ctx, tx.tx, eventwire.ReconciliationSiteHeard, c.site, at, "MAAS of "+c.site.Name+
			" answers again")
	case outcome == Unheard && i < 0 && at.Sub(since) > unheardAfter*c.settings.Every:
		_, text, _ := c.firstTrouble()
		message := fmt.Sprintf("MAAS of %s has given no information since %s: %s", c.site.Name,
			since.UTC().Format(time.RFC3339), text)
		rule, _ := RuleOf(TypeNoInformation)
		f := Finding{
			Site: c.run.Site, Type: rule.Type, Severity: rule.Severity, Subject: c.run.Site.String(), Message: message,
			Expected: "an answer of MAAS", Observed: "none",
		}
		if _, err := c.raise(ctx, tx, f, true, nil, &c.run.Report); err != nil {
			return err
		}
		return announceHearing(ctx, tx.tx, eventwire.ReconciliationSiteUnheard, c.site, since, message)
	}
	return nil
}

// returnHealed returns nodes to service that this run saw heal, if the policy
// allows it and reconciliation itself took them out.
func (c *cycle) returnHealed(ctx context.Context) error {
	for _, n := range c.healed {
		if !c.policyOf[n].ReturnHealedNodes || c.settings.DryRun || c.trip {
			continue
		}
		err := c.inChange(ctx, func(ctx context.Context, tx change) error {
			now, err := node.Lock(ctx, tx.tx, n)
			if err != nil || now.Status != node.Quarantined || owned(Subject{Status: now.Status, HeldBy: now.HeldBy}) ||
				now.Tainted() {
				return err
			}
			last, err := node.LastQuarantined(ctx, tx.tx, n)
			if err != nil || last.By != "system:"+principal {
				return err
			}
			rows, err := tx.PresentOfNodeForUpdate(ctx, n)
			if err != nil || len(typesOf(findingsFrom(rows))) > 0 {
				return wrap("lock findings of node", err)
			}
			seen, err := node.Get(ctx, tx.tx, n)
			if err != nil || seen.LastContactAt == nil || c.now().Sub(*seen.LastContactAt) > provenWithin {
				return err
			}
			_, err = node.Move(ctx, tx.tx, n, node.ReturnToService,
				"what it was quarantined for is over, MAAS shows its machine as it should be, and its agent answers")
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
