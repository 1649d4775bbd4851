package bringup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/job"
)

// advanced says that a machine of this job is past commissioning: what was
// settled before a deployment is not touched again.
func advanced(m maas.Machine) bool {
	return m.Status == maas.StatusAllocated || m.Status == maas.StatusDeploying || m.Status == maas.StatusDeployed
}

func skipAdvanced(m maas.Machine) Result {
	return Result{Skipped: true, Message: fmt.Sprintf("the machine is %s for this job already", m.Status.Label())}
}

// CommissionNode gives the machine its name and power settings and lets MAAS
// inspect it, unless it is at it, or has done so and found what is needed.
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
	if m.Status == maas.StatusFailedDeployment || m.Status == maas.StatusReleasing { // how an earlier round of this job ended
		if m, err = b.release(ctx, r, w); err != nil {
			return Result{}, err
		}
	}
	if m, err = b.describeToMAAS(ctx, r, w, m); err != nil {
		return Result{}, err
	}
	switch m.Status {
	case maas.StatusCommissioning, maas.StatusTesting:
		w.Facts.Reinspect = false
		return Result{Message: "MAAS is inspecting the machine already"}, nil
	case maas.StatusReady:
		if !w.Facts.Reinspect && (inspected(m) || w.Facts.Commissions > 0) {
			return Result{Skipped: true, Message: "MAAS has inspected the machine before"}, nil
		}
	case maas.StatusNew, maas.StatusFailedCommissioning, maas.StatusBroken:
	case maas.StatusFailedTesting: // MAAS does not commission from there
		if m, err = b.acceptTests(ctx, r, w, m); err != nil {
			return Result{}, err
		}
	default:
		return Result{}, job.Failed(StateAmbiguity, "machine_not_free", "%s is %s in MAAS, and cannot be inspected", w.Hostname, m.Status.Label()).
			With("set the machine right in MAAS, then rerun").ForGood()
	}
	return b.commission(ctx, r, w, m)
}

// inspected reports what a commissioning that passed leaves behind. A machine
// can be Ready without one, when somebody marked it fixed.
func inspected(m maas.Machine) bool { return len(m.BlockDevices) > 0 && len(m.Interfaces) > 0 }

// describeToMAAS writes name and power settings where they differ. Of passwords
// nobody can say whether they do: those that this job did not write are written.
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
	write := m.PowerType != "ipmi" || w.Facts.PowerWritten != w.Facts.PowerFingerprint
	if !write && w.Facts.Commissions > 0 { // something did not go well since: look closer
		addresses, err := bmcAddresses(ctx, r, m.SystemID)
		if err != nil {
			return m, err
		}
		write = addresses[m.SystemID] != canonical(w.IPMIIP)
	}
	if write {
		wanted.Power = maas.Power{Type: "ipmi", Address: w.IPMIIP, User: credentials.User, Password: credentials.Pass}
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
		return m, unproven(err, "update_unproven", "MAAS did not confirm the name and power settings of %s", m.SystemID)
	}
	w.Facts.PowerWritten = w.Facts.PowerFingerprint
	return after, nil
}

