package steps

import (
	"cmp"
	"context"

	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/sanitize"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// disksFolder is where data disks are noted whose file system is off.
const disksFolder = stateFolder + "/disks"

// sanitizeDisks erases the data disks of the machine. A failure of a disk is
// evidence; the caller of the task decides what it means.
func (h storageCleanup) sanitizeDisks(ctx context.Context, t *task.Task, p *agentwire.StorageCleanupParams,
	mounts []inspect.Mount, out *agentwire.StorageCleanupOutput,
) error {
	cleaner := sanitize.Cleaner{
		Finder: sanitize.Finder{
			Host: h.Host, Mounts: mounts, Table: h.machine.FileTable(), Minimum: p.MinimumLevel, Ours: p.BlankAtJoin,
		},
		Tool:    "gpuaas-agent " + h.Updates.Running(),
		State:   disksFolder,
		Foreign: tenantUID,
		Clock:   h.Clock,
		Save:    t.Reporter.Checkpoint,
		Recall:  t.Reporter.Recall,
		Report: func(point, status, message string) {
			t.Reporter.Step("sanitize "+point, status, message)
		},
	}
	devices, err := cleaner.Run(ctx)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.Outcome != agentwire.OutcomeSanitized && d.Outcome != agentwire.OutcomeBlank {
			out.Residue = append(out.Residue, cmp.Or(d.MountPoint, d.Device)+": "+d.Outcome+": "+d.Reason)
		}
	}
	out.Devices = append(out.Devices, devices...)
	return nil
}
