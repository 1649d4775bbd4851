package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

var _ = catalog.Declare(job.Stage{
	Name: job.StageCompensate, Title: "Undo", Attempts: 3, Limit: job.Limit(site.StageRelease), Pseudo: true,
	Usually: "1 to 5 min; hours when disks are erased",
	Looks:   "how far the job has come",
	Does:    "undoes what can be undone",
	Expects: "nothing of this job is left",
	Again:   "what is undone already is left alone",
	Fails:   []job.FailureMode{bringup.MAASAway, bringup.OutOfBand},
}, hooks.compensate)

// compensate lets go of the machine and the node of the onboarding.
func (h hooks) compensate(ctx context.Context, w *bringup.Work) (job.Result, error) {
	err := h.bringup.Compensate(ctx, w)
	return job.Result{Left: w.Facts.Left}, err
}
