package reconciliation

import (
	"context"
	"math/rand/v2"
	"slices"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
)

// maxProofs limits how many parked jobs a run examines: each costs reads of its
// machine.
const maxProofs = 10

// under reads the jobs at the site, once per run.
func (c *cycle) under(ctx context.Context) error {
	if c.working != nil {
		return nil
	}
	c.working = []at{}
	for _, family := range c.cfg.Jobs {
		list, err := family.Under(ctx, c.run.Site)
		if err != nil {
			return err
		}
		for _, w := range list {
			c.working = append(c.working, at{Working: w, family: family})
		}
	}
	return nil
}

// at is a job and its family.
type at struct {
	bringup.Working
	family Jobs
}

// leave leaves a node to the job that works on it. If the machine is gone or
// failed, it tells the job: no job brings its machine into such a state.
func (c *cycle) leave(ctx context.Context, g sighting) error {
	s := g.Subject
	s.Status, s.HeldBy = node.Active, ""
	for _, j := range Judge(s) {
		if !slices.Contains([]Type{TypeAbsent, TypeRecreated, TypeHardwareFailed}, j.Rule.Type) {
			continue
		}
		if err := c.under(ctx); err != nil {
			return err
		}
		i := slices.IndexFunc(c.working, func(w at) bool { return w.Node == g.Node || w.SystemID == g.SystemID })
		if i < 0 {
			continue
		}
		w := c.working[i]
		if len(c.run.Report.Left) < mostKept {
			c.run.Report.Left = append(c.run.Report.Left,
				LeftTo{Job: w.String(), Node: g.Node, Hostname: g.Hostname, Seen: j.Verdict.Message})
		}
		if c.run.DryRun {
			continue
		}
		if err := w.family.Notice(ctx, w.Working, j.Verdict.Message,
			map[string]any{"finding": j.Rule.Type, "observed": j.Verdict.Observed}); err != nil {
			return err
		}
	}
	return nil
}

// jobs ends parked jobs whose goal somebody else has reached for them. If one
// fails, the others still get their turn.
func (c *cycle) jobs(ctx context.Context) error {
	if c.run.DryRun || c.settings.DryRun || !c.heard || c.run.Trigger == BySuspicion {
		return nil
	}
	if err := c.under(ctx); err != nil {
		return err
	}
	parked := slices.DeleteFunc(slices.Clone(c.working), func(w at) bool { return !w.Parked })
	rand.Shuffle(len(parked), func(i, j int) { parked[i], parked[j] = parked[j], parked[i] }) //nolint:gosec // a fair turn, not a secret
	for _, w := range parked[:min(len(parked), maxProofs)] {
		reached, err := w.family.Reconcile(ctx, w.Working)
		if err != nil {
			c.hitch(ctx, w.String(), err)
			continue
		}
		if reached {
			c.run.Report.Settled = append(c.run.Report.Settled,
				LeftTo{Job: w.String(), Node: w.Node, Hostname: w.Hostname, Seen: w.Goal})
		}
	}
	return nil
}
