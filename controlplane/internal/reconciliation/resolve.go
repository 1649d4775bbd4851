package reconciliation

import (
	"context"
	"fmt"
	"strings"

	"gpuaas/controlplane/internal/audit"
	"gpuaas/controlplane/internal/auth"
	"gpuaas/controlplane/internal/binding"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/node"
	"gpuaas/controlplane/internal/reconciliation/internal/reconciliationdb"
)

// Resolve does what an operator decided about a node and its machine. What needs
// a look at MAAS is recorded as a run, which a workflow carries out.
func (s *Service) Resolve(ctx context.Context, n id.Node, r Resolution, reason string) (Run, error) {
	if reason = strings.TrimSpace(reason); reason == "" {
		return Run{}, reasonMissing()
	}
	if _, err := s.cfg.Nodes.Node(ctx, n); err != nil {
		return Run{}, err
	}
	b, err := binding.OfNode(ctx, s.db, n)
	if fault.KindOf(err) == fault.NotFound {
		return Run{}, notBound(n)
	}
	if err != nil {
		return Run{}, err
	}
	run := Run{Site: b.Site, Trigger: ByResolution, Node: n, Resolution: r, Reason: reason}
	switch r {
	case AdoptObserved, ReturnToService:
		err = s.inChange(ctx, func(ctx context.Context, c change) error {
			if run, err = s.request(ctx, c, run); err != nil {
				return err
			}
			return recordResolve(ctx, c, run)
		})
		return run, err
	case Acknowledge:
		return s.resolveAtOnce(ctx, run, func(ctx context.Context, c change) error { return s.acknowledgeAll(ctx, c, n, reason) })
	case QuarantineNode:
		if _, err := s.cfg.Nodes.Quarantine(ctx, n, reason); err != nil {
			return Run{}, err
		}
		return s.resolveAtOnce(ctx, run, func(ctx context.Context, c change) error { return s.acknowledgeAll(ctx, c, n, reason) })
	case Reimage:
		job, err := s.cfg.Reimage(ctx, n, reason)
		if err != nil {
			return Run{}, err
		}
		run.Report.Left = []LeftTo{{Job: job, Node: n, Seen: reason}}
		return s.resolveAtOnce(ctx, run, func(ctx context.Context, c change) error { return s.acknowledgeAll(ctx, c, n, reason) })
	}
	return Run{}, fault.New(fault.Invalid, "resolution_unknown", "there is no resolution %.40q", string(r)).
		WithRemedy("one of %v", Resolutions)
}

// resolveAtOnce writes a run that has ended already.
func (s *Service) resolveAtOnce(ctx context.Context, run Run, do func(ctx context.Context, c change) error) (Run, error) {
	left := run.Report.Left
	if left == nil {
		left = []LeftTo{}
	}
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		if err := do(ctx, c); err != nil {
			return err
		}
		var err error
		if run, err = s.insertRun(ctx, c, run); err != nil {
			return err
		}
		report, err := encode(Report{Intended: []Intended{}, Left: left, Settled: []LeftTo{}})
		if err != nil {
			return err
		}
		if err := c.EndRun(ctx, reconciliationdb.EndRunParams{ID: run.ID, Outcome: string(Informed), Report: report}); err != nil {
			return wrap("end run", err)
		}
		return recordResolve(ctx, c, run)
	})
	if err != nil {
		return Run{}, err
	}
	return s.RunOf(ctx, run.ID)
}

func recordResolve(ctx context.Context, c change, run Run) error {
	return audit.Record(ctx, c.tx, audit.Entry{
		Action: "reconciliation.resolve", TargetKind: "node", TargetID: run.Node.String(), Result: audit.Success, Reason: run.Reason,
		Metadata: map[string]any{"resolution": run.Resolution, "run_id": run.ID, "site_id": run.Site},
	})
}

func (s *Service) acknowledgeAll(ctx context.Context, c change, n id.Node, reason string) error {
	rows, err := c.PresentOfNodeForUpdate(ctx, n)
	if err != nil {
		return wrap("lock findings of node", err)
	}
	for _, f := range findingsFrom(rows) {
		if _, err := s.acknowledge(ctx, c, f, reason); err != nil {
			return err
		}
	}
	return nil
}

// resolve carries a decision out that needs a look: it goes by what MAAS and the
// agent show now, and refuses what they do not prove.
func (c *cycle) resolve(ctx context.Context) error {
	if c.region == nil {
		return nil
	}
	b, err := binding.OfNode(ctx, c.db, c.run.Node)
	if err != nil {
		return err
	}
	g, err := c.lookAt(ctx, b)
	if err != nil {
		c.trouble(ctx, "the machine", err)
		return nil
	}
	ctx = auth.With(ctx, &auth.Principal{Kind: auth.KindSystem, ID: "system:" + principal, Name: principal})
	switch c.run.Resolution {
	case AdoptObserved:
		err = c.adopt(ctx, g)
	case ReturnToService:
		err = c.bringBack(ctx, g)
	case Acknowledge, QuarantineNode, Reimage: // are done when they are asked for
	}
	if f, ok := fault.As(err); ok && f.Kind != fault.Unavailable {
		c.run.Outcome, c.run.ErrorCode, c.run.ErrorMessage, c.run.ErrorRemedy = Refused, f.Code, f.Message, f.Remedy
		return nil
	}
	return err
}

