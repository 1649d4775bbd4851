package reconciliation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Events in the history of a node.
const (
	eventObserved = "machine_observed"
	eventDetected = "drift_detected"
	eventResolved = "drift_resolved"
)

// write stores what a look at a node showed, in one transaction. It locks the
// node and judges it again, because an operation may have taken the node
// meanwhile or an operator may have settled a finding.
func (c *cycle) write(ctx context.Context, g sighting) error {
	tally := Report{}
	var healed bool
	err := c.inChange(ctx, func(ctx context.Context, tx change) error {
		tally, healed = Report{}, false
		n, err := node.Lock(ctx, tx.tx, g.Node)
		if err != nil {
			return err
		}
		g.Status, g.HeldBy, g.Host, g.Tainted = n.Status, n.HeldBy, n.Host, n.Tainted()
		if owned(g.Subject) || n.Status == node.Deleted {
			return nil
		}
		rows, err := tx.PresentOfNodeForUpdate(ctx, g.Node)
		if err != nil {
			return wrap("lock findings of node", err)
		}
		g.present = findingsFrom(rows)
		ch := c.diff(g, Judge(g.Subject))
		left, err := c.apply(ctx, tx, g, ch, &tally)
		if err != nil {
			return err
		}
		healed = len(ch.closed) > 0
		return c.remember(ctx, tx, g, ch, left, &tally)
	})
	if err != nil {
		return err
	}
	c.run.Report.add(tally)
	if healed {
		c.healed = append(c.healed, g.Node)
	}
	return nil
}

func (r *Report) add(t Report) {
	r.Opened += t.Opened
	r.Confirmed += t.Confirmed
	r.Closed += t.Closed
	r.Acted += t.Acted
	r.Written += t.Written
}

// apply opens, advances and closes the findings of a node. It returns those
// that remain.
func (c *cycle) apply(ctx context.Context, tx change, g sighting, ch changes, tally *Report) ([]Finding, error) {
	left := map[id.Finding]Finding{}
	for _, f := range g.present {
		left[f.ID] = f
	}
	for _, j := range ch.opened {
		f, err := c.insert(ctx, tx, g, j, tally)
		if err != nil {
			return nil, err
		}
		left[f.ID], c.seen[f.ID] = f, fresh{Verdict: j.Verdict, at: g.Now}
	}
	for _, a := range ch.advanced {
		f, err := c.advance(ctx, tx, g, a, tally)
		if err != nil {
			return nil, err
		}
		left[f.ID] = f
	}
	for _, f := range ch.closed {
		if err := c.heal(ctx, tx, f, "a later check no longer showed it", tally); err != nil {
			return nil, err
		}
		delete(left, f.ID)
	}
	out := make([]Finding, 0, len(left))
	for _, f := range left {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Finding) int { return a.OpenedAt.Compare(b.OpenedAt) })
	return out, nil
}

func (c *cycle) insert(ctx context.Context, tx change, g sighting, j Judged, tally *Report) (Finding, error) {
	f := Finding{
		Site: c.run.Site, Node: g.Node, Type: j.Rule.Type, Severity: j.Rule.Severity, Subject: g.Node.String(),
		SystemID: g.SystemID, Hostname: g.Hostname,
		Expected: j.Verdict.Expected, Observed: j.Verdict.Observed, Message: j.Verdict.Message, Action: j.Rule.Action,
		Withheld: j.Verdict.Withheld,
	}
	return c.raise(ctx, tx, f, j.Rule.Looks <= 1, j.Verdict.Details, tally)
}

// raise writes a new finding. If one look is enough to prove it, the finding is
// believed at once.
func (c *cycle) raise(ctx context.Context, tx change, f Finding, believed bool, details map[string]any,
	tally *Report,
) (Finding, error) {
	encoded, err := encode(details)
	if err != nil {
		return f, err
	}
	at := c.now()
	p := reconciliationdb.InsertFindingParams{
		ID: id.New[id.Finding](), SiteID: f.Site, NodeID: f.Node, Type: string(f.Type), Severity: string(f.Severity),
		Subject: f.Subject, Status: string(Open),
		MaasSystemID: f.SystemID, Hostname: f.Hostname, Expected: f.Expected, Observed: f.Observed, Message: f.Message,
		Details: encoded,
		Action:  string(f.Action), Withheld: f.Withheld, OpenedAt: at, LastSeenAt: at,
	}
	if believed {
		p.Status, p.ConfirmedAt = string(Confirmed), &at
	}
	row, err := tx.InsertFinding(ctx, p)
	if err != nil {
		return f, wrap("open finding", err)
	}
	tally.Opened++
	tally.Written++
	f = findingFrom(row)
	if believed {
		return f, c.believed(ctx, tx, f, tally)
	}
	return f, nil
}

