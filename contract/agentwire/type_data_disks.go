package agentwire

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// TypeDataDisks looks at the disks that do not carry the system, or makes data
// disks of them.
const TypeDataDisks = "node.data_disks"

var _ = declare[DataDisksParams, DataDisksOutput](Spec{
	Type: TypeDataDisks, Title: "look at the data disks, or format and mount those that nothing uses",
	Destroys: "With initialize and destroy, what is on every disk that does not carry the system and is not mounted is lost.",
	Class:    ClassExclusive, Window: time.Hour, Patience: time.Hour, Attempts: 3,
	Sound: []string{
		`{"action":"look"}`, `{"action":"initialize"}`, `{"action":"initialize","destroy":true}`,
	},
	Answer: `{"action":"look","disks":[]}`,
})

// The actions.
const (
	DataDisksLook       = "look"       // changes nothing
	DataDisksInitialize = "initialize" // formats disks that nothing uses, and mounts them at /share<N>
)

// DataDisksParams says what to do with the disks that do not carry the system.
type DataDisksParams struct {
	Action string `json:"action"`
	// Destroy also formats disks that hold data. Otherwise only blank ones are.
	Destroy bool `json:"destroy,omitempty"`
}

// Validate implements Params.
func (p DataDisksParams) Validate() error {
	if !slices.Contains([]string{DataDisksLook, DataDisksInitialize}, p.Action) {
		return errors.New("action must be look or initialize")
	}
	if p.Destroy && p.Action != DataDisksInitialize {
		return fmt.Errorf("destroy is for the action %s", DataDisksInitialize)
	}
	return nil
}

// DataDisksOutput lists the disks that do not carry the system.
type DataDisksOutput struct {
	Action string     `json:"action"`
	Disks  []DataDisk `json:"disks"`
}

// The states of a data disk.
const (
	DataDiskMounted     = "mounted"     // in use at its mount point
	DataDiskBlank       = "blank"       // nothing uses it, and all that was read is zero
	DataDiskHoldsData   = "holds_data"  // nothing uses it, and it is not blank
	DataDiskUnknown     = "unknown"     // it could not be looked at
	DataDiskInitialized = "initialized" // formatted and mounted by this task
	DataDiskFailed      = "failed"      // could not be formatted or mounted
)

// DataDisk is one disk that does not carry the system.
type DataDisk struct {
	Device string `json:"device"`
	// Serial tells it from others also when it gets another name. Empty: it has
	// nothing that it could be recognised by.
	Serial     string `json:"serial"`
	Model      string `json:"model"`
	SizeBytes  int64  `json:"size_bytes"`
	MountPoint string `json:"mount_point,omitempty"`
	State      string `json:"state"`
	Reason     string `json:"reason,omitempty"`
}
