package reconciliation

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// cycle is a run while it goes on.
type cycle struct {
	*Service
	run        Run
	site       site.Site
	state      reconciliationdb.ReconciliationSite
	region     Region
	began      time.Time
	policies   map[id.Profile]site.Policy
	policyOf   map[id.Node]site.Policy
	bound      map[string]id.Node   // machines of MAAS that are nodes, by system id
	neighbours map[string]bool      // machines that are nodes of other sites of the same MAAS
	shared     map[string][]id.Node // machines that are more than one node
	done       map[string]bool      // machines that were looked at already
	seen       map[id.Finding]fresh
	healed     []id.Node // nodes that lost a finding
	troubles   []error   // what MAAS did not answer
	heard      bool      // it answered something
	trip       bool
	direct     int    // machines that were asked for by themselves
	noting     bool   // that a machine was read is noted, however short ago it was before
	working    []at   // jobs at the site; nil: not read yet
	syncPin    string // digest of the program that reports hardware; empty: not read yet
}

// fresh is what a look showed of a finding, and when.
type fresh struct {
	Verdict
	at time.Time
}

// trouble notes that MAAS did not answer a question about the site; the rest of
// the cycle goes on, because one question that fails must not keep the others
// from being asked.
func (c *cycle) trouble(ctx context.Context, what string, err error) {
	c.run.Report.Unanswered++
	c.hitch(ctx, what, err)
}

// hitch notes that something about a single machine, node or job went wrong,
// which says nothing about the rest.
func (c *cycle) hitch(ctx context.Context, what string, err error) {
	c.logger.WarnContext(ctx, "reconciliation learned nothing", "site_id", c.run.Site, "about", what, "error", err)
	c.troubles = append(c.troubles, err)
}

// ours says whether an error is that of the control plane as a whole: then the
// run is repeated. One that comes from what MAAS said of one machine would come
// again, and must not keep all others from being looked at.
func ours(ctx context.Context, err error) bool {
	return ctx.Err() != nil || fault.KindOf(err) == fault.Unavailable
}

// overdue says whether a run should come to its end: MAAS is too slow for it.
func (c *cycle) overdue() bool {
	most := 4 * c.settings.Every
	if c.run.Full {
		most = max(most, 45*time.Minute)
	}
	return c.now().Sub(c.began) > most
}

// open reads what a run goes by.
func (s *Service) open(ctx context.Context, run Run) (*cycle, error) {
	c := &cycle{Service: s, run: run, began: s.now(), done: map[string]bool{}, policyOf: map[id.Node]site.Policy{}, neighbours: map[string]bool{}, seen: map[id.Finding]fresh{}}
	c.run.Report = Report{Intended: []Intended{}, Left: []LeftTo{}, Settled: []LeftTo{}}
	var err error
	if c.site, err = s.cfg.Sites.Site(ctx, run.Site); err != nil {
		return c, err
	}
	if err := site.RequireEnabled(c.site); err != nil {
		return c, err
	}
	if c.state, err = s.reads.SiteState(ctx, run.Site); err != nil {
		return c, fmt.Errorf("read reconciliation of site: %w", err)
	}
	if c.policies, err = s.cfg.Sites.Policies(ctx, run.Site); err != nil {
		return c, err
	}
	rows, err := s.reads.BoundMachines(ctx, run.Site)
	if err != nil {
		return c, fmt.Errorf("list machines of nodes: %w", err)
	}
	c.bound = make(map[string]id.Node, len(rows))
	for _, r := range rows {
		if r.Here {
			c.bound[r.MaasSystemID] = r.NodeID
		} else {
			c.neighbours[r.MaasSystemID] = true
		}
	}
	if c.region, err = s.cfg.Regions.Open(ctx, run.Site); err != nil {
		c.trouble(ctx, "its API", err)
	}
	return c, nil
}

// reconcile is a run from the schedule, of an operator or of a suspicion. That
// MAAS does not answer is an outcome, not an error.
func (c *cycle) reconcile(ctx context.Context) error {
	if c.region != nil {
		if err := c.lookAround(ctx); err != nil {
			return err
		}
	}
	if err := c.siteFindings(ctx); err != nil {
		return err
	}
	if err := c.jobs(ctx); err != nil {
		return err
	}
	return c.conclude(ctx)
}

// conclude does what is due by what was seen since it was last called.
func (c *cycle) conclude(ctx context.Context) error {
	if err := c.act(ctx); err != nil {
		return err
	}
	clear(c.seen)
	return c.returnHealed(ctx)
}

// lookAgain looks for the second time at what the first look of a run opened.
func (c *cycle) lookAgain(ctx context.Context) error {
	if c.region == nil {
		return nil
	}
	open, err := c.reads.OpenMachines(ctx, reconciliationdb.OpenMachinesParams{SiteID: c.run.Site, Most: maxReads})
	if err != nil {
		return fmt.Errorf("list machines to look at again: %w", err)
	}
	if err := c.read(ctx, open); err != nil {
		return err
	}
	return c.conclude(ctx)
}

// needsAnother says whether something was shown that a second look must prove.
func (c *cycle) needsAnother(ctx context.Context) (bool, error) {
	if c.run.DryRun || c.region == nil {
		return false, nil
	}
	open, err := c.reads.OpenMachines(ctx, reconciliationdb.OpenMachinesParams{SiteID: c.run.Site, Most: 1})
	if err != nil {
		return false, fmt.Errorf("list machines to look at again: %w", err)
	}
	return len(open) > 0, nil
}

// outcome says how a run ended.
func (c *cycle) outcome() Outcome {
	switch {
	case c.trip:
		return Tripped
	case len(c.troubles) == 0:
		return Informed
	case c.heard:
		return Partly
	}
	return Unheard
}

// firstTrouble is what a run says of what MAAS did not answer.
func (c *cycle) firstTrouble() (code, message, remedy string) {
	if len(c.troubles) == 0 {
		return "", "", ""
	}
	first := c.troubles[0]
	if f, ok := fault.As(first); ok {
		return f.Code, f.Message, f.Remedy
	}
	return fault.CodeOf(first), "MAAS gave no information; see the log of the worker", "check the site: gpuaas site doctor " + c.site.Name
}
