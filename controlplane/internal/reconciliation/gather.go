package reconciliation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/binding"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/reconciliation/internal/reconciliationdb"
)

const (
	// maxReads is how many machines a run reads because something points at them;
	// what is more is suspected, and read by the runs that follow.
	maxReads = 400
	// maxDirect is how many machines that are missing in an answer a run asks for
	// one by one.
	maxDirect = 10
	// readChunk is how many machines are asked for, judged and forgotten at a time.
	readChunk = 50
	// largeListing is how many exceptions a site may have for them to be listed in
	// every cycle: MAAS needs up to a tenth of a second for each.
	largeListing = 500
	// maxUnmanaged is how many machines that are no nodes are remembered.
	maxUnmanaged = 200
)

// lookAround asks MAAS for what a cycle wants to know, the cheapest first. Each
// question stands for itself.
func (c *cycle) lookAround(ctx context.Context) error {
	if c.run.Trigger == BySuspicion {
		return c.readDoubted(ctx, nil)
	}
	everything := c.run.Full
	changed, err := c.region.Changed(ctx, c.state.EventCursor)
	if err != nil {
		c.trouble(ctx, "events", err)
	} else {
		c.heard = true
		c.state.EventCursor = changed.Cursor
		c.run.Report.Events = changed.Events
		if changed.Lost { // what happened is not known: all machines must be walked over first
			c.state.SweepEndedAt = nil
		}
	}
	if err := c.exceptions(ctx); err != nil {
		return err
	}
	if err := c.readDoubted(ctx, changed.Machines); err != nil {
		return err
	}
	return c.sweep(ctx, everything)
}

// exceptions lists the machines that are not deployed. What it shows of nodes is
// judged; what it does not show says nothing.
func (c *cycle) exceptions(ctx context.Context) error {
	if c.state.ExceptionsAt != nil && !c.run.Full {
		pause := c.settings.Every * time.Duration((c.state.ExceptionsSeen-1)/largeListing)
		if c.now().Before(c.state.ExceptionsAt.Add(pause)) {
			return nil
		}
	}
	var ours []Machine
	var others []Machine
	unmanaged := 0
	total, err := c.region.Exceptions(ctx, func(m Machine) {
		if _, known := c.bound[m.SystemID]; known {
			ours = append(ours, m)
			return
		}
		if c.neighbours[m.SystemID] {
			return
		}
		unmanaged++
		if len(others) < maxUnmanaged {
			others = append(others, m)
		}
	})
	if err != nil {
		c.trouble(ctx, "machines that are not deployed", err)
		return nil
	}
	at := c.now()
	c.heard, c.run.Report.Unmanaged = true, unmanaged
	c.state.ExceptionsSeen, c.state.ExceptionsAt = int32(min(total, 1<<30)), &at //nolint:gosec // bounded
	for part := range slices.Chunk(ours, readChunk) {
		if err := c.judge(ctx, part, nil); err != nil {
			return err
		}
	}
	return c.unmanaged(ctx, others)
}

// readDoubted reads the machines that something points at: an event, a finding
// that is not over, a suspicion.
func (c *cycle) readDoubted(ctx context.Context, changed []string) error {
	suspected, err := c.reads.Suspicions(ctx, reconciliationdb.SuspicionsParams{SiteID: c.run.Site, Limit: maxReads})
	if err != nil {
		return fmt.Errorf("list suspicions: %w", err)
	}
	found, err := c.reads.DoubtedMachines(ctx, reconciliationdb.DoubtedMachinesParams{
		SiteID: c.run.Site, Standing: standing(), Most: maxReads, ActedAfter: c.now().Add(-c.settings.SweepWithin),
	})
	if err != nil {
		return fmt.Errorf("list machines with findings: %w", err)
	}
	var ids []string
	for _, r := range suspected {
		ids = append(ids, r.MaasSystemID)
	}
	if c.run.Trigger != BySuspicion {
		ids = append(ids, found...)
	}
	var ours []string
	for _, m := range changed {
		if _, known := c.bound[m]; known {
			ours = append(ours, m)
		}
	}
	ids = distinct(append(ids, ours...))
	if len(ids) > maxReads {
		if err := c.suspectLater(ctx, ids[maxReads:]); err != nil {
			return err
		}
		ids = ids[:maxReads]
	}
	c.noting = len(found) == maxReads // or the same ones would be read again and again
	err = c.read(ctx, ids)
	if c.noting = false; err != nil {
		return err
	}
	if unread := c.undone(ours); len(unread) > 0 { // the cursor goes on without them
		if err := c.suspectLater(ctx, unread); err != nil {
			return err
		}
	}
	return c.settleSuspicions(ctx, suspected)
}

