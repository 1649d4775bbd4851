package reconciliation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// resolve carries out a decision that needs a look. It relies on what MAAS and
// the agent show now, and refuses what they do not prove. A refused resolution
// has changed nothing, and one that was carried out is never reported as
// refused.
func (c *cycle) resolve(ctx context.Context) error {
	if c.run.Outcome != Informed { // no earlier attempt has carried it out
		err := c.decided(ctx)
		if f, ok := fault.As(err); ok && f.Kind != fault.Unavailable {
			c.run.Outcome, c.run.ErrorCode, c.run.ErrorMessage, c.run.ErrorRemedy = Refused, f.Code, f.Message, f.Remedy
			return nil
		}
		if err != nil || c.run.Outcome != Informed {
			return err
		}
	}
	return c.afterwards(ctx)
}

// decided carries out the decision if MAAS answers.
func (c *cycle) decided(ctx context.Context) error {
	if c.region == nil {
		return nil
	}
	g, seen, err := c.lookAt(ctx)
	if err != nil || !seen {
		return err
	}
	switch c.run.Resolution {
	case AdoptObserved:
		return c.adopt(ctx, g)
	case ReturnToService:
		return c.bringBack(ctx, g)
	case Acknowledge, QuarantineNode, Reimage: // Resolve did these when they were requested
	}
	return nil
}

// afterwards records how the node looks now. If MAAS does not answer, the
// resolution still counts as done; the next cycle looks again.
func (c *cycle) afterwards(ctx context.Context) error {
	defer func() { c.troubles, c.run.Report.Unanswered = nil, 0 }()
	if c.region == nil {
		return nil
	}
	clear(c.done)
	g, seen, err := c.lookAt(ctx)
	if err == nil && seen {
		err = c.write(ctx, g)
	}
	if err != nil && !ours(ctx, err) {
		c.hitch(ctx, "node "+c.run.Node.String()+" after it was settled", err)
		return nil
	}
	return err
}

// lookAt reads the machine of the node directly. It returns false if MAAS did
// not answer.
func (c *cycle) lookAt(ctx context.Context) (sighting, bool, error) {
	b, err := binding.OfNode(ctx, c.db, c.run.Node)
	if fault.KindOf(err) == fault.NotFound {
		return sighting{}, false, notBound(c.run.Node)
	}
	if err != nil {
		return sighting{}, false, err
	}
	c.bound[b.SystemID] = b.Node
	m, exists, err := c.region.Direct(ctx, b.SystemID)
	if err == nil && !exists { // absence is believed only after a second answer
		m, exists, err = c.region.Direct(ctx, b.SystemID)
	}
	if err != nil {
		c.trouble(ctx, "the machine", err)
		return sighting{}, false, nil
	}
	c.heard = true
	var machines []Machine
	var absent []string
	if exists {
		machines = []Machine{m}
	} else {
		absent = []string{b.SystemID}
	}
	before := len(c.troubles)
	list, err := c.sightings(ctx, machines, absent)
	if err != nil {
		return sighting{}, false, err
	}
	if len(list) == 1 {
		return list[0], true, nil
	}
	if len(c.troubles) > before { // unknown: is it there under another id?
		return sighting{}, false, nil
	}
	return sighting{}, false, notBound(b.Node)
}

// carryOut carries out the decision if the node has not changed since the look,
// and marks it as done in the same transaction. Without the mark, a second
// attempt after a crash would see its own effect and refuse.
func (c *cycle) carryOut(ctx context.Context, g sighting,
	do func(ctx context.Context, tx change, g sighting) error,
) error {
	report, err := encode(c.run.Report)
	if err != nil {
		return err
	}
	err = c.inChange(ctx, func(ctx context.Context, tx change) error {
		now, err := lockSeen(ctx, tx, g)
		if err != nil {
			return err
		}
		if err := do(ctx, tx, now); err != nil {
			return err
		}
		return wrap("save run", tx.SaveRun(ctx, reconciliationdb.SaveRunParams{
			ID: c.run.ID, Outcome: string(Informed),
			Report: report,
		}))
	})
	if err == nil {
		c.run.Outcome = Informed
	}
	return err
}

// lockSeen locks a node that was looked at. It refuses if an operation has
// taken the node since, or if the node is bound to another machine now: the
// look proves nothing about that.
func lockSeen(ctx context.Context, tx change, g sighting) (sighting, error) {
	n, err := node.Lock(ctx, tx.tx, g.Node)
	if err != nil {
		return g, err
	}
	g.Status, g.HeldBy, g.Host, g.Tainted = n.Status, n.HeldBy, n.Host, n.Tainted()
	if owned(g.Subject) {
		return g, fault.New(fault.Conflict, "node_owned", "an operation works on node %s",
			g.Hostname).WithRemedy("let that end first: gpuaas node show %s", g.Hostname)
	}
	b, err := binding.OfNode(ctx, tx.tx, g.Node)
	if fault.KindOf(err) == fault.NotFound {
		return g, notBound(g.Node)
	}
	if err != nil {
		return g, err
	}
	if n.Status == node.Deleted || b.Site != g.was.Site || b.SystemID != g.was.SystemID ||
		b.Installation != g.was.Installation {
		return g, fault.New(fault.Conflict, "node_changed", "node %s was changed while its machine was looked at",
			g.Hostname).
			WithRemedy("look at it and repeat: gpuaas drift show %s", g.Hostname)
	}
	return g, nil
}

