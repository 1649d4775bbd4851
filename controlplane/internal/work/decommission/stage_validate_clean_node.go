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

// StageValidate names the stage "Validate that it is clean".
const StageValidate = "validate_clean_node"

var _ = catalog.Declare(job.Stage{
	Name: StageValidate, Title: "Validate that it is clean", Attempts: 1, Awaits: true, Resume: StageDrain,
	Usually: "seconds",
	Looks: "users, processes, mounts, shared memory, files of all local file systems, disks, GPUs, terminals, " +
		"and what of the installation differs from its baseline",
	Does:     "nothing; a node that is not clean is quarantined",
	Expects:  "nothing of a tenant is found",
	Again:    onlyReads,
	OnCancel: letGo,
	Fails: []job.FailureMode{
		agentSilent, {Class: bringup.SanitizationFailure, When: "something of a tenant was found"}, rootHad,
	},
}, hooks.validate)

// The failure codes that only this stage has.
var (
	codeResidue = job.DeclareCode(job.Code{
		Name: "validation_residue", Class: bringup.SanitizationFailure,
		Cause:   "A process, an account or files of a tenant survived the cleaning.",
		Remedy:  "resume to clean it again; if the finding remains, remove it by hand or reimage the node",
		Runbook: "decommission-parked",
		Mends:   job.Mends{bringup.Decommission: job.Resume},
	})
	codeRootResidue = job.DeclareCode(job.Code{
		Name: "validation_root_residue", Class: bringup.SanitizationFailure,
		Cause: "Only root can have left what was found, so this installation's own reports prove " +
			"nothing.",
		Remedy:  "cancel this job, then reimage the node: gpuaas node reimage NODE",
		Runbook: "decommission-parked",
		Mends:   job.Mends{bringup.Decommission: job.Cancel},
	})
	codeUnfounded = job.DeclareCode(job.Code{
		Name: "validation_unfounded", Class: bringup.SanitizationFailure,
		Cause:   "The agent's version does not fit the control plane, or it is not a gpuaas agent.",
		Remedy:  "look at the version of the agent, update it, then retry",
		Runbook: "decommission-parked",
	})
)

// whySpared says why a mode skips a stage: see spares.
var whySpared = map[Mode]string{
	Reactivate: "the node is proven clean: there is nothing to clean",
	Reimage:    "this operation cleaned it through the installation before, which nobody had root on",
}

// spared says whether to skip a stage. A reimage does not clean again what it
// cleaned through the old installation. It must clean again if that
// installation was already gone, if somebody skipped the cleaning, or if
// somebody got access since.
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

// brief returns the first items of a list as text.
func brief(list []string) string {
	const most = 3
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
}

// validate looks for anything that a tenant left. Settle takes a node with
// findings out of service.
func (s *Service) validate(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	params := agentwire.ValidateCleanParams{}
	user, err := agenttask.DeployUser(ctx, s.db, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	if user = cmp.Or(user, w.Site.Settings.DeployUser); user != "" { // the account of the site, not of a tenant
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
	if err := s.exceptDisks(ctx, d, w, &out); err != nil {
		return job.Result{}, err
	}
	evidence, err := witnessedAs(EvidenceValidation, t, out)
	if err != nil {
		return job.Result{}, err
	}
	result := job.Result{Evidence: evidence}
	if unfounded && len(out.Findings) == 0 { // findings of the comparison come first
		return result, codeUnfounded.Failed("the agent of %s says that it is clean, and not what it looked at", d.Hostname).
			ForGood().About(map[string]any{"task_id": t.ID})
	}
	if out.Clean && len(out.Findings) == 0 {
		if err := s.credible(ctx, d); err != nil {
			return result, err
		}
		result.Message = fmt.Sprintf("nothing of a tenant was found on %s; %d kinds were looked at", d.Hostname,
			len(out.Checked))
		return result, nil
	}
	texts := make([]string, len(out.Findings))
	for i, f := range out.Findings {
		texts[i] = fmt.Sprintf("%s %s: %s", f.Kind, f.Subject, f.Detail)
	}
	code, remedy := codeResidue, findingRemedies[d.Mode]
	if slices.ContainsFunc(out.Findings, node.LeftByRoot) {
		code, remedy = codeRootResidue, d.rootRemedy()
	}
	return result, code.Failed("%s is not clean: %s", d.Hostname, brief(texts)).With("%s", remedy).ForGood().
		About(map[string]any{"findings": out.Findings, "task_id": t.ID})
}

// exceptDisks removes from the findings the disks that the profile leaves
// alone: see leftAlone. It adds them to what was looked at.
func (s *Service) exceptDisks(ctx context.Context, d Decommission, w *bringup.Work,
	out *agentwire.ValidateCleanOutput,
) error {
	if w.Profile.Policy.DataDisks != site.DisksLeave || len(out.Findings) == 0 {
		return nil
	}
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil || n.Root.Stands() {
		return err
	}
	var left []string
	out.Findings = slices.DeleteFunc(out.Findings, func(f agentwire.CleanFinding) bool {
		unmounted := f.Kind == "disks" && strings.HasPrefix(f.Subject, "/dev/")
		if unmounted {
			left = append(left, f.Subject)
		}
		return unmounted
	})
	if len(left) > 0 {
		out.Checked = append(out.Checked, agentwire.CheckedKind{
			Kind: "disks", Result: "left_alone", Detail: "not mounted, and left alone as data_disks of the profile says: " +
				brief(left),
		})
		out.Clean = len(out.Findings) == 0
	}
	return nil
}

// rootRemedy suggests what to do after somebody had root. Cleaning the same
// installation again never helps, and this operation holds the node until it is
// cancelled.
func (d Decommission) rootRemedy() string {
	if d.managed() {
		return fmt.Sprintf("cancel this job, then reimage the node: gpuaas node reimage %s",
			d.Hostname)
	}
	return fmt.Sprintf("cancel this job, then take the node out: gpuaas node drain %s, and gpuaas node remove %[1]s; "+
		"or clean it and accept the risk that is left: gpuaas node reset %[1]s --residual-risk TEXT",
		d.Hostname)
}

// credible rejects what an installation says about itself if somebody had root
// on it: the answer is kept as evidence and proves nothing. If somebody had
// root on the installation before, this operation must have cleaned disks and
// GPUs through the present one.
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

// incredible turns the inventory's doubt about an installation into a failure.
func incredible(d Decommission, err error) *job.Failure {
	f, _ := fault.As(err)
	return codeRoot.Failed("%s", f.Message).With("%s", d.rootRemedy()).ForGood().Because(err)
}

func rootTainted(d Decommission, why, remedy string) *job.Failure {
	return codeRoot.Failed("somebody had root on node %s before, and it is not proven clean since: %s", d.Hostname, why).
		With("%s", remedy).ForGood()
}

// findingRemedies suggest what to do about findings of a validation.
var findingRemedies = map[Mode]string{
	SoftReset:      cleanAgain,
	Retire:         cleanAgain,
	StorageCleanup: "resume cleans the storage once more; what is not on disks takes a soft reset: cancel, then gpuaas node reset NODE",
	Reactivate:     cleanAgain,
	Reimage:        "remove what is named by hand, and resume; rerun drains and cleans the new installation; to install it once more: cancel, then gpuaas node reimage NODE",
}

const cleanAgain = "resume to drain and clean it again; if the finding remains, remove it by hand or reimage the node"
