package bringup

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/job"
)

// EnsurePXEInterfaceAuto names the stage "Set up the PXE interface".
const EnsurePXEInterfaceAuto = "ensure_pxe_interface_auto"

var _ = catalog.Declare(job.Stage{
	Name: EnsurePXEInterfaceAuto, Title: "Set up the PXE interface", Attempts: 2, Resume: ConfigureStorage,
	Looks:   "the links of the PXE interface",
	Does:    "links it AUTO if it is neither AUTO nor DHCP on a subnet",
	Expects: "the PXE interface has an AUTO or DHCP link on a subnet",
	Again:   "a link that is right is left alone",
	Fails: []job.FailureMode{
		MAASAway, OutOfBand, job.FailsWith(HardwareMismatch, "there is no such interface, or it has no subnet"),
	},
}, (*Bringup).EnsurePXEInterfaceAuto)

// The codes of failures that only this stage has.
var (
	codePXEInterfaceMissing = job.DeclareCode(job.Code{
		Name: "pxe_interface_not_found", Class: HardwareMismatch,
		Cause:   "The machine has no interface of the name that the site or profile gives as its PXE interface.",
		Remedy:  "correct node_pxe_iface of the profile or the site, or the cabling, then rerun",
		Runbook: "onboarding-parked",
	})
	codePXEInterfaceUnlinked = job.DeclareCode(job.Code{
		Name: "pxe_interface_unlinked", Class: HardwareMismatch,
		Cause: "The PXE interface has no subnet in MAAS: the cable is in the wrong port, or the VLAN of " +
			"the port is wrong.",
		Remedy:  "link the interface in MAAS, then rerun",
		Runbook: "onboarding-parked",
	})
	codePXESubnetMissing = job.DeclareCode(job.Code{
		Name: "pxe_subnet_not_found", Class: HardwareMismatch,
		Cause:   "MAAS has no subnet on the VLAN of the PXE interface.",
		Remedy:  "link the interface in MAAS, or correct its VLAN, then rerun",
		Runbook: "onboarding-parked",
	})
	codePXELinkUnproven = job.DeclareCode(job.Code{
		Name: "pxe_link_unproven", Class: UpstreamTransient,
		Cause:   "The connection to MAAS broke during a request, so it is not known whether MAAS did it.",
		Remedy:  "retry: the stage first checks what was done",
		Runbook: "onboarding-parked",
	})
)

// EnsurePXEInterfaceAuto makes sure that the machine gets an address on the PXE
// network when it is deployed: without one it cannot fetch anything.
func (b *Bringup) EnsurePXEInterfaceAuto(ctx context.Context, w *Work) (Result, error) {
	r, err := b.region(ctx, w)
	if err != nil {
		return Result{}, err
	}
	m, skip, err := b.editable(ctx, r, w)
	if err != nil || skip {
		return skipAdvanced(m), err
	}
	name := nodePXEIface(w)
	iface := interfaceOf(m, name)
	w.Facts.Reinspect = iface == nil && w.Profile.Policy.StrictPXEPreflight // or one that is fitted now would stay unseen
	if iface == nil {
		return b.pxeProblem(w, m, codePXEInterfaceMissing.Failed("%s has no interface %s", w.Hostname, name).ForGood())
	}
	w.PXEMAC = strings.ToLower(iface.MAC)
	if link := automatic(*iface); link != nil {
		return Result{Skipped: true, Message: fmt.Sprintf("%s has %s", name, linkText(*link))}, nil
	}
	subnet, err := b.pxeSubnet(ctx, r, w, m, *iface)
	if err != nil {
		return b.pxeProblem(w, m, err)
	}
	if err := w.Fence(ctx); err != nil {
		return Result{}, err
	}
	after, err := r.LinkSubnet(ctx, m.SystemID, iface.ID, maas.LinkOptions{
		Mode: maas.LinkAuto, SubnetID: subnet.ID,
		Force: true,
	})
	if fault.KindOf(err) == fault.Ambiguous {
		now, lookErr := b.machine(ctx, r, w)
		if lookErr != nil {
			return Result{}, lookErr
		}
		if found := interfaceOf(now, name); found != nil && automatic(*found) != nil {
			after, err = *found, nil
		}
	}
	if err != nil {
		return Result{}, unproven(err, codePXELinkUnproven, "MAAS did not confirm the link of %s", name)
	}
	link := automatic(after)
	if link == nil {
		return b.pxeProblem(w, m,
			codePXEInterfaceUnlinked.Failed("%s has no automatic link to the PXE network, although it was set", name))
	}
	return Result{
		Message: fmt.Sprintf("%s was linked again: %s", name, linkText(*link)),
		Details: map[string]any{"interface": name, "subnet": subnet.CIDR},
	}, nil
}

