package region

// VLANDoc is a VLAN on the wire.
type VLANDoc struct {
	ID            int     `json:"id"`
	VID           int     `json:"vid"`
	Name          string  `json:"name"`
	Fabric        string  `json:"fabric"`
	FabricID      int     `json:"fabric_id"`
	MTU           int     `json:"mtu"`
	DHCPOn        bool    `json:"dhcp_on"`
	ExternalDHCP  *string `json:"external_dhcp"`
	RelayVLAN     *int    `json:"relay_vlan"`
	PrimaryRack   *string `json:"primary_rack"`
	SecondaryRack *string `json:"secondary_rack"`
	Space         string  `json:"space"`
	ResourceURI   string  `json:"resource_uri"`
}

// FabricDoc is a fabric on the wire.
type FabricDoc struct {
	ID          int       `json:"id"`
	Name        string    `json:"name"`
	ClassType   *string   `json:"class_type"`
	VLANs       []VLANDoc `json:"vlans"`
	ResourceURI string    `json:"resource_uri"`
}

// SubnetDoc is a subnet on the wire.
type SubnetDoc struct {
	ID              int      `json:"id"`
	Name            string   `json:"name"`
	Description     string   `json:"description"`
	CIDR            string   `json:"cidr"`
	VLAN            *VLANDoc `json:"vlan"`
	GatewayIP       *string  `json:"gateway_ip"`
	DNSServers      []string `json:"dns_servers"`
	RDNSMode        int      `json:"rdns_mode"`
	AllowDNS        bool     `json:"allow_dns"`
	AllowProxy      bool     `json:"allow_proxy"`
	Managed         bool     `json:"managed"`
	ActiveDiscovery bool     `json:"active_discovery"`
	DisabledBoot    []string `json:"disabled_boot_architectures"`
	Space           string   `json:"space"`
	ResourceURI     string   `json:"resource_uri"`
}

// LinkDoc is a link on the wire.
type LinkDoc struct {
	ID     int        `json:"id"`
	Mode   string     `json:"mode"`
	IP     string     `json:"ip_address,omitempty"`
	Subnet *SubnetDoc `json:"subnet,omitempty"`
}

// DiscoveryDoc is a seen address on the wire.
type DiscoveryDoc struct {
	Subnet *SubnetDoc `json:"subnet"`
	IP     string     `json:"ip_address"`
}

// InterfaceDoc is an interface on the wire.
type InterfaceDoc struct {
	ID             int            `json:"id"`
	SystemID       string         `json:"system_id"`
	Name           string         `json:"name"`
	Type           string         `json:"type"`
	MAC            string         `json:"mac_address"`
	VLAN           *VLANDoc       `json:"vlan"`
	Parents        []string       `json:"parents"`
	Children       []string       `json:"children"`
	Tags           []string       `json:"tags"`
	Enabled        bool           `json:"enabled"`
	Links          []LinkDoc      `json:"links"`
	Params         struct{}       `json:"params"`
	Discovered     []DiscoveryDoc `json:"discovered"`
	EffectiveMTU   int            `json:"effective_mtu"`
	Vendor         *string        `json:"vendor"`
	Product        *string        `json:"product"`
	Firmware       *string        `json:"firmware_version"`
	LinkConnected  bool           `json:"link_connected"`
	InterfaceSpeed int            `json:"interface_speed"`
	LinkSpeed      int            `json:"link_speed"`
	NUMANode       int            `json:"numa_node"`
	SRIOV          int            `json:"sriov_max_vf"`
	ResourceURI    string         `json:"resource_uri"`
}

// FilesystemDoc is a filesystem on the wire.
type FilesystemDoc struct {
	FSType  string  `json:"fstype"`
	Label   *string `json:"label"`
	UUID    string  `json:"uuid"`
	Mount   *string `json:"mount_point"`
	Options *string `json:"mount_options"`
}

// PartitionDoc is a partition on the wire.
type PartitionDoc struct {
	ID          int            `json:"id"`
	UUID        string         `json:"uuid"`
	DeviceID    int            `json:"device_id"`
	SystemID    string         `json:"system_id"`
	Size        int64          `json:"size"`
	Bootable    bool           `json:"bootable"`
	Path        string         `json:"path"`
	Type        string         `json:"type"`
	UsedFor     string         `json:"used_for"`
	Tags        []string       `json:"tags"`
	Filesystem  *FilesystemDoc `json:"filesystem"`
	ResourceURI string         `json:"resource_uri"`
}

