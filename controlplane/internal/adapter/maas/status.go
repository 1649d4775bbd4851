package maas

import (
	"strings"
)

// Status is what MAAS is doing with a machine. The value is the word that MAAS
// accepts in filters. A status that this program does not know is kept as
// Unknown.
type Status string

// The statuses of MAAS, in the order of their numbers there.
const (
	StatusNew                      Status = "new"
	StatusCommissioning            Status = "commissioning"
	StatusFailedCommissioning      Status = "failed_commissioning"
	StatusMissing                  Status = "missing"
	StatusReady                    Status = "ready"
	StatusReserved                 Status = "reserved"
	StatusDeployed                 Status = "deployed"
	StatusRetired                  Status = "retired"
	StatusBroken                   Status = "broken"
	StatusDeploying                Status = "deploying"
	StatusAllocated                Status = "allocated"
	StatusFailedDeployment         Status = "failed_deployment"
	StatusReleasing                Status = "releasing"
	StatusFailedReleasing          Status = "failed_releasing"
	StatusDiskErasing              Status = "disk_erasing"
	StatusFailedDiskErasing        Status = "failed_disk_erasing"
	StatusRescueMode               Status = "rescue_mode"
	StatusEnteringRescueMode       Status = "entering_rescue_mode"
	StatusFailedEnteringRescueMode Status = "failed_entering_rescue_mode"
	StatusExitingRescueMode        Status = "exiting_rescue_mode"
	StatusFailedExitingRescueMode  Status = "failed_exiting_rescue_mode"
	StatusTesting                  Status = "testing"
	StatusFailedTesting            Status = "failed_testing"
)

// Statuses lists all statuses. The index is MAAS's number of the status.
var Statuses = []Status{
	StatusNew, StatusCommissioning, StatusFailedCommissioning, StatusMissing, StatusReady, StatusReserved, StatusDeployed,
	StatusRetired, StatusBroken, StatusDeploying, StatusAllocated,
	StatusFailedDeployment, StatusReleasing, StatusFailedReleasing, StatusDiskErasing, StatusFailedDiskErasing,
	StatusRescueMode, StatusEnteringRescueMode,
	StatusFailedEnteringRescueMode, StatusExitingRescueMode, StatusFailedExitingRescueMode, StatusTesting,
	StatusFailedTesting,
}

// labels are the names in machine objects. They cannot be derived from the
// words.
var labels = map[Status]string{
	StatusNew: "New", StatusCommissioning: "Commissioning", StatusFailedCommissioning: "Failed commissioning",
	StatusMissing: "Missing", StatusReady: "Ready",
	StatusReserved: "Reserved", StatusDeployed: "Deployed", StatusRetired: "Retired", StatusBroken: "Broken",
	StatusDeploying: "Deploying", StatusAllocated: "Allocated",
	StatusFailedDeployment: "Failed deployment", StatusReleasing: "Releasing", StatusFailedReleasing: "Releasing failed",
	StatusDiskErasing:       "Disk erasing",
	StatusFailedDiskErasing: "Failed disk erasing", StatusRescueMode: "Rescue mode",
	StatusEnteringRescueMode:       "Entering rescue mode",
	StatusFailedEnteringRescueMode: "Failed to enter rescue mode", StatusExitingRescueMode: "Exiting rescue mode",
	StatusFailedExitingRescueMode: "Failed to exit rescue mode", StatusTesting: "Testing",
	StatusFailedTesting: "Failed testing",
}

var byLabel = func() map[string]Status {
	out := make(map[string]Status, len(labels))
	for status, label := range labels {
		out[label] = status
	}
	return out
}()

const unknownPrefix = "unknown:"

// Unknown makes the status of a MAAS that is newer than this program.
func Unknown(text string) Status { return Status(unknownPrefix + text) }

// ParseStatus reads the name in a machine object, or the word of a filter.
func ParseStatus(text string) Status {
	if status, ok := byLabel[text]; ok {
		return status
	}
	if status := Status(text); status.Known() || strings.HasPrefix(text, unknownPrefix) {
		return status
	}
	return Unknown(sanitise([]byte(text)))
}

// UnmarshalText lets a machine object be decoded directly.
func (s *Status) UnmarshalText(b []byte) error {
	*s = ParseStatus(string(b))
	return nil
}

// Known reports whether this program knows what the status means.
func (s Status) Known() bool { return labels[s] != "" }

// Label returns the name that people know from MAAS.
func (s Status) Label() string {
	if label, ok := labels[s]; ok {
		return label
	}
	return strings.TrimPrefix(string(s), unknownPrefix)
}

// Free reports whether nobody holds the machine: after a release MAAS leaves it
// Ready, or New when its latest commissioning had not passed.
func (s Status) Free() bool { return s == StatusReady || s == StatusNew }
