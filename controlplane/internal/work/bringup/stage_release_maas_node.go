package bringup

import (
	"context"
	"fmt"
	"strings"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// ReleaseMAASNode names the stage "Release in MAAS".
const ReleaseMAASNode = "release_maas_node"

var _ = catalog.Declare(job.Stage{
	Name: ReleaseMAASNode, Title: "Release in MAAS", Attempts: 2, Limit: job.Limit(site.StageRelease),
	Resume: ReleaseMAASNode, Overridable: true,
	Usually: "1 to 5 min; hours when disks are erased securely",
	Looks:   "the machine, and whether it is provably that of the node",
	Does:    "releases it with the erase that was asked for; DESTROYS what is on it",
	Expects: "MAAS shows the machine as Ready",
	Again:   "a release that is under way is waited for",
	Fails: []job.FailureMode{
		MAASAway, OutOfBand, {Class: StateAmbiguity, When: "erasing failed, and the policy allows nothing less"},
	},
}, (*Bringup).ReleaseMAASNode)

// The codes of failures that only this stage has.
var (
	codeEraseUnknown = job.DeclareCode(job.Code{
		Name: "erase_unknown", Class: InputConfigError,
		Cause:   "The job was requested from another gpuaas version, which knew other erase methods.",
		Remedy:  "cancel, and request it again with none, quick or secure",
		Runbook: "decommission-parked",
	})
	codeEraseBelowMinimum = job.DeclareCode(job.Code{
		Name: "erase_below_minimum", Class: InputConfigError,
		Cause:   "The minimum of the profile was raised after the job was asked for.",
		Remedy:  "cancel, and ask for more erasing; or change minimum_erase of the profile, then resume",
		Runbook: "decommission-parked",
	})
	codeMachineUnbound = job.DeclareCode(job.Code{
		Name: "machine_unbound", Class: StateAmbiguity,
		Cause:   "The node was added by hand, or what ties it to its machine was removed.",
		Remedy:  "a node that was added by hand has no MAAS machine: if a machine must be released, do it by hand",
		Runbook: "decommission-parked",
	})
	codeMachineReplaced = job.DeclareCode(job.Code{
		Name: "machine_replaced", Class: StateAmbiguity,
		Cause: "The machine was removed from MAAS and another one has its place, or it was given another " +
			"name and BMC.",
		Remedy:  "find out which machine the node is, then cancel, or rerun once MAAS shows the right one; nothing was done to this one",
		Runbook: "decommission-parked",
	})
	codeReleasedElsewhere = job.DeclareCode(job.Code{
		Name: "released_elsewhere", Class: StateAmbiguity,
		Cause: "Somebody released the machine in MAAS.",
		Remedy: "find out who released it and what happened to its disks; then adopt the observed state to continue " +
			"with it as it is",
		Runbook: "decommission-parked",
		Mends:   job.Mends{Decommission: job.AdoptObserved},
	})
	codeEraseUnproven = job.DeclareCode(job.Code{
		Name: "release_erase_unproven", Class: StateAmbiguity,
		Cause: "MAAS released the machine although its erasing failed or was skipped, or its events are gone.",
		Remedy: "its disks may still hold data: erase them by hand; adopt the observed state goes on with " +
			"it as it is",
		Runbook: "decommission-parked",
	})
)

// ReleaseMAASNode gives the machine of a node that was in service back to MAAS,
// with the erasing that was asked for. What MAAS says about the erasing is kept
// as what MAAS said.
func (b *Bringup) ReleaseMAASNode(ctx context.Context, w *Work) (Result, error) {
	f, err := w.releaseAsked()
	if err != nil {
		return Result{}, err
	}
	r, m, err := b.boundMachine(ctx, w)
	if err != nil {
		return Result{}, err
	}
	if f.EndedAt != nil {
		if again, err := b.emptiedAgain(ctx, w, m); err != nil || !again {
			return b.releasedBefore(ctx, r, w, m, err)
		}
		w.Facts.Release, w.Facts.NodeCreated = nil, false
		if _, err := w.releaseAsked(); err != nil {
			return Result{}, err
		}
	}
	said, err := b.releaseRecord(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	if !m.Status.Free() {
		if err := b.mayVacate(ctx, r, w, m, said); err != nil {
			return Result{}, err
		}
		if m, err = b.vacate(ctx, r, w, m); err != nil {
			return Result{}, b.notVacated(ctx, r, w, m, err)
		}
		if said, err = b.releaseRecord(ctx, r, w); err != nil {
			return Result{}, err
		}
	}
	out, err := b.freed(w, m, said)
	if err != nil {
		return out, err
	}
	return b.withoutToken(ctx, r, w, out)
}

// withoutToken looks whether MAAS has taken back the key that the machine had to
// it, as it does with every owner. It lived until now, and whoever was on the
// machine may have read it.
func (b *Bringup) withoutToken(ctx context.Context, r *region, w *Work, out Result) (Result, error) {
	_, err := r.MachineToken(ctx, w.SystemID)
	switch {
	case fault.CodeOf(err) == maas.CodeNoMachineToken:
		out.Details["maas_token"] = "revoked"
		return out, nil
	case err != nil:
		return out, err
	}
	out.Details["maas_token"] = "kept"
	out.Evidence = append(out.Evidence, Evidence{Kind: EvidenceFollowUp, Value: FollowUp{
		What: fmt.Sprintf("make MAAS give %s another token: delete its record there and add it anew", w.Hostname),
		Why:  "MAAS still has a token for the machine after its release, which those who were on it may know",
	}})
	return out, nil
}

// releaseAsked are the facts of a release, begun if they were not. Less erasing
// than the profile demands is refused: it may have been changed since.
func (w *Work) releaseAsked() (*ReleaseFacts, error) {
	erase, least := site.Erase(w.Erase), w.leastErase()
	switch {
	case erase != site.EraseNone && erase != site.EraseQuick && erase != site.EraseSecure:
		return nil, codeEraseUnknown.Failed("%.20q is no way to erase disks", w.Erase).ForGood()
	case erase.Less(least):
		return nil, codeEraseBelowMinimum.Failed("the profile %s demands at least %s erasing, and %s was asked for",
			w.Profile.Name, least, erase).
			With("cancel, and ask for at least %s; or change minimum_erase of the profile, then resume", least).ForGood()
	}
	if w.Facts.Release == nil {
		w.Facts.Release = &ReleaseFacts{Requested: w.Erase}
	}
	f := w.Facts.Release
	if f.EndedAt == nil {
		f.MinimumErase = string(least)
	}
	return f, nil
}

func (w *Work) leastErase() site.Erase {
	if least := w.Profile.Policy.MinimumErase; least != "" {
		return least
	}
	return site.EraseNone
}

// mayFallBack says whether the machine may be released without erasing when
// erasing fails.
func (w *Work) mayFallBack() bool {
	return w.Profile.Policy.ReleaseFallbackNoErase && w.leastErase() == site.EraseNone
}

// erase returns the erasing that the job asks MAAS for now.
func (f *ReleaseFacts) erase() maas.Erase {
	if f.FellBack {
		return maas.EraseNone
	}
	return maas.Erase(f.Requested)
}

// boundMachine reads the machine of a node, which must be the one that the node
// is bound to and look like it.
func (b *Bringup) boundMachine(ctx context.Context, w *Work) (*region, maas.Machine, error) {
	bound, err := binding.OfNode(ctx, b.cfg.DB, w.Node)
	switch {
	case fault.KindOf(err) == fault.NotFound || err == nil && w.SystemID == "":
		return nil, maas.Machine{}, codeMachineUnbound.Failed("it is not known which machine of MAAS %s is", w.Hostname).
			ForGood().Because(err)
	case err != nil:
		return nil, maas.Machine{}, err
	case bound.SystemID != w.SystemID:
		return nil, maas.Machine{}, replaced(w, fmt.Sprintf("its node is bound to %s", bound.SystemID))
	}
	return b.sameMachine(ctx, w)
}

// sameMachine reads the machine and makes sure that it still is the server of
// this name, or with this BMC.
func (b *Bringup) sameMachine(ctx context.Context, w *Work) (*region, maas.Machine, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return nil, maas.Machine{}, err
	}
	m, err := b.machine(ctx, r, w)
	if err != nil || called(m, w.Hostname) {
		return r, m, err
	}
	addresses, err := bmcAddresses(ctx, r, w.SystemID)
	if err != nil {
		return r, m, err
	}
	if w.IPMIIP == "" || addresses[w.SystemID] != canonical(w.IPMIIP) {
		return r, m, replaced(w, fmt.Sprintf("MAAS calls it %s, and its BMC is another one", maas.Shown(m.Hostname)))
	}
	return r, m, nil
}

func replaced(w *Work, why string) *Failure {
	return codeMachineReplaced.Failed("machine %s of MAAS is not the %s that this job is about: %s", w.SystemID,
		w.Hostname, why).ForGood()
}

// emptiedAgain says whether a job that had released and deployed its machine
// has started over with the resulting node: then the present installation is to
// be released again.
func (b *Bringup) emptiedAgain(ctx context.Context, w *Work, m maas.Machine) (bool, error) {
	if !w.Reimage || !w.Facts.NodeCreated || !ours(m, w) {
		return false, nil
	}
	n, err := b.cfg.Nodes.Node(ctx, w.Node)
	return err == nil && n.Status == node.Draining, err
}

// releasedBefore handles a job that has already passed the release.
func (b *Bringup) releasedBefore(ctx context.Context, r *region, w *Work, m maas.Machine, problem error) (Result,
	error,
) {
	if problem != nil {
		return Result{}, problem
	}
	if m.Status.Free() {
		return Result{Skipped: true, Message: fmt.Sprintf("this job has released %s already", w.Hostname)}, nil
	}
	held, err := holds(ctx, r, w, m)
	if err != nil {
		return Result{}, err
	}
	if held && w.Reimage {
		return Result{Skipped: true, Message: fmt.Sprintf("this job has released %s already, and holds it anew", w.Hostname)},
			nil
	}
	return Result{}, foreign(m, w)
}

// mayVacate refuses to release what is not proven to be this node's.
func (b *Bringup) mayVacate(ctx context.Context, r *region, w *Work, m maas.Machine, said releaseRecord) error {
	held, err := belongs(ctx, r, w, m)
	switch {
	case err != nil:
		return err
	case !held:
		return foreign(m, w)
	case underWay(m.Status) && !said.ours, m.Status == maas.StatusBroken && !said.broken:
		return codeReleasedElsewhere.Failed("%s is %s in MAAS, and this job did not ask for that", w.Hostname,
			m.Status.Label()).
			With("find out who did; once the machine is free, adopt the observed state").ForGood().About(said.details(m))
	}
	switch m.Status {
	case maas.StatusAllocated, maas.StatusDeploying, maas.StatusDeployed, maas.StatusFailedDeployment,
		maas.StatusReleasing, maas.StatusFailedReleasing,
		maas.StatusDiskErasing, maas.StatusFailedDiskErasing, maas.StatusBroken:
		return nil
	default:
		return foreign(m, w)
	}
}

// vacate releases the machine, without erasing if that fails and may be.
func (b *Bringup) vacate(ctx context.Context, r *region, w *Work, m maas.Machine) (maas.Machine, error) {
	var err error
	switch m.Status {
	case maas.StatusBroken: // an earlier run was on the ladder
		return b.climb(ctx, r, w, m)
	case maas.StatusDeploying:
		if m, err = b.abort(ctx, r, w, m.Status); err != nil {
			return m, err
		}
	default:
	}
	m, began, err := b.giveBack(ctx, r, w, m)
	if err == nil || ctx.Err() != nil || !began {
		return m, err
	}
	erasing := m.Status == maas.StatusFailedDiskErasing || m.Status == maas.StatusDiskErasing
	if erasing && !w.Facts.Release.FellBack && w.mayFallBack() {
		if m, began, err = b.withoutErasing(ctx, r, w, m, err); err == nil || ctx.Err() != nil || !began {
			return m, err
		}
	}
	return b.stuck(ctx, r, w, m, err)
}

// giveBack asks for the release, unless that was done, and waits for its end;
// began says that there was one to wait for.
func (b *Bringup) giveBack(ctx context.Context, r *region, w *Work, m maas.Machine) (last maas.Machine, began bool,
	err error,
) {
	f := w.Facts.Release
	if !underWay(m.Status) || f.RequestedAt == nil {
		at := b.now().UTC()
		f.RequestedAt = &at
	}
	if !underWay(m.Status) {
		if err := w.Save(ctx); err != nil {
			return m, false, err
		}
		if err := b.askRelease(ctx, r, w, m.Status, f.erase()); err != nil {
			return m, false, err
		}
	}
	last, err = b.awaitMachine(ctx, w, releaseLimit(w, f.erase(), *f.RequestedAt), maas.UntilReleased)
	if last.SystemID == "" {
		last = m
	}
	code := fault.CodeOf(err)
	return last, err == nil || code == maas.CodeMachineFailed || code == maas.CodeWaitEnded, err
}

// withoutErasing releases the machine with less erasing than was asked for, which
// the profile must allow. The job records the downgrade before it does it.
func (b *Bringup) withoutErasing(ctx context.Context, r *region, w *Work, m maas.Machine, why error) (last maas.Machine,
	began bool, err error,
) {
	said, err := b.releaseRecord(ctx, r, w)
	if err != nil {
		return m, false, err
	}
	if err := b.mayVacate(ctx, r, w, m, said); err != nil { // erasing takes hours, in which others may act
		return m, false, err
	}
	f := w.Facts.Release
	f.FellBack, f.FallbackReason, f.DecidedBy = true, eraseFailed(w, m, why).Message, DecidedByPolicy
	if err := w.Save(ctx); err != nil {
		return m, false, err
	}
	b.cfg.Logger.WarnContext(ctx, "a machine is released without erasing, because erasing failed", "machine", w.SystemID,
		"job", w.Job, "status", m.Status.Label())
	if m.Status == maas.StatusDiskErasing {
		if m, err = b.abort(ctx, r, w, m.Status); err != nil {
			return m, false, err
		}
	}
	return b.giveBack(ctx, r, w, m)
}

// notVacated adds what MAAS has said to the failure of a release.
func (b *Bringup) notVacated(ctx context.Context, r *region, w *Work, m maas.Machine, err error) error {
	if ctx.Err() != nil {
		return err
	}
	f := Classify(err)
	if f.Code == codeEraseFailed {
		f.Details = with(f.Details, map[string]any{
			"erase": w.Facts.Release.Requested, "minimum_erase": w.Facts.Release.MinimumErase,
			"fallback_allowed": w.mayFallBack(),
		})
		if w.leastErase() != site.EraseNone {
			f.Message += fmt.Sprintf("; the profile demands at least %s erasing, so it is not released without", w.leastErase())
		}
	}
	if said, lookErr := b.releaseRecord(ctx, r, w); lookErr == nil {
		w.Facts.Release.Reported = said.texts(m)
		f.Details = with(f.Details, map[string]any{"maas_said": w.Facts.Release.Reported})
	}
	return f
}

// freed ends a release. It accepts only a release that this job asked for, with the
// erasing that was asked for, unless the profile or an operator decided on less.
func (b *Bringup) freed(w *Work, m maas.Machine, said releaseRecord) (Result, error) {
	f := w.Facts.Release
	f.Reported = said.texts(m)
	switch {
	case !m.Status.Free():
		return Result{}, codeReleaseStuck.Failed("%s is %s in MAAS after its release", w.Hostname, m.Status.Label()).
			With("set it right in MAAS, then resume").ForGood().About(said.details(m))
	case !said.ours && said.earlier && !said.achieved().Less(site.Erase(f.Requested)):
		f.Achieved, f.FellBack, f.FallbackReason, f.DecidedBy = string(said.achieved()), false, "", ""
		return b.releaseEnded(w, m), nil
	case !said.ours:
		return Result{}, codeReleasedElsewhere.Failed("%s is %s in MAAS already, and this job did not release it", w.Hostname,
			m.Status.Label()).ForGood().About(said.details(m))
	}
	asked := f.Requested != string(site.EraseNone)
	switch {
	case asked && said.erased:
		f.Achieved, f.FellBack, f.FallbackReason, f.DecidedBy = f.Requested, false, "", ""
	case asked && !f.FellBack && !w.mayFallBack():
		return Result{}, codeEraseUnproven.Failed("%s is %s in MAAS, but MAAS does not say that it erased its disks",
			w.Hostname, m.Status.Label()).ForGood().About(said.details(m))
	case asked && !f.FellBack:
		f.FellBack, f.FallbackReason = true, fmt.Sprintf("MAAS released %s, but does not say that it erased its disks",
			w.Hostname)
		f.Achieved, f.DecidedBy = string(site.EraseNone), DecidedByPolicy
	default:
		f.Achieved = string(site.EraseNone)
	}
	return b.releaseEnded(w, m), nil
}

func (b *Bringup) releaseEnded(w *Work, m maas.Machine) Result {
	f := w.Facts.Release
	at := b.now().UTC()
	f.EndedAt = &at
	w.Facts.uninstalled()
	message := fmt.Sprintf("%s is %s in MAAS; nothing was erased", w.Hostname, m.Status.Label())
	switch {
	case f.Achieved == unknownErase:
		message = fmt.Sprintf("%s is %s in MAAS; what became of its disks is not known: %s", w.Hostname, m.Status.Label(),
			f.FallbackReason)
	case f.FellBack:
		message += ", although " + f.Requested + " erasing was asked for: " + f.FallbackReason
	case f.Achieved != string(site.EraseNone):
		message = fmt.Sprintf("%s is %s in MAAS, which reports that it erased its disks (%s)", w.Hostname, m.Status.Label(),
			f.Achieved)
	}
	if len(f.Ladder) > 0 {
		message += "; it was stuck, and was led out by: " + strings.Join(f.Ladder, ", ")
	}
	return Result{
		Message: message, Evidence: []Evidence{{Kind: EvidenceRelease, Value: *f}},
		Details: map[string]any{
			"requested": f.Requested, "achieved": f.Achieved, "fell_back": f.FellBack,
			"minimum_erase": f.MinimumErase, "maas_status": m.Status.Label(),
		},
	}
}