// BlockDeviceDoc is a disk or volume on the wire.
type BlockDeviceDoc struct {
	ID          int            `json:"id"`
	SystemID    string         `json:"system_id"`
	Name        string         `json:"name"`
	UUID        *string        `json:"uuid"`
	Type        string         `json:"type"`
	Path        string         `json:"path"`
	Model       *string        `json:"model"`
	Serial      *string        `json:"serial"`
	IDPath      *string        `json:"id_path"`
	Firmware    **string       `json:"firmware_version,omitempty"` // of physical disks, even if unknown
	Size        int64          `json:"size"`
	BlockSize   int            `json:"block_size"`
	Available   int64          `json:"available_size"`
	Used        int64          `json:"used_size"`
	UsedFor     string         `json:"used_for"`
	Tags        []string       `json:"tags"`
	Filesystem  *FilesystemDoc `json:"filesystem"`
	Table       *string        `json:"partition_table_type"`
	Partitions  []PartitionDoc `json:"partitions"`
	StoragePool *string        `json:"storage_pool"`
	NUMANode    *int           `json:"numa_node"`
	ResourceURI string         `json:"resource_uri"`
}

// GatewayDoc is a default gateway on the wire.
type GatewayDoc struct {
	IP   *string `json:"gateway_ip"`
	Link *int    `json:"link_id"`
}

