package decommission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Codes that what follows goes by.
const (
	codeResidue     = "validation_residue"
	codeRootResidue = "validation_root_residue"
	codeStorage     = "storage_residue"
	codeDevice      = "device_not_sanitized"
	codeGPU         = "gpu_scrub_incomplete"
	codeUnfounded   = "validation_unfounded"
	sanitizeDisks   = agentwire.DisksSanitize
	outcomeScrubbed = "scrubbed"
	outcomeNoGPU    = "not_applicable"
)

// whySpared is why a stage is left out: see spares.
var whySpared = map[Mode]string{
	Reactivate: "the node is proven clean: there is nothing to clean",
	Reimage:    "this operation cleaned it through the installation before, which nobody had root on",
}

// spared says whether a stage is left out. A reimage does not clean again what it
// cleaned through the installation before. Where that installation was gone
// already, somebody passed the cleaning over, or somebody got access since, it did
// not clean what there is now, and the new one has to.
func (h hooks) spared(ctx context.Context, d Decommission, stage string, n node.Node) (bool, error) {
	earlier, again := onceMore[stage]
	if spares := d.Mode.spares(stage, n); !spares || !again {
		return spares, nil
	}
	evidence, err := h.EvidenceOf(ctx, d.ID)
	if err != nil {
		return false, err
	}
	var last Evidence
	for _, e := range evidence {
		if e.Stage == earlier {
			last = e
		}
	}
	if last.Kind != EvidenceStorage && last.Kind != EvidenceGPU {
		return false, nil
	}
	var s seen
	if err := json.Unmarshal(last.Value, &s); err != nil {
		return false, unreadable(last, err)
	}
	return n.TaintedAt == nil || s.AskedAt.After(*n.TaintedAt), nil
}

// cleanup removes what tenants left on disks and mounts.
func (s *Service) cleanup(ctx context.Context, d Decommission, w *bringup.Work, stage string) (job.Result, error) {
	if d.StorageCleanup == CleanupNone {
		return skipped("no storage cleanup was asked for"), nil
	}
	params := agentwire.StorageCleanupParams{Scope: string(d.StorageCleanup)}
	if d.StorageCleanup != CleanupWeka {
		params.Disks, params.MinimumLevel = sanitizeDisks, string(w.Profile.Policy.MinimumSanitization)
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
		Message:  fmt.Sprintf("%d entries removed, %d bytes freed, %d disks sanitized, %d file systems unmounted", out.EntriesRemoved, out.BytesFreed, len(out.Devices), len(out.Unmounted)),
		Evidence: witnessed(EvidenceStorage, t),
	}
	for _, device := range out.Devices {
		doubt := seenOf(t).doubtOf(device)
		if doubt == "" && device.Outcome == agentwire.OutcomeSanitized && w.Profile.Policy.MinimumSanitization == site.LevelPurge && device.Level != agentwire.LevelPurge {
			doubt = fmt.Sprintf("the policy asks for %s, and it was brought to %s", agentwire.LevelPurge, device.Level)
		}
		if doubt != "" {
			return result, &job.Failure{
				Class: bringup.SanitizationFailure, Code: codeDevice, Message: fmt.Sprintf("%s of %s (%s) is not proven clean: %s", device.Device, d.Hostname, or(device.MountPoint, "not mounted as a data disk"), doubt),
				Remedy:  "replace the disk, or reimage with a secure erase; going on without it needs an override that records the residual risk",
				Details: map[string]any{"device": device, "task_id": t.ID},
			}
		}
	}
	if len(out.Residue) > 0 {
		return result, &job.Failure{
			Class: bringup.SanitizationFailure, Code: codeStorage, Message: fmt.Sprintf("storage of %s could not be cleaned: %s", d.Hostname, brief(out.Residue)),
			Remedy: "look on the machine at what is named, then retry", Details: map[string]any{"residue": out.Residue, "task_id": t.ID},
		}
	}
	return result, nil
}

// doubtOf is why a device does not count as sanitized, whatever its agent says;
// empty: it does.
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

// doubtOfGPU is why the memory of a GPU does not count as scrubbed; empty: it
// does.
func doubtOfGPU(g agentwire.GPUScrubbed) string {
	switch {
	case g.Error != "":
		return g.Error
	case g.WordsNonzero != 0:
		return fmt.Sprintf("%d words came back", g.WordsNonzero)
	case g.Method == agentwire.ScrubByReset && g.BytesCovered == 0:
		return "it was reset and not overwritten: nothing that was read proves that its memory is empty"
	case g.BytesCovered <= 0 || g.BytesCovered > g.BytesTotal:
		return fmt.Sprintf("%d of its %d bytes are said to be covered", g.BytesCovered, g.BytesTotal)
	}
	return ""
}

