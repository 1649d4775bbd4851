package faults

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"gpuaas/contract/agentwire"
	agents "gpuaas/sim/fleet"
	"gpuaas/sim/lab"
	"gpuaas/sim/maas/fault"
)

// Sections of the paths.
var (
	inspects = Section{Family: Onboarding, Stage: commission}
	links    = Section{Family: Onboarding, Stage: pxeLink}
	joins    = Section{Family: Onboarding, Stage: waitAgent}
	scrubs   = Section{Family: Decommission, Mode: softReset, Stage: scrub}
	releases = Section{Family: Decommission, Mode: reimage, Stage: release}
)

const withGaps = "with_gaps"

var paths = []Case{
	{
		Section: joins, What: "the agent comes long after the job was parked for it",
		Mend: "let the agent reach the control plane", slow: true,
		set: func(r *run) {
			letCome := r.world.boots.hold(r.hostname, r.world.boots.held)
			r.mend = func(context.Context) error { letCome(); return nil }
		},
		path: &path{
			name: "late_agent", alone: true,
			stops: []Stop{{Stage: waitAgent, Code: "failed_enrollment", Action: nobody}},
		},
	},
	{
		Section: joins, What: "the machine has less memory than the SKU asks for, and only matching hardware is accepted",
		Mend: "correct the SKU", wish: func(w *wish) { w.match = true },
		set: func(r *run) { r.mend = func(ctx context.Context) error { return r.asksFor(ctx, 1024) } },
		path: &path{
			name: "hardware_mismatch", tells: "GiB of memory, and the SKU asks for", ask: (*run).onboardAsLarger,
			stops: []Stop{{Stage: waitAgent, Code: "hardware_does_not_match", Action: "resume"}},
		},
	},
	{
		Section: joins, What: "a data disk holds data of before, and the profile asks for clean ones", Mend: "wipe the disk",
		wish: func(w *wish) { w.dataDisks = "require_clean" },
		set: func(r *run) {
			r.world.boots.answer(r.hostname, agentwire.TypeDataDisks, func(agentwire.Verified) (any, *agentwire.TaskError) {
				return agentwire.DataDisksOutput{Action: agentwire.DataDisksLook, Disks: []agentwire.DataDisk{{
					Device: "/dev/nvme1n1", Serial: "S-1", State: agentwire.DataDiskHoldsData, Reason: "it has a file system",
				}}}, nil
			})
		},
		path: &path{
			name: "dirty_data_disks", tells: "/dev/nvme1n1",
			stops: []Stop{{Stage: waitAgent, Code: "data_disks_not_clean", Action: "resume"}},
		},
	},
	{
		Section: joins, What: "a data disk holds data of before, and the profile says that the first boot formats data disks",
		wish: func(w *wish) { w.dataDisks = "initialize" }, set: func(*run) {}, proof: (*run).formatsDisks,
		path: &path{name: "data_disks_initialize"},
	},
	{
		Section: joins, What: "a report of hardware renames the installed image in MAAS before the job is stopped and run again",
		wish: func(w *wish) { w.image = renamedImage }, proof: (*run).renamedOnce,
		set: func(r *run) {
			r.world.Lab.AddImage(renamedImage)
			r.before = once(mishapAmbiguous)
		},
		path: &path{
			name:  "image_renamed_by_sync",
			stops: []Stop{{Stage: waitAgent, Code: "simulated_timeout", Action: "adopt_observed_state"}},
		},
	},
	{
		Section: links, What: "MAAS itself has given the interface a DHCP link without a subnet, with which it deploys nothing",
		set: given((*run).linkWithoutSubnet, func(*run) {}), proof: (*run).hasSubnet,
		path: &path{name: "dhcp_without_subnet"},
	},
	{
		Section: inspects, What: "no rack controller is connected to MAAS", Mend: "bring the rack controller back",
		set: func(r *run) {
			r.first(func(context.Context) error {
				// Other cases only look at the interfaces of racks.
				dead := fault.Rule{
					Operation: "rackcontrollers.get", Fault: fault.Lie,
					Set: map[string]any{"service_set": []any{map[string]any{"name": "rackd", "status": "dead"}}},
				}
				if err := r.ruleOfAll(dead); err != nil {
					return err
				}
				return r.rule(fault.Rule{
					Operation: commissionOp, Fault: fault.ErrorBefore, Status: unavailable,
					Text: "No rack controllers can access the BMC of node " + r.hostname,
				})
			})
		},
		path: &path{
			name: "no_rack_connected", tells: "No rack controllers can access the BMC of node",
			stops: []Stop{{Stage: commission, Code: "maas_rack_unavailable", Action: "resume"}},
		},
	},
	{
		Section: inspects, What: "MAAS shows the machine as Commissioning, it is off, and nobody boots it",
		set: func(r *run) { r.first(r.inspectedAndOff) },
		path: &path{
			name:  "commissioning_but_off",
			stops: []Stop{{Stage: waitReady, Code: "failed_commission_timeout", Action: "rerun"}},
		},
	},
	{
		Section: scrubs, What: "the GPUs can only be reset, and the profile accepts that", wish: accepting("reset"),
		set:  says(agentwire.TypeGPUScrub, onlyReset),
		path: &path{name: "gpus_only_reset", outcome: withGaps},
	},
	{
		Section: scrubs, What: "the GPUs cannot be overwritten, and the profile accepts a power cycle",
		wish: accepting("power_cycle"), set: says(agentwire.TypeGPUScrub, untouchable),
		path: &path{name: "gpus_power_cycled", outcome: withGaps},
	},
	{
		Section: scrubs, What: "the GPUs cannot be overwritten, and the BMC does not switch the machine off for them",
		Mend: "mend the BMC", wish: accepting("power_cycle"),
		set: func(r *run) {
			cannot := says(agentwire.TypeGPUScrub, untouchable)
			cannot(r)
			told := r.before
			r.before = func(ctx context.Context, n int) string {
				if n == 1 {
					r.trouble(r.rule(fault.Rule{Fault: fault.BMCFailure, Power: "off"}))
				}
				return told(ctx, n)
			}
			r.mend = func(ctx context.Context) error { told(ctx, 1); return nil } // they cannot be overwritten afterwards either
		},
		path: &path{
			name: "power_cycle_fails", outcome: withGaps,
			stops: []Stop{{Stage: scrub, Code: "power_cycle_failed", Action: "retry_stage"}},
		},
	},
	{
		Section: releases, What: "the machine is dead, its agent has not called for hours, and the plan offers to reinstall it " +
			"in one decision",
		set:  func(*run) {},
		path: &path{name: "dead_node_short_way", outcome: withGaps, ask: (*run).takeShortWay},
	},
	{
		Section: releases, What: "somebody releases the machine of a node in service; two looks at the site take the node out " +
			"of scheduling, and what is advised is done",
		wish: func(w *wish) { w.vacant = true }, set: func(*run) {}, slow: true,
		path: &path{
			name: "released_behind_our_back", outcome: withGaps, ask: (*run).releasedUnasked,
			stops: []Stop{{Stage: release, Code: "released_elsewhere", Action: "adopt_observed_state"}},
		},
	},
}