// NamedDoc is a pool or zone on the wire.
type NamedDoc struct {
	ID          int    `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	ResourceURI string `json:"resource_uri"`
}

// DomainDoc is a DNS domain on the wire.
type DomainDoc struct {
	ID            int    `json:"id"`
	Name          string `json:"name"`
	TTL           *int   `json:"ttl"`
	Authoritative bool   `json:"authoritative"`
	IsDefault     bool   `json:"is_default"`
	Records       int    `json:"resource_record_count"`
	ResourceURI   string `json:"resource_uri"`
}

// NUMADoc is a NUMA node on the wire.
type NUMADoc struct {
	Index     int   `json:"index"`
	Memory    int   `json:"memory"`
	Cores     []int `json:"cores"`
	HugePages []int `json:"hugepages_set"`
}

// StubDoc stands for an object that MAAS does not spell out inside a machine.
type StubDoc struct {
	SystemID   string `json:"system_id"`
	ID         int    `json:"id"`
	Incomplete bool   `json:"__incomplete__"`
}

// TestsDoc is the set of test summaries that machines and racks share.
type TestsDoc struct {
	Commissioning     int    `json:"commissioning_status"`
	CommissioningName string `json:"commissioning_status_name"`
	Testing           int    `json:"testing_status"`
	TestingName       string `json:"testing_status_name"`
	CPU               int    `json:"cpu_test_status"`
	CPUName           string `json:"cpu_test_status_name"`
	Memory            int    `json:"memory_test_status"`
	MemoryName        string `json:"memory_test_status_name"`
	Network           int    `json:"network_test_status"`
	NetworkName       string `json:"network_test_status_name"`
	Storage           int    `json:"storage_test_status"`
	StorageName       string `json:"storage_test_status_name"`
	Other             int    `json:"other_test_status"`
	OtherName         string `json:"other_test_status_name"`
	Interface         int    `json:"interface_test_status"`
	InterfaceName     string `json:"interface_test_status_name"`
	CommissioningSet  *int   `json:"current_commissioning_result_id"`
	TestingSet        *int   `json:"current_testing_result_id"`
	InstallationSet   *int   `json:"current_installation_result_id"`
}

// MachineDoc is a machine on the wire.
type MachineDoc struct {
	TestsDoc
	SystemID         string                `json:"system_id"`
	Hostname         string                `json:"hostname"`
	FQDN             string                `json:"fqdn"`
	Description      string                `json:"description"`
	HardwareUUID     *string               `json:"hardware_uuid"`
	Architecture     string                `json:"architecture"`
	MinHWEKernel     string                `json:"min_hwe_kernel"`
	HWEKernel        *string               `json:"hwe_kernel"`
	BootMethod       *string               `json:"bios_boot_method"`
	CPUCount         int                   `json:"cpu_count"`
	CPUSpeed         int                   `json:"cpu_speed"`
	Memory           int                   `json:"memory"`
	Storage          float                 `json:"storage"`
	SwapSize         *int                  `json:"swap_size"`
	AddressTTL       *int                  `json:"address_ttl"`
	DisableIPv4      bool                  `json:"disable_ipv4"`
	Status           Status                `json:"status"`
	StatusName       string                `json:"status_name"`
	StatusMessage    *string               `json:"status_message"`
	StatusAction     *string               `json:"status_action"`
	ErrorDescription string                `json:"error_description"`
	OSystem          string                `json:"osystem"`
	DistroSeries     string                `json:"distro_series"`
	EphemeralDeploy  bool                  `json:"ephemeral_deploy"`
	Netboot          bool                  `json:"netboot"`
	Locked           bool                  `json:"locked"`
	IsDPU            bool                  `json:"is_dpu"`
	Owner            *string               `json:"owner"`
	PowerType        string                `json:"power_type"`
	PowerState       string                `json:"power_state"`
	NodeType         int                   `json:"node_type"`
	NodeTypeName     string                `json:"node_type_name"`
	VirtualMachineID *int                  `json:"virtualmachine_id"`
	EnableHWSync     bool                  `json:"enable_hw_sync"`
	CrashDump        bool                  `json:"enable_kernel_crash_dump"`
	SyncInterval     *int                  `json:"sync_interval"`
	LastSync         *string               `json:"last_sync"`
	NextSync         *string               `json:"next_sync"`
	ResourceURI      string                `json:"resource_uri"`
	Domain           DomainDoc             `json:"domain"`
	Zone             NamedDoc              `json:"zone"`
	Pool             NamedDoc              `json:"pool"`
	Pod              *int                  `json:"pod"`
	Parent           *int                  `json:"parent"`
	BootInterface    *InterfaceDoc         `json:"boot_interface"`
	Interfaces       []*InterfaceDoc       `json:"interface_set"`
	BootDisk         *BlockDeviceDoc       `json:"boot_disk"`
	BlockDevices     []*BlockDeviceDoc     `json:"blockdevice_set"`
	Physical         []*BlockDeviceDoc     `json:"physicalblockdevice_set"`
	Virtual          []*BlockDeviceDoc     `json:"virtualblockdevice_set"`
	VolumeGroups     []StubDoc             `json:"volume_groups"`
	RAIDs            []StubDoc             `json:"raids"`
	BCaches          []StubDoc             `json:"bcaches"`
	CacheSets        []StubDoc             `json:"cache_sets"`
	Special          []FilesystemDoc       `json:"special_filesystems"`
	Gateways         map[string]GatewayDoc `json:"default_gateways"`
	IPAddresses      []string              `json:"ip_addresses"`
	TagNames         []string              `json:"tag_names"`
	OwnerData        map[string]string     `json:"owner_data"`
	Annotations      map[string]string     `json:"workload_annotations"`
	NUMANodes        []NUMADoc             `json:"numanode_set"`
	HardwareInfo     map[string]string     `json:"hardware_info"`
	Constraints      *struct{}             `json:"constraints_by_type,omitempty"`
}

// ServiceDoc is a service of a rack on the wire.
type ServiceDoc struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Info   string `json:"status_info"`
}

// RackDoc is a rack controller on the wire.
type RackDoc struct {
	TestsDoc
	SystemID     string            `json:"system_id"`
	Hostname     string            `json:"hostname"`
	FQDN         string            `json:"fqdn"`
	Description  string            `json:"description"`
	HardwareUUID *string           `json:"hardware_uuid"`
	Domain       DomainDoc         `json:"domain"`
	Architecture string            `json:"architecture"`
	CPUCount     int               `json:"cpu_count"`
	CPUSpeed     int               `json:"cpu_speed"`
	Memory       int               `json:"memory"`
	SwapSize     *int              `json:"swap_size"`
	OSystem      string            `json:"osystem"`
	DistroSeries string            `json:"distro_series"`
	PowerType    string            `json:"power_type"`
	PowerState   string            `json:"power_state"`
	IPAddresses  []string          `json:"ip_addresses"`
	Interfaces   []InterfaceDoc    `json:"interface_set"`
	Zone         NamedDoc          `json:"zone"`
	StatusAction *string           `json:"status_action"`
	NodeType     int               `json:"node_type"`
	NodeTypeName string            `json:"node_type_name"`
	Services     []ServiceDoc      `json:"service_set"`
	Version      *string           `json:"version"`
	HardwareInfo map[string]string `json:"hardware_info"`
	TagNames     []string          `json:"tag_names"`
	ResourceURI  string            `json:"resource_uri"`
}