// unproven makes the failure of a write that may be repeated one that is.
func unproven(err error, code, format string, args ...any) error {
	if fault.KindOf(err) != fault.Ambiguous {
		return err
	}
	return job.Failed(UpstreamTransient, code, format, args...).With("retry: the machine is looked at first").Because(err)
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
		return m, unproven(err, "override_unproven", "MAAS did not confirm that %s may be inspected again", m.SystemID)
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
	w.Facts.Reinspect = false
	b.see(w, after)
	return Result{
		Message: fmt.Sprintf("MAAS inspects the machine; it was %s", before.Status.Label()),
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

// notBegun is why a commissioning did not begin. MAAS goes back to the status
// before it when the BMC fails.
func (b *Bringup) notBegun(ctx context.Context, r *region, w *Work, m maas.Machine, err error) error {
	said := b.complaints(ctx, r, w)
	if fault.CodeOf(err) == maas.CodeBMCFailure || said.bmc {
		return job.Failed(BMCPowerFailure, maas.CodeBMCFailure, "MAAS cannot control the power of %s by its BMC at %s", w.Hostname, w.IPMIIP).
			With("check the BMC credentials, its address and its network, then retry the stage").Because(err).About(said.details(m))
	}
	return job.Failed(UpstreamTransient, "commission_unproven", "MAAS did not begin to inspect %s: it is %s", m.SystemID, m.Status.Label()).
		With("retry: the machine is looked at first").Because(err).About(said.details(m))
}

// WaitForReady waits until MAAS has inspected the machine.
func (b *Bringup) WaitForReady(ctx context.Context, w *Work) (Result, error) {
	m, err := b.untilReady(ctx, w)
	switch code := fault.CodeOf(err); {
	case err == nil && m.Status != maas.StatusReady:
		return skipAdvanced(m), nil
	case err == nil:
		notePXEMAC(w, m)
		return Result{
			Message: fmt.Sprintf("Ready: %d CPUs, %d GiB, %d disks, %d interfaces", m.CPUCount, m.Memory/1024, len(m.BlockDevices), len(m.Interfaces)),
			Details: map[string]any{"architecture": m.Architecture, "hardware_uuid": m.HardwareUUID},
		}, nil
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case code == maas.CodeMachineFailed:
		return Result{}, b.notReady(ctx, w, m, err)
	case code == maas.CodeWaitEnded:
		return Result{}, b.tooLong(ctx, w, err)
	}
	return Result{}, err
}

// untilReady looks before it waits: the way may be over already, and one look
// costs less than a wait.
func (b *Bringup) untilReady(ctx context.Context, w *Work) (maas.Machine, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return maas.Machine{}, err
	}
	want := func(m maas.Machine) maas.Verdict {
		if advanced(m) && ours(m, w) {
			return maas.Reached()
		}
		return maas.UntilCommissioned(m)
	}
	m, err := b.machine(ctx, r, w)
	if err != nil {
		return m, err
	}
	if v := want(m); v.Done() && !v.Failed() {
		return m, nil
	}
	return b.awaitMachine(ctx, w, w.Deadline, want)
}

// notReady says why a machine did not become Ready.
func (b *Bringup) notReady(ctx context.Context, w *Work, m maas.Machine, err error) error {
	said := b.complaintsOf(ctx, w)
	switch {
	case said.bmc:
		return job.Failed(BMCPowerFailure, "failed_commission", "%s was not inspected: MAAS could not control its power", w.Hostname).
			With("check the BMC credentials, its address and its network, then retry the stage").ForGood().Because(err).About(said.details(m))
	case said.late:
		return job.Failed(PXEDiscoveryFailure, "failed_commission_timeout", "%s did not report to MAAS in time while it was inspected", w.Hostname).
			With("check that the server boots from the PXE network, then rerun").ForGood().Because(err).About(said.details(m))
	case m.Status == maas.StatusFailedCommissioning, m.Status == maas.StatusFailedTesting:
		return job.Failed(HardwareMismatch, "failed_commission", "%s did not pass the inspection: %s", w.Hostname, m.Status.Label()).
			With("read the script results of the machine in MAAS, mend what failed, then rerun").ForGood().Because(err).About(said.details(m))
	case m.Status != maas.StatusNew && m.Status != maas.StatusBroken:
		return foreign(m, w).Because(err)
	}
	return job.Failed(StateAmbiguity, "commission_aborted", "somebody ended the inspection of %s: it is %s in MAAS", w.Hostname, m.Status.Label()).
		With("find out who did it, then rerun").ForGood().Because(err).About(said.details(m))
}

// tooLong looks once more before it says that the time was up.
func (b *Bringup) tooLong(ctx context.Context, w *Work, err error) error {
	r, regionErr := b.region(ctx, w)
	if regionErr != nil {
		return regionErr
	}
	m, lookErr := b.machine(ctx, r, w)
	if lookErr != nil {
		return lookErr
	}
	said := b.complaints(ctx, r, w)
	class, hint := PXEDiscoveryFailure, "check that the server boots from the PXE network and read its events in MAAS, then rerun"
	if said.bmc {
		class, hint = BMCPowerFailure, "check the BMC credentials, its address and its network, then retry the stage"
	}
	return job.Failed(class, "failed_commission_timeout", "%s was still %s when the time of the profile was up", w.Hostname, m.Status.Label()).
		With("%s", hint).ForGood().Because(err).About(said.details(m))
}

// complaints are what MAAS has said about a machine lately.
type complaints struct {
	events []string
	bmc    bool // the power could not be controlled
	late   bool // MAAS itself gave up waiting
}

const (
	mostEvents = 5
	clocksOff  = time.Minute // at most, between MAAS and us, and the time between asking for it and the stage that waits
)

func (c complaints) details(m maas.Machine) map[string]any {
	d := map[string]any{"maas_status": m.Status.Label(), "power_state": string(m.PowerState)}
	if len(c.events) > 0 {
		d["maas_events"] = c.events
	}
	return d
}

func (b *Bringup) complaintsOf(ctx context.Context, w *Work) complaints {
	r, err := b.region(ctx, w)
	if err != nil {
		return complaints{}
	}
	return b.complaints(ctx, r, w)
}

// complaints reads the events of the stage. They are evidence at best: without
// them the failure is told all the same.
func (b *Bringup) complaints(ctx context.Context, r *region, w *Work) complaints {
	var out complaints
	events, err := r.Events(ctx, maas.EventQuery{IDs: []string{w.SystemID}, Level: maas.LevelWarning, Limit: 20})
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "MAAS events cannot be read", "machine", w.SystemID, "error", err)
		return out
	}
	for _, e := range events {
		if !e.Created.IsZero() && e.Created.Before(w.Since.Add(-clocksOff)) {
			continue // of an earlier round
		}
		text := maas.Shown(e.Type + ": " + e.Description)
		out.events = append(out.events, text)
		out.bmc = out.bmc || maas.AboutBMC(text)
		out.late = out.late || strings.Contains(text, "timed out after")
	}
	out.events = out.events[max(0, len(out.events)-mostEvents):]
	return out
}
