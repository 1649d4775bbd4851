package binding

import (
	"encoding/json"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Binding says which machine of MAAS a node runs on.
type Binding struct {
	Node     id.Node
	Site     id.Site
	Profile  id.Profile
	SystemID string // of MAAS
	IPMIIP   string
	PXEMAC   string

	// How MAAS last showed the machine.
	Status string
	Power  string
	IPs    []string
	SeenAt *time.Time // nil: never
	Tried  *time.Time // when reading it failed since then; nil: it did not
	// Installation is the installation by MAAS that the node is known to run on. It
	// is 0 as long as none was made or seen.
	Installation int64

	Drifted       bool
	Drift         json.RawMessage // what differs, as an object
	DriftEndedAt  *time.Time
	BoundAt       time.Time // to this machine
	LastChangedAt time.Time
}

func notFound() error {
	return fault.New(fault.NotFound, "binding_not_found", "no node is bound to it").
		WithRemedy("a node is bound to its machine when its onboarding completes; one that was onboarded by hand never is")
}

func taken(systemID string) error {
	return fault.New(fault.Conflict, "machine_bound", "machine %s is bound to another node already", systemID).
		WithRemedy("find that node by its machine, and decommission it first if the machine is to become another node")
}
