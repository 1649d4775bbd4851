package bringup_test

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// assign gives an interface of the first server an address.
func (w *world) assign(tb testing.TB, iface, cidr string, mtu int32) {
	tb.Helper()
	if _, err := w.sites.UpsertAssignments(system(tb), w.site.ID,
		[]site.AssignmentRow{{Hostname: hostname(1), Interface: iface, IPv4CIDR: cidr, MTU: mtu}}); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) nic(tb testing.TB, job *bringup.Work, name string) *region.InterfaceDoc {
	tb.Helper()
	m := w.machine(tb, job.SystemID)
	i := slices.IndexFunc(m.Interfaces, func(i *region.InterfaceDoc) bool { return i.Name == name })
	if i < 0 {
		tb.Fatalf("no interface %s", name)
	}
	return m.Interfaces[i]
}

// unlink takes an interface off its networks and its VLAN.
func (w *world) unlink(tb testing.TB, job *bringup.Work, name string) {
	tb.Helper()
	if _, err := w.sim.Disconnect(admin, job.SystemID, w.nic(tb, job, name).ID); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) subnet(tb testing.TB, cidr, vlan string) {
	tb.Helper()
	if _, err := w.sim.CreateSubnet(admin, url.Values{"cidr": {cidr}, "vlan": {vlan}}); err != nil {
		tb.Fatal(err)
	}
}

const roce = "ens38np0"

func TestRoCEInterfacesGetTheirAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(t *testing.T, w *world, job *bringup.Work)
		made   int // subnets
	}{
		"the network is new": {made: 1},
		"the network is known": {before: func(t *testing.T, w *world, _ *bringup.Work) {
			w.subnet(t, "172.30.9.60/31", "")
		}},
		"the network is on another VLAN": {before: func(t *testing.T, w *world, job *bringup.Work) {
			v, err := w.sim.CreateVLAN(admin, 0, url.Values{"vid": {"77"}})
			if err != nil {
				t.Fatal(err)
			}
			w.subnet(t, "172.30.9.60/31", strconv.Itoa(v.ID))
			if _, err := w.sim.UpdateInterface(admin, job.SystemID, w.nic(t, job, roce).ID,
				url.Values{"vlan": {strconv.Itoa(w.nic(t, job, "eno8303").VLAN.ID)}}); err != nil {
				t.Fatal(err)
			}
		}},
		"the interface has an old address": {made: 1, before: func(t *testing.T, w *world, job *bringup.Work) {
			w.subnet(t, "172.30.1.0/31", "")
			if _, err := w.sim.LinkSubnet(admin, job.SystemID, w.nic(t, job, roce).ID,
				url.Values{"mode": {"static"}, "subnet": {"172.30.1.0/31"}, "ip_address": {"172.30.1.0"}}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(1, "ready"))
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if c.before != nil {
				c.before(t, w, job)
			}
			w.assign(t, roce, "172.30.9.61/31", 9000)
			w.asked.reset()
			w.does(t, bringup.ApplyRoCEPhase2, job)
			i := w.nic(t, job, roce)
			if len(i.Links) != 1 || i.Links[0].Mode != "static" || i.Links[0].IP != "172.30.9.61" ||
				i.Links[0].Subnet.CIDR != "172.30.9.60/31" || i.EffectiveMTU != 9000 {
				t.Errorf("interface is %+v %+v", i, i.Links)
			}
			if w.asked.of("subnets.post") != c.made || job.Facts.RoCEApplied != 1 || job.Facts.RoCEProblems != nil ||
				w.asked.total() > 5 {
				t.Errorf("facts are %+v, MAAS was asked %s", job.Facts, w.asked)
			}
			w.asked.reset()
			if w.does(t, bringup.ApplyRoCEPhase2, job); w.asked.total() != 1 || job.Facts.RoCEApplied != 1 {
				t.Errorf("the second time MAAS was asked %s, facts are %+v", w.asked, job.Facts)
			}
		})
	}
}

func TestWithoutRoCEAssignmentsNothingIsAsked(t *testing.T) {
	t.Parallel()
	for name, adjust := range map[string]func(*plan){
		"no rows":       func(*plan) {},
		"not asked for": func(p *plan) { p.policy.EnablePhase2RoCE = set(false) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(1, "ready"), adjust)
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if name != "no rows" {
				w.assign(t, roce, "172.30.9.61/31", 0)
			}
			w.asked.reset()
			if out := w.does(t, bringup.ApplyRoCEPhase2, job); !out.Skipped || !job.Facts.RoCESkipped || w.asked.total() != 0 {
				t.Errorf("result is %+v, facts are %+v", out, job.Facts)
			}
		})
	}
}

func TestRoCEProblemsAreToldAndStopNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		iface, cidr string
		mtu         int32
		before      func(t *testing.T, w *world, job *bringup.Work)
		says        string
	}{
		"no such interface":      {iface: "ens99", cidr: "172.30.9.61/31", says: "no such interface"},
		"the PXE interface":      {iface: "eno8303", cidr: "172.30.9.61/31", says: "PXE"},
		"an overlapping network": {iface: "ens37np0", cidr: "10.20.0.9/31", says: "overlap"},
		"a taken address": {
			iface: "ens37np0", cidr: "172.30.9.61/31", says: "in use",
			before: func(t *testing.T, w *world, job *bringup.Work) {
				w.subnet(t, "172.30.9.60/31", "")
				if _, err := w.sim.LinkSubnet(admin, job.SystemID, w.nic(t, job, "ens40np0").ID,
					url.Values{"mode": {"static"}, "subnet": {"172.30.9.60/31"}, "ip_address": {"172.30.9.61"}}); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(1, "ready"))
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if c.before != nil {
				c.before(t, w, job)
			}
			w.assign(t, c.iface, c.cidr, c.mtu)
			w.assign(t, roce, "172.30.5.1/31", 0)
			out := w.does(t, bringup.ApplyRoCEPhase2, job)
			if !strings.HasPrefix(out.Message, "WARNING") || len(job.Facts.RoCEProblems) != 1 ||
				!strings.Contains(job.Facts.RoCEProblems[0], c.says) || job.Facts.RoCEApplied != 1 {
				t.Errorf("result is %+v, facts are %+v", out, job.Facts)
			}
			w.does(t, bringup.EnsurePXEInterfaceAuto, job)
		})
	}
}

func TestALostAnswerAboutRoCE(t *testing.T) {
	t.Parallel()
	for _, kind := range []simfault.Kind{simfault.LostAnswer, simfault.ErrorAfter} {
		for _, operation := range []string{"subnets.post", "interface.link_subnet"} {
			t.Run(operation+" "+string(kind), func(t *testing.T) {
				w := newWorld(t, known(1, "ready"))
				job := w.work(1)
				w.does(t, bringup.CreateOrFindInMAAS, job)
				w.assign(t, roce, "172.30.9.61/31", 9000)
				w.fault(t, simfault.Rule{Operation: operation, Fault: kind, Count: 1})
				w.does(t, bringup.ApplyRoCEPhase2, job)
				if n := w.asked.of(operation); n != 1 || job.Facts.RoCEApplied != 1 {
					t.Errorf("%d times, facts are %+v", n, job.Facts)
				}
			})
		}
	}
	t.Run("MAAS is away for long", func(t *testing.T) {
		w := newWorld(t, known(1, "ready"))
		job := w.work(1)
		w.does(t, bringup.CreateOrFindInMAAS, job)
		w.assign(t, roce, "172.30.9.61/31", 0)
		w.fault(t, simfault.Rule{Operation: "interface.link_subnet", Fault: simfault.ErrorBefore, Status: 503})
		for job.Attempt = 1; job.Attempt < 3; job.Attempt++ {
			if f := w.fails(t, bringup.ApplyRoCEPhase2, job, bringup.UpstreamTransient, "roce_link_unproven"); f.Final {
				t.Error("it is not tried again")
			}
		}
		if w.does(t, bringup.ApplyRoCEPhase2, job); len(job.Facts.RoCEProblems) != 1 {
			t.Errorf("facts are %+v", job.Facts)
		}
	})
}

func TestATakenOverJobAppliesNoRoCE(t *testing.T) {
	w := newWorld(t, known(1, "ready"))
	job := w.work(1)
	w.does(t, bringup.CreateOrFindInMAAS, job)
	w.assign(t, roce, "172.30.9.61/31", 0)
	before := w.sim.Changes()
	job.Fence = func(context.Context) error { return durable.Superseded("onboarding", job.Job) }
	if _, err := w.bringup.ApplyRoCEPhase2(system(t), job); err == nil || w.sim.Changes() != before {
		t.Errorf("%v, MAAS was asked %s", err, w.asked)
	}
}

