package bringup_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/sim/maas/region"
)

// What follows was found on a real region.

func (w *world) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// MAAS itself makes such links, and refuses to deploy over them.
func TestADHCPLinkWithoutASubnetIsMended(t *testing.T) {
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	nic := w.machine(t, job.SystemID).Interfaces[0]
	for _, l := range nic.Links {
		_, err := w.sim.Unlink(admin, job.SystemID, nic.ID, url.Values{"id": {strconv.Itoa(l.ID)}})
		w.must(t, err)
	}
	_, err := w.sim.LinkSubnet(admin, job.SystemID, nic.ID, url.Values{"mode": {"dhcp"}, "force": {"true"}})
	w.must(t, err)
	if l := w.machine(t, job.SystemID).Interfaces[0].Links; len(l) != 1 || l[0].Subnet != nil {
		t.Fatalf("links %+v", l)
	}
	if r := w.does(t, bringup.EnsurePXEInterfaceAuto, job); r.Skipped {
		t.Errorf("it was taken as it is: %s", r.Message)
	}
	l := w.machine(t, job.SystemID).Interfaces[0].Links
	if len(l) != 1 || l[0].Mode != "auto" || l[0].Subnet == nil {
		t.Errorf("links %+v", l)
	}
}

func TestIPv4IsPreferredOnADualStackVLAN(t *testing.T) {
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	nic := w.machine(t, job.SystemID).Interfaces[0]
	_, err := w.sim.CreateSubnet(admin, url.Values{
		"name": {"pxe6"}, "cidr": {"fd00:20::/64"}, "vlan": {strconv.Itoa(nic.VLAN.ID)}, "gateway_ip": {"fd00:20::1"},
	})
	w.must(t, err)
	_, err = w.sim.LinkSubnet(admin, job.SystemID, nic.ID, url.Values{"mode": {"link_up"}, "force": {"true"}})
	w.must(t, err)
	w.does(t, bringup.EnsurePXEInterfaceAuto, job)
	l := w.machine(t, job.SystemID).Interfaces[0].Links
	if len(l) != 1 || l[0].Subnet == nil || l[0].Subnet.CIDR != "10.20.0.0/16" {
		t.Errorf("links %+v", l)
	}
}

// A machine that MAAS shows as Commissioning and that is off boots by nobody.
func TestACommissioningThatNobodyBootsIsBegunAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *plan) { p.sim.Passive = true }, aFleet(1), func(p *plan) { p.sim.Fleet.Stage = "new" })
	job := w.work(1)
	w.upTo(t, bringup.CommissionNode, job)
	w.does(t, bringup.CommissionNode, job)
	if r := w.does(t, bringup.CommissionNode, job); !strings.Contains(r.Message, "already") {
		t.Errorf("a machine that is on is not left alone: %s", r.Message)
	}
	w.happens(t, job.SystemID, "power_off")
	w.fails(t, bringup.CommissionNode, job, bringup.UpstreamTransient, "commission_unbooted")
	w.does(t, bringup.CommissionNode, job)
	if m := w.machine(t, job.SystemID); m.Status != region.Commissioning || m.PowerState != "on" ||
		job.Facts.Commissions != 2 {
		t.Errorf("machine is %s and %s after %d", m.StatusName, m.PowerState, job.Facts.Commissions)
	}
}

// No rack is no fault of the BMC, and what MAAS said of it is shown.
func TestNoRackIsNotCalledABMCFault(t *testing.T) {
	w := newWorld(t, aFleet(1), func(p *plan) { p.sim.Fleet.Stage = "new" })
	job := w.work(1)
	w.upTo(t, bringup.CommissionNode, job)
	w.sim.SetRackHealth(false)
	f := w.fails(t, bringup.CommissionNode, job, bringup.UpstreamTransient, maas.CodeRackUnavailable)
	if !strings.Contains(f.Message, "No rack controllers can access the BMC of node") {
		t.Errorf("it says %q", f.Message)
	}
}
