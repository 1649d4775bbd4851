package decommission

import (
	"context"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageStorageAgain names the stage "Clean storage again".
const StageStorageAgain = "cleanup_storage_again"

var _ = catalog.Declare(job.Stage{
	Name: StageStorageAgain, Title: "Clean storage again", Attempts: 2, Awaits: true, Resume: StageStorageAgain,
	Overridable: true,
	Usually:     "seconds; hours when large disks are overwritten",
	Looks:       "whether somebody had root on the installation before, and the task that cleans storage",
	Does:        "empties and sanitizes once more, through the new installation; nothing where nobody had root",
	Expects:     "nothing is left, and every data disk is verified by an installation that nobody had root on",
	Again:       sameTask,
	OnCancel:    letGo,
	Fails: []job.FailureMode{
		agentSilent,
		{
			Class: bringup.SanitizationFailure,
			When:  "something is left, or a disk kept data or has no method that the policy accepts",
		},
	},
}, hooks.cleanupStorageAgain)

// cleanupStorageAgain cleans through the new installation of a reimage. It refuses
// if somebody had root before and the data disks were to be left as they are,
// because nothing would prove what is on them.
func (s *Service) cleanupStorageAgain(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	if n.Root.Stands() && d.StorageCleanup.sparesDisks() {
		return job.Result{}, rootTainted(d, "its data disks were to be left as they are",
			"cancel, then clean them, too: gpuaas node reimage "+d.Hostname+" --storage-cleanup local")
	}
	return s.cleanup(ctx, d, w, StageStorageAgain)
}