// scrubRemedy is what helps against memory that is not proven clean. Where GPUs
// are reset and cannot be overwritten, trying again proves no more.
func scrubRemedy(out agentwire.GPUScrubOutput) (remedy string, final bool) {
	resets := func(g agentwire.GPUScrubbed) bool { return g.Method == agentwire.ScrubByReset }
	if out.Outcome == outcomeScrubbed && slices.ContainsFunc(out.GPUs, resets) {
		return "GPUs of AMD are only reset, which cannot be proven to empty their memory, and trying again does not change that: switch the machine off and on, " +
			"then override the stage, naming that as the residual risk", true
	}
	return "look at the GPUs and what uses them, then retry; a power cycle clears them, too", false
}

// doubtOfScrub is why a scrub does not count, whatever its agent says.
func doubtOfScrub(out agentwire.GPUScrubOutput) string {
	if out.Outcome != outcomeScrubbed {
		return or(out.Reason, out.Outcome)
	}
	if len(out.GPUs) == 0 {
		return "it names no GPU"
	}
	for _, g := range out.GPUs {
		if doubt := doubtOfGPU(g); doubt != "" {
			return g.UUID + ": " + doubt
		}
	}
	return ""
}

// brief is the beginning of a list.
func brief(list []string) string {
	const most = 3
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
}