// believed announces a finding that is proven.
func (c *cycle) believed(ctx context.Context, tx change, f Finding, tally *Report) error {
	tally.Confirmed++
	if f.Severity == Debug {
		return nil
	}
	return announce(ctx, tx.tx, eventwire.NodeDriftDetected, f)
}

func (c *cycle) advance(ctx context.Context, tx change, g sighting, a advance, tally *Report) (Finding, error) {
	details, err := encode(a.Verdict.Details)
	if err != nil {
		return a.Finding, err
	}
	at := c.now()
	p := reconciliationdb.AdvanceFindingParams{
		ID: a.ID, Status: string(a.Status), Looks: a.Looks + 1, LastSeenAt: at, ConfirmedAt: a.ConfirmedAt,
		Expected: a.Verdict.Expected,
		Observed: a.Verdict.Observed, Message: a.Verdict.Message, Details: details, Withheld: a.Verdict.Withheld,
		MaasSystemID: g.SystemID,
	}
	if a.confirm {
		next, err := Lifecycle.Next(a.Status, Confirm)
		if err != nil {
			return a.Finding, err
		}
		p.Status, p.ConfirmedAt = string(next), &at
	}
	row, err := tx.AdvanceFinding(ctx, p)
	if err != nil {
		return a.Finding, wrap("advance finding", err)
	}
	tally.Written++
	f := findingFrom(row)
	if a.confirm {
		return f, c.believed(ctx, tx, f, tally)
	}
	return f, nil
}

// heal closes a finding that no longer holds.
func (c *cycle) heal(ctx context.Context, tx change, f Finding, because string, tally *Report) error {
	return closeFinding(ctx, tx, f, Heal, because, c.now(), tally)
}

func closeFinding(ctx context.Context, tx change, f Finding, event Event, because string, at time.Time,
	tally *Report,
) error {
	if _, err := Lifecycle.Next(f.Status, event); err != nil {
		return err
	}
	if f.Type == TypeReleased {
		if _, err := node.LetBack(ctx, tx.tx, f.Node, node.ForDrift, "", because); err != nil {
			return err
		}
	}
	row, err := tx.CloseFinding(ctx, reconciliationdb.CloseFindingParams{ID: f.ID, ClosedAt: &at, ClosedBecause: because})
	if errors.Is(err, pgx.ErrNoRows) { // somebody settled it meanwhile
		return nil
	}
	if err != nil {
		return wrap("close finding", err)
	}
	tally.Closed++
	tally.Written++
	if f.Status == Open || f.Severity == Debug { // its opening was never announced
		return nil
	}
	return announce(ctx, tx.tx, eventwire.NodeDriftResolved, findingFrom(row))
}

// remember stores at the node how MAAS showed its machine and what differs, and
// writes the history of the node.
func (c *cycle) remember(ctx context.Context, tx change, g sighting, ch changes, left []Finding, tally *Report) error {
	seen := g.asSeen()
	n, err := binding.Looked(ctx, tx.tx, []binding.Seen{seen})
	if err != nil {
		return err
	}
	if tally.Written += int(n); n == 0 { // the machine was read and nothing is new
		if err := binding.Touch(ctx, tx.tx, []id.Node{g.Node}, seen.At); err != nil {
			return err
		}
	}
	observed := node.Observed{
		Provider: "maas", Status: seen.Status, Power: seen.Power, IPs: seen.IPs,
		Findings: typesOf(left), SeenAt: seen.At,
	}
	if g.changed() {
		if err := node.Note(ctx, tx.tx, g.Node, eventObserved, g.told(), observed); err != nil {
			return err
		}
	}
	for _, f := range left {
		if f.ConfirmedAt == nil || g.confirmed(f.ID) {
			continue
		}
		if err := node.Note(ctx, tx.tx, g.Node, eventDetected, fmt.Sprintf("%s: %s", f.Type, f.Message),
			observed); err != nil {
			return err
		}
	}
	for _, f := range ch.closed {
		if f.ConfirmedAt == nil {
			continue
		}
		if err := node.Note(ctx, tx.tx, g.Node, eventResolved, fmt.Sprintf("%s: a later check no longer showed it", f.Type),
			observed); err != nil {
			return err
		}
	}
	if !slices.Equal(typesOf(left), typesOf(g.present)) || g.was.Drifted != (len(left) > 0) {
		return markDrift(ctx, tx, g.Node, seen.Status, left, c.now())
	}
	return nil
}

