package reconciliation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

const (
	// freshFor is how old a look may be when reconciliation acts on it.
	freshFor = time.Minute
	// maxReseeds limits how often a day the same node gets its token again.
	maxReseeds = 3
	// maxReseedsPerRun keeps one run from reseeding a whole site at once.
	maxReseedsPerRun = 20
)

// due is a believed finding that has an action, with what this run saw.
type due struct {
	Finding
	verdict Verdict
	node    node.Node
	pin     string // digest of the program that the machine reports with; empty: keep the old one
}

// act takes the actions of the findings that this run saw, unless something
// withholds them. The next run looks at withheld ones again.
func (c *cycle) act(ctx context.Context) error {
	if c.run.DryRun || len(c.seen) == 0 && c.state.TrippedAt == nil {
		return nil
	}
	list, err := c.dues(ctx)
	if err != nil {
		return err
	}
	why, err := c.guard(ctx, list)
	if err != nil {
		return err
	}
	for _, d := range list {
		intended := Intended{Node: d.Node, Hostname: d.Hostname, Finding: d.Type, Action: d.Action, Withheld: why[d.ID]}
		if intended.Withheld != "" {
			if err = c.withhold(ctx, d, intended.Withheld); err == nil && intended.Withheld == withheldByBreaker(d.Action) {
				err = c.setAside(ctx, d)
			}
		} else {
			intended.Done, intended.Withheld, err = c.take(ctx, d)
		}
		if err != nil {
			return err
		}
		c.run.Report.intend(intended)
		if intended.Done {
			c.run.Report.Acted++
		}
	}
	return nil
}

// dues reads the findings whose action could be taken now.
func (c *cycle) dues(ctx context.Context) ([]due, error) {
	rows, err := c.reads.ActionsDue(ctx, c.run.Site)
	if err != nil {
		return nil, wrap("list actions that are due", err)
	}
	var out []due
	var nodes []id.Node
	for _, r := range rows {
		look, seen := c.seen[r.ID]
		if !seen || c.now().Sub(look.at) > freshFor+c.settings.LookAgainAfter { // an old look may no longer be true
			continue
		}
		out = append(out, due{Finding: findingFrom(r), verdict: look.Verdict})
		nodes = append(nodes, r.NodeID)
	}
	list, err := node.Many(ctx, c.db, nodes)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if at := slices.IndexFunc(list, func(n node.Node) bool { return n.ID == out[i].Node }); at >= 0 {
			out[i].node = list[at]
		}
	}
	return out, nil
}

// guard says for each action why it must not be taken. An empty reason allows
// it.
func (c *cycle) guard(ctx context.Context, list []due) (map[id.Finding]string, error) {
	why := map[id.Finding]string{}
	reseeds := 0
	var quarantines []due
	for _, d := range list {
		switch {
		case d.verdict.Withheld != "":
			why[d.ID] = d.verdict.Withheld
		case c.settings.DryRun:
			why[d.ID] = "the control plane only watches: reconciliation.dry_run is set"
		case owned(Subject{Status: d.node.Status, HeldBy: d.node.HeldBy}):
			why[d.ID] = "an operation works on the node"
		case d.Action == PowerOff:
			n, err := c.actedLately(ctx, d)
			if err != nil {
				return nil, err
			}
			if n > 0 { // to serve again, a machine must be on before its node is reactivated
				why[d.ID] = "it was switched off within the last day, and somebody switched it on again: it is left on for a day"
			}
		case d.Action == Reseed:
			n, err := c.actedLately(ctx, d)
			if err != nil {
				return nil, err
			}
			if reseeds++; n >= maxReseeds {
				why[d.ID] = fmt.Sprintf("it was done %d times within a day, and the problem came back each time", n)
			} else if reseeds > maxReseedsPerRun {
				why[d.ID] = "this run has reached its limit of new tokens; the next run continues"
			}
		case d.Action == Quarantine && d.node.Status.Is(node.Serving):
			quarantines = append(quarantines, d)
		}
	}
	if err := c.breaker(ctx, quarantines, why); err != nil {
		return nil, err
	}
	if c.trip {
		for _, d := range list {
			if why[d.ID] == "" {
				why[d.ID] = withheldByBreaker(d.Action)
			}
		}
	}
	return why, nil
}

