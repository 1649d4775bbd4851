package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

var _ = catalog.Declare(job.Stage{
	Name: job.StageAdopt, Title: "Adopt the observed state", Attempts: 1, Pseudo: true,
	Looks:   "the machine in MAAS and the node",
	Does:    "nothing",
	Expects: "the machine is provably this one, in a state that a stage begins with",
	Again:   "it only reads",
	Fails: []job.FailureMode{
		bringup.MAASAway, job.FailsWith(bringup.StateAmbiguity, "nothing that was observed can be adopted"),
	},
}, hooks.adopt)

// adopt goes on from the machine as MAAS shows it now.
func (h hooks) adopt(ctx context.Context, w *bringup.Work) (job.Result, error) {
	return h.bringup.Adopt(ctx, w)
}
