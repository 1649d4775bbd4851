package reconciliation

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// sighting is a node with its machine, and what was known of both before.
type sighting struct {
	Subject
	was     binding.Binding
	present []Finding
}

// judge applies all rules to the machines that MAAS showed and to those that
// MAAS said it does not have. It compares the verdicts with the earlier
// findings.
func (c *cycle) judge(ctx context.Context, machines []Machine, absent []string) error {
	sightings, err := c.sightings(ctx, machines, absent)
	if err != nil {
		return err
	}
	var quiet []sighting
	for _, g := range sightings {
		c.run.Report.Looked++
		if owned(g.Subject) {
			if err := c.leave(ctx, g); err != nil && ours(ctx, err) {
				return err
			} else if err != nil {
				c.hitch(ctx, "the job of "+g.Hostname, err)
			}
			quiet = append(quiet, g)
			continue
		}
		judged := Judge(g.Subject)
		if len(judged) > 0 {
			if g.Tenant, err = c.cfg.Tenant(ctx, g.Node); err != nil {
				return err
			}
			judged = Judge(g.Subject)
		}
		if c.run.DryRun {
			c.intend(g, judged)
			continue
		}
		if c.diff(g, judged).none() && !g.changed() {
			quiet = append(quiet, g)
			continue
		}
		if err := c.write(ctx, g); err != nil && ours(ctx, err) {
			return err
		} else if err != nil { // what MAAS says of it cannot be stored
			c.hitch(ctx, "node "+g.Hostname, err)
			if err := c.tried(ctx, []string{g.SystemID}); err != nil {
				return err
			}
		}
	}
	return c.touch(ctx, quiet)
}

// owned says whether an operation works on the node. Then only that operation
// knows what state the machine should have.
func owned(s Subject) bool {
	return s.Status.Is(node.Joining) || s.Status.Is(node.Owned) || s.HeldBy != ""
}

// sightings joins nodes with their machines. It leaves out machines that are no
// nodes and those that this run has looked at.
func (c *cycle) sightings(ctx context.Context, machines []Machine, absent []string) ([]sighting, error) {
	shown := map[string]*Machine{}
	var ids []string
	for i := range machines {
		m := &machines[i]
		if _, known := c.bound[m.SystemID]; known && !c.done[m.SystemID] {
			shown[m.SystemID] = m
			ids = append(ids, m.SystemID)
		}
	}
	gone := map[string]bool{}
	for _, m := range absent {
		if _, known := c.bound[m]; known && !c.done[m] {
			gone[m] = true
			ids = append(ids, m)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	for _, m := range ids {
		c.done[m] = true
	}
	known, err := c.known(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := known[:0]
	for _, g := range known {
		g.Machine, g.Absent = shown[g.SystemID], gone[g.SystemID]
		if g.Absent {
			if twin, by, err := c.twin(ctx, g.was); err != nil {
				// Whether it is absent or recreated decides the advice, so the
				// machine counts as not looked at until that is known.
				c.hitch(ctx, "machine "+g.SystemID+" under another id", err)
				delete(c.done, g.SystemID)
				if err := errors.Join(c.suspectLater(ctx, []string{g.SystemID}), c.tried(ctx, []string{g.SystemID})); err != nil {
					return nil, err
				}
				continue
			} else if twin != nil {
				g.Twin, g.TwinBy = twin, by
			}
		}
		if g.Machine != nil && g.Machine.LastSync != nil {
			age := c.region.Now().Sub(*g.Machine.LastSync)
			g.SyncAge = &age
		}
		out = append(out, g)
	}
	return out, nil
}

// twin looks for the same server under another id. A machine that is bound to
// another node is not a twin.
func (c *cycle) twin(ctx context.Context, b binding.Binding) (*Machine, string, error) {
	var macs []string
	if b.PXEMAC != "" {
		macs = []string{b.PXEMAC}
	}
	n, err := node.Get(ctx, c.db, b.Node)
	if err != nil {
		return nil, "", err
	}
	m, by, err := c.region.Find(ctx, n.Hostname, macs, b.IPMIIP)
	if err != nil || m == nil || m.SystemID == b.SystemID {
		return nil, "", err
	}
	if _, taken := c.bound[m.SystemID]; taken || c.neighbours[m.SystemID] {
		return nil, "", nil
	}
	return m, by, nil
}

// known reads what the inventory knows about machines.
func (c *cycle) known(ctx context.Context, ids []string) ([]sighting, error) {
	bindings, err := binding.ByMachines(ctx, c.db, c.run.Site, ids)
	if err != nil {
		return nil, err
	}
	nodes := make([]id.Node, len(bindings))
	for i, b := range bindings {
		nodes[i] = b.Node
	}
	list, err := node.Many(ctx, c.db, nodes)
	if err != nil {
		return nil, err
	}
	byID, names := map[id.Node]node.Node{}, make([]string, 0, len(list))
	for _, n := range list {
		byID[n.ID] = n
		names = append(names, strings.ToLower(n.Hostname))
	}
	roce, err := c.cfg.Sites.AssignmentsOf(ctx, c.run.Site, names)
	if err != nil {
		return nil, err
	}
	rows, err := c.reads.PresentOfNodes(ctx,
		reconciliationdb.PresentOfNodesParams{SiteID: c.run.Site, Nodes: texts(nodes)})
	if err != nil {
		return nil, wrap("list findings of nodes", err)
	}
	present := map[id.Node][]Finding{}
	for _, r := range rows {
		present[r.NodeID] = append(present[r.NodeID], findingFrom(r))
	}
	unproven, err := agenttask.UnprovenLogins(ctx, c.db, nodes)
	if err != nil {
		return nil, err
	}
	if c.shared == nil {
		if c.shared, err = binding.Shared(ctx, c.db, c.run.Site); err != nil {
			return nil, err
		}
	}
	now := c.now()
	out := make([]sighting, 0, len(bindings))
	for _, b := range bindings {
		n, ok := byID[b.Node]
		if !ok {
			continue
		}
		policy, ok := c.policies[b.Profile]
		if !ok {
			policy = site.DefaultPolicy()
		}
		c.policyOf[n.ID] = policy
		out = append(out, sighting{was: b, present: present[b.Node], Subject: Subject{
			Site: c.site, Policy: policy, Node: n.ID, Hostname: n.Hostname, Status: n.Status, Host: n.Host, HeldBy: n.HeldBy,
			Tainted:     n.Tainted(),
			LastContact: n.LastContactAt, AgentVersion: n.ReportedAgentVersion, HardwareSaid: n.HardwareSaid,
			LoginTried: unproven[n.ID], SystemID: b.SystemID, Installation: b.Installation, BoundAt: b.BoundAt,
			RoCE: roce[strings.ToLower(n.Hostname)], Others: others(c.shared[b.SystemID], b.Node), Now: now,
		}})
	}
	return out, nil
}

func others(nodes []id.Node, self id.Node) []id.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n id.Node) bool { return n == self })
}

