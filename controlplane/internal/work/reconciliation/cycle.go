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

// cycle is the state of a run while it goes on.
type cycle struct {
	*Service
	run        Run
	site       site.Site
	state      reconciliationdb.ReconciliationSite
	region     Region
	began      time.Time
	policies   map[id.Profile]site.Policy
	policyOf   map[id.Node]site.Policy
	bound      map[string]id.Node   // by system id: machines that are bound to a node
	neighbours map[string]bool      // machines bound to nodes of other sites of the same MAAS
	shared     map[string][]id.Node // machines that are bound to more than one node
	done       map[string]bool      // machines that this run has looked at
	seen       map[id.Finding]fresh
	healed     []id.Node // nodes that a finding healed on
	troubles   []error   // questions that MAAS did not answer
	heard      bool      // MAAS answered at least once
	trip       bool
	aside      int    // machines that were read directly because a quarantine was withheld
	direct     int    // machines that were asked for one by one
	noting     bool   // record each read, however recent the last one was
	working    []at   // jobs at the site; nil: not read yet
	syncPin    string // digest of the program that reports hardware; empty: not read yet
}

// fresh is what a look showed of a finding, and when.
type fresh struct {
	Verdict
	at time.Time
}

// trouble records that MAAS did not answer a question about the site. The cycle
// goes on with its other questions.
func (c *cycle) trouble(ctx context.Context, what string, err error) {
	c.run.Report.Unanswered++
	c.hitch(ctx, what, err)
}

// hitch records that something went wrong with a single machine, node or job.
// The rest of the cycle is not affected.
func (c *cycle) hitch(ctx context.Context, what string, err error) {
	c.logger.WarnContext(ctx, "reconciliation learned nothing", "site_id", c.run.Site, "about", what, "error", err)
	c.troubles = append(c.troubles, err)
}

// ours says whether an error is a failure of the control plane itself. If it
// is, the run is repeated. An error caused by what MAAS said of one machine
// would only come again, and must not keep the other machines from being looked
// at.
func ours(ctx context.Context, err error) bool {
	return ctx.Err() != nil || fault.KindOf(err) == fault.Unavailable
}

// overdue says whether the run should end because MAAS is too slow.
func (c *cycle) overdue() bool {
	most := 4 * c.settings.Every
	if c.run.Full {
		most = max(most, 45*time.Minute)
	}
	return c.now().Sub(c.began) > most
}

// open reads what a run needs to know before it starts.
func (s *Service) open(ctx context.Context, run Run) (*cycle, error) {
	c := &cycle{
		Service: s, run: run, began: s.now(), done: map[string]bool{}, policyOf: map[id.Node]site.Policy{},
		neighbours: map[string]bool{}, seen: map[id.Finding]fresh{},
	}
	c.run.Report = Report{Intended: []Intended{}, Left: []LeftTo{}, Settled: []LeftTo{}}
	var err error
	if c.site, err = s.cfg.Sites.Site(ctx, run.Site); err != nil {
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
	if len(c.bound) == 0 { // a disabled site is looked at until its last node is gone
		if err := site.RequireEnabled(c.site); err != nil {
			return c, err
		}
	}
	if c.region, err = s.cfg.Regions.Open(ctx, run.Site); err != nil {
		c.trouble(ctx, "its API", err)
	}
	return c, nil
}

// reconcile carries out a run that the schedule, an operator or a suspicion
// started. If MAAS does not answer, that is an outcome and not an error.
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
	if err := c.conclude(ctx); err != nil {
		return err
	}
	if again, err := c.needsAnother(ctx); err != nil || again { // the second look may open the breaker
		return err
	}
	return c.pinMachines(ctx)
}

// conclude takes the actions that are due after what was seen since the last
// call.
func (c *cycle) conclude(ctx context.Context) error {
	if err := c.act(ctx); err != nil {
		return err
	}
	clear(c.seen)
	return c.returnHealed(ctx)
}

// lookAgain takes the second look at what the first look of a run opened.
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
	if err := c.conclude(ctx); err != nil {
		return err
	}
	return c.pinMachines(ctx)
}

// needsAnother says whether a second look must prove something.
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

// firstTrouble returns the first question that MAAS did not answer, for the
// run.
func (c *cycle) firstTrouble() (code, message, remedy string) {
	if len(c.troubles) == 0 {
		return "", "", ""
	}
	first := c.troubles[0]
	if f, ok := fault.As(first); ok {
		return f.Code, f.Message, f.Remedy
	}
	return fault.CodeOf(first), "MAAS gave no information; see the log of the worker",
		"check the site: gpuaas site doctor " + c.site.Name
}
