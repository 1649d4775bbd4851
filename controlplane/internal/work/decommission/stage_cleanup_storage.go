package decommission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageStorage names the stage "Clean storage".
const StageStorage = "cleanup_storage"

var _ = catalog.Declare(job.Stage{
	Name: StageStorage, Title: "Clean storage", Attempts: 2, Awaits: true, Resume: StageStorage,
	Overridable: true,
	Usually:     "seconds; hours when large disks are overwritten",
	Looks:       "the task that cleans storage",
	Does:        "empties temporary and scratch folders, sanitizes data disks, unmounts what tenants mounted",
	Expects:     "nothing is left, and every data disk is verified",
	Again:       sameTask,
	OnCancel:    letGo,
	Fails: []job.FailureMode{
		agentSilent,
		{
			Class: bringup.SanitizationFailure,
			When:  "something is left, or a disk kept data or has no method that the policy accepts",
		},
	},
}, hooks.cleanupStorage)

// The failure codes that only this stage has.
var (
	codeDevice = job.DeclareCode(job.Code{
		Name: "device_not_sanitized", Class: bringup.SanitizationFailure,
		Cause: "The disk did not do what it reported, is failing, or supports no method that the policy accepts.",
		Remedy: "replace the disk, or reimage with a secure erase; going on without it needs an override " +
			"that records the residual risk",
		Runbook: "decommission-parked",
	})
	codeStorage = job.DeclareCode(job.Code{
		Name: "storage_residue", Class: bringup.SanitizationFailure,
		Cause:   "Files are held open, immutable, or lie on a file system that cannot be written.",
		Remedy:  "look on the machine at what is named, then retry",
		Runbook: "decommission-parked",
	})
)

// cleanupStorage cleans through the installation that the node has when the
// operation begins.
func (s *Service) cleanupStorage(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	return s.cleanup(ctx, d, w, StageStorage)
}

// cleanup removes what tenants left on disks and mounts.
func (s *Service) cleanup(ctx context.Context, d Decommission, w *bringup.Work, stage string) (job.Result, error) {
	if d.StorageCleanup == CleanupNone {
		return skipped("no storage cleanup was asked for"), nil
	}
	params := agentwire.StorageCleanupParams{Scope: string(d.StorageCleanup)}
	if d.StorageCleanup != CleanupWeka {
		params.Disks, params.MinimumLevel = agentwire.DisksSanitize, string(w.Profile.Policy.MinimumSanitization)
		prior, err := s.prior(ctx, d.Node)
		if err != nil {
			return job.Result{}, err
		}
		params.BlankAtJoin = blankAtJoin(prior)
	}
	t, await, err := s.ask(ctx, d, w, stage, errand{kind: agentwire.TypeStorageCleanup, params: params})
	if err != nil || await != nil {
		return job.Result{Await: await}, err
	}
	out, err := output[agentwire.StorageCleanupOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	result := job.Result{
		Message: fmt.Sprintf("%d entries removed, %d bytes freed, %d disks sanitized, %d file systems unmounted",
			out.EntriesRemoved, out.BytesFreed, len(out.Devices), len(out.Unmounted)),
		Evidence: witnessed(EvidenceStorage, t),
	}
	left, err := s.leftAlone(ctx, d, w, &out)
	if err != nil {
		return job.Result{}, err
	}
	if len(left) > 0 {
		result.Message += "; left alone, as data_disks of the profile says: " + brief(left)
	}
	for _, device := range out.Devices {
		if slices.Contains(left, device.Device) {
			continue
		}
		doubt := seenOf(t).doubtOf(device)
		if doubt == "" && device.Outcome == agentwire.OutcomeSanitized &&
			w.Profile.Policy.MinimumSanitization == site.LevelPurge && device.Level != agentwire.LevelPurge {
			doubt = fmt.Sprintf("the policy asks for %s, and it was brought to %s", agentwire.LevelPurge, device.Level)
		}
		if doubt != "" {
			return result, codeDevice.Failed("%s of %s (%s) is not proven clean: %s",
				device.Device, d.Hostname, or(device.MountPoint, "not mounted as a data disk"), doubt).
				About(map[string]any{"device": device, "task_id": t.ID})
		}
	}
	if len(out.Residue) > 0 {
		return result, codeStorage.Failed("storage of %s could not be cleaned: %s", d.Hostname, brief(out.Residue)).
			About(map[string]any{"residue": out.Residue, "task_id": t.ID})
	}
	return result, nil
}

// leftAlone returns the disks that the profile leaves alone: nothing mounts
// them, so only root can have written to them, and nobody had root. Findings
// about them are not residue; the certificate names them as untouched.
func (s *Service) leftAlone(ctx context.Context, d Decommission, w *bringup.Work, out *agentwire.StorageCleanupOutput) (
	[]string, error,
) {
	if w.Profile.Policy.DataDisks != site.DisksLeave {
		return nil, nil
	}
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil || n.Root.Stands() {
		return nil, err
	}
	var left []string
	for _, v := range out.Devices {
		if v.MountPoint == "" && v.Device != "" && v.Outcome == agentwire.OutcomeRefused {
			left = append(left, v.Device)
		}
	}
	out.Residue = slices.DeleteFunc(out.Residue, func(r string) bool {
		device, _, _ := strings.Cut(r, ": ")
		return slices.Contains(left, device)
	})
	return left, nil
}

// doubtOf returns why a device does not count as sanitized whatever its agent
// says, or "" if it does.
func doubtOf(v agentwire.DeviceSanitized) string {
	switch {
	case v.Outcome != agentwire.OutcomeSanitized:
		return or(v.Reason, v.Outcome)
	case v.CanariesFound > 0 || v.SamplesUnclean > 0:
		return fmt.Sprintf("%d canaries and %d samples came back", v.CanariesFound, v.SamplesUnclean)
	case !v.Verified || v.SampleBytes <= 0:
		return or(v.Reason, "nothing that was read back speaks for it")
	case v.BytesCovered <= 0 || v.BytesCovered > v.SizeBytes:
		return fmt.Sprintf("%d of its %d bytes are said to be covered", v.BytesCovered, v.SizeBytes)
	case v.Level != agentwire.LevelClear && v.Level != agentwire.LevelPurge:
		return fmt.Sprintf("%q is no level", v.Level)
	}
	return ""
}