// settleSuspicions forgets the suspicions whose machines were looked at.
func (c *cycle) settleSuspicions(ctx context.Context, suspected []reconciliationdb.SuspicionsRow) error {
	if c.run.DryRun {
		return nil
	}
	var looked []id.Node
	until := time.Time{}
	for _, r := range suspected {
		if c.done[r.MaasSystemID] {
			looked = append(looked, r.NodeID)
			if r.At.After(until) {
				until = r.At
			}
		}
	}
	if len(looked) == 0 {
		return nil
	}
	err := c.reads.DropSuspicions(ctx, reconciliationdb.DropSuspicionsParams{Nodes: texts(looked), Until: until})
	if err != nil {
		return fmt.Errorf("forget suspicions: %w", err)
	}
	return nil
}

func (c *cycle) suspectLater(ctx context.Context, machines []string) error {
	if c.run.DryRun {
		return nil
	}
	nodes := make([]id.Node, 0, len(machines))
	for _, m := range machines {
		if n, known := c.bound[m]; known {
			nodes = append(nodes, n)
		}
	}
	err := c.reads.Suspect(ctx, reconciliationdb.SuspectParams{Reason: "MAAS recorded something about its machine", Nodes: texts(nodes)})
	if err != nil {
		return fmt.Errorf("note suspicions: %w", err)
	}
	return nil
}

// sweep reads those machines that were not read for the longest time: in each
// cycle so many that all are read in the time of a sweep, with two cycles to
// spare.
func (c *cycle) sweep(ctx context.Context, everything bool) error {
	began := c.now()
	period := max(c.settings.SweepWithin-2*c.settings.Every, c.settings.Every)
	share := (int64(len(c.bound))*int64(c.settings.Every) + int64(period) - 1) / int64(period)
	before := began.Add(-c.settings.Every / 2)
	if everything {
		share, before = int64(len(c.bound)), began.Add(time.Second)
	}
	if share == 0 {
		c.swept(began, period, nil, true)
		return nil
	}
	// Those that this cycle has looked at already are no part of its share.
	rows, err := binding.ForSweep(ctx, c.db, c.run.Site, before, int32(min(share+int64(len(c.done)), 1<<30)))
	if err != nil {
		return err
	}
	troubled := len(c.troubles)
	var ids []string
	for _, b := range rows {
		if !c.done[b.SystemID] {
			ids = append(ids, b.SystemID)
		}
	}
	c.run.Report.Swept, c.noting = len(ids), true
	err = c.read(ctx, ids)
	if c.noting = false; err != nil {
		return err
	}
	c.swept(began, period, rows, len(c.troubles) == troubled)
	return nil
}

// swept notes how far the walk over all machines has come: it has ended when
// none is left that was read before it began.
func (c *cycle) swept(at time.Time, period time.Duration, rows []binding.Binding, answered bool) {
	if !answered {
		return
	}
	if c.state.SweepBeganAt == nil {
		c.state.SweepBeganAt = &at
	}
	oldest := at
	if len(rows) > 0 && rows[len(rows)-1].SeenAt != nil {
		oldest = *rows[len(rows)-1].SeenAt
	}
	if c.run.Full || len(rows) == 0 || !oldest.Before(*c.state.SweepBeganAt) || at.Sub(*c.state.SweepBeganAt) >= period {
		c.state.SweepEndedAt, c.state.SweepBeganAt = &at, nil
	}
}

// read reads machines by id and judges them, part by part. One that is missing
// in an answer is asked for by itself: only that says whether it is absent.
func (c *cycle) read(ctx context.Context, ids []string) error {
	direct := 0
	for part := range slices.Chunk(c.undone(ids), readChunk) {
		machines, err := c.region.Read(ctx, part)
		if err != nil {
			c.trouble(ctx, "machines by id", err)
			continue
		}
		c.heard = true
		var absent []string
		for _, lost := range missing(part, machines) {
			if direct >= maxDirect {
				if err := c.suspectLater(ctx, []string{lost}); err != nil {
					return err
				}
				continue
			}
			direct++
			m, exists, err := c.region.Direct(ctx, lost)
			switch {
			case err != nil:
				c.trouble(ctx, "a machine", err)
			case exists:
				machines = append(machines, m)
			default:
				absent = append(absent, lost)
			}
		}
		if err := c.judge(ctx, machines, absent); err != nil {
			return err
		}
	}
	return nil
}

func (c *cycle) undone(ids []string) []string {
	var out []string
	for _, m := range distinct(ids) {
		if !c.done[m] {
			out = append(out, m)
		}
	}
	return out
}

func missing(asked []string, got []Machine) []string {
	have := make(map[string]bool, len(got))
	for _, m := range got {
		have[m.SystemID] = true
	}
	var out []string
	for _, m := range asked {
		if !have[m] {
			out = append(out, m)
		}
	}
	return out
}

func distinct(ids []string) []string {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}

func texts(nodes []id.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.String()
	}
	return out
}

// standing are the types that are not read anew in every cycle.
func standing() []string {
	out := []string{}
	for _, r := range Rules {
		if r.Standing {
			out = append(out, string(r.Type))
		}
	}
	return out
}