// bringBack returns a node to service once it is proven healthy: MAAS shows its
// machine as it should be, and its agent answers.
func (c *cycle) bringBack(ctx context.Context, g sighting) error {
	return c.carryOut(ctx, g, func(ctx context.Context, tx change, g sighting) error {
		var against []string
		for _, j := range Judge(g.Subject) {
			if rank(j.Rule.Severity) >= rank(Warning) {
				against = append(against, j.Verdict.Message)
			}
		}
		if g.Silent(provenWithin) {
			against = append(against, "its agent was not heard of within "+provenWithin.String())
		}
		if len(against) > 0 {
			return fault.New(fault.Conflict, "not_proven_healthy", "node %s is not proven healthy: %s", g.Hostname,
				strings.Join(against, "; ")).
				WithRemedy("fix that and repeat, or deploy it again: gpuaas drift resolve %s reimage", g.Hostname)
		}
		if g.Status != node.Quarantined {
			return fault.New(fault.Conflict, "node_not_quarantined", "node %s is %s", g.Hostname,
				g.Status).WithRemedy("there is nothing to return it from")
		}
		_, err := node.Move(ctx, tx.tx, g.Node, node.ReturnToService,
			fmt.Sprintf("%s (asked for by %s; MAAS and its agent show it healthy)", c.run.Reason, c.run.RequestedBy))
		return err
	})
}

// adopt accepts what is observed if that is proven to be the node. It adopts
// everything that can be adopted, or nothing.
func (c *cycle) adopt(ctx context.Context, g sighting) error {
	return c.carryOut(ctx, g, func(ctx context.Context, tx change, g sighting) error {
		adopted := false
		for _, j := range Judge(g.Subject) {
			if !j.Rule.Adopt {
				continue
			}
			if err := c.adoptOne(ctx, tx, g, j); err != nil {
				return err
			}
			adopted = true
		}
		if !adopted {
			return fault.New(fault.Conflict, "nothing_to_adopt", "nothing of what is observed of node %s can be adopted",
				g.Hostname).
				WithRemedy("what can be done: gpuaas drift show %s", g.Hostname)
		}
		return nil
	})
}

func (c *cycle) adoptOne(ctx context.Context, tx change, g sighting, j Judged) error {
	if j.Rule.Type != TypeIPChanged && g.Silent(provenWithin) {
		return fault.New(fault.Conflict, "agent_silent",
			"nothing proves that what runs on the machine is node %s: its agent was not heard of within %s", g.Hostname,
			provenWithin).
			WithRemedy("deploy it again: gpuaas drift resolve %s reimage", g.Hostname)
	}
	switch j.Rule.Type {
	case TypeIPChanged:
		if j.Verdict.Host == "" {
			return fault.New(fault.Conflict, "address_ambiguous", "%s",
				j.Verdict.Withheld).WithRemedy("set it: gpuaas node update %s --host ADDRESS", g.Hostname)
		}
		return node.SetHost(ctx, tx.tx, g.Node, j.Verdict.Host, c.run.Reason)
	case TypeDeployedElsewhere:
		return binding.Rebase(ctx, tx.tx, g.Node, g.Machine.Installation)
	case TypeRecreated:
		if err := provenTwin(ctx, tx, g); err != nil {
			return err
		}
		return binding.Rebind(ctx, tx.tx, g.Node, g.Twin.SystemID, g.Twin.Installation)
	default:
		return fault.New(fault.Internal, "adoption_unknown", "nothing is known about how to adopt %s", j.Rule.Type)
	}
}

// provenTwin refuses a machine that may not be the server of the node: the
// agent proves that the server runs, but not which machine of MAAS it is.
func provenTwin(ctx context.Context, tx change, g sighting) error {
	anew := "gpuaas decommission start " + g.Hostname + " --mode full_decommission"
	if g.Twin.State != Installed {
		return fault.New(fault.Conflict, "twin_not_deployed",
			"MAAS knows the server of node %s as %s now, which is %s: to MAAS nothing runs there", g.Hostname, g.Twin.SystemID,
			g.Twin.Status).
			WithRemedy("take the node out and onboard the server anew: %s", anew)
	}
	reached := slices.ContainsFunc(g.Twin.IPs, func(ip string) bool { return canonical(ip) == canonical(g.Host) })
	if g.TwinBy != byMAC && g.TwinBy != byPower && !reached {
		return fault.New(fault.Conflict, "twin_not_proven",
			"machine %s of MAAS has the name of node %s, and nothing else that proves it to be the same server", g.Twin.SystemID,
			g.Hostname).
			WithRemedy("give the machine its BMC or its address %s in MAAS and repeat, or take the node out and onboard the "+
				"server anew: %s", g.Host, anew)
	}
	others, err := tx.ServerOfAnother(ctx, reconciliationdb.ServerOfAnotherParams{
		MaasSystemID: g.Twin.SystemID,
		NodeID:       g.Node, Macs: g.Twin.MACs, IpmiIp: g.was.IPMIIP,
	})
	if err != nil {
		return wrap("look for other nodes of the machine", err)
	}
	if len(others) > 0 {
		return fault.New(fault.Conflict, "twin_taken", "machine %s of MAAS is node %s of site %s already", g.Twin.SystemID,
			others[0].Hostname, others[0].SiteName).
			WithRemedy("find out which of the two nodes the server is, and take the other out: %s", anew)
	}
	return nil
}
