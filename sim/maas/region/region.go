package region

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"gpuaas/sim/maas/simclock"
)

// Options say what region to make.
type Options struct {
	Clock  simclock.Clock
	Seed   uint64
	Timing Timing
	// BMC switches machines. Nil means a BMC inside this process.
	BMC BMC
	// Metal runs the installed systems of machines.
	Metal Metal
	// Mischief decides what goes wrong. With nil everything succeeds.
	Mischief Mischief
	// Passive machines do nothing: whoever drives them speaks to the metadata
	// service, as a booted node does.
	Passive bool
	// Bare starts without a rack, subnets and images.
	Bare bool
	Log  *slog.Logger
}

// Region is one MAAS.
type Region struct {
	clock    simclock.Clock
	timing   Timing
	bmc      BMC
	metal    Metal
	mischief Mischief
	passive  bool
	log      *slog.Logger

	mu       sync.RWMutex
	rng      *rand.Rand
	state    *State
	bySystem map[string]*Machine
	byMAC    map[string]*Machine
	byBMC    map[string]*Hardware
	hwByMAC  map[string]*Hardware
	usedIPs  map[string]bool
	nextIP   map[int]uint64
	sets     map[int]*ScriptSet
	nonces   map[string]time.Time
	changes  uint64
	// switching is closed when the metal of a machine has done its last order.
	switching map[string]chan struct{}

	life   context.Context // ends with the region; steps of machines run under it
	end    context.CancelFunc
	closed bool
	steps  sync.WaitGroup

	rendered atomic.Uint64 // machine documents
}

// State is everything that outlives the process if a region is stored.
type State struct {
	Counters  map[string]int
	Users     []*User
	Tokens    []*Token
	Settings  map[string]any
	Machines  []*Machine
	Hardware  []*Hardware
	Events    []*Event
	Fabrics   []*Fabric
	VLANs     []*VLAN
	Subnets   []*Subnet
	Racks     []*Rack
	Images    []*Image
	Pools     []*Pool
	Zones     []*Zone
	Tags      []string
	Sets      []*ScriptSet
	Admin     string // API key of the first administrator
	Operator  string // API key of the first plain user
	TakenAt   time.Time
	StateForm int
}

// Open makes a region with an administrator ("admin") and a plain user
// ("operator"). Unless it shall be bare, it has one rack, one PXE network and
// images.
func Open(o Options) *Region {
	r := blank(o)
	r.state = &State{Counters: map[string]int{"vlan": 5000, "fabric": -1, "pool": -1}, Settings: defaultSettings()}
	r.index()
	r.addUser("admin", true)
	r.addUser("operator", false)
	r.state.Zones = []*Zone{{ID: r.id("zone"), Name: "default"}}
	r.state.Pools = []*Pool{{ID: r.id("pool"), Name: "default", Description: "Default pool"}}
	if !o.Bare {
		r.furnish()
	}
	return r
}

func blank(o Options) *Region {
	if o.Clock == nil {
		o.Clock = simclock.Wall()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metal == nil {
		o.Metal = NoMetal{}
	}
	if o.Mischief == nil {
		o.Mischief = noMischief{}
	}
	r := &Region{
		switching: map[string]chan struct{}{},
		clock:     o.Clock, timing: o.Timing.filled(), metal: o.Metal, mischief: o.Mischief, passive: o.Passive, log: o.Log,
		rng: rand.New(rand.NewPCG(o.Seed, 0x6d616173)), //nolint:gosec // a simulation must repeat itself by its seed
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.bmc = o.BMC
	if r.bmc == nil {
		r.bmc = &processBMC{region: r}
	}
	return r
}

func (r *Region) index() {
	r.bySystem, r.byMAC = map[string]*Machine{}, map[string]*Machine{}
	r.byBMC, r.hwByMAC = map[string]*Hardware{}, map[string]*Hardware{}
	r.usedIPs, r.nextIP = map[string]bool{}, map[int]uint64{}
	r.sets, r.nonces = map[int]*ScriptSet{}, map[string]time.Time{}
	for _, h := range r.state.Hardware {
		r.indexHardware(h)
	}
	for _, m := range r.state.Machines {
		r.indexMachine(m)
	}
	for _, s := range r.state.Sets {
		r.sets[s.ID] = s
	}
}

func (r *Region) indexHardware(h *Hardware) {
	if h.BMCAddress != "" {
		r.byBMC[h.BMCAddress] = h
	}
	for _, n := range h.NICs {
		r.hwByMAC[n.MAC] = h
	}
}

func (r *Region) indexMachine(m *Machine) {
	r.bySystem[m.SystemID] = m
	for _, i := range m.Interfaces {
		r.byMAC[i.MAC] = m
		for _, l := range i.Links {
			if l.IP != "" {
				r.usedIPs[l.IP] = true
			}
		}
	}
}

// furnish adds what a freshly installed region has after its first setup.
func (r *Region) furnish() {
	f := r.addFabric("fabric-0")
	v := r.addVLAN(f.ID, 0, "untagged", 1500)
	v.DHCP = true
	pxe := r.addSubnet("pxe", "10.20.0.0/16", v.ID)
	pxe.Gateway = "10.20.0.1"
	rack := &Rack{
		SystemID: r.systemID(), Hostname: "rack1", Healthy: true, MAC: "52:54:00:ff:00:01", IP: "10.20.0.2",
		Interface: r.id("interface"), Link: r.id("link"), Subnet: pxe.ID, VLAN: v.ID,
	}
	r.state.Racks = append(r.state.Racks, rack)
	v.Rack = rack.SystemID
	r.usedIPs[rack.IP], r.usedIPs[pxe.Gateway] = true, true
	r.addImage(Image{Name: "ubuntu/jammy", Synced: true, Title: "22.04 LTS", Kernel: "ga-22.04"})
	r.addImage(Image{Name: "ubuntu/noble", Synced: true, Title: "24.04 LTS", Kernel: "ga-24.04"})
}

// Close stops what machines are doing and waits for it.
func (r *Region) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
	r.steps.Wait()
}

// Clock returns the clock of the region.
func (r *Region) Clock() simclock.Clock { return r.clock }

// Rendered returns how many machine documents were made, which is what answers
// cost a MAAS.
func (r *Region) Rendered() uint64 { return r.rendered.Load() }

// Changes counts the changes since the region was made.
func (r *Region) Changes() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.changes
}

func (r *Region) id(kind string) int {
	r.state.Counters[kind]++
	return r.state.Counters[kind]
}

const systemIDAlphabet = "34678abcdefghkmnpqrstwxy"

func (r *Region) systemID() string {
	for {
		b := make([]byte, 6)
		for i := range b {
			b[i] = systemIDAlphabet[r.rng.IntN(len(systemIDAlphabet))]
		}
		if _, taken := r.bySystem[string(b)]; !taken {
			return string(b)
		}
	}
}

func (r *Region) uuid() string {
	a, b := r.rng.Uint64(), r.rng.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, (a>>16)&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

// change runs f under the lock of the region.
func (r *Region) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	f()
}
