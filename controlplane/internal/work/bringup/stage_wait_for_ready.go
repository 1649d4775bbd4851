package bringup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// WaitForReady names the stage "Wait until Ready".
const WaitForReady = "wait_for_ready"

var _ = catalog.Declare(job.Stage{
	Name: WaitForReady, Title: "Wait until Ready", Attempts: 1, Limit: job.Limit(site.StageCommission),
	Resume:  CommissionNode,
	Usually: "8 to 20 min",
	Looks:   "the status of the machine, over and over",
	Does:    "nothing",
	Expects: "MAAS shows the machine as Ready",
	Again: "it only reads; commissioning that gets nowhere (the machine is off, or nothing is heard of it) is started " +
		"again once",
	Fails: []job.FailureMode{
		MAASAway, BMCSilent, OutOfBand, job.FailsWith(HardwareMismatch, "commissioning failed"),
		job.FailsWith(PXEDiscoveryFailure, "commissioning took too long, or nothing is heard of the machine"),
	},
}, (*Bringup).WaitForReady)

// The codes of failures that only this stage has.
var (
	codeCommissionFailed = job.DeclareCode(job.Code{
		Name: "failed_commission", Class: HardwareMismatch,
		Cause: "A commissioning script failed: most often a broken disk, memory or NIC, or firmware that " +
			"is too old.",
		Remedy:  "read the script results of the machine in MAAS, fix what failed, then rerun",
		Runbook: "onboarding-parked",
	})
	codeCommissionTimeout = job.DeclareCode(job.Code{
		Name: "failed_commission_timeout", Class: PXEDiscoveryFailure,
		Cause: "The machine did not boot the commissioning image: its boot order, cabling or PXE VLAN is wrong, or " +
			"it hangs in the firmware.",
		Remedy:  "check that the server boots from the PXE network, then rerun",
		Runbook: "onboarding-parked",
	})
	codeCommissionSilent = job.DeclareCode(job.Code{
		Name: "commission_silent", Class: PXEDiscoveryFailure,
		Cause: "MAAS shows the machine as Commissioning and on, but it never asked for the commissioning image: " +
			"its boot order, cabling or PXE VLAN is wrong, or it hangs in the firmware.",
		Remedy:  "check on the console of the server that it boots from the PXE network, then rerun to commission it again",
		Runbook: "onboarding-parked",
	})
	codeCommissionAborted = job.DeclareCode(job.Code{
		Name: "commission_aborted", Class: StateAmbiguity,
		Cause:   "Somebody stopped the commissioning in MAAS.",
		Remedy:  "find out who did it, then rerun",
		Runbook: "onboarding-parked",
	})
)

