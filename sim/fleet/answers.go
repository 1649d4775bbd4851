package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"gpuaas/contract/agentwire"
)

// simulated marks everything about these machines, so that nobody takes it for
// real evidence.
const simulated = "simulated"

// inventory returns the inventory of a simulated installation. It never
// changes.
func (a *Agent) inventory() agentwire.Inventory {
	return agentwire.Inventory{
		Installation: a.installation, TakenAt: time.Now().UTC(), Unseen: []string{},
		Entries: []agentwire.Entry{{Kind: agentwire.EntryAccount, Name: "root", Value: simulated}},
	}
}

// kinds are what a validation looks at.
var kinds = []string{
	"users", "processes", "mounts", "ipc", "tmp", "disks", "files", "gpu_memory", "gpu_processes",
	"terminals",
}

// result returns the outcome of a task: what the options say, otherwise that of
// a machine where everything went well and nothing was found.
func (a *Agent) result(v agentwire.Verified) (json.RawMessage, *agentwire.TaskError) {
	var output any
	if a.opts.Answer != nil {
		answer, failure := a.opts.Answer(a.NodeID, v)
		if failure != nil {
			return nil, failure
		}
		output = answer
	}
	if output == nil {
		output = Answer(v)
	}
	if seen, ok := output.(agentwire.ValidateCleanOutput); ok && seen.Inventory == nil && a.installation != "" {
		now := a.inventory()
		seen.Inventory = &now
		output = seen
	}
	raw, err := json.Marshal(output)
	if err != nil {
		return nil, &agentwire.TaskError{Code: "answer_broken", Message: fmt.Sprintf("encode answer: %v", err)}
	}
	return raw, nil
}

// Answer returns what a simulated agent says about a task by itself: what the
// type declares, unless the answer depends on the parameters or the machine.
func Answer(v agentwire.Verified) any {
	switch p := v.Params.(type) {
	case *agentwire.DrainParams:
		return agentwire.DrainOutput{Draining: !p.Resume, UsersRevoked: []string{}, UsersLeft: []string{}}
	case *agentwire.StorageCleanupParams:
		return cleaned(p)
	case *agentwire.GPUScrubParams:
		return scrubbed()
	case *agentwire.ProvisionUserParams:
		return agentwire.ProvisionUserOutput{
			Username: p.Username, UID: p.UID, GID: p.GID, Home: "/home/" + p.Username, Created: true, LoginChecked: true,
		}
	case *agentwire.OperationRunParams:
		return operated(p)
	case *agentwire.HealthProbeParams:
		return healthy()
	case *agentwire.ValidateCleanParams:
		out := agentwire.ValidateCleanOutput{Clean: true, Findings: []agentwire.CleanFinding{}}
		for _, k := range kinds {
			out.Checked = append(out.Checked, agentwire.CheckedKind{Kind: k, Result: "clean", Detail: simulated})
		}
		return out
	default:
		return json.RawMessage(cmp.Or(v.Spec.Answer, "{}"))
	}
}

// gpus are those of every simulated machine.
func gpus() []agentwire.GPU {
	out := make([]agentwire.GPU, 8)
	for i := range out {
		out[i] = agentwire.GPU{
			Index: i, UUID: fmt.Sprintf("GPU-simulated-%d", i), Name: "simulated NVIDIA H200", MemoryBytes: 150754820096,
		}
	}
	return out
}

// healthy is a machine whose GPUs are fit for work.
func healthy() agentwire.HealthProbeOutput {
	none, no, on := int64(0), false, true
	out := agentwire.HealthProbeOutput{
		Healthy: true, Checks: []agentwire.HealthCheck{{Name: "simulated", Status: "ok", Detail: simulated}},
		Machine: &agentwire.MachineHealth{GPUVendor: "nvidia", MemoryBytes: 2 << 40, Disks: 10, NICs: 10},
	}
	for i, g := range gpus() {
		out.GPUs = append(out.GPUs, agentwire.GPUHealth{
			UUID: g.UUID, Name: g.Name, PCIBusID: fmt.Sprintf("0000:%02x:00.0", 0x18+i), Reachable: true,
			MemoryBytes: g.MemoryBytes, Uncorrected: &none, RowsPending: &no, RowsFailed: &no, Persistence: &on,
		})
	}
	return out
}

func scrubbed() agentwire.GPUScrubOutput {
	out := agentwire.GPUScrubOutput{Outcome: "scrubbed", Vendor: "nvidia"}
	for _, g := range gpus() {
		out.GPUs = append(out.GPUs, agentwire.GPUScrubbed{
			UUID: g.UUID, Method: "overwrite_verify_zero", BytesTotal: g.MemoryBytes, BytesCovered: g.MemoryBytes,
			Reset: "skipped: " + simulated,
		})
	}
	return out
}

func cleaned(p *agentwire.StorageCleanupParams) agentwire.StorageCleanupOutput {
	out := agentwire.StorageCleanupOutput{
		Scope: p.Scope, Unmounted: []string{}, ConfigRemoved: []string{}, Residue: []string{},
		Folders: []agentwire.FolderCleaned{}, Devices: []agentwire.DeviceSanitized{},
	}
	if p.Scope != "weka" {
		for _, f := range append([]string{"/tmp", "/var/tmp", "/scratch"}, p.Scratch...) {
			out.Folders = append(out.Folders, agentwire.FolderCleaned{Path: f, Outcome: agentwire.OutcomeEmptied})
		}
	}
	if p.Disks == agentwire.DisksSanitize {
		disk, now := capabilities().Disks[0], time.Now().UTC()
		out.Devices = append(out.Devices, agentwire.DeviceSanitized{
			Device: "/dev/" + disk.Name, MountPoint: "/share1", Serial: simulated, Model: simulated, Transport: simulated,
			SizeBytes: disk.SizeBytes,
			Method:    "nvme_sanitize_crypto_erase", Level: agentwire.LevelPurge, Outcome: agentwire.OutcomeSanitized,
			BytesCovered:    disk.SizeBytes,
			CanariesPlanted: 64, SamplesRead: 1024, SampleBytes: 1024 * 4096, VerifiedBy: agentwire.VerifiedByAbsence,
			Verified: true,
			Tool:     Build.Version, StartedAt: now, EndedAt: now, FilesystemRestored: true,
		})
	}
	return out
}

// operated is an operation whose steps all went well.
func operated(p *agentwire.OperationRunParams) agentwire.OperationRunOutput {
	out, now := agentwire.OperationRunOutput{}, time.Now().UTC()
	for _, s := range p.Steps[p.Begin:] {
		kind, _ := agentwire.LookupStep(s.Kind)
		o := agentwire.StepOutcome{
			ID: s.ID, Kind: s.Kind, Status: agentwire.StepSucceeded, Changed: kind.Impact.Changes(), Summary: simulated,
			Output: json.RawMessage(cmp.Or(kind.Answer, "{}")), Attempts: 1, StartedAt: now, FinishedAt: now,
		}
		if kind.Abstract {
			o.ResolvedProfile, o.HardwareMatch = simulated, simulated
		}
		if p.Plan {
			o.Status = agentwire.StepPlanned
		}
		out.Steps = append(out.Steps, o)
	}
	return out
}
