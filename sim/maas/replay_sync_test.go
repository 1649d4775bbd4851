package maas_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/maas/simclock"
)

// The machines of the recording about syncs and networks.
const syn1, syn2, syn3, neverBooted = "gq4rpx", "wfpmqs", "tycsqf", "h4wdyw"

// scriptResults are the events of single commissioning scripts, which the
// simulator does not log.
var scriptResults = regexp.MustCompile(`DEBUG Script result \(\S*maas-[^;]*(; )?`)

func newSyncReplay(t *testing.T) *replay {
	clock := simclock.NewManual(time.Date(2026, 11, 16, 3, 36, 0, 0, time.UTC))
	r := &replay{
		t: t, clock: clock, ids: map[string]string{}, names: map[string]string{},
		between: betweenSyncs, learn: learnSync,
		played: func(story string) string { return scriptResults.ReplaceAllString(story, "") },
	}
	r.region = maas.StartTest(t, maas.Options{
		Clock: clock, Seed: 1, Passive: true, BMC: &stubBMC{state: map[string]string{}},
	})
	pxe, err := r.region.Subnet("cidr:10.20.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	r.names["arghdg"] = *pxe.VLAN.PrimaryRack
	r.ids["vlan 5005"] = strconv.Itoa(pxe.VLAN.ID)
	r.admin("DELETE", "/subnets/cidr:10.20.0.0%2F16/", nil)
	var subnet struct{ ID int }
	r.decode(r.admin("POST", "/subnets/", url.Values{
		"name": {"pxe"}, "cidr": {"10.20.0.0/24"}, "vlan": {r.ids["vlan 5005"]}, "gateway_ip": {"10.20.0.1"},
		"dns_servers": {"10.20.0.1"},
	}), &subnet)
	r.ids["subnet 6"] = strconv.Itoa(subnet.ID)
	r.admin("POST", "/boot-resources/", url.Values{
		"name": {"custom/gpuaas-h200"}, "architecture": {"amd64/generic"}, "base_image": {"ubuntu/noble"},
		"sha256": {strings.Repeat("0", 64)}, "size": {"1"},
	})
	r.create("fleet002", neverBooted, "b0:7b:30:00:00:f2")
	return r
}

func learnSync(r *replay, e recording, a answer) {
	switch e.At {
	case "08-01":
		r.know(a, syn1)
	case "08-36":
		var subnet struct{ ID int }
		r.decode(a, &subnet)
		r.ids["subnet 11"] = strconv.Itoa(subnet.ID)
	case "08-26":
		var i region.InterfaceDoc
		r.decode(a, &i)
		r.ids["link 261"] = strconv.Itoa(i.Links[0].ID)
	}
}

func (r *replay) know(a answer, recorded string) {
	r.t.Helper()
	var m region.MachineDoc
	r.decode(a, &m)
	r.names[recorded] = m.SystemID
}

func (r *replay) create(name, recorded, mac string) {
	r.t.Helper()
	r.know(r.admin("POST", "/machines/", url.Values{
		"hostname": {name}, "architecture": {"amd64/generic"}, "mac_addresses": {mac}, "power_type": {"ipmi"},
		"power_parameters_power_address": {"10.128.9." + mac[len(mac)-1:]}, "power_parameters_power_user": {"root"},
		"power_parameters_power_pass": {"x"}, "commission": {"false"},
	}), recorded)
}

func (r *replay) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// commissioned plays what a machine finds out while it is commissioned.
func (r *replay) commissioned(recorded, mac, lease string) {
	r.t.Helper()
	id := r.names[recorded]
	h := &region.Hardware{
		UUID: "fd14698c-ca0c-5cc8-9841-7036a19085ec", PXEMAC: mac, CPUCount: 64, Memory: 1048576, NUMANodes: 1,
		Serial: "SN" + recorded, System: &region.System{Vendor: "Dell Inc.", Product: "PowerEdge XE9680"},
		Disks: []region.Disk{
			disk("nvme0n1", recorded, 3_840_000_000_000, "ssd"), disk("nvme1n1", recorded, 3_840_000_000_000, "ssd"),
			disk("sda", recorded, 480_000_000_000, "ssd", "sata"),
		},
	}
	for n, name := range []string{"eno8303", "eno8403", "ens1np0", "ens2np0"} {
		h.NICs = append(h.NICs, region.NIC{
			Name: name, MAC: fmt.Sprintf("%s%x%s", mac[:15], n, mac[16:]), Vendor: "Broadcom", Product: "BCM5720",
			Firmware: "1.63, 0x800009fa", Speed: 10000,
		})
	}
	r.must(r.region.Inspect(id, h))
	r.must(r.region.Happen(id, "netboot"))
	r.must(r.region.Signal(id, "OK"))
	r.must(r.region.Lease(id, lease))
	var m region.MachineDoc
	r.decode(r.admin("GET", "/machines/"+id+"/", nil), &m)
	for _, i := range m.Interfaces[1:] { // MAAS makes a fabric for each interface that it cannot place
		var fabric struct{ VLANs []struct{ ID int } }
		r.decode(r.admin("POST", "/fabrics/", url.Values{}), &fabric)
		r.admin("PUT", fmt.Sprintf("/nodes/%s/interfaces/%d/", id, i.ID),
			url.Values{"vlan": {strconv.Itoa(fabric.VLANs[0].ID)}})
	}
	boot := map[string]string{syn1: "164", syn2: "165", syn3: "166"}[recorded]
	link := map[string]string{syn1: "244", syn2: "248", syn3: "253"}[recorded]
	r.ids["interface "+boot] = strconv.Itoa(m.Interfaces[0].ID)
	r.ids["link "+link] = strconv.Itoa(m.Interfaces[0].Links[0].ID)
}

func disk(name, machine string, size int64, tags ...string) region.Disk {
	return region.Disk{
		Name: name, Model: "Dell", Serial: machine + name, IDPath: "/dev/disk/by-id/" + machine + name, Firmware: "1.0",
		Size: size, BlockSize: 512, Tags: tags,
	}
}

// deployed plays an installation and the first boot.
func (r *replay) deployed(recorded string) {
	r.t.Helper()
	id := r.names[recorded]
	r.machine = id
	r.must(r.region.Happen(id, "power_on"))
	r.must(r.region.Happen(id, "netboot"))
	r.report("cmd-install", "start", "", "curtin command install")
	r.report("cmd-install/stage-partitioning", "start", "", "cmd-install/stage-partitioning")
	r.report("cmd-install/stage-extract", "start", "", "cmd-install/stage-extract")
	r.must(r.region.NetbootOff(id))
	_, _, err := r.region.UserData(id)
	r.must(err)
}

func (r *replay) synced(recorded, address string) {
	r.t.Helper()
	r.must(r.region.Sync(r.names[recorded], region.Synced{
		OSystem: "ubuntu", Series: "noble", Addresses: []string{address},
	}))
}

// betweenSyncs is what the player of the recording and its stand-ins did.
var betweenSyncs = map[string]func(*replay){
	"08-03": func(r *replay) {
		r.commissioned(syn1, "b0:7b:30:00:00:01", "10.20.0.218")
		for n, recorded := range []string{syn2, syn3} {
			mac := fmt.Sprintf("b0:7b:30:00:00:0%d", n+2)
			r.create(fmt.Sprintf("syn%d", n+2), recorded, mac)
			r.admin("POST", "/machines/"+r.names[recorded]+"/?op=commission", url.Values{"testing_scripts": {"none"}})
			r.commissioned(recorded, mac, []string{"", "10.20.0.245"}[n])
			r.admin("POST", "/machines/"+r.names[recorded]+"/?op=power_off", url.Values{})
		}
	},
	"08-08": func(r *replay) {
		r.deployed(syn1)
		r.must(r.region.Lease(r.names[syn2], "10.20.0.218"))
	},
	"08-09": func(r *replay) { r.synced(syn1, "10.20.0.3") },
	"08-19": func(r *replay) { r.must(r.region.Signal(r.names[syn1], "OK")) },
	"08-30": func(r *replay) {
		r.machine = r.names[syn1]
		r.must(r.region.Signal(r.machine, "OK"))
		r.reportAs("cloudinit", "modules-final", "finish", "SUCCESS", "running modules for final")
	},
	"08-31": func(r *replay) {
		r.must(r.region.Lease(r.names[syn2], ""))
		r.must(r.region.Happen(r.names[syn2], "power_on")) // by the engine, after the abort
	},
	"08-36": func(r *replay) { r.deployed(syn2) },
	"08-39": func(r *replay) { r.deployed(syn3) },
	"08-40": func(r *replay) { r.synced(syn3, "10.20.0.5") },
	"08-41": func(r *replay) { r.region.SetRackHealth(false) },
	"08-42": func(r *replay) {
		r.region.SetRackHealth(true)
		_, err := r.region.Faults.Add(fault.Rule{Fault: fault.BMCFailure, Text: "Connection timed out while performing " +
			"power action. Check BMC configuration and connectivity and try again."})
		r.must(err)
	},
	"08-43": func(r *replay) { r.region.Faults.Clear() },
	"08-44": func(r *replay) {
		r.admin("POST", "/machines/"+r.names[syn1]+"/?op=commission", url.Values{"testing_scripts": {"none"}})
	},
	"08-50": func(r *replay) { r.region.SetRackHealth(false) },
}