// WaitForReady waits until MAAS has inspected the machine.
func (b *Bringup) WaitForReady(ctx context.Context, w *Work) (Result, error) {
	m, err := b.untilReady(ctx, w)
	switch code := fault.CodeOf(err); {
	case err == nil && m.Status != maas.StatusReady:
		return skipAdvanced(m), nil
	case err == nil:
		notePXEMAC(w, m)
		return Result{
			Message: fmt.Sprintf("Ready: %d CPUs, %d GiB, %d disks, %d interfaces", m.CPUCount, m.Memory/1024,
				len(m.BlockDevices), len(m.Interfaces)),
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
	off, heard := time.Time{}, w.Since
	want := func(m maas.Machine) maas.Verdict {
		if advanced(m) && ours(m, w) {
			return maas.Reached()
		}
		if m.Status != maas.StatusCommissioning || m.PowerState != maas.PowerOff {
			off = time.Time{}
		} else if off.IsZero() {
			off = b.now()
		}
		switch {
		case !off.IsZero() && b.now().Sub(off) > mostOff:
			return maas.Failing("the machine is off, and nobody boots it")
		case m.Status == maas.StatusCommissioning && !heard.IsZero() && b.now().Sub(heard) > mostSilent:
			if heard = b.lastHeard(ctx, w, m, heard); b.now().Sub(heard) > mostSilent {
				return maas.Failing("nothing is heard of the machine")
			}
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

// mostOff is how long a machine may be off while MAAS inspects it. It restarts
// within minutes, and MAAS looks at its power every five.
const mostOff = 15 * time.Minute

// mostSilent is how long nothing may be heard of a machine that MAAS inspects,
// and that has not begun to run its scripts. Servers with much memory take a
// quarter of an hour to boot.
const mostSilent = 20 * time.Minute

// lastHeard is when MAAS last recorded something about a machine that it
// inspects. A machine that has begun to run scripts is heard of now: scripts
// may take long, and MAAS watches their time itself. So is one of which MAAS
// says nothing: no information is no silence.
func (b *Bringup) lastHeard(ctx context.Context, w *Work, m maas.Machine, before time.Time) time.Time {
	heard, err := b.heard(ctx, w, m)
	switch {
	case err != nil:
		b.cfg.Logger.WarnContext(ctx, "whether a machine is heard of cannot be read", "machine", m.SystemID, "error", err)
		return b.now()
	case heard.Before(before):
		return before
	}
	return heard
}

func (b *Bringup) heard(ctx context.Context, w *Work, m maas.Machine) (time.Time, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return time.Time{}, err
	}
	sets, err := r.Results(ctx, m.SystemID, maas.ResultCommissioning)
	if err != nil {
		return time.Time{}, err
	}
	if set := slices.IndexFunc(sets, func(s maas.ResultSet) bool { return s.ID == m.CommissioningResultID }); set < 0 ||
		slices.ContainsFunc(sets[set].Results, maas.ScriptResult.Begun) {
		return b.now(), nil
	}
	events, err := r.Events(ctx, maas.EventQuery{IDs: []string{m.SystemID}, Level: maas.LevelDebug, Limit: 1})
	if err != nil {
		return time.Time{}, err
	}
	if len(events) == 0 { // MAAS prunes its events: no information is no silence
		return b.now(), nil
	}
	heard := events[len(events)-1].Created.Time
	if ahead, known := r.Skew(); known {
		heard = heard.Add(-ahead) // MAAS wrote it by its own clock
	}
	return heard, nil
}

// hung ends a wait for an inspection that gets nowhere. The inspection is
// started again: at once if this job has not done so before, otherwise when an
// operator lets the job go on.
func hung(w *Work, f *Failure) *Failure {
	w.Facts.Hung = true
	if w.Facts.Commissions < mostCommissions {
		f.Next = CommissionNode
	}
	return f.ForGood()
}

// mostCommissions is how many inspections a job begins by itself.
const mostCommissions = 2

// notReady says why a machine did not become Ready.
func (b *Bringup) notReady(ctx context.Context, w *Work, m maas.Machine, err error) error {
	said := b.complaintsOf(ctx, w)
	switch {
	case m.Status == maas.StatusCommissioning && m.PowerState == maas.PowerOff:
		return hung(w, codeCommissionUnbooted.FailedAs(BMCPowerFailure, "%s is Commissioning in MAAS, but it has been off "+
			"for %s: nobody boots it", w.Hostname, mostOff)).Because(err).About(said.details(m))
	case m.Status == maas.StatusCommissioning:
		return hung(w, codeCommissionSilent.Failed("%s is Commissioning in MAAS and its power is %s, but nothing has been "+
			"heard of it for %s", w.Hostname, m.PowerState, mostSilent)).Because(err).About(said.details(m))
	case said.bmc:
		return codeCommissionFailed.FailedAs(BMCPowerFailure, "%s was not commissioned: MAAS could not control its power",
			w.Hostname).
			With("check the BMC credentials, its address and its network, then retry the stage").ForGood().Because(err).
			About(said.details(m))
	case said.late:
		return codeCommissionTimeout.Failed("%s did not report to MAAS in time while it was commissioned", w.Hostname).ForGood().
			Because(err).About(said.details(m))
	case m.Status == maas.StatusFailedCommissioning, m.Status == maas.StatusFailedTesting:
		return codeCommissionFailed.Failed("%s did not pass commissioning: %s", w.Hostname, m.Status.Label()).ForGood().
			Because(err).About(said.details(m))
	case m.Status != maas.StatusNew && m.Status != maas.StatusBroken:
		return foreign(m, w).Because(err)
	}
	return codeCommissionAborted.Failed("somebody ended the commissioning of %s: it is %s in MAAS", w.Hostname,
		m.Status.Label()).ForGood().Because(err).About(said.details(m))
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
	if heard, err := b.heard(ctx, w, m); err == nil && m.Status == maas.StatusCommissioning {
		w.Facts.Hung = b.now().Sub(heard) > mostSilent // or a rerun would wait for it once more
	}
	said := b.complaints(ctx, r, w)
	class, hint := PXEDiscoveryFailure,
		"check that the server boots from the PXE network and read its events in MAAS, then rerun"
	if said.bmc {
		class, hint = BMCPowerFailure, "check the BMC credentials, its address and its network, then retry the stage"
	}
	return codeCommissionTimeout.FailedAs(class, "%s was still %s when the time of the profile was up", w.Hostname,
		m.Status.Label()).
		With("%s", hint).ForGood().Because(err).About(said.details(m))
}