// actedLately says how often within a day the same was done about a node.
func (c *cycle) actedLately(ctx context.Context, d due) (int64, error) {
	n, err := c.reads.ActedOnSince(ctx, reconciliationdb.ActedOnSinceParams{
		SiteID: d.Site, Type: string(d.Type), Subject: d.Subject, ActedAt: ago(c.now(), 24*time.Hour),
	})
	return n, wrap("count actions", err)
}

func ago(now time.Time, d time.Duration) *time.Time {
	t := now.Add(-d)
	return &t
}

func (c *cycle) withhold(ctx context.Context, d due, reason string) error {
	if d.Withheld == reason {
		return nil
	}
	c.run.Report.Written++
	return wrap("note why nothing is done", c.reads.WithholdFinding(ctx,
		reconciliationdb.WithholdFindingParams{ID: d.ID, Withheld: reason}))
}

// take takes one action in the transaction that marks its finding, so it
// happens once or not at all. MAAS cannot be part of that transaction: a
// release is marked first, and happens at most once.
func (c *cycle) take(ctx context.Context, d due) (done bool, withheld string, err error) {
	if d.pin, err = c.renewedPin(ctx, d); err != nil {
		c.hitch(ctx, "the program that reports hardware", err)
		return false, "MAAS does not hand out the program that reports hardware, so that it cannot be pinned", nil
	}
	err = c.inChange(ctx, func(ctx context.Context, tx change) error {
		done, withheld = false, ""
		n, err := node.Lock(ctx, tx.tx, d.Node)
		if err != nil {
			return err
		}
		row, err := tx.LockFinding(ctx, d.ID)
		if err != nil {
			return wrap("lock finding", err)
		}
		if Status(row.Status) != Confirmed {
			withheld = "it was settled meanwhile"
			return nil
		}
		if owned(Subject{Status: n.Status, HeldBy: n.HeldBy}) {
			withheld = "an operation works on the node"
			return nil
		}
		if withheld = d.outdated(n); withheld != "" {
			return nil
		}
		note, err := c.effect(ctx, tx.tx, d, n)
		if err != nil {
			return err
		}
		done = note == "" || atMAAS[d.Action] != nil
		return c.acted(ctx, tx, d, note)
	})
	send := atMAAS[d.Action]
	if err != nil || !done || send == nil {
		return done, withheld, err
	}
	return true, "", send(c, ctx, d)
}

// outdated says why an action on a machine must not be taken any more; empty: it may.
// Since the look, an operation may have returned the node to service and ended.
func (d due) outdated(n node.Node) string {
	switch {
	case d.Action != Release && d.Action != PowerOff:
	case n.Status != node.Retired:
		return fmt.Sprintf("the node is %s by now", n.Status)
	case d.Action == Release && n.Tainted():
		return withheldUnclean
	}
	return ""
}

// atMAAS are the actions that MAAS carries out, outside of any transaction.
var atMAAS = map[Action]func(c *cycle, ctx context.Context, d due) error{
	Release: (*cycle).release, PowerOff: (*cycle).powerOff,
}

// effect does what the action means in the database. If there was nothing to
// do, the note says why.
func (c *cycle) effect(ctx context.Context, tx pgx.Tx, d due, n node.Node) (note string, err error) {
	cause := fmt.Sprintf("%s: %s", d.Type, d.Message)
	switch d.Action {
	case Quarantine:
		if !n.Status.Is(node.Serving) {
			return fmt.Sprintf("the node was %s already", n.Status), nil
		}
		_, err = node.Move(ctx, tx, d.Node, node.Quarantine, cause)
	case MarkOffline:
		if n.Status != node.Active {
			return fmt.Sprintf("the node was %s already", n.Status), nil
		}
		_, err = node.Move(ctx, tx, d.Node, node.LoseContact, cause)
	case UpdateHost:
		err = node.SetHost(ctx, tx, d.Node, d.verdict.Host, cause)
	case Reseed:
		_, err = c.cfg.Tasks.Enqueue(ctx, tx, agenttask.Request{
			Node: d.Node, Type: agentwire.TypeHWSyncReseed, IdempotencyKey: "finding/" + d.ID.String(), Reason: cause,
			Params: agentwire.HWSyncParams{
				MAASURL: c.site.Settings.APIBaseURL, SystemID: d.SystemID, Interval: c.interval(d),
				RunScripts: d.pin,
			},
		})
	case Release:
		return "MAAS is asked to release it; how that ended is not known", nil
	case PowerOff:
		return "MAAS is asked to switch it off; how that ended is not known", nil
	case None:
	}
	return "", err
}