// confirmed says whether a finding was believed before this look.
func (g sighting) confirmed(f id.Finding) bool {
	return slices.ContainsFunc(g.present, func(p Finding) bool { return p.ID == f && p.ConfirmedAt != nil })
}

// asSeen returns the look in the form that the binding stores. It takes over
// the installation only while the agent proves that the node runs on it.
func (g sighting) asSeen() binding.Seen {
	if g.Absent {
		return binding.Seen{Node: g.Node, Status: absentStatus, IPs: g.was.IPs, At: g.Now}
	}
	seen := binding.Seen{Node: g.Node, Status: g.Machine.Status, Power: g.Machine.Power, IPs: g.Machine.IPs, At: g.Now}
	if g.baseline() {
		seen.Installation = g.Machine.Installation
	}
	return seen
}

// baseline says whether the installation that MAAS shows is the node's own.
func (g sighting) baseline() bool {
	return g.Machine != nil && g.Machine.State == Installed && g.Status == node.Active && !g.Silent(provenWithin) &&
		g.LastContact.After(g.BoundAt)
}

// provenWithin is how long a contact of the agent counts as proof.
const provenWithin = 3 * time.Minute

// told describes the change of the machine for people.
func (g sighting) told() string {
	now := absentStatus
	if g.Machine != nil {
		now = g.Machine.Status
	}
	switch {
	case g.Absent:
		return "MAAS does not have the machine any more"
	case g.was.Status != "" && g.was.Status != now:
		return fmt.Sprintf("MAAS shows the machine as %s; it was %s", now, g.was.Status)
	case g.was.Power != "" && g.was.Power != g.Machine.Power:
		return fmt.Sprintf("MAAS shows the machine as %s and its power as %s; it was %s", now, g.Machine.Power, g.was.Power)
	case !slices.Equal(sorted(g.was.IPs), sorted(g.Machine.IPs)):
		return fmt.Sprintf("MAAS shows the machine with the addresses %v; it had %v", g.Machine.IPs, g.was.IPs)
	}
	return fmt.Sprintf("MAAS shows the machine as %s", now)
}

func typesOf(findings []Finding) []string {
	out := []string{}
	for _, f := range findings {
		if f.Severity != Debug {
			out = append(out, string(f.Type))
		}
	}
	slices.Sort(out)
	return out
}

// markDrift stores at the binding what differs between a node and its machine.
func markDrift(ctx context.Context, tx change, n id.Node, status string, left []Finding, at time.Time) error {
	types := typesOf(left)
	if len(types) == 0 {
		return binding.Drift(ctx, tx.tx, n, nil, at)
	}
	worst := left[0]
	for _, f := range left {
		if rank(f.Severity) > rank(worst.Severity) {
			worst = f
		}
	}
	details, err := json.Marshal(map[string]any{
		"rule": worst.Type, "severity": worst.Severity, "maas_status": status, "expected": worst.Expected,
		"observed": worst.Observed, "findings": types,
	})
	if err != nil {
		return wrap("encode drift", err)
	}
	return binding.Drift(ctx, tx.tx, n, details, at)
}

func rank(s Severity) int { return slices.Index([]Severity{Debug, Info, Warning, Critical}, s) }

// touch records that unchanged machines were read. It skips those for which
// that was recorded recently, so that the number of writes follows the changes.
func (c *cycle) touch(ctx context.Context, quiet []sighting) error {
	if c.run.DryRun {
		return nil
	}
	var nodes []id.Node
	for _, g := range quiet {
		if g.was.SeenAt == nil || c.now().Sub(*g.was.SeenAt) > c.settings.SweepWithin/2 || c.noting {
			nodes = append(nodes, g.Node)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	c.run.Report.Written += len(nodes)
	return c.inChange(ctx, func(ctx context.Context, tx change) error { return binding.Touch(ctx, tx.tx, nodes, c.now()) })
}
