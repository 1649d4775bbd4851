package reconciliation

import (
	"context"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// Resolve carries out what an operator decided about a node and its machine. If
// the decision needs a look at MAAS, Resolve records a run and a workflow
// carries it out.
func (s *Service) Resolve(ctx context.Context, n id.Node, r Resolution, reason string) (Run, error) {
	if reason = strings.TrimSpace(reason); reason == "" {
		return Run{}, reasonMissing()
	}
	of, err := s.cfg.Nodes.Node(ctx, n)
	if err != nil {
		return Run{}, err
	}
	b, err := binding.OfNode(ctx, s.db, n)
	if fault.KindOf(err) == fault.NotFound {
		return Run{}, notBound(n)
	}
	if err != nil {
		return Run{}, err
	}
	if err := s.requireFinding(ctx, of, r); err != nil {
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
		return s.resolveAtOnce(ctx, run, func(ctx context.Context,
			c change,
		) error {
			return s.acknowledgeAll(ctx, c, n, reason)
		})
	case QuarantineNode:
		if _, err := s.cfg.Nodes.Quarantine(ctx, n, reason); err != nil {
			return Run{}, err
		}
		return s.resolveAtOnce(ctx, run, func(ctx context.Context,
			c change,
		) error {
			return s.acknowledgeAll(ctx, c, n, reason)
		})
	case Reimage:
		job, err := s.cfg.Reimage(ctx, n, reason)
		if err != nil {
			return Run{}, err
		}
		run.Report.Left = []LeftTo{{Job: job, Node: n, Seen: reason}}
		return s.resolveAtOnce(ctx, run, func(ctx context.Context,
			c change,
		) error {
			return s.acknowledgeAll(ctx, c, n, reason)
		})
	}
	return Run{}, fault.New(fault.Invalid, "resolution_unknown", "there is no resolution %.40q", string(r)).
		WithRemedy("one of %v", Resolutions)
}

// plainly are the resolutions that take what was found as their ground, and the
// commands that do the same to a node about which nothing was found.
var plainly = map[Resolution]string{
	Acknowledge: "gpuaas drift show %s", QuarantineNode: "gpuaas node quarantine %s",
	Reimage: "gpuaas node reimage %s",
}

// requireFinding refuses to settle what was not found: the record would say that
// drift was the reason.
func (s *Service) requireFinding(ctx context.Context, of node.Node, r Resolution) error {
	command, needed := plainly[r]
	if !needed {
		return nil
	}
	present, err := s.reads.HasFinding(ctx, of.ID)
	if err != nil {
		return wrap("look for findings of node", err)
	}
	if present {
		return nil
	}
	return fault.New(fault.Conflict, "no_open_finding", "nothing is open about node %s that %s could settle",
		of.Hostname, r).
		WithRemedy(command, of.Hostname)
}

// resolveAtOnce does the work in one transaction and records a run that has
// already ended.
func (s *Service) resolveAtOnce(ctx context.Context, run Run, do func(ctx context.Context, c change) error) (
	Run, error,
) {
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
		if err := c.EndRun(ctx, reconciliationdb.EndRunParams{
			ID: run.ID, Outcome: string(Informed),
			Report: report,
		}); err != nil {
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
		Action: "reconciliation.resolve", TargetKind: "node", TargetID: run.Node.String(), Result: audit.Success,
		Reason:   run.Reason,
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
