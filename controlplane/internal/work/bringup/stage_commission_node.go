package bringup

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/job"
)

// CommissionNode names the stage "Commission".
const CommissionNode = "commission_node"

var _ = catalog.Declare(job.Stage{
	Name: CommissionNode, Title: "Commission", Attempts: 3, Resume: CreateOrFindInMAAS,
	Looks:   "the status of the machine",
	Does:    "sets hostname and power parameters, starts commissioning",
	Expects: "the machine is commissioning or Ready",
	Again:   "a machine that is Ready or commissioning is left alone",
	Fails:   []job.FailureMode{MAASAway, BMCSilent, OutOfBand},
}, (*Bringup).CommissionNode)

// The codes of failures that only this stage has.
var (
	codeMachineNotFree = job.DeclareCode(job.Code{
		Name: "machine_not_free", Class: StateAmbiguity,
		Cause:   "Somebody uses the machine in MAAS for something else.",
		Remedy:  "return the machine to New or Ready in MAAS, then rerun",
		Runbook: "onboarding-parked",
	})
	codeUpdateUnproven = job.DeclareCode(job.Code{
		Name: "update_unproven", Class: UpstreamTransient,
		Cause:   "The connection to MAAS broke during a request, so it is not known whether MAAS did it.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
	codeOverrideUnproven = job.DeclareCode(job.Code{
		Name: "override_unproven", Class: UpstreamTransient,
		Cause:   "The connection to MAAS broke during a request, so it is not known whether MAAS did it.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
	codeCommissionUnbooted = job.DeclareCode(job.Code{
		Name: "commission_unbooted", Class: UpstreamTransient,
		Cause: "MAAS shows the machine as Commissioning, but it is off or does not boot: MAAS or its BMC did not carry out the " +
			"order to switch it on.",
		Remedy:  "rerun to commission it again; if it stays off, check its BMC",
		Runbook: "onboarding-parked",
	})
	codeCommissionUnproven = job.DeclareCode(job.Code{
		Name: "commission_unproven", Class: UpstreamTransient,
		Cause:   "MAAS did not say whether it began to commission the machine.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
)

// CommissionNode sets the machine's name and power settings and makes MAAS
// inspect it, unless MAAS is doing so, or has done so and found what is needed.
func (b *Bringup) CommissionNode(ctx context.Context, w *Work) (Result, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return Result{}, err
	}
	if free, err := b.available(ctx, r, w, m); err != nil || !free {
		return Result{}, orForeign(err, m, w)
	}
	if advanced(m) {
		return skipAdvanced(m), nil
	}
	// how an earlier round of this job ended
	if m.Status == maas.StatusFailedDeployment || m.Status == maas.StatusReleasing {
		if m, err = b.release(ctx, r, w); err != nil {
			return Result{}, err
		}
	}
	if m, err = b.describeToMAAS(ctx, r, w, m); err != nil {
		return Result{}, err
	}
	switch m.Status {
	case maas.StatusCommissioning, maas.StatusTesting:
		if idle, err := b.idle(ctx, r, w, m); idle || err != nil {
			if err == nil {
				err = b.beginAnew(ctx, r, w)
			}
			return Result{}, err
		}
		w.Facts.Reinspect = false
		return Result{Message: "MAAS is already commissioning the machine"}, nil
	case maas.StatusReady:
		if !w.Facts.Reinspect && (inspected(m) || w.Facts.Commissions > 0) {
			return Result{Skipped: true, Message: "MAAS has already commissioned the machine"}, nil
		}
	case maas.StatusNew, maas.StatusFailedCommissioning, maas.StatusBroken:
	case maas.StatusFailedTesting: // MAAS does not commission from there
		if m, err = b.acceptTests(ctx, r, w, m); err != nil {
			return Result{}, err
		}
	default:
		return Result{}, codeMachineNotFree.Failed("%s is %s in MAAS, and cannot be commissioned", w.Hostname,
			m.Status.Label()).ForGood()
	}
	return b.commission(ctx, r, w, m)
}

// idle says whether MAAS waits for a machine that nobody will boot: it is off
// and this job began its inspection, or it was waited for in vain.
func (b *Bringup) idle(ctx context.Context, r *region, w *Work, m maas.Machine) (bool, error) {
	if m.Status != maas.StatusCommissioning {
		return false, nil
	}
	if w.Facts.Hung { // as long as it hangs: somebody may have repaired the machine or inspected it again
		if heard, err := b.heard(ctx, w, m); err != nil || b.now().Sub(heard) > mostSilent {
			return err == nil, err
		}
	}
	if m.PowerState != maas.PowerOff || w.Facts.Commissions == 0 && !w.Facts.Hung {
		return false, nil
	}
	now, err := r.QueryPower(ctx, m.SystemID)
	return err == nil && now == maas.PowerOff, err
}

// beginAnew ends an inspection that gets nowhere, so that the next attempt of
// the stage begins another one.
func (b *Bringup) beginAnew(ctx context.Context, r *region, w *Work) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	if _, err := r.Abort(ctx, w.SystemID, comment(w)); err != nil && fault.KindOf(err) != fault.Ambiguous {
		return err
	}
	w.Facts.Hung = false
	return codeCommissionUnbooted.Failed("MAAS was commissioning %s, but nobody booted it: the commissioning was ended",
		w.Hostname)
}

// inspected reports what a commissioning that passed leaves behind. A machine
// can be Ready without one, when somebody marked it fixed.
func inspected(m maas.Machine) bool { return len(m.BlockDevices) > 0 && len(m.Interfaces) > 0 }

// describeToMAAS writes name and power settings if they differ. Nobody can read
// back passwords, so it writes those that this job did not write.
func (b *Bringup) describeToMAAS(ctx context.Context, r *region, w *Work, m maas.Machine) (maas.Machine, error) {
	var wanted maas.Attributes
	if !called(m, w.Hostname) {
		wanted.Hostname = w.Hostname
	}
	notePXEMAC(w, m)
	credentials, err := b.power(ctx, w)
	if err != nil {
		return m, err
	}
	write := m.PowerType != credentials.Type() || w.Facts.PowerWritten != w.Facts.PowerFingerprint
	if !write && w.Facts.Commissions > 0 { // something did not go well since: look closer
		addresses, err := bmcAddresses(ctx, r, m.SystemID)
		if err != nil {
			return m, err
		}
		write = addresses[m.SystemID] != canonical(w.IPMIIP)
	}
	if write {
		wanted.Power = powerSettings(w, credentials)
	}
	if wanted.Hostname == "" && !write {
		return m, nil
	}
	if err := w.Fence(ctx); err != nil {
		return m, err
	}
	after, err := r.Update(ctx, m.SystemID, wanted)
	if err != nil {
		// Writing the same again does no harm, so a failure is not ambiguous.
		return m, unproven(err, codeUpdateUnproven, "MAAS did not confirm the name and power settings of %s", m.SystemID)
	}
	w.Facts.PowerWritten = w.Facts.PowerFingerprint
	return after, nil
}

func (b *Bringup) acceptTests(ctx context.Context, r *region, w *Work, m maas.Machine) (maas.Machine, error) {
	if err := w.Fence(ctx); err != nil {
		return m, err
	}
	after, err := r.OverrideFailedTesting(ctx, m.SystemID, "tested again by job "+w.Job)
	if fault.KindOf(err) == fault.Ambiguous {
		var lookErr error
		if after, lookErr = b.machine(ctx, r, w); lookErr != nil {
			return m, lookErr
		}
	}
	if err != nil && after.Status != maas.StatusReady {
		return m, unproven(err, codeOverrideUnproven, "MAAS did not confirm that %s may be commissioned again", m.SystemID)
	}
	b.see(w, after)
	return after, nil
}

func (b *Bringup) commission(ctx context.Context, r *region, w *Work, before maas.Machine) (Result, error) {
	if err := w.Fence(ctx); err != nil {
		return Result{}, err
	}
	w.Facts.Commissions++
	after, err := r.Commission(ctx, before.SystemID, maas.CommissionOptions{EnableSSH: true, SkipBMCConfig: true})
	if err != nil {
		if fault.KindOf(err) != fault.Ambiguous && fault.CodeOf(err) != maas.CodeStateConflict {
			return Result{}, err
		}
		var lookErr error
		if after, lookErr = b.machine(ctx, r, w); lookErr != nil {
			return Result{}, lookErr
		}
		if !begun(before, after) {
			return Result{}, b.notBegun(ctx, r, w, after, err)
		}
	}
	w.Facts.Reinspect, w.Facts.Hung = false, false
	b.see(w, after)
	return Result{
		Message: fmt.Sprintf("MAAS commissions the machine; it was %s", before.Status.Label()),
		Details: map[string]any{"commissions": w.Facts.Commissions},
	}, nil
}

// begun says whether a commissioning whose answer was lost has begun: MAAS is at
// it, or has come to an end with results that were not there before.
func begun(before, after maas.Machine) bool {
	switch after.Status {
	case maas.StatusCommissioning, maas.StatusTesting:
		return true
	case maas.StatusReady, maas.StatusFailedCommissioning, maas.StatusFailedTesting:
		return after.Status != before.Status || after.CommissioningResultID != before.CommissioningResultID
	default:
		return false
	}
}

// notBegun says why a commissioning did not begin. If the BMC fails, MAAS
// returns to the status before it.
func (b *Bringup) notBegun(ctx context.Context, r *region, w *Work, m maas.Machine, err error) error {
	said := b.complaints(ctx, r, w)
	if fault.CodeOf(err) == maas.CodeRackUnavailable { // whatever MAAS then says of the BMC
		return codeRackUnavailable.Failed("no rack controller of MAAS could switch %s", w.Hostname).Because(err).
			About(said.details(m))
	}
	if fault.CodeOf(err) == maas.CodeBMCFailure || said.bmc {
		return codeBMCFailure.Failed("MAAS cannot control the power of %s by its BMC at %s", w.Hostname, w.IPMIIP).
			Because(err).About(said.details(m))
	}
	return codeCommissionUnproven.Failed("MAAS did not start to commission %s: it is %s", m.SystemID, m.Status.Label()).
		Because(err).About(said.details(m))
}
