package reconciliation

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

// State is what MAAS's many statuses of a machine mean to a node on it.
type State string

// The states of a machine.
const (
	Installed   State = "installed"   // Deployed, with a system
	Hollow      State = "hollow"      // Deployed by name, with nothing installed
	Free        State = "free"        // Ready or New: nobody has it
	Taken       State = "taken"       // Allocated or Reserved: somebody has it, and nothing runs
	Deploying   State = "deploying"   // being installed
	Leaving     State = "leaving"     // Releasing or Disk erasing
	Failed      State = "failed"      // Broken, or a failure of MAAS's own
	Maintenance State = "maintenance" // Commissioning, Testing, rescue mode
	Withdrawn   State = "withdrawn"   // Retired or Missing in MAAS
	Strange     State = "strange"     // a status that this program does not know
)

// Machine is how MAAS showed a machine, as far as rules go by it.
type Machine struct {
	SystemID     string
	Hostname     string
	Status       string // as MAAS calls it, such as Deployed
	State        State
	Power        string // on, off, unknown or error
	Owner        string
	IPs          []string
	MACs         []string
	Installation int64 // which tells one installation from the next; 0: MAAS does not say

	SyncEnabled  bool
	SyncInterval time.Duration
	LastSync     *time.Time

	Links []Link // of its interfaces
}

// Link is an address that MAAS has configured on an interface.
type Link struct {
	Interface string
	Address   string // without the size of the network; empty: none
}

// Subject is a node of the inventory beside its machine, as rules see them.
type Subject struct {
	Site   site.Site
	Policy site.Policy // of the profile that the node was onboarded by

	Node         id.Node
	Hostname     string
	Status       node.Status
	Host         string
	HeldBy       string
	Tainted      bool
	LastContact  *time.Time // of the agent; nil: never
	AgentVersion string     // reported; empty: never
	HardwareSaid bool       // the agent says which machine it runs on
	SystemID     string     // the machine that the node is bound to
	Installation int64      // that the node is known to run on; 0: not known
	BoundAt      time.Time
	RoCE         []site.AssignmentRow // that the site has for the node

	Machine *Machine  // nil: not seen, or absent
	Absent  bool      // MAAS said of this very machine that it does not exist
	Twin    *Machine  // another machine of MAAS that is the same server, by TwinBy
	TwinBy  string    // hostname, mac_address or power_address
	Others  []id.Node // further nodes that are bound to the same machine of the same MAAS

	Now time.Time
	// SyncedWithin is how long ago MAAS last heard of the hardware, by the clock of
	// MAAS itself; nil: never, or not known.
	SyncAge *time.Duration
}

// InService says whether tenants are, or may be put, on the node.
func (s Subject) InService() bool { return s.Status == node.Active || s.Status == node.Offline }

// Silent says whether the agent was not heard of for at least so long.
func (s Subject) Silent(d time.Duration) bool {
	return s.LastContact == nil || s.Now.Sub(*s.LastContact) >= d
}
