package reconciliation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

const (
	// maxReads limits how many machines a run reads because something points at
	// them. The others become suspicions, and later runs read them.
	maxReads = 400
	// maxDirect limits how many machines a run asks for one by one because an
	// answer lacked them.
	maxDirect = 10
	// readChunk is how many machines are read, judged and dropped at a time.
	readChunk = 50
	// largeListing is the number of exceptions up to which every cycle lists
	// them: MAAS needs up to a tenth of a second for each.
	largeListing = 500
	// maxUnmanaged limits how many machines without a node are remembered.
	maxUnmanaged = 200
)

// lookAround asks MAAS what a cycle needs to know, the cheapest question first.
// If one question fails, the others are still asked.
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
		if changed.Lost { // events were lost, so the sweep starts again over all machines
			at := c.now()
			c.state.SweepBeganAt, c.state.SweepEndedAt = &at, nil
		}
	}
	if err := c.exceptions(ctx); err != nil {
		return err
	}
	if c.heard {
		if _, _, err := c.list(ctx, "machines that are switched off", c.region.SwitchedOff); err != nil {
			return err
		}
	}
	if !c.heard { // each further question to a MAAS that hangs would take minutes
		return nil
	}
	if err := c.readDoubted(ctx, changed.Machines); err != nil {
		return err
	}
	if err := c.conclude(ctx); err != nil { // act before the sweep, which may take long
		return err
	}
	return c.sweep(ctx, everything)
}

// exceptions lists the machines that are not deployed and judges the nodes
// among them. A node that the listing lacks may still be anything.
func (c *cycle) exceptions(ctx context.Context) error {
	if c.state.ExceptionsAt != nil && !c.run.Full {
		pause := min(c.settings.Every*time.Duration((c.state.ExceptionsSeen-1)/largeListing), c.settings.SweepWithin)
		if c.now().Before(c.state.ExceptionsAt.Add(pause)) {
			return nil
		}
	}
	total, others, err := c.list(ctx, "machines that are not deployed", c.region.Exceptions)
	if total >= 0 {
		at := c.now()
		c.state.ExceptionsSeen, c.state.ExceptionsAt = int32(min(total, 1<<30)), &at
	}
	if err == nil {
		err = c.unmanaged(ctx, others)
	}
	return err
}

