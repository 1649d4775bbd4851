package bringup

import (
	"context"
	"fmt"
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
	Again:   "it only reads",
	Fails: []job.FailureMode{
		MAASAway, BMCSilent, OutOfBand, job.FailsWith(HardwareMismatch, "commissioning failed"),
		job.FailsWith(PXEDiscoveryFailure, "commissioning took too long"),
	},
}, (*Bringup).WaitForReady)

// The codes of failures that only this stage has.
var (
	codeCommissionFailed = job.DeclareCode(job.Code{
		Name: "failed_commission", Class: HardwareMismatch,
		Cause: "A commissioning script failed: most often a broken disk, memory or NIC, or firmware that " +
			"is too old.",
		Remedy:  "read the script results of the machine in MAAS, mend what failed, then rerun",
		Runbook: "onboarding-parked",
	})
	codeCommissionTimeout = job.DeclareCode(job.Code{
		Name: "failed_commission_timeout", Class: PXEDiscoveryFailure,
		Cause: "The machine did not boot the commissioning image: boot order, cabling, the PXE VLAN, or " +
			"it hangs in the firmware.",
		Remedy:  "check that the server boots from the PXE network, then rerun",
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
	var off time.Time
	want := func(m maas.Machine) maas.Verdict {
		switch {
		case advanced(m) && ours(m, w):
			return maas.Reached()
		case m.Status != maas.StatusCommissioning || m.PowerState != maas.PowerOff:
			off = time.Time{}
		case off.IsZero():
			off = b.now()
		case b.now().Sub(off) > mostOff:
			return maas.Failing("the machine is off, and nobody boots it")
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

// notReady says why a machine did not become Ready.
func (b *Bringup) notReady(ctx context.Context, w *Work, m maas.Machine, err error) error {
	said := b.complaintsOf(ctx, w)
	switch {
	case m.Status == maas.StatusCommissioning:
		return codeCommissionUnbooted.FailedAs(BMCPowerFailure, "%s is Commissioning in MAAS, but it has been off for %s: "+
			"nobody boots it", w.Hostname, mostOff).ForGood().Because(err).About(said.details(m))
	case said.bmc:
		return codeCommissionFailed.FailedAs(BMCPowerFailure, "%s was not inspected: MAAS could not control its power",
			w.Hostname).
			With("check the BMC credentials, its address and its network, then retry the stage").ForGood().Because(err).
			About(said.details(m))
	case said.late:
		return codeCommissionTimeout.Failed("%s did not report to MAAS in time while it was inspected", w.Hostname).ForGood().
			Because(err).About(said.details(m))
	case m.Status == maas.StatusFailedCommissioning, m.Status == maas.StatusFailedTesting:
		return codeCommissionFailed.Failed("%s did not pass the inspection: %s", w.Hostname, m.Status.Label()).ForGood().
			Because(err).About(said.details(m))
	case m.Status != maas.StatusNew && m.Status != maas.StatusBroken:
		return foreign(m, w).Because(err)
	}
	return codeCommissionAborted.Failed("somebody ended the inspection of %s: it is %s in MAAS", w.Hostname,
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
