package maas

import (
	"time"
)

// Machine is what MAAS says about a machine, as far as this product uses it.
type Machine struct {
	SystemID         string            `json:"system_id"`
	Hostname         string            `json:"hostname"`
	FQDN             string            `json:"fqdn"`
	Description      string            `json:"description"`
	HardwareUUID     string            `json:"hardware_uuid"`
	Architecture     string            `json:"architecture"`
	CPUCount         int               `json:"cpu_count"`
	Memory           int64             `json:"memory"` // MiB
	Storage          float64           `json:"storage"`
	BIOSBootMethod   string            `json:"bios_boot_method"`
	Status           Status            `json:"status_name"`
	StatusMessage    string            `json:"status_message"`
	StatusAction     string            `json:"status_action"`
	ErrorDescription string            `json:"error_description"` // survives release and redeploy: may be old
	OSystem          string            `json:"osystem"`
	DistroSeries     string            `json:"distro_series"`
	EphemeralDeploy  bool              `json:"ephemeral_deploy"`
	Netboot          bool              `json:"netboot"`
	Locked           bool              `json:"locked"`
	Owner            string            `json:"owner"`
	PowerType        string            `json:"power_type"`
	PowerState       PowerState        `json:"power_state"` // as MAAS last saw it
	Zone             Named             `json:"zone"`
	Pool             Named             `json:"pool"`
	Domain           Named             `json:"domain"`
	Tags             []string          `json:"tag_names"`
	IPAddresses      []string          `json:"ip_addresses"`
	Annotations      map[string]string `json:"workload_annotations"`
	HardwareInfo     map[string]string `json:"hardware_info"`
	BootInterface    *Interface        `json:"boot_interface"`
	Interfaces       []Interface       `json:"interface_set"`
	BootDisk         *BlockDevice      `json:"boot_disk"`
	BlockDevices     []BlockDevice     `json:"blockdevice_set"`

	EnableHWSync bool       `json:"enable_hw_sync"`
	SyncInterval int64      `json:"sync_interval"` // seconds
	LastSync     *time.Time `json:"last_sync"`
	NextSync     *time.Time `json:"next_sync"`

	CommissioningResultID int64 `json:"current_commissioning_result_id"`
	TestingResultID       int64 `json:"current_testing_result_id"`
	InstallationResultID  int64 `json:"current_installation_result_id"`
}

// Named is a zone, pool or domain of a machine.
type Named struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// PowerState says whether a machine is on, as far as MAAS knows.
type PowerState string

// The power states of MAAS.
const (
	PowerOn      PowerState = "on"
	PowerOff     PowerState = "off"
	PowerUnknown PowerState = "unknown"
	PowerError   PowerState = "error"
)

// Hollow reports whether MAAS shows the machine as Deployed although nothing is
// installed on it, because it was released when it broke.
func (m Machine) Hollow() bool { return m.Status == StatusDeployed && m.OSystem == "" }

// Installed reports whether MAAS deployed the machine. It proves only that the
// first boot asked for its user data, not that it succeeded.
func (m Machine) Installed() bool { return m.Status == StatusDeployed && !m.Hollow() }

// Image returns what is installed or being installed, as system/series.
func (m Machine) Image() string {
	if m.OSystem == "" {
		return ""
	}
	return m.OSystem + "/" + m.DistroSeries
}

// SyncHealthy reports whether hardware sync is enabled and at most half an
// interval late. The API of MAAS does not say so itself.
func (m Machine) SyncHealthy(now time.Time) bool {
	if !m.EnableHWSync || m.LastSync == nil || m.SyncInterval <= 0 {
		return false
	}
	grace := time.Duration(m.SyncInterval) * time.Second * 3 / 2
	return !now.After(m.LastSync.Add(grace))
}

// Interface is a network interface of a machine.
type Interface struct {
	ID            int64    `json:"id"`
	Name          string   `json:"name"`
	Type          string   `json:"type"`
	MAC           string   `json:"mac_address"`
	VLAN          *VLAN    `json:"vlan"`
	Links         []Link   `json:"links"`
	Tags          []string `json:"tags"`
	Enabled       bool     `json:"enabled"`
	LinkConnected bool     `json:"link_connected"`
	LinkSpeed     int64    `json:"link_speed"`
	EffectiveMTU  int      `json:"effective_mtu"`
	Vendor        string   `json:"vendor"`
	Product       string   `json:"product"`
	NUMANode      int      `json:"numa_node"`
	Parents       []string `json:"parents"`
}

// Link is the configuration of an interface on a subnet. An automatic link has
// no address before the machine is deployed.
type Link struct {
	ID        int64    `json:"id"`
	Mode      LinkMode `json:"mode"`
	IPAddress string   `json:"ip_address"`
	Subnet    *Subnet  `json:"subnet"`
}

// LinkMode is how an interface gets its address.
type LinkMode string

// The link modes.
const (
	LinkAuto   LinkMode = "auto"
	LinkDHCP   LinkMode = "dhcp"
	LinkStatic LinkMode = "static"
	LinkUp     LinkMode = "link_up"
)

// BlockDevice is a disk of a machine. Ids survive a release; kernel names may
// change, so choose a disk by serial, id path or size.
type BlockDevice struct {
	ID                 int64       `json:"id"`
	Name               string      `json:"name"`
	Type               string      `json:"type"`
	Path               string      `json:"path"`
	IDPath             string      `json:"id_path"`
	Model              string      `json:"model"`
	Serial             string      `json:"serial"`
	Size               int64       `json:"size"`
	BlockSize          int64       `json:"block_size"`
	AvailableSize      int64       `json:"available_size"`
	UsedFor            string      `json:"used_for"`
	Tags               []string    `json:"tags"`
	PartitionTableType string      `json:"partition_table_type"`
	Partitions         []Partition `json:"partitions"`
	NUMANode           int         `json:"numa_node"`
}

// Partition is a part of a disk.
type Partition struct {
	ID         int64       `json:"id"`
	Size       int64       `json:"size"`
	Bootable   bool        `json:"bootable"`
	UsedFor    string      `json:"used_for"`
	Filesystem *Filesystem `json:"filesystem"`
}

// Filesystem is what a partition is formatted with.
type Filesystem struct {
	Type       string `json:"fstype"`
	Label      string `json:"label"`
	MountPoint string `json:"mount_point"`
}

// VLAN is a VLAN of a fabric. ID is MAAS's number, VID the network's.
type VLAN struct {
	ID          int64  `json:"id"`
	VID         int    `json:"vid"`
	Name        string `json:"name"`
	Fabric      string `json:"fabric"`
	FabricID    int64  `json:"fabric_id"`
	MTU         int    `json:"mtu"`
	DHCPOn      bool   `json:"dhcp_on"`
	Space       string `json:"space"`
	PrimaryRack string `json:"primary_rack"`

	SecondaryRack string `json:"secondary_rack"`
}

// Subnet is a network that MAAS knows.
type Subnet struct {
	ID         int64    `json:"id"`
	Name       string   `json:"name"`
	CIDR       string   `json:"cidr"`
	VLAN       VLAN     `json:"vlan"`
	GatewayIP  string   `json:"gateway_ip"`
	DNSServers []string `json:"dns_servers"`
	Managed    bool     `json:"managed"`
	Space      string   `json:"space"`
}

// Fabric is a set of VLANs that are connected.
type Fabric struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	VLANs []VLAN `json:"vlans"`
}
