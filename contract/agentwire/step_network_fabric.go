package agentwire

import "regexp"

// StepNetworkFabricVerify looks at the links of the machine to its fabric.
const StepNetworkFabricVerify = "network.fabric.verify"

var _ = declareStep[NetworkFabricWith, NetworkFabricResult](StepKind{
	Kind: StepNetworkFabricVerify, Title: "check links, speeds and addresses of InfiniBand and RoCE",
	Impact: ImpactRead, Interruptible: true,
	Checks: "What the kernel says of devices, ports, speeds, link layers and addresses.",
	Sound: []string{
		`{}`, `{"minimum_ports":8,"minimum_gbps":400,"link_layer":"InfiniBand"}`,
		`{"devices":["mlx5_0","mlx5_1"],"minimum_gbps":200,"require_roce_v2":true}`,
		`{"interfaces":[{"name":"eth0","minimum_mbps":25000}]}`,
	},
	Answer: `{"ports":[],"interfaces":[]}`,
})

// NetworkFabricWith says what is expected.
type NetworkFabricWith struct {
	// Devices are those that must be there. None: all that there are.
	Devices      []string `json:"devices,omitempty"`
	MinimumPorts int      `json:"minimum_ports,omitempty"` // that are active
	MinimumGbps  int      `json:"minimum_gbps,omitempty"`  // of each port
	LinkLayer    string   `json:"link_layer,omitempty"`    // InfiniBand or Ethernet
	// RequireRoCEv2 asks for a routable address of the second version on each
	// Ethernet port.
	RequireRoCEv2 bool            `json:"require_roce_v2,omitempty"`
	Interfaces    []InterfaceWant `json:"interfaces,omitempty"`
}

// InterfaceWant is what is expected of one network interface.
type InterfaceWant struct {
	Name        string `json:"name"`
	MinimumMbps int    `json:"minimum_mbps,omitempty"`
	MTU         int    `json:"mtu,omitempty"`
}

var deviceForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// Validate implements StepParams.
func (w NetworkFabricWith) Validate() StepProblems {
	var p StepProblems
	for _, d := range w.Devices {
		if !deviceForm.MatchString(d) {
			p.add("devices", "%q is not the name of a device", clip(d))
		}
	}
	for _, i := range w.Interfaces {
		if !deviceForm.MatchString(i.Name) || i.MinimumMbps < 0 || i.MTU < 0 || i.MTU > 65535 {
			p.add("interfaces", "must be names of interfaces with speeds and sizes that are not negative")
		}
	}
	if len(w.Devices) > 64 || len(w.Interfaces) > 64 {
		p.add("", "there are at most 64 devices and 64 interfaces")
	}
	if w.MinimumPorts < 0 || w.MinimumPorts > 256 || w.MinimumGbps < 0 || w.MinimumGbps > 100_000 {
		p.add("minimum_ports", "must be between 0 and 256, and minimum_gbps between 0 and 100000")
	}
	if w.LinkLayer != "" && w.LinkLayer != "InfiniBand" && w.LinkLayer != "Ethernet" {
		p.add("link_layer", "must be InfiniBand or Ethernet")
	}
	return p
}

// NetworkFabricResult is what was seen.
type NetworkFabricResult struct {
	Ports      []FabricPort      `json:"ports"`
	Interfaces []FabricInterface `json:"interfaces"`
	// Problems are what is not as expected.
	Problems []string `json:"problems,omitempty"`
}

// FabricPort is one port of one device.
type FabricPort struct {
	Device    string `json:"device"`
	Port      int    `json:"port"`
	State     string `json:"state"`      // ACTIVE, DOWN and so on
	Physical  string `json:"physical"`   // LinkUp and so on
	LinkLayer string `json:"link_layer"` // InfiniBand or Ethernet
	Mbps      int64  `json:"mbps"`
	GIDs      int    `json:"gids"`    // addresses that are not zero
	RoCEv2    bool   `json:"roce_v2"` // one of them is routable, of the second version
}

// FabricInterface is one network interface.
type FabricInterface struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Mbps    int64  `json:"mbps"`
	MTU     int    `json:"mtu"`
	Carrier bool   `json:"carrier"`
}