const renamedImage = "gpuaas-renamed"

func accepting(weakest string) func(*wish) { return func(w *wish) { w.scrub = weakest } }

// onlyReset is a scrub of GPUs that nothing here can overwrite, and that were reset.
func onlyReset(any) any {
	return withEveryGPU(func(g *agentwire.GPUScrubbed) { g.Method, g.Reset = agentwire.ScrubByReset, "done" })
}

// untouchable is a scrub of GPUs that nothing here can overwrite or reset.
func untouchable(any) any {
	return withEveryGPU(func(g *agentwire.GPUScrubbed) { g.Error = "library_missing: a simulated driver" })
}

func withEveryGPU(change func(*agentwire.GPUScrubbed)) any {
	out, _ := agents.Answer(agentwire.Verified{Params: &agentwire.GPUScrubParams{}}).(agentwire.GPUScrubOutput)
	out.Reason = "nothing here overwrites these GPUs"
	for i := range out.GPUs {
		out.GPUs[i].BytesCovered = 0
		change(&out.GPUs[i])
	}
	return out
}

// formatsDisks proves that the first boot of the machine formats its data disks.
func (r *run) formatsDisks() error {
	v, err := r.view(context.Background())
	if err != nil {
		return err
	}
	if layers := fmt.Sprint(v.Facts["first_boot_layers"]); !strings.Contains(layers, "disk-init") {
		return fmt.Errorf("the first boot formats no data disk: it has %s", layers)
	}
	return nil
}

// renamedOnce proves that MAAS calls what is installed by another name, and that it
// was installed once all the same.
func (r *run) renamedOnce() error {
	now, err := r.document(nil)
	switch {
	case err != nil:
		return err
	case strings.Contains(now, `"distro_series":"`+renamedImage+`"`):
		return fmt.Errorf("MAAS still calls the image %s", renamedImage)
	case r.deployments() != 1:
		return fmt.Errorf("the machine was deployed %d times", r.deployments())
	}
	return nil
}

// linkWithoutSubnet leaves the PXE interface with the link that MAAS makes where it
// knows no subnet.
func (r *run) linkWithoutSubnet() error {
	id, doc, err := r.iface(lab.PXEIface)
	if err != nil {
		return err
	}
	_, err = r.world.Lab.LinkSubnet(admin, id, doc.ID, url.Values{"mode": {"dhcp"}, "force": {"true"}})
	return err
}

func (r *run) hasSubnet() error {
	_, doc, err := r.iface(lab.PXEIface)
	if err != nil {
		return err
	}
	for _, l := range doc.Links {
		if l.Subnet != nil {
			return nil
		}
	}
	return fmt.Errorf("%s has no link to a subnet", lab.PXEIface)
}

// inspectedAndOff lets somebody inspect the machine, which loses its power meanwhile.
func (r *run) inspectedAndOff(ctx context.Context) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	hang := hangScripts
	hang.Count = 1
	if err := r.rule(hang); err != nil {
		return err
	}
	if _, err := r.world.Lab.Commission(ctx, admin, id, url.Values{}); err != nil {
		return err
	}
	begun := func(context.Context) (bool, error) { return r.unstruckNow() == 0, nil }
	if err := r.await(ctx, "the inspection to begin", begun); err != nil {
		return err
	}
	return r.happen("power_off")
}