// scrub overwrites the memory of GPUs.
func (s *Service) scrub(ctx context.Context, d Decommission, w *bringup.Work, stage string) (job.Result, error) {
	t, await, err := s.ask(ctx, d, w, stage, errand{kind: agentwire.TypeGPUScrub, params: agentwire.GPUScrubParams{Reset: true}})
	if err != nil || await != nil {
		return job.Result{Await: await}, err
	}
	out, err := output[agentwire.GPUScrubOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	known, err := s.gpusOf(ctx, d)
	if err != nil {
		return job.Result{}, err
	}
	result := job.Result{Evidence: witnessed(EvidenceGPU, t)}
	doubt := doubtOfScrub(out)
	if missing := known - len(out.GPUs); missing > 0 && (doubt == "" || out.Outcome == outcomeNoGPU) {
		doubt = fmt.Sprintf("%d of its %d GPUs were not seen: %s", missing, known, or(out.Reason, "the agent does not name them"))
	}
	switch {
	case doubt == "":
		result.Message = fmt.Sprintf("the memory of %d GPUs was overwritten and read back", len(out.GPUs))
		return result, nil
	case out.Outcome == outcomeNoGPU && known == 0:
		result.Skipped, result.Message = true, "there is no GPU to scrub: "+or(out.Reason, "the agent found none")
		return result, nil
	}
	remedy, final := scrubRemedy(out)
	return result, &job.Failure{
		Class: bringup.SanitizationFailure, Code: codeGPU, Final: final, Message: fmt.Sprintf("the memory of GPUs of %s is not proven clean: %s", d.Hostname, doubt),
		Remedy: remedy, Details: map[string]any{"gpus": out.GPUs, "gpus_known": known, "task_id": t.ID},
	}
}

// gpusOf is how many GPUs the node is known to have: one whose driver is gone, or
// that fell off the bus, still has its memory. A machine on which none was ever
// seen has none, whatever is sold as its kind.
func (s *Service) gpusOf(ctx context.Context, d Decommission) (int, error) {
	n, err := s.nodes.Detail(ctx, d.Node)
	if err != nil || n.Inspection == nil {
		return 0, err
	}
	var found agentwire.Capabilities
	if err := json.Unmarshal(n.Inspection, &found); err != nil {
		return 0, fmt.Errorf("decode inspection of node: %w", err)
	}
	if len(found.GPUs) == 0 {
		return 0, nil
	}
	return max(len(found.GPUs), int(n.GPUsTotal)), nil
}

// validate looks for anything that a tenant left. What it finds keeps the node
// out of service: see Settle.
func (s *Service) validate(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	params := agentwire.ValidateCleanParams{}
	user, err := agenttask.DeployUser(ctx, s.db, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	if user = cmp.Or(user, w.Site.Settings.DeployUser); user != "" { // of the site, not of a tenant
		params.AllowedUsers = []string{user}
	}
	t, await, err := s.ask(ctx, d, w, StageValidate, errand{kind: agentwire.TypeValidateClean, params: params})
	if err != nil || await != nil {
		return job.Result{Await: await}, err
	}
	out, err := output[agentwire.ValidateCleanOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	unfounded := out.Clean && len(out.Checked) == 0
	if out, err = s.compared(ctx, d, out, params.AllowedUsers); err != nil {
		return job.Result{}, err
	}
	evidence, err := witnessedAs(EvidenceValidation, t, out)
	if err != nil {
		return job.Result{}, err
	}
	result := job.Result{Evidence: evidence}
	if unfounded && len(out.Findings) == 0 { // what the comparison found counts first
		return result, &job.Failure{
			Class: bringup.SanitizationFailure, Code: codeUnfounded, Final: true, Message: fmt.Sprintf("the agent of %s says that it is clean, and not what it looked at", d.Hostname),
			Remedy: "look at the version of the agent, update it, then retry", Details: map[string]any{"task_id": t.ID},
		}
	}
	if out.Clean && len(out.Findings) == 0 {
		if err := s.credible(ctx, d); err != nil {
			return result, err
		}
		result.Message = fmt.Sprintf("nothing of a tenant was found on %s; %d kinds were looked at", d.Hostname, len(out.Checked))
		return result, nil
	}
	texts := make([]string, len(out.Findings))
	for i, f := range out.Findings {
		texts[i] = fmt.Sprintf("%s %s: %s", f.Kind, f.Subject, f.Detail)
	}
	f := &job.Failure{
		Class: bringup.SanitizationFailure, Code: codeResidue, Final: true, Message: fmt.Sprintf("%s is not clean: %s", d.Hostname, brief(texts)),
		Remedy: findingRemedies[d.Mode], Details: map[string]any{"findings": out.Findings, "task_id": t.ID},
	}
	if slices.ContainsFunc(out.Findings, node.LeftByRoot) {
		f.Code, f.Remedy = codeRootResidue, d.rootRemedy()
	}
	return result, f
}

// rootRemedy says what helps once somebody had root: cleaning the same
// installation again never does, and this operation holds the node until it is
// cancelled.
func (d Decommission) rootRemedy() string {
	if d.managed() {
		return fmt.Sprintf("cancel this operation, then install the node anew: gpuaas node reimage %s --reason TEXT", d.Hostname)
	}
	return fmt.Sprintf("cancel this operation, then take the node out: gpuaas node drain %s --reason TEXT, and gpuaas node remove %[1]s --reason TEXT; "+
		"or clean it and accept the risk that is left: gpuaas node reset %[1]s --residual-risk TEXT --reason TEXT", d.Hostname)
}

// credible refuses what a node says of itself whose installation somebody had
// root on: it is kept as evidence, and proves nothing. Where somebody had root on
// the installation before, this operation must have cleaned disks and GPUs
// through the present one.
func (s *Service) credible(ctx context.Context, d Decommission) error {
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil || d.accepts() != nil || !d.Mode.proves(n) {
		return err
	}
	if err := n.Incredible(); err != nil {
		return incredible(d, err)
	}
	if !n.Root.Stands() {
		return nil
	}
	evidence, err := s.EvidenceOf(ctx, d.ID)
	if err != nil {
		return err
	}
	late, err := judge(d, n, evidence)
	if err != nil {
		return err
	}
	switch why := or(late.notAgain(d, n, evidence), or(late.why(EvidenceStorage), late.why(EvidenceGPU))); {
	case why == "":
		return nil
	case d.StorageCleanup.sparesDisks():
		return rootTainted(d, why, "cancel, then ask once more with --storage-cleanup local, or all")
	default:
		return tainted(d, why)
	}
}

// incredible makes a failure of what the inventory says about an installation.
func incredible(d Decommission, err error) *job.Failure {
	f, _ := fault.As(err)
	return &job.Failure{Class: bringup.StateAmbiguity, Code: node.CodeRoot, Final: true, Message: f.Message, Remedy: d.rootRemedy(), Cause: err}
}

func rootTainted(d Decommission, why, remedy string) *job.Failure {
	return &job.Failure{
		Class: bringup.StateAmbiguity, Code: node.CodeRoot, Final: true, Message: fmt.Sprintf("somebody had root on node %s before, and it is not proven clean since: %s", d.Hostname, why), Remedy: remedy,
	}
}

// findingRemedies say what to do about what a validation found.
var findingRemedies = map[Mode]string{
	SoftReset:      cleanAgain,
	Retire:         cleanAgain,
	StorageCleanup: "resume cleans the storage once more; what is not on disks takes a soft reset: cancel, then gpuaas node reset NODE --reason REASON",
	Reactivate:     cleanAgain,
	Reimage:        "remove what is named by hand, and resume; rerun drains and cleans the new installation; to install it once more: cancel, then gpuaas node reimage NODE --reason REASON",
}

const cleanAgain = "resume drains and cleans once more; if it stays, remove what is named by hand, or reimage the node"
