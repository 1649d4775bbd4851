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
		if changed.Lost { // what happened is not known: all machines must be walked over anew
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
	if !c.heard { // a MAAS that hangs would take minutes for each further question
		return nil
	}
	if err := c.readDoubted(ctx, changed.Machines); err != nil {
		return err
	}
	if err := c.conclude(ctx); err != nil { // not after the sweep, which may take long
		return err
	}
	return c.sweep(ctx, everything)
}

// exceptions lists the machines that are not deployed. What it shows of nodes is
// judged; what it does not show says nothing.
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

// list judges the nodes of a listing, and returns the first machines of it that
// are none. A listing that failed has -1 of them, and says nothing.
func (c *cycle) list(ctx context.Context, what string, ask func(context.Context, func(Machine)) (int, error)) (total int, others []Machine, err error) {
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

// readDoubted reads the machines that something points at: an event, a finding
// that is not over, a suspicion.
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
	c.noting = len(found) == maxReads // or the same ones would be read again and again
	err = c.read(ctx, ids)
	if c.noting = false; err != nil {
		return err
	}
	if unread := c.undone(news); len(unread) > 0 { // the cursor goes on without them
		if err := c.suspectLater(ctx, unread); err != nil {
			return err
		}
	}
	return c.settleSuspicions(ctx, suspected)
}

// heldBack are machines of nodes that the breaker keeps from being quarantined:
// what an operator decides goes by what they show now.
func (c *cycle) heldBack(ctx context.Context) ([]string, error) {
	if len(c.state.TrippedNodes) == 0 {
		return nil, nil
	}
	machines, err := c.reads.MachinesOfNodes(ctx, reconciliationdb.MachinesOfNodesParams{SiteID: c.run.Site, Nodes: c.state.TrippedNodes})
	return machines, wrap("list machines that the breaker holds back", err)
}

// settleSuspicions forgets the suspicions whose machines were looked at, and
// those about what is not a node of the site any more.
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
		return wrap("note suspicions", tx.Suspect(ctx, reconciliationdb.SuspectParams{Reason: "its machine could not be read when it should have been", Nodes: texts(nodes)}))
	})
}

// sweep reads those machines that were not read for the longest time: in each
// cycle so many that all are read in the time of a sweep, with two cycles to
// spare.
func (c *cycle) sweep(ctx context.Context, everything bool) error {
	began := c.now()
	period := max(c.settings.SweepWithin-2*c.settings.Every, c.settings.Every)
	share := (int64(len(c.bound))*int64(c.settings.Every) + int64(period) - 1) / int64(period)
	before := began.Add(-c.settings.Every / 2)
	switch {
	case everything:
		share, before = int64(len(c.bound)), began.Add(time.Second)
	case c.state.SweepEndedAt == nil: // something may have happened that is not known
		share *= 2
	}
	if share == 0 {
		c.swept(began, nil)
		return nil
	}
	// Those that this cycle has looked at already are no part of its share.
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

// swept notes how far the walk over all machines has come: it has ended when
// even the one that was read longest ago was read since it began.
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

// maxHalves is how many further requests a run spends on finding the machine
// that an answer fails for.
const maxHalves = 14

// read reads machines by id and judges them, part by part. One that is missing
// in an answer is asked for by itself: only that says whether it is absent.
func (c *cycle) read(ctx context.Context, ids []string) error {
	var lost, failed []string
	inARow, halves := 0, maxHalves
	parts := slices.Collect(slices.Chunk(c.undone(ids), readChunk))
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		machines, err := c.region.Read(ctx, part)
		if err != nil && c.heard && len(part) > 1 && halves > 0 && !unreachable(err) { // one of them may be the cause
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
			if inARow > 1 || c.overdue() { // or a MAAS that hangs would be asked for hours
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

var errOverdue = fault.New(fault.Unavailable, "run_overdue", "MAAS is so slow that the run was ended before all was read").
	WithRemedy("look at the load of the MAAS region; the next runs go on")

// unreachable says whether MAAS itself did not answer, or not in time.
func unreachable(err error) bool {
	return fault.KindOf(err) == fault.Unavailable && fault.CodeOf(err) != codeServerError
}

// codeServerError is what the client calls a failure inside of MAAS: it answers,
// but something of what it was asked for breaks it.
const codeServerError = "maas_server_error"

// failure notes that machines could not be read: of many, that is a question
// about the site; of one, it is about that machine.
func (c *cycle) failure(ctx context.Context, part []string, err error) {
	if len(part) > 1 {
		c.trouble(ctx, "machines by id", err)
		return
	}
	c.hitch(ctx, "machine "+part[0], err)
}

// tried lets the sweep go on with other machines than those that failed.
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

// seek asks for machines by themselves that were missing in answers. Those that
// are too many to be asked for count as missing: a breaker goes by them.
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
