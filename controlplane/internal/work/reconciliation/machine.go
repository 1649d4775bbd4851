package reconciliation

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

// State is what MAAS's status of a machine means to the node on it. Several
// statuses share one state.
type State string

// The states of a machine.
const (
	Installed   State = "installed"   // Deployed, with a system
	Hollow      State = "hollow"      // Deployed, but with nothing installed
	Free        State = "free"        // Ready or New: nobody uses it
	Taken       State = "taken"       // Allocated or Reserved: somebody has it, but nothing runs
	Deploying   State = "deploying"   // being installed
	Leaving     State = "leaving"     // Releasing or Disk erasing
	Failed      State = "failed"      // Broken, or MAAS failed to do something with it
	Maintenance State = "maintenance" // Commissioning, Testing, rescue mode
	Withdrawn   State = "withdrawn"   // Retired or Missing in MAAS
	Strange     State = "strange"     // a status that this release does not know
)

// Machine is what MAAS showed of a machine, as far as the rules use it.
type Machine struct {
	SystemID     string
	Hostname     string
	Status       string // MAAS's own word, for example Deployed
	State        State
	Power        string // on, off, unknown or error
	Owner        string
	IPs          []string
	MACs         []string
	Installation int64 // tells one installation from the next; 0: MAAS does not say

	SyncEnabled  bool
	SyncInterval time.Duration
	LastSync     *time.Time

	Links []Link // addresses of its interfaces
}

// Link is an address that MAAS has configured on an interface.
type Link struct {
	Interface string
	Address   string // without the prefix length; empty: none
}

// Subject is a node of the inventory with its machine, as the rules see them.
type Subject struct {
	Site   site.Site
	Policy site.Policy // from the profile that the node was onboarded with

	Node         id.Node
	Hostname     string
	Status       node.Status
	Host         string
	HeldBy       string
	Tainted      bool
	Tenant       string     // in words, the tenant who works on it; empty: none, or nothing else is found about the node
	LastContact  *time.Time // of the agent; nil: it never called
	AgentVersion string     // as reported; empty: never reported
	HardwareSaid bool       // the agent reports which machine it runs on
	// deploy login that the agent did not find; empty: the deployed one is locked, or was not tried yet
	LoginTried   string
	SystemID     string // the machine that the node is bound to
	Installation int64  // the installation the node is known to run on; 0: unknown
	BoundAt      time.Time
	RoCE         []site.AssignmentRow // the site's assignments for the node

	Machine *Machine  // nil: not seen, or absent
	Absent  bool      // MAAS answered that exactly this machine does not exist
	Twin    *Machine  // another machine of MAAS that is the same server
	TwinBy  string    // how the twin was found: hostname, mac_address or power_address
	Others  []id.Node // other nodes that are bound to the same machine of the same MAAS

	Now time.Time
	// SyncAge is how long ago MAAS last heard of the hardware, by MAAS's own
	// clock. It is nil if MAAS never heard of it or does not say.
	SyncAge *time.Duration
}

// InService says whether tenants use the node or may be placed on it.
func (s Subject) InService() bool { return s.Status.Is(node.Serving) }

// Silent says whether the agent has not been heard from for at least d.
func (s Subject) Silent(d time.Duration) bool {
	return s.LastContact == nil || s.Now.Sub(*s.LastContact) >= d
}
