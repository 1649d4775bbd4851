package bringup

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
)

// ApplyRoCEPhase2 names the stage "Set up RoCE addresses".
const ApplyRoCEPhase2 = "apply_roce_phase2"

var _ = catalog.Declare(job.Stage{
	Name: ApplyRoCEPhase2, Title: "Set up RoCE addresses", Attempts: 1, Resume: ConfigureStorage,
	Looks:   "the assignments of the hostname and the interfaces",
	Does:    "creates missing /31 subnets and links",
	Expects: "each assigned address is linked; problems are a warning and never stop the job",
	Again:   "links that exist are left alone",
	Fails:   []job.FailureMode{MAASAway},
}, (*Bringup).ApplyRoCEPhase2)

// The codes of failures that only this stage has.
var (
	codeRoCEInterfaceMissing = job.DeclareCode(job.Code{
		Name: "roce_interface_not_found", Class: HardwareMismatch,
		Cause: "The RoCE assignment of the site names an interface that the machine does not have.",
		Remedy: "correct the RoCE assignment of the host name, or fit the card; the machine is used " +
			"without that address",
		Runbook: "maas-site-not-ready",
	})
	codeRoCEInterfaceIsPXE = job.DeclareCode(job.Code{
		Name: "roce_interface_is_pxe", Class: InputConfigError,
		Cause:   "The RoCE assignment of the site names the interface that the machine boots from.",
		Remedy:  "correct the RoCE assignment of the host name; the machine is used without that address",
		Runbook: "maas-site-not-ready",
	})
	codeRoCEAddressInvalid = job.DeclareCode(job.Code{
		Name: "roce_address_invalid", Class: InputConfigError,
		Cause:   "The RoCE assignment of the site has an address that cannot be read.",
		Remedy:  "correct the RoCE assignment of the host name; the machine is used without that address",
		Runbook: "maas-site-not-ready",
	})
	codeRoCEMTUUnproven = job.DeclareCode(job.Code{
		Name: "roce_mtu_unproven", Class: UpstreamTransient,
		Cause:   "The connection to MAAS broke during a request, so it is not known whether MAAS did it.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
	codeRoCELinkUnproven = job.DeclareCode(job.Code{
		Name: "roce_link_unproven", Class: UpstreamTransient,
		Cause:   "The connection to MAAS broke during a request, so it is not known whether MAAS did it.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
	codeRoCESubnetUnproven = job.DeclareCode(job.Code{
		Name: "roce_subnet_unproven", Class: UpstreamTransient,
		Cause:   "The connection to MAAS broke during a request, so it is not known whether MAAS did it.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
)

// transientTries is how many attempts the stage gets if MAAS is away. Then it goes
// on without the address, because RoCE must never stop a machine.
const transientTries = 3

// ApplyRoCEPhase2 gives the RoCE interfaces their addresses. It reports addresses
// that it cannot apply as warnings; the job goes on.
func (b *Bringup) ApplyRoCEPhase2(ctx context.Context, w *Work) (Result, error) {
	rows, err := b.assignments(ctx, w)
	if err != nil {
		return Result{}, err
	}
	if len(rows) == 0 {
		w.Facts.RoCEApplied, w.Facts.RoCESkipped, w.Facts.RoCEProblems = 0, true, nil
		why := "the site has no RoCE assignments for " + w.Hostname
		if !w.Profile.Policy.EnablePhase2RoCE {
			why = "the profile does not ask for RoCE addresses"
		}
		return Result{Skipped: true, Message: why}, nil
	}
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, skip, err := b.editable(ctx, r, w)
	if err != nil || skip {
		return skipAdvanced(m), err
	}
	w.Facts.RoCEApplied, w.Facts.RoCESkipped, w.Facts.RoCEProblems = 0, false, nil
	for _, row := range rows {
		err := b.applyRoCE(ctx, r, w, m, row)
		if err == nil {
			w.Facts.RoCEApplied++
			continue
		}
		switch f := Classify(err); {
		case ctx.Err() != nil || fault.CodeOf(err) == durable.CodeSuperseded:
			return Result{}, err
		case f.Class == UpstreamTransient && w.Attempt < transientTries:
			return Result{}, f
		default:
			w.Facts.RoCEProblems = append(w.Facts.RoCEProblems, fmt.Sprintf("%s %s: %s", row.Interface, row.IPv4CIDR, f.Message))
		}
	}
	out := Result{Message: fmt.Sprintf("%d of %d RoCE addresses are set", w.Facts.RoCEApplied, len(rows))}
	if len(w.Facts.RoCEProblems) > 0 {
		out.Message = "WARNING: " + out.Message
		out.Details = map[string]any{"problems": w.Facts.RoCEProblems}
	}
	return out, nil
}

// mostInterfaces of one machine can have an address.
const mostInterfaces = 100

func (b *Bringup) assignments(ctx context.Context, w *Work) ([]site.Assignment, error) {
	if !w.Profile.Policy.EnablePhase2RoCE {
		return nil, nil
	}
	return b.cfg.Sites.Assignments(ctx, w.Site.ID, site.AssignmentFilter{Hostname: &w.Hostname},
		postgres.Slice[site.AssignmentKey]{Limit: mostInterfaces})
}

// applyRoCE gives one interface its address and MTU, where it does not have them.
func (b *Bringup) applyRoCE(ctx context.Context, r *region, w *Work, m maas.Machine, row site.Assignment) error {
	iface := interfaceOf(m, row.Interface)
	switch {
	case iface == nil:
		return codeRoCEInterfaceMissing.Failed("the machine has no such interface")
	case row.Interface == nodePXEIface(w):
		return codeRoCEInterfaceIsPXE.Failed("that is the interface of the PXE network")
	}
	prefix, err := netip.ParsePrefix(row.IPv4CIDR)
	if err != nil {
		return codeRoCEAddressInvalid.Failed("the address cannot be read")
	}
	if !hasStatic(*iface, prefix) {
		if err := b.linkRoCE(ctx, r, w, m, iface, prefix); err != nil {
			return err
		}
	}
	if row.MTU == 0 || iface.EffectiveMTU == int(row.MTU) {
		return nil
	}
	if err := w.Fence(ctx); err != nil {
		return err
	}
	_, err = r.UpdateInterface(ctx, m.SystemID, iface.ID, maas.InterfaceAttributes{MTU: int64(row.MTU)})
	return unproven(err, codeRoCEMTUUnproven, "MAAS did not confirm the MTU of %s", row.Interface)
}

// hasStatic reports the one link that an interface with a fixed address has.
func hasStatic(i maas.Interface, address netip.Prefix) bool {
	return len(i.Links) == 1 && i.Links[0].Mode == maas.LinkStatic && i.Links[0].IPAddress == address.Addr().String() &&
		i.Links[0].Subnet != nil && i.Links[0].Subnet.CIDR == address.Masked().String()
}

func (b *Bringup) linkRoCE(ctx context.Context, r *region, w *Work, m maas.Machine, iface *maas.Interface,
	address netip.Prefix,
) error {
	if err := w.Fence(ctx); err != nil {
		return err
	}
	subnet, err := b.subnetFor(ctx, r, iface, address.Masked())
	if err != nil {
		return err
	}
	after, err := r.LinkSubnet(ctx, m.SystemID, iface.ID, maas.LinkOptions{
		Mode: maas.LinkStatic, SubnetID: subnet.ID,
		IPAddress: address.Addr().String(), Force: true,
	})
	done := err == nil && hasStatic(after, address)
	if !done && (err == nil || fault.KindOf(err) == fault.Ambiguous || fault.CodeOf(err) == maas.CodeAddressInUse) {
		now, lookErr := b.machine(ctx, r, w) // it may be this very link that has the address
		if lookErr != nil {
			return lookErr
		}
		if found := interfaceOf(now, iface.Name); found != nil && hasStatic(*found, address) {
			after, done = *found, true
		}
	}
	switch {
	case done:
		*iface = after
		return nil
	case err == nil:
		return codeRoCELinkUnproven.Failed("MAAS does not show the address of %s, although it was set", iface.Name)
	}
	return unproven(err, codeRoCELinkUnproven, "MAAS did not confirm the address of %s", iface.Name)
}

// subnetFor finds the network of an address, or makes MAAS know it, on the VLAN
// that the interface is on.
func (b *Bringup) subnetFor(ctx context.Context, r *region, iface *maas.Interface, network netip.Prefix) (maas.Subnet,
	error,
) {
	look := func(oldest bool) (maas.Subnet, bool, error) {
		since := b.now()
		if oldest {
			since = since.Add(-siteFreshFor)
		}
		all, err := r.subnets.since(ctx, since, b.now(), r.Subnets)
		i := slices.IndexFunc(all, func(s maas.Subnet) bool { return s.CIDR == network.String() })
		if err != nil || i < 0 {
			return maas.Subnet{}, false, err
		}
		return all[i], true, nil
	}
	if found, ok, err := look(true); err != nil || ok {
		return found, err
	}
	wanted := maas.NewSubnet{CIDR: network.String(), Name: "roce-" + network.String()}
	if iface.VLAN != nil {
		wanted.VLANID = iface.VLAN.ID
	}
	made, err := r.CreateSubnet(ctx, wanted)
	if err == nil {
		return made, nil
	}
	// another machine may have needed it, too
	if fault.KindOf(err) == fault.Ambiguous || fault.CodeOf(err) == maas.CodeFieldErrors {
		if found, ok, lookErr := look(false); lookErr != nil || ok {
			return found, lookErr
		}
	}
	return maas.Subnet{}, unproven(err, codeRoCESubnetUnproven, "MAAS did not confirm the network %s", network)
}

// nodePXEIface is the interface of the node on the PXE network.
func nodePXEIface(w *Work) string {
	if w.Profile.Policy.NodePXEIface != "" {
		return w.Profile.Policy.NodePXEIface
	}
	return w.Site.Settings.NodePXEIface
}
