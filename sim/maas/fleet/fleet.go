// Package fleet fills a simulated region with servers of a shape. The same seed
// makes the same servers.
package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"gpuaas/sim/maas/region"
)

// Options say what fleet to make.
type Options struct {
	Machines int
	Shape    string // empty is xe9680-h200
	Seed     uint64
	// Stage is the status they are in. The zero value means Ready.
	Stage string
	// Unknown servers stand in the rack, but MAAS does not know them.
	Unknown int
	// Image is what deployed machines run.
	Image string
	// Owner owns deployed machines; empty is admin.
	Owner string
	// Prefix of host names; empty is "gpu".
	Prefix string
}

// shape is a model of server.
type shape struct {
	system             *region.System
	cpus, speed, numa  int
	memory             int // MiB
	boot, data         region.Disk
	bootCount, nvmes   int
	fabricNIC, mgmtNIC region.NIC
	tags               []string
}

var dell = region.System{
	Vendor: "Dell Inc.", Product: "PowerEdge XE9680", Family: "PowerEdge",
	SKU: "SKU=0B98;ModelName=PowerEdge XE9680", CPUModel: "Intel(R) Xeon(R) Platinum 8480C", BoardVendor: "Dell Inc.",
	BoardProduct: "0DVRNX", Firmware: "2.4.4",
}

var xe9680 = shape{
	system: &dell, cpus: 224, speed: 3800, numa: 2, memory: 2 * 1024 * 1024,
	boot: region.Disk{
		Model: "DELLBOSS VD", Firmware: "2.5.13.3024", Size: 479_559_942_144, BlockSize: 512,
		Tags: []string{"ssd"},
	}, bootCount: 1,
	data: region.Disk{
		Model: "Dell Ent NVMe CM7 U.2 RI 3.84TB", Firmware: "2.0.2", Size: 3_840_755_982_336, BlockSize: 512,
		Tags: []string{"ssd"},
	}, nvmes: 8,
	fabricNIC: region.NIC{
		Vendor: "Mellanox Technologies", Product: "MT2910 Family [ConnectX-7]",
		Firmware: "28.39.3560 (DEL0000000030)", Speed: 400_000, VFs: 16,
	},
	mgmtNIC: region.NIC{
		Vendor:  "Broadcom Inc. and subsidiaries",
		Product: "BCM57414 NetXtreme-E 10Gb/25Gb RDMA Ethernet Controller", Firmware: "231.1.162.1", Speed: 25_000,
	},
}

var shapes = map[string]shape{
	"xe9680-h200":   xe9680.with("gpu-h200", "nvidia"),
	"xe9680-mi300x": xe9680.with("gpu-mi300x", "amd"),
}

func (s shape) with(tags ...string) shape {
	s.tags = tags
	return s
}

// Shapes returns the known models.
func Shapes() []string { return slices.Sorted(maps.Keys(shapes)) }

// Populate adds the fleet to a region.
func Populate(r *region.Region, o Options) error {
	if o.Machines == 0 && o.Unknown == 0 {
		return nil
	}
	if o.Shape == "" {
		o.Shape = "xe9680-h200"
	}
	s, ok := shapes[o.Shape]
	if !ok {
		return fmt.Errorf("shape %q is not one of %s", o.Shape, strings.Join(Shapes(), ", "))
	}
	status := region.Ready
	if o.Stage != "" {
		if status, ok = region.StatusOf(o.Stage); !ok ||
			!slices.Contains([]region.Status{region.New, region.Ready, region.Deployed}, status) {
			return fmt.Errorf("a fleet starts new, ready or deployed, not %q", o.Stage)
		}
	}
	if o.Prefix == "" {
		o.Prefix = "gpu"
	}
	if o.Owner == "" {
		o.Owner = "admin"
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x666c656574)) //nolint:gosec // a fleet must repeat itself by its seed
	for n := 1; n <= o.Machines+o.Unknown; n++ {
		h := s.server(rng, n)
		if n > o.Machines {
			r.AddHardware(h)
			continue
		}
		r.AddMachine(h, region.Stage{
			Hostname: fmt.Sprintf("%s-%05d", o.Prefix, n), Status: status, PowerType: "ipmi",
			User: "root", Pass: "calvin", Owner: o.Owner, Image: o.Image, EnableHWSync: true,
		})
	}
	return nil
}

// BMCAddress returns the address of the BMC of the nth server, counted from 1.
func BMCAddress(n int) string { return fmt.Sprintf("10.%d.%d.%d", 128+n>>16&0x3f, n>>8&0xff, n&0xff) }

func (s shape) server(rng *rand.Rand, n int) *region.Hardware {
	serial := serialOf(rng, 7)
	h := &region.Hardware{
		BMCAddress: BMCAddress(n), UUID: fmt.Sprintf("4c4c4544-00%02x-4%03x-80%02x-%012x", rng.IntN(256), rng.IntN(4096),
			rng.IntN(256), n),
		Architecture: "amd64/generic", BootMethod: "uefi", CPUCount: s.cpus, CPUSpeed: s.speed, Memory: s.memory,
		NUMANodes: s.numa, System: s.system, Serial: serial, Tags: s.tags,
	}
	h.NICs, h.Disks = make([]region.NIC, 0, 10), make([]region.Disk, 0, s.bootCount+s.nvmes)
	nic := func(model region.NIC, name string, port, numa int) {
		model.Name, model.NUMA = name, numa
		model.MAC = fmt.Sprintf("b8:3f:%02x:%02x:%02x:%02x", n>>16&0xff, n>>8&0xff, n&0xff, port)
		h.NICs = append(h.NICs, model)
	}
	nic(s.mgmtNIC, "eno8303", 0, 0)
	nic(s.mgmtNIC, "eno8403", 1, 0)
	for i, slot := range []int{38, 37, 40, 39, 32, 31, 36, 33} {
		nic(s.fabricNIC, fmt.Sprintf("ens%dnp0", slot), 16+i, i/4)
	}
	h.PXEMAC = h.NICs[0].MAC
	for range s.bootCount {
		d := s.boot
		d.Name, d.Serial = "sda", serialOf(rng, 16)
		h.Disks = append(h.Disks, d)
	}
	for i := range s.nvmes {
		d := s.data
		d.Name, d.Serial, d.NUMA = fmt.Sprintf("nvme%dn1", i), serialOf(rng, 12), i/4
		d.IDPath = "/dev/disk/by-id/nvme-" + d.Serial
		h.Disks = append(h.Disks, d)
	}
	return h
}

func serialOf(rng *rand.Rand, length int) string {
	const alphabet = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
	b := make([]byte, length)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}
