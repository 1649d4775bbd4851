package allocation

import (
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/sku"
)

// Shape is the unit in which capacity is rented.
type Shape string

// The shapes: a whole machine, or some of its GPUs.
const (
	Baremetal Shape = "baremetal"
	GPUSlice  Shape = "gpu_slice"
)

// shapeOf is the shape of a SKU.
func shapeOf(s sku.Shape) Shape {
	if s == sku.Slice {
		return GPUSlice
	}
	return Baremetal
}

// Access is what the tenant's account may do on the node.
type Access string

// The kinds of access. Root means sudo: the node is reinstalled afterwards.
const (
	UserAccess Access = "user"
	RootAccess Access = "root"
)

// Cause is who ended an allocation.
type Cause string

// The causes.
const (
	ByTenant    Cause = "tenant"
	ByExpiry    Cause = "expiry"
	ByAdmin     Cause = "administrator"
	ByBilling   Cause = "billing"
	ByOperation Cause = "operation"
)

// Key is an SSH key as it was when the allocation was asked for.
type Key struct {
	ID          id.SSHKey `json:"ssh_key_id"`
	Name        string    `json:"name"`
	PublicKey   string    `json:"public_key"`
	Fingerprint string    `json:"fingerprint"`
}

// Keyring is how the keys of an allocation stand on its node.
type Keyring struct {
	Revision      int32      // how often they were changed since it was asked for
	ChangingSince *time.Time // since when its node is behind with that; nil: it is not
	WaitingFor    string     // what that waits for, in words
}

// Complaint is what a tenant found wrong with the hardware.
type Complaint struct {
	Category string `json:"category"`
	Text     string `json:"text"`
}

// Allocation is one thing that a tenant rents.
type Allocation struct {
	ID      id.Allocation
	Org     id.Org
	Project id.Project
	Group   id.AllocationGroup // zero: it was asked for on its own
	Name    string
	Labels  map[string]string
	Status  Status
	Shape   Shape
	SKU     string
	Terms   sku.Terms // as they were when it was asked for
	GPUs    int32
	Region  string
	Node    id.Node
	// Hostname is the name of the node when it was placed there.
	Hostname   string
	Wish       Wish
	Placements int32
	Access     Access
	Username   string
	UID        int32
	Keys       []Key // that shall open it
	Keyring    Keyring
	Protected  bool
	ExpiresAt  *time.Time // nil: never
	Event      id.Event
	AskedBy    string // id of who asked for it
	AskedName  string
	WaitingFor string // what it waits for, in words; empty: nothing
	// Failure is why it failed; zero: it did not.
	Failure Failure
	// Release is how it was ended; zero: it was not.
	Release   Ending
	Cleanup   id.Decommission // cleans up after it; zero: nothing does
	Times     Times
	Version   int64
	Complaint *Complaint
}

// Failure is why an allocation could not be provided.
type Failure struct {
	Code, Reason, Remedy string
	// Shown: the node itself answered so. Otherwise nobody knows whose fault it is.
	Shown bool `json:",omitempty"`
}

// Ending is how an allocation was ended.
type Ending struct {
	Cause  Cause
	Reason string
	By     string // id of who asked for it
	Failed string // why cleaning stopped; empty: it did not
}

// Times are when what happened, by the clock of the database.
type Times struct {
	Created, StatusChanged, Updated                                                time.Time
	ProvisioningStarted, Active, ReleaseRequested, Released, Failed, ReleaseFailed *time.Time
}

// WorkflowID is the id of the workflow that provisions an allocation.
func (a Allocation) WorkflowID() string { return "provisioning-" + a.Event.String() }

// releaseWorkflowID is the id of the workflow that has the node cleaned. Every
// request for the release has one of its own.
func (a Allocation) releaseWorkflowID() string {
	return fmt.Sprintf("release-%s-%s", a.ID, id.NewString())
}

// tasksOf is what the keys of its tasks begin with, before a slash.
func (a Allocation) tasksOf() string { return "allocation/" + a.ID.String() }

// keyTasks is the same of those tasks that change its keys while it is in use.
func (a Allocation) keyTasks() string { return a.tasksOf() + "/keys" }

// cancelled says whether its tenant ended it before it was active.
func (a Allocation) cancelled() bool { return a.Times.ReleaseRequested != nil && a.Times.Active == nil }

// called names an allocation for people.
func (a Allocation) called() string {
	if a.Name != "" {
		return a.Name
	}
	return a.ID.String()
}

// Moment is an entry of the timeline.
type Moment struct {
	Seq       int64
	At        time.Time
	Event     string
	Status    Status
	ActorKind string
	Actor     string
	Message   string
	Details   map[string]any
}

func notFound() error {
	return fault.New(fault.NotFound, "allocation_not_found", "there is no such allocation").
		WithRemedy("see which there are: gpuaas allocation list")
}

func rejected(fields ...fault.Field) error {
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fields...)
}