// list judges the nodes of a listing. It returns how many machines the listing
// has and the first ones that are no nodes. A listing that failed returns -1.
func (c *cycle) list(ctx context.Context, what string, ask func(context.Context, func(Machine)) (int, error)) (
	total int, others []Machine, err error,
) {
	var mine []Machine
	unmanaged := 0
	total, err = ask(ctx, func(m Machine) {
		if _, known := c.bound[m.SystemID]; known {
			mine = append(mine, m)
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
		c.trouble(ctx, what, err)
		return -1, nil, nil
	}
	c.heard = true
	c.run.Report.Unmanaged += unmanaged
	for part := range slices.Chunk(mine, readChunk) {
		if err := c.judge(ctx, part, nil); err != nil {
			return total, nil, err
		}
	}
	return total, others, nil
}

// readDoubted reads the machines that an event, an open finding or a suspicion
// points at.
func (c *cycle) readDoubted(ctx context.Context, changed []string) error {
	suspected, err := c.reads.Suspicions(ctx, reconciliationdb.SuspicionsParams{SiteID: c.run.Site, Limit: maxReads})
	if err != nil {
		return fmt.Errorf("list suspicions: %w", err)
	}
	found, err := c.reads.DoubtedMachines(ctx, reconciliationdb.DoubtedMachinesParams{
		SiteID: c.run.Site, Standing: standing(), Most: maxReads, Since: c.now().Add(-c.settings.SweepWithin),
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
	held, err := c.heldBack(ctx)
	if err != nil {
		return err
	}
	var news []string
	for _, m := range changed {
		if _, known := c.bound[m]; known {
			news = append(news, m)
		}
	}
	ids = distinct(slices.Concat(ids, held, news))
	if len(ids) > maxReads {
		if err := c.suspectLater(ctx, ids[maxReads:]); err != nil {
			return err
		}
		ids = ids[:maxReads]
	}
	c.noting = len(found) == maxReads // otherwise the same machines would be read again and again
	err = c.read(ctx, ids)
	if c.noting = false; err != nil {
		return err
	}
	if unread := c.undone(news); len(unread) > 0 { // the cursor moves past their events, so suspicions must remember them
		if err := c.suspectLater(ctx, unread); err != nil {
			return err
		}
	}
	return c.settleSuspicions(ctx, suspected)
}

// heldBack returns the machines of nodes that the breaker keeps from being
// quarantined, so that the operator decides by what they show now.
func (c *cycle) heldBack(ctx context.Context) ([]string, error) {
	if len(c.state.TrippedNodes) == 0 {
		return nil, nil
	}
	machines, err := c.reads.MachinesOfNodes(ctx,
		reconciliationdb.MachinesOfNodesParams{SiteID: c.run.Site, Nodes: c.state.TrippedNodes})
	return machines, wrap("list machines that the breaker holds back", err)
}

// settleSuspicions drops suspicions whose machines were looked at, and those
// about machines that are no longer nodes of the site.
func (c *cycle) settleSuspicions(ctx context.Context, suspected []reconciliationdb.SuspicionsRow) error {
	if c.run.DryRun {
		return nil
	}
	if err := c.reads.DropIdleSuspicions(ctx, c.run.Site); err != nil {
		return wrap("forget suspicions about former nodes", err)
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
	return c.inChange(ctx, func(ctx context.Context, tx change) error {
		return wrap("note suspicions", tx.Suspect(ctx,
			reconciliationdb.SuspectParams{
				Reason: "its machine could not be read when it should have been",
				Nodes:  texts(nodes),
			}))
	})
}

// sweep reads the machines that were not read for the longest time. Its share
// per cycle is large enough to read all machines in the time of a sweep, with
// two cycles to spare.
func (c *cycle) sweep(ctx context.Context, everything bool) error {
	began := c.now()
	period := max(c.settings.SweepWithin-2*c.settings.Every, c.settings.Every)
	share := (int64(len(c.bound))*int64(c.settings.Every) + int64(period) - 1) / int64(period)
	before := began.Add(-c.settings.Every / 2)
	switch {
	case everything:
		share, before = int64(len(c.bound)), began.Add(time.Second)
	case c.state.SweepEndedAt == nil: // events may have been lost since the last sweep: hurry
		share *= 2
	}
	if share == 0 {
		c.swept(began, nil)
		return nil
	}
	// Machines that this cycle has looked at already do not count towards its
	// share.
	rows, err := binding.ForSweep(ctx, c.db, c.run.Site, before, int32(min(share+int64(len(c.done)), 1<<30)))
	if err != nil {
		return err
	}
	var ids []string
	for _, b := range rows {
		if !c.done[b.SystemID] {
			ids = append(ids, b.SystemID)
		}
	}
	ids = ids[:min(int64(len(ids)), share)]
	c.run.Report.Swept, c.noting = len(ids), true
	err = c.read(ctx, ids)
	if c.noting = false; err != nil {
		return err
	}
	c.swept(began, rows)
	return nil
}

// swept records how far the walk over all machines has come. It has ended when
// even the machine read longest ago was read since the walk began.
func (c *cycle) swept(at time.Time, rows []binding.Binding) {
	if c.state.SweepBeganAt == nil {
		c.state.SweepBeganAt = &at
	}
	ended := len(rows) == 0
	if !ended {
		oldest := cmp.Or(rows[0].Tried, rows[0].SeenAt)
		ended = oldest != nil && !oldest.Before(*c.state.SweepBeganAt)
	}
	if ended || c.run.Full && c.run.Report.Unanswered == 0 {
		c.state.SweepEndedAt, c.state.SweepBeganAt = &at, nil
	}
}

// maxHalves limits the extra requests with which a run searches for the one
// machine that makes an answer fail.
const maxHalves = 14

// read reads machines by id, in chunks, and judges them. If an answer lacks a
// machine, read asks for it alone: only that answer proves it absent.
func (c *cycle) read(ctx context.Context, ids []string) error {
	var lost, failed []string
	inARow, halves := 0, maxHalves
	parts := slices.Collect(slices.Chunk(c.undone(ids), readChunk))
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		machines, err := c.region.Read(ctx, part)
		if err != nil && c.heard && len(part) > 1 && halves > 0 && !unreachable(err) { // one may be the cause
			halves -= 2
			half := len(part) / 2
			parts = append([][]string{part[:half], part[half:]}, parts...)
			continue
		}
		if err != nil {
			failed = append(failed, part...)
			if c.failure(ctx, part, err); unreachable(err) {
				inARow++
			}
			if inARow > 1 || c.overdue() { // otherwise we would ask a MAAS that hangs for hours
				break
			}
			continue
		}
		c.heard, inARow = true, 0
		lost = append(lost, missing(part, machines)...)
		if err := c.judge(ctx, machines, nil); err != nil {
			return err
		}
		if c.overdue() {
			c.trouble(ctx, "the rest of the machines, in time", errOverdue)
			break
		}
	}
	if err := c.tried(ctx, failed); err != nil {
		return err
	}
	return c.seek(ctx, lost)
}

var errOverdue = fault.New(fault.Unavailable, "run_overdue",
	"MAAS is so slow that the run was ended before all was read").
	WithRemedy("look at the load of the MAAS region; the next runs go on")

// unreachable says whether MAAS did not answer at all, or not in time.
func unreachable(err error) bool {
	return fault.KindOf(err) == fault.Unavailable && fault.CodeOf(err) != codeServerError
}

// codeServerError is the client's code for a failure inside MAAS: MAAS answers,
// but breaks on something that it was asked for.
const codeServerError = "maas_server_error"

// failure records that machines could not be read. If there are several, that
// is a question about the site; if there is one, it is about that machine.
func (c *cycle) failure(ctx context.Context, part []string, err error) {
	if len(part) > 1 {
		c.trouble(ctx, "machines by id", err)
		return
	}
	c.hitch(ctx, "machine "+part[0], err)
}

// tried records an attempt to read, so that the sweep goes on with other
// machines than those that failed.
func (c *cycle) tried(ctx context.Context, machines []string) error {
	if c.run.DryRun || len(machines) == 0 {
		return nil
	}
	nodes := make([]id.Node, 0, len(machines))
	for _, m := range machines {
		if n, known := c.bound[m]; known {
			nodes = append(nodes, n)
		}
	}
	return c.inChange(ctx, func(ctx context.Context, tx change) error { return binding.Tried(ctx, tx.tx, nodes, c.now()) })
}

// seek asks one by one for machines that answers lacked. Those above the limit
// are counted as missing, and the breaker adds them to its count.
func (c *cycle) seek(ctx context.Context, lost []string) error {
	ask := lost[:min(len(lost), max(maxDirect-c.direct, 0))]
	c.direct += len(ask)
	c.run.Report.Missing += len(lost) - len(ask)
	var found []Machine
	var absent, failed []string
	for _, i := range ask {
		m, exists, err := c.region.Direct(ctx, i)
		switch {
		case err != nil:
			c.hitch(ctx, "machine "+i, err)
			c.run.Report.Missing++
			failed = append(failed, i)
		case exists:
			found = append(found, m)
		default:
			absent = append(absent, i)
		}
	}
	if err := c.tried(ctx, failed); err != nil {
		return err
	}
	if rest := lost[len(ask):]; len(rest) > 0 {
		if err := errors.Join(c.suspectLater(ctx, rest), c.tried(ctx, rest)); err != nil {
			return err
		}
	}
	return c.judge(ctx, found, absent)
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

// standing lists the types that only the sweep reads again.
func standing() []string {
	out := []string{}
	for _, r := range Rules {
		if r.Standing {
			out = append(out, string(r.Type))
		}
	}
	return out
}
