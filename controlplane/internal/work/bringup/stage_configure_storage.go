package bringup

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/job"
)

// ConfigureStorage names the stage "Set up the boot disk".
const ConfigureStorage = "configure_storage"

var _ = catalog.Declare(job.Stage{
	Name: ConfigureStorage, Title: "Set up the boot disk", Attempts: 1, Resume: ConfigureStorage,
	Looks:   "the disks of the machine",
	Does:    "makes the BOSS disk the boot disk, flat layout",
	Expects: "the layout is on the BOSS disk",
	Again:   "what is already set is not written again",
	Fails: []job.FailureMode{
		MAASAway, OutOfBand, job.FailsWith(HardwareMismatch, "no disk, or more than one, looks like the BOSS disk"),
	},
}, (*Bringup).ConfigureStorage)

// The codes of failures that only this stage has.
var (
	codeStorageUnproven = job.DeclareCode(job.Code{
		Name: "storage_unproven", Class: UpstreamTransient,
		Cause:   "MAAS did not say whether it changed the disk layout.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
	codeBootDiskMissing = job.DeclareCode(job.Code{
		Name: "boss_disk_not_found", Class: HardwareMismatch,
		Cause:   "The machine has no boot disk of the expected kind, or its controller does not show it.",
		Remedy:  "check that the BOSS card is there and has its virtual disk, then rerun",
		Runbook: "onboarding-parked",
	})
	codeBootDiskAmbiguous = job.DeclareCode(job.Code{
		Name: "boss_disk_ambiguous", Class: HardwareMismatch,
		Cause:   "Several disks look like the boot disk, and choosing the wrong one would destroy data.",
		Remedy:  "make one virtual disk of the BOSS card, or remove the others from the machine, then rerun",
		Runbook: "onboarding-parked",
	})
)

// flat is the layout: one partition for the firmware, one for everything else,
// both on the boot disk, and nothing on the others.
const flat = "flat"

var (
	bossLike = regexp.MustCompile(`(?i)boss|boot optimized|m\.2`)
	boss     = regexp.MustCompile(`(?i)boss`)
)

// ConfigureStorage makes the machine boot from its BOSS disk and lays that out.
func (b *Bringup) ConfigureStorage(ctx context.Context, w *Work) (Result, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, skip, err := b.editable(ctx, r, w)
	if err != nil || skip {
		return skipAdvanced(m), err
	}
	disk, err := bootDisk(m.BlockDevices)
	w.Facts.Reinspect = err != nil // or a card that is fitted now would stay unseen
	if err != nil {
		return Result{}, err
	}
	w.Facts.BootDiskID, w.Facts.BootDisk = disk.ID, fmt.Sprintf("%s (%s, %d GB)", disk.Name, disk.Model, disk.Size/1e9)
	out := Result{
		Message: "boots from " + w.Facts.BootDisk + ", flat layout",
		Details: map[string]any{"boss_disk_id": disk.ID, "name": disk.Name, "model": disk.Model, "size_bytes": disk.Size},
	}
	if bootsFlat(m, disk.ID) {
		out.Skipped = true
		return out, nil
	}
	if m.Status == maas.StatusAllocated { // MAAS lays out disks only of machines that are Ready
		if m, err = b.release(ctx, r, w); err != nil {
			return Result{}, err
		}
	}
	return out, b.layOut(ctx, r, w, m, disk)
}

// layOut sets boot disk and layout. MAAS does not move a layout by itself when
// another boot disk is chosen, so both are written.
func (b *Bringup) layOut(ctx context.Context, r *region, w *Work, m maas.Machine, disk maas.BlockDevice) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	if m.BootDisk == nil || m.BootDisk.ID != disk.ID {
		// A lost answer is no reason to stop: what the layout answers shows the boot disk, too.
		if err := r.SetBootDisk(ctx, m.SystemID, disk.ID); err != nil && fault.KindOf(err) != fault.Ambiguous {
			return err
		}
	}
	m, err := r.SetStorageLayout(ctx, w.SystemID, maas.StorageLayout{Name: flat, RootDevice: disk.ID})
	if fault.KindOf(err) == fault.Ambiguous {
		m, err = b.machine(ctx, r, w)
	}
	if err != nil {
		return err
	}
	if bootsFlat(m, disk.ID) {
		return nil
	}
	return codeStorageUnproven.Failed("MAAS does not show the layout of %s as it was set", w.Hostname)
}

// bootDisk finds the BOSS disk: the mirrored M.2 pair that servers keep their
// system on, apart from the data disks.
func bootDisk(disks []maas.BlockDevice) (maas.BlockDevice, error) {
	found := matching(disks, bossLike)
	if len(found) > 1 {
		if named := matching(disks, boss); len(named) == 1 {
			found = named
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return maas.BlockDevice{}, codeBootDiskMissing.Failed("none of the %d disks is a BOSS disk", len(disks)).ForGood().
			About(map[string]any{"disks": shownDisks(disks)})
	default:
		return maas.BlockDevice{}, codeBootDiskAmbiguous.Failed("%d disks could be the BOSS disk", len(found)).ForGood().
			About(map[string]any{"disks": shownDisks(found)})
	}
}

func matching(disks []maas.BlockDevice, form *regexp.Regexp) []maas.BlockDevice {
	return slices.DeleteFunc(slices.Clone(disks), func(d maas.BlockDevice) bool {
		return d.Type == "virtual" || !form.MatchString(d.Model) && !form.MatchString(d.Name) && !form.MatchString(d.IDPath)
	})
}

// mostDisks bounds what is written down of them.
const mostDisks = 32

func shownDisks(disks []maas.BlockDevice) []map[string]any {
	out := []map[string]any{}
	for _, d := range disks[:min(len(disks), mostDisks)] {
		out = append(out, map[string]any{
			"id": d.ID, "name": maas.Shown(d.Name), "model": maas.Shown(d.Model),
			"size_bytes": d.Size,
		})
	}
	return out
}

// bootsFlat reports whether a machine is laid out as wanted: its root on the
// disk that it boots from, and nothing on any other.
func bootsFlat(m maas.Machine, disk int64) bool {
	if m.BootDisk == nil || m.BootDisk.ID != disk {
		return false
	}
	rooted := false
	for _, d := range m.BlockDevices {
		if d.ID != disk && (d.Type == "virtual" || len(d.Partitions) > 0 || d.PartitionTableType != "") {
			return false
		}
		for _, p := range d.Partitions {
			rooted = rooted || d.ID == disk && p.Filesystem != nil && p.Filesystem.MountPoint == "/"
		}
	}
	return rooted
}
