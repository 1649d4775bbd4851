package decommission

import (
	"context"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageScrubAgain names the stage "Scrub GPU memory again".
const StageScrubAgain = "scrub_gpu_again"

var _ = catalog.Declare(job.Stage{
	Name: StageScrubAgain, Title: "Scrub GPU memory again", Attempts: 2, Awaits: true, Resume: StageScrubAgain,
	Overridable: true,
	Usually:     "under a minute",
	Looks:       "whether somebody had root on the installation before, and the task that scrubs",
	Does: "overwrites and verifies the memory of all GPUs once more, through the new installation; nothing " +
		"where nobody had root",
	Expects:  "no word of it is left, as an installation says that nobody had root on",
	Again:    sameTask,
	OnCancel: letGo,
	Fails: []job.FailureMode{
		agentSilent, {
			Class: bringup.SanitizationFailure,
			When:  "the scrub is incomplete, found data after it, or saw no GPU where the SKU has some",
		}, {Class: bringup.BMCPowerFailure, When: "the machine is to be switched off and on, and its BMC does not do it"},
	},
}, hooks.scrubGPUAgain)

// scrubGPUAgain scrubs through the new installation of a reimage.
func (s *Service) scrubGPUAgain(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	return s.scrub(ctx, d, w, StageScrubAgain)
}
