package decommission

import (
	"context"
	"errors"
	"fmt"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

var _ = catalog.Declare(job.Stage{
	Name: job.StageAdopt, Title: "Adopt the observed state", Attempts: 3, Pseudo: true,
	Looks:   "the node and its machine as they are now",
	Does:    "nothing",
	Expects: "a stage that it can go on with",
	Again:   onlyReads,
	Fails:   []job.FailureMode{maasAway, outOfBand},
}, hooks.adopt)

// adopt accepts the node and its machine as they are now, and goes on from
// there.
func (s *Service) adopt(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	table := tables[d.Mode]
	on := func(next, format string, args ...any) (job.Result, error) {
		return job.Result{Next: next, Message: fmt.Sprintf(format, args...)}, nil
	}
	number := func(stage string) int { n, _ := table.Number(stage); return n }
	at := number(d.Stage)
	switch {
	case n.Status == node.Deleted && number(StageSecrets) > 0:
		return on(StageSecrets, "the node is out of the inventory already")
	case n.Status == node.Retired && number(StageRemove) > 0 && at <= number(StageRetire):
		if at > number(stagePowerOff) || !d.managed() {
			return on(StageRemove, "the node is retired already")
		}
	}
	if !d.managed() || at < number(stageRelease) || number(stageRelease) == 0 {
		return on(d.Stage, "the node is %s; the stage is taken up as things are", n.Status)
	}
	if _, ofMachine := s.bringup.Stages()[d.Stage]; ofMachine {
		result, err := s.bringup.Adopt(ctx, w)
		var f *job.Failure
		if d.Stage == stagePowerOff && d.givenBack() && errors.As(err, &f) && f.Code == bringup.CodeMachineGone {
			return adoptGone(d, table), nil
		}
		return result, err
	}
	return on(d.Stage, "the node is %s; the stage is taken up as things are", n.Status)
}

// adoptGone goes on without a machine that somebody removed from MAAS after its
// release. MAAS cannot say whether the machine is off, so that becomes a
// follow-up.
func adoptGone(d Decommission, table job.Table) job.Result {
	why := "somebody removed its machine from MAAS, which can neither switch it off nor say whether it is"
	return job.Result{
		Next: table.Following(stagePowerOff), Message: d.Hostname + " is not known to be off: " + why,
		Evidence: []job.Evidence{followUp("switch off "+d.Hostname, why, "")},
	}
}