// automatic finds the link by which an interface gets an address by itself. One
// by DHCP without a subnet is none: MAAS refuses to deploy over it once the lease
// has ended.
func automatic(i maas.Interface) *maas.Link {
	for n, l := range i.Links {
		if (l.Mode == maas.LinkDHCP || l.Mode == maas.LinkAuto) && l.Subnet != nil {
			return &i.Links[n]
		}
	}
	return nil
}

func linkText(l maas.Link) string {
	if l.Subnet == nil {
		return "an address by " + string(l.Mode)
	}
	return fmt.Sprintf("an address by %s on %s", l.Mode, l.Subnet.CIDR)
}

// pxeSubnet chooses the network of the PXE interface: the one it is on, else the
// only one of its VLAN, else the only one of the site's PXE VLAN with DHCP. Where
// there is one of each family, it is the one of IPv4.
func (b *Bringup) pxeSubnet(ctx context.Context, r *region, w *Work, m maas.Machine, iface maas.Interface) (maas.Subnet,
	error,
) {
	var linked []maas.Subnet
	for _, l := range iface.Links {
		if l.Subnet != nil {
			linked = append(linked, *l.Subnet)
		}
	}
	if len(linked) > 0 {
		return ofIPv4(linked)[0], nil
	}
	all, err := r.subnets.since(ctx, b.now().Add(-siteFreshFor), b.now(), r.Subnets)
	if err != nil {
		return maas.Subnet{}, err
	}
	vid := w.Site.Settings.PXEVLANVID
	if w.Profile.Policy.PXEVLANVID >= 0 {
		vid = w.Profile.Policy.PXEVLANVID
	}
	for _, fits := range []func(maas.Subnet) bool{
		func(s maas.Subnet) bool { return iface.VLAN != nil && s.VLAN.ID == iface.VLAN.ID },
		func(s maas.Subnet) bool { return s.VLAN.VID == int(vid) && s.VLAN.DHCPOn },
	} {
		found := slices.DeleteFunc(slices.Clone(all), func(s maas.Subnet) bool { return !fits(s) || pointToPoint(s) })
		if found = ofIPv4(found); len(found) == 1 {
			return found[0], nil
		}
	}
	return maas.Subnet{},
		codePXESubnetMissing.Failed("which network %s of %s is on cannot be told: MAAS knows none, or several", iface.Name,
			w.Hostname).ForGood().About(map[string]any{"interface": iface.Name, "system_id": m.SystemID, "pxe_vlan_vid": vid})
}

// ofIPv4 are the networks of IPv4, or all if there is none.
func ofIPv4(all []maas.Subnet) []maas.Subnet {
	found := slices.DeleteFunc(slices.Clone(all), func(s maas.Subnet) bool { return strings.Contains(s.CIDR, ":") })
	if len(found) == 0 {
		return all
	}
	return found
}

// pointToPoint are networks of two, such as RoCE has: nothing boots from them,
// whatever VLAN MAAS files them under.
func pointToPoint(s maas.Subnet) bool {
	network, err := netip.ParsePrefix(s.CIDR)
	return err == nil && network.Addr().BitLen()-network.Bits() <= 1
}

// pxeProblem is a failure where the profile is strict, and a warning otherwise.
func (b *Bringup) pxeProblem(w *Work, m maas.Machine, err error) (Result, error) {
	f := Classify(err)
	if w.Profile.Policy.StrictPXEPreflight || f.Class == UpstreamTransient {
		names := make([]string, len(m.Interfaces))
		for i, n := range m.Interfaces {
			names[i] = maas.Shown(n.Name)
		}
		if f.Details == nil {
			f.Details = map[string]any{}
		}
		f.Details["interfaces"] = names
		return Result{}, f
	}
	return Result{Message: "WARNING: " + f.Message, Details: map[string]any{"problem": f.Code.String()}}, nil
}
