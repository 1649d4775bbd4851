package region

import (
	"strings"
	"time"
)

// Hardware is a server in the rack, whether MAAS knows it or not.
type Hardware struct {
	BMCAddress   string
	PXEMAC       string
	UUID         string
	Architecture string
	BootMethod   string
	CPUCount     int
	CPUSpeed     int
	Memory       int // MiB
	NUMANodes    int
	System       *System
	Serial       string
	Tags         []string
	NICs         []NIC
	Disks        []Disk
	Powered      bool
}

// System names the product; servers of one shape share it.
type System struct {
	Vendor, Product, Family, SKU, CPUModel string
	BoardVendor, BoardProduct, Firmware    string
}

// NIC is a network card of a server.
type NIC struct {
	Name, MAC, Vendor, Product, Firmware string
	Speed, NUMA, VFs                     int
}

// Disk is a disk of a server.
type Disk struct {
	Name, Model, Serial, IDPath, Firmware string
	Size                                  int64
	BlockSize, NUMA                       int
	Tags                                  []string
}

// Machine is what MAAS knows of a server.
type Machine struct {
	ID               int
	SystemID         string
	Hostname         string
	Description      string
	HardwareUUID     string
	Architecture     string
	MinHWEKernel     string
	HWEKernel        string
	BootMethod       string
	CPUCount         int
	CPUSpeed         int
	Memory           int
	SwapSize         *int
	Status           Status
	PreviousStatus   Status
	WasDeployed      bool // it was deployed before it was marked broken
	RescuedFrom      Status
	ErrorDescription string
	OSystem          string
	DistroSeries     string
	Ephemeral        bool
	Netboot          bool
	Locked           bool
	IsDPU            bool
	Owner            string
	AgentName        string
	Domain           string
	Zone             string
	Pool             string
	PowerType        string
	PowerParameters  map[string]any
	PowerState       string
	Tags             []string
	Annotations      map[string]string
	Interfaces       []*Interface
	Disks            []*BlockDevice
	VolumeGroups     []int
	BootDisk         int
	GatewayLink      int
	HoldsDisks       bool // the owner's copies of the filesystems exist
	EnableHWSync     bool
	CrashDump        bool
	SyncInterval     int
	LastSync         time.Time
	UserData         string
	HasUserData      bool
	NodeToken        *Token
	CommissioningSet int
	TestingSet       int
	InstallationSet  int
	SetIDs           []int
	Enlisting        bool
	SkipStorage      bool
	SkipNetworking   bool
	SkipBMCConfig    bool
	RunTests         bool
	Ops              int // counts operations: a time-out of an older one is void
	Boots            int // counts boots: a step of an older one is void
	Said             *Said
	shownAs          *Status // the status by which disks are shown, if it lags
	Hardware         *Hardware
}

// Said is the last event of a machine that people see.
type Said struct {
	Text, Action string
	At           time.Time
}

// FQDN is the host name in its domain.
func (m *Machine) FQDN() string { return m.Hostname + "." + m.Domain }

// Interface is a network interface as MAAS has it.
type Interface struct {
	ID         int
	Name       string
	MAC        string
	Kind       string
	VLAN       int // 0 is none
	MTU        int // 0 is that of the VLAN
	Links      []*Link
	Tags       []string
	Vendor     string
	Product    string
	Firmware   string
	Speed      int
	NUMA       int
	VFs        int
	Parents    []string
	Enabled    bool
	Discovered []Discovery
}

// Discovery is an address seen on an interface.
type Discovery struct {
	Subnet int
	IP     string
}

// Link joins an interface to a subnet.
type Link struct {
	ID     int
	Mode   string
	IP     string
	Subnet int
}

// BlockDevice is a disk or volume as MAAS has it.
type BlockDevice struct {
	ID         int
	Name       string
	Virtual    bool
	UUID       string
	Model      string
	Serial     string
	IDPath     string
	Firmware   string
	Size       int64
	BlockSize  int
	NUMA       int
	Tags       []string
	Filesystem *Filesystem
	Table      string
	Partitions []*Partition
}

// Partition is a slice of a disk.
type Partition struct {
	ID         int
	UUID       string
	Size       int64
	Bootable   bool
	Filesystem *Filesystem
}

// Filesystem is what a disk or partition is formatted with.
type Filesystem struct {
	Type, Label, UUID, Mount, Volume string
}

func (m *Machine) disk(id int) *BlockDevice {
	for _, d := range m.Disks {
		if d.ID == id {
			return d
		}
	}
	return nil
}

func (m *Machine) nic(id int) *Interface {
	for _, i := range m.Interfaces {
		if i.ID == id {
			return i
		}
	}
	return nil
}

// addresses are those that were given, or else those that were leased.
func (m *Machine) addresses() []string {
	given, leased := []string{}, []string{}
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			if _, ip := i.reach(l); ip != "" {
				given = append(given, ip)
			}
		}
		for _, d := range i.Discovered {
			if d.IP != "" {
				leased = append(leased, d.IP)
			}
		}
	}
	if len(given) == 0 {
		return leased
	}
	return given
}

// reach returns the subnet and address of a link. A DHCP link that names no
// subnet has those of the lease, and none without one.
func (i *Interface) reach(l *Link) (subnet int, ip string) {
	if l.Mode != "dhcp" || l.Subnet != 0 {
		return l.Subnet, l.IP
	}
	for _, d := range i.Discovered {
		if d.IP != "" {
			return d.Subnet, d.IP
		}
	}
	return 0, ""
}

func (m *Machine) powerAddress() string {
	s, _ := m.PowerParameters["power_address"].(string)
	return s
}

// controllable says whether MAAS can switch the machine at all.
func (m *Machine) controllable() bool { return m.PowerType != "" && m.PowerType != "manual" }

func (m *Machine) commissioned() bool { return m.CommissioningSet != 0 }

func normaliseMAC(s string) (string, bool) {
	s = strings.ToLower(strings.ReplaceAll(s, "-", ":"))
	parts := strings.Split(s, ":")
	if len(parts) != 6 {
		return "", false
	}
	for _, p := range parts {
		if len(p) != 2 || strings.Trim(p, "0123456789abcdef") != "" {
			return "", false
		}
	}
	return s, true
}