// changed says whether MAAS shows the machine differently than before.
func (g sighting) changed() bool {
	if g.Absent {
		return g.was.Status != absentStatus
	}
	m := g.Machine
	return m.Status != g.was.Status || m.Power != g.was.Power || !slices.Equal(sorted(m.IPs), sorted(g.was.IPs)) ||
		g.was.Installation == 0 && m.Installation != 0 && g.baseline()
}

func sorted(s []string) []string {
	out := slices.Clone(s)
	slices.Sort(out)
	return slices.Compact(out)
}

// absentStatus is the stored status of a machine that MAAS does not have.
const absentStatus = "absent"

// changes is what a look changes in the findings about a node.
type changes struct {
	opened   []Judged
	advanced []advance
	closed   []Finding
}

type advance struct {
	Finding
	Judged
	confirm bool
}

func (c changes) none() bool { return len(c.opened)+len(c.advanced)+len(c.closed) == 0 }

// diff compares the verdicts of the rules with the earlier findings. A believed
// finding that looks the same is not touched.
func (c *cycle) diff(g sighting, judged []Judged) changes {
	var out changes
	held := map[Type]bool{}
	for _, j := range judged {
		held[j.Rule.Type] = true
		i := slices.IndexFunc(g.present, func(f Finding) bool { return f.Type == j.Rule.Type })
		if i < 0 {
			out.opened = append(out.opened, j)
			continue
		}
		f := g.present[i]
		again := f.Status == Open && c.now().Sub(f.OpenedAt) >= c.settings.LookAgainAfter/2
		confirm := again && int(f.Looks)+1 >= j.Rule.Looks
		if again || f.Observed != j.Verdict.Observed || f.Expected != j.Verdict.Expected || f.Message != j.Verdict.Message {
			out.advanced = append(out.advanced, advance{Finding: f, Judged: j, confirm: confirm})
		}
		c.seen[f.ID] = fresh{Verdict: j.Verdict, at: g.Now}
	}
	for _, f := range g.present {
		rule, known := RuleOf(f.Type)
		if !held[f.Type] && known && rule.When != nil {
			out.closed = append(out.closed, f)
		}
	}
	return out
}