// renewedPin returns the digest that a reseeded node checks from now on,
// because MAAS may hand out another program by now.
func (c *cycle) renewedPin(ctx context.Context, d due) (string, error) {
	if d.Action != Reseed || !c.site.Settings.GivesPin() || !d.node.RenewsPins() {
		return "", nil
	}
	pin, err := c.programPin(ctx)
	if err != nil && !c.site.Settings.PinsSync() && !ours(ctx, err) { // https vouches for it as well
		c.logger.WarnContext(ctx, "a reseeded machine keeps its digest",
			"site_id", c.run.Site, "node_id", d.Node, "error", err)
		return "", nil
	}
	return pin, err
}

// interval is how often the machine of a node should report its hardware.
func (c *cycle) interval(d due) string { return c.policyOf[d.Node].HardwareSyncInterval }

// acted marks the finding and announces the action.
func (c *cycle) acted(ctx context.Context, tx change, d due, note string) error {
	if _, err := Lifecycle.Next(Confirmed, Act); err != nil {
		return err
	}
	at := c.now()
	row, err := tx.ActFinding(ctx, reconciliationdb.ActFindingParams{ID: d.ID, ActedAt: &at, ActionNote: note})
	if err != nil {
		return wrap("note action", err)
	}
	c.run.Report.Written++
	f := findingFrom(row)
	if err := audit.Record(ctx, tx.tx, audit.Entry{
		Action: "reconciliation." + string(f.Action), TargetKind: "node", TargetID: f.Node.String(), Result: audit.Success,
		Reason: f.Message,
		Metadata: map[string]any{
			"finding_id": f.ID, "finding": f.Type, "site_id": f.Site, "observed": f.Observed,
			"note": note,
		},
	}); err != nil {
		return err
	}
	return announce(ctx, tx.tx, eventwire.NodeDriftActed, f)
}

// release asks MAAS to release the machine of a retired node. The next look
// shows how that ended. A failure is recorded for people; nothing repeats it.
func (c *cycle) release(ctx context.Context, d due) error {
	erase := string(c.policyOf[d.Node].MinimumErase)
	note := ""
	if err := c.region.Release(ctx, d.SystemID, erase, "gpuaas: its node is retired"); err != nil {
		c.hitch(ctx, "the release of "+d.SystemID, err)
		note = "MAAS did not release it: " + shorten(err.Error())
	}
	return c.noteAction(ctx, d, note)
}

// powerOff asks MAAS to switch off the machine of a retired node.
func (c *cycle) powerOff(ctx context.Context, d due) error {
	note := ""
	if err := c.region.SwitchOff(ctx, d.SystemID, "gpuaas: its node is retired"); err != nil {
		c.hitch(ctx, "switching off "+d.SystemID, err)
		note = "MAAS did not switch it off: " + shorten(err.Error())
	}
	return c.noteAction(ctx, d, note)
}

// noteAction records how an action of MAAS ended.
func (c *cycle) noteAction(ctx context.Context, d due, note string) error {
	ctx = context.WithoutCancel(ctx)
	return wrap("note outcome of action", c.reads.NoteAction(ctx,
		reconciliationdb.NoteActionParams{ID: d.ID, ActionNote: note}))
}

func shorten(s string) string {
	const most = 300
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// intend records what a dry run would do.
func (c *cycle) intend(g sighting, judged []Judged) {
	for _, j := range judged {
		c.run.Report.Opened++
		reason := j.Verdict.Withheld
		if reason == "" {
			reason = "dry run"
		}
		c.run.Report.intend(Intended{
			Node: g.Node, Hostname: g.Hostname, Finding: j.Rule.Type, Action: j.Rule.Action,
			Withheld: reason,
		})
	}
}

// mostKept limits how many actions and jobs a report names.
const mostKept = 100

func (r *Report) intend(i Intended) {
	if r.IntendedTotal++; len(r.Intended) < mostKept {
		r.Intended = append(r.Intended, i)
	}
}