func TestThePXEInterfaceGetsAnAddressByItself(t *testing.T) {
	t.Parallel()
	const pxe = "eno8303"
	link := func(f url.Values) func(t *testing.T, w *world, job *bringup.Work) {
		return func(t *testing.T, w *world, job *bringup.Work) {
			if _, err := w.sim.LinkSubnet(admin, job.SystemID, w.nic(t, job, pxe).ID, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		before  func(t *testing.T, w *world, job *bringup.Work)
		skipped bool
		mode    string
	}{
		"automatic": {skipped: true, mode: "auto"},
		"by DHCP": {before: link(url.Values{
			"mode": {"dhcp"}, "subnet": {"10.20.0.0/16"}, "force": {"true"},
		}), skipped: true, mode: "dhcp"},
		"by DHCP without a subnet": {before: link(url.Values{"mode": {"dhcp"}, "force": {"true"}}), mode: "auto"},
		"static": {before: link(url.Values{
			"mode": {"static"}, "subnet": {"10.20.0.0/16"}, "ip_address": {"10.20.9.9"},
			"force": {"true"},
		}), mode: "auto"},
		"only up":      {before: link(url.Values{"mode": {"link_up"}, "force": {"true"}}), mode: "auto"},
		"disconnected": {before: func(t *testing.T, w *world, job *bringup.Work) { w.unlink(t, job, pxe) }, mode: "auto"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(1, "ready"))
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if c.before != nil {
				c.before(t, w, job)
			}
			w.asked.reset()
			out := w.does(t, bringup.EnsurePXEInterfaceAuto, job)
			i := w.nic(t, job, pxe)
			if out.Skipped != c.skipped || len(i.Links) != 1 || i.Links[0].Mode != c.mode || job.PXEMAC != i.MAC ||
				w.asked.total() > 3 {
				t.Errorf("result is %+v, links are %+v, MAAS was asked %s", out, i.Links, w.asked)
			}
			if out := w.does(t, bringup.EnsurePXEInterfaceAuto, job); !out.Skipped {
				t.Errorf("the second time: %+v", out)
			}
		})
	}
}

func TestAPXEInterfaceThatCannotBeMended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		adjust func(*plan)
		before func(t *testing.T, w *world, job *bringup.Work)
		code   string
	}{
		"not there": {adjust: func(p *plan) { p.policy.NodePXEIface = set("eno1") }, code: "pxe_interface_not_found"},
		"on no network": {before: func(t *testing.T, w *world, job *bringup.Work) {
			w.unlink(t, job, "eno8303")
			w.subnet(t, "10.21.0.0/16", "") // so there are two that it could be on
		}, code: "pxe_subnet_not_found"},
	} {
		for _, strictly := range []bool{true, false} {
			t.Run(name+" strict "+strconv.FormatBool(strictly), func(t *testing.T) {
				w := newWorld(t, known(1, "ready"), func(p *plan) {
					p.policy.StrictPXEPreflight = set(strictly)
					if c.adjust != nil {
						c.adjust(p)
					}
				})
				job := w.work(1)
				w.does(t, bringup.CreateOrFindInMAAS, job)
				if c.before != nil {
					c.before(t, w, job)
				}
				if strictly {
					w.fails(t, bringup.EnsurePXEInterfaceAuto, job, bringup.HardwareMismatch, c.code)
				} else if out := w.does(t, bringup.EnsurePXEInterfaceAuto, job); !strings.HasPrefix(out.Message, "WARNING") {
					t.Errorf("result is %+v", out)
				}
			})
		}
	}
}

func TestALostAnswerAboutThePXEInterface(t *testing.T) {
	t.Parallel()
	for _, kind := range []simfault.Kind{simfault.LostAnswer, simfault.ErrorAfter} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t, known(1, "ready"))
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			w.unlink(t, job, "eno8303")
			w.fault(t, simfault.Rule{Operation: "interface.link_subnet", Fault: kind, Count: 1})
			w.does(t, bringup.EnsurePXEInterfaceAuto, job)
			if n := w.asked.of("interface.link_subnet"); n != 1 {
				t.Errorf("%d times", n)
			}
		})
	}
	t.Run("nothing was done", func(t *testing.T) {
		w := newWorld(t, known(1, "ready"))
		job := w.work(1)
		w.does(t, bringup.CreateOrFindInMAAS, job)
		w.unlink(t, job, "eno8303")
		w.fault(t, simfault.Rule{Operation: "interface.link_subnet", Fault: simfault.ErrorBefore, Count: 1})
		if f := w.fails(t, bringup.EnsurePXEInterfaceAuto, job, bringup.UpstreamTransient, "pxe_link_unproven"); f.Final {
			t.Error("it is not tried again")
		}
		w.does(t, bringup.EnsurePXEInterfaceAuto, job)
	})
}