// lookAt reads the machine of one node directly.
func (c *cycle) lookAt(ctx context.Context, b binding.Binding) (sighting, error) {
	m, exists, err := c.region.Direct(ctx, b.SystemID)
	if err == nil && !exists { // believed when it is said twice
		m, exists, err = c.region.Direct(ctx, b.SystemID)
	}
	if err != nil {
		return sighting{}, err
	}
	c.heard = true
	var machines []Machine
	var absent []string
	if exists {
		machines = []Machine{m}
	} else {
		absent = []string{b.SystemID}
	}
	list, err := c.sightings(ctx, machines, absent)
	if err != nil {
		return sighting{}, err
	}
	if len(list) != 1 {
		return sighting{}, notBound(b.Node)
	}
	return list[0], nil
}

// bringBack returns a node to service that is proven healthy: MAAS shows its
// machine as it should be, and its agent answers.
func (c *cycle) bringBack(ctx context.Context, g sighting) error {
	if owned(g.Subject) {
		return fault.New(fault.Conflict, "node_owned", "an operation works on node %s", g.Hostname).WithRemedy("let that end first: gpuaas node show %s", g.Hostname)
	}
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
		return fault.New(fault.Conflict, "not_proven_healthy", "node %s is not proven healthy: %s", g.Hostname, strings.Join(against, "; ")).
			WithRemedy("put that right and repeat, or deploy it anew: gpuaas drift resolve %s reimage --reason …", g.Hostname)
	}
	if g.Status != node.Quarantined {
		return fault.New(fault.Conflict, "node_not_quarantined", "node %s is %s", g.Hostname, g.Status).WithRemedy("there is nothing to return it from")
	}
	if err := c.inChange(ctx, func(ctx context.Context, tx change) error {
		_, err := node.Move(ctx, tx.tx, g.Node, node.ReturnToService, fmt.Sprintf("%s (asked for by %s; MAAS and its agent show it healthy)", c.run.Reason, c.run.RequestedBy))
		return err
	}); err != nil {
		return err
	}
	return c.write(ctx, g)
}

// adopt accepts what is observed, where what runs there proves to be the node.
func (c *cycle) adopt(ctx context.Context, g sighting) error {
	if owned(g.Subject) {
		return fault.New(fault.Conflict, "node_owned", "an operation works on node %s", g.Hostname).WithRemedy("let that end first: gpuaas node show %s", g.Hostname)
	}
	adopted := false
	for _, j := range Judge(g.Subject) {
		if !j.Rule.Adopt {
			continue
		}
		if err := c.adoptOne(ctx, g, j); err != nil {
			return err
		}
		adopted = true
	}
	if !adopted {
		return fault.New(fault.Conflict, "nothing_to_adopt", "nothing of what is observed of node %s can be adopted", g.Hostname).
			WithRemedy("what can be done: gpuaas drift show %s", g.Hostname)
	}
	b, err := binding.OfNode(ctx, c.db, g.Node)
	if err != nil {
		return err
	}
	c.bound[b.SystemID] = g.Node
	delete(c.done, b.SystemID)
	again, err := c.lookAt(ctx, b)
	if err != nil {
		c.trouble(ctx, "the machine", err)
		return nil
	}
	return c.write(ctx, again)
}

func (c *cycle) adoptOne(ctx context.Context, g sighting, j Judged) error {
	if j.Rule.Type != TypeIPChanged && g.Silent(provenWithin) {
		return fault.New(fault.Conflict, "agent_silent", "nothing proves that what runs on the machine is node %s: its agent was not heard of within %s", g.Hostname, provenWithin).
			WithRemedy("deploy it anew: gpuaas drift resolve %s reimage --reason …", g.Hostname)
	}
	return c.inChange(ctx, func(ctx context.Context, tx change) error {
		if _, err := node.Lock(ctx, tx.tx, g.Node); err != nil {
			return err
		}
		switch j.Rule.Type {
		case TypeIPChanged:
			if j.Verdict.Host == "" {
				return fault.New(fault.Conflict, "address_ambiguous", "%s", j.Verdict.Withheld).WithRemedy("set it: gpuaas node update %s --host ADDRESS", g.Hostname)
			}
			return node.SetHost(ctx, tx.tx, g.Node, j.Verdict.Host, c.run.Reason)
		case TypeDeployedElsewhere:
			return binding.Rebase(ctx, tx.tx, g.Node, g.Machine.Installation)
		case TypeRecreated:
			if g.Twin.State != Installed {
				return fault.New(fault.Conflict, "twin_not_deployed", "MAAS knows the server of node %s as %s now, which is %s: to MAAS nothing runs there", g.Hostname, g.Twin.SystemID, g.Twin.Status).
					WithRemedy("take the node out and onboard the server anew: gpuaas decommission start %s --mode full_decommission --reason …", g.Hostname)
			}
			return binding.Rebind(ctx, tx.tx, g.Node, g.Twin.SystemID, g.Twin.Installation)
		default:
			return fault.New(fault.Internal, "adoption_unknown", "nothing is known about how to adopt %s", j.Rule.Type)
		}
	})
}
