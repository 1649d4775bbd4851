package region

import (
	"slices"
	"strconv"
)

// Status is the state of a machine, by MAAS's number.
type Status int

// The statuses of MAAS.
const (
	New Status = iota
	Commissioning
	FailedCommissioning
	MissingStatus
	Ready
	Reserved
	Deployed
	Retired
	Broken
	Deploying
	Allocated
	FailedDeployment
	Releasing
	FailedReleasing
	DiskErasing
	FailedDiskErasing
	RescueMode
	EnteringRescue
	FailedEnteringRescue
	ExitingRescue
	FailedExitingRescue
	Testing
	FailedTesting
)

type statusName struct{ ident, label string }

var statusNames = [...]statusName{
	New:                  {"new", "New"},
	Commissioning:        {"commissioning", "Commissioning"},
	FailedCommissioning:  {"failed_commissioning", "Failed commissioning"},
	MissingStatus:        {"missing", "Missing"},
	Ready:                {"ready", "Ready"},
	Reserved:             {"reserved", "Reserved"},
	Deployed:             {"deployed", "Deployed"},
	Retired:              {"retired", "Retired"},
	Broken:               {"broken", "Broken"},
	Deploying:            {"deploying", "Deploying"},
	Allocated:            {"allocated", "Allocated"},
	FailedDeployment:     {"failed_deployment", "Failed deployment"},
	Releasing:            {"releasing", "Releasing"},
	FailedReleasing:      {"failed_releasing", "Releasing failed"},
	DiskErasing:          {"disk_erasing", "Disk erasing"},
	FailedDiskErasing:    {"failed_disk_erasing", "Failed disk erasing"},
	RescueMode:           {"rescue_mode", "Rescue mode"},
	EnteringRescue:       {"entering_rescue_mode", "Entering rescue mode"},
	FailedEnteringRescue: {"failed_entering_rescue_mode", "Failed to enter rescue mode"},
	ExitingRescue:        {"exiting_rescue_mode", "Exiting rescue mode"},
	FailedExitingRescue:  {"failed_exiting_rescue_mode", "Failed to exit rescue mode"},
	Testing:              {"testing", "Testing"},
	FailedTesting:        {"failed_testing", "Failed testing"},
}

// Statuses is how many there are.
const Statuses = len(statusNames)

// String returns the label that people read.
func (s Status) String() string {
	if s < 0 || int(s) >= Statuses {
		return "Status(" + strconv.Itoa(int(s)) + ")"
	}
	return statusNames[s].label
}

// Ident returns the word that filters accept.
func (s Status) Ident() string { return statusNames[s].ident }

// StatusOf finds a status by its filter word.
func StatusOf(ident string) (Status, bool) {
	for s, n := range statusNames {
		if n.ident == ident {
			return Status(s), true
		}
	}
	return 0, false
}

// stable are the states to which rescue mode returns.
var stable = []Status{
	New, FailedCommissioning, Ready, Reserved, Deployed, Retired, Broken, Allocated, FailedDeployment,
	FailedReleasing, FailedDiskErasing, FailedTesting, MissingStatus,
}

var transitions = map[Status][]Status{
	New:                 {Commissioning, Testing, MissingStatus, Ready, Retired, Broken, EnteringRescue},
	Commissioning:       {FailedCommissioning, Ready, Retired, MissingStatus, New, Broken, Testing},
	FailedCommissioning: {Commissioning, MissingStatus, Retired, Broken, EnteringRescue, Testing},
	Ready:               {EnteringRescue, Commissioning, Allocated, Reserved, Retired, MissingStatus, Broken, Testing},
	Reserved: {
		Ready, Allocated, Retired, MissingStatus, Broken, DiskErasing, Releasing, EnteringRescue,
		Testing,
	},
	Allocated: {
		Ready, Retired, MissingStatus, Broken, Deploying, DiskErasing, Releasing, EnteringRescue,
		Testing,
	},
	Deploying:        {Allocated, MissingStatus, Broken, FailedDeployment, Deployed, Ready, DiskErasing, Releasing},
	FailedDeployment: {Allocated, MissingStatus, Broken, Ready, DiskErasing, Releasing, EnteringRescue, Testing},
	Deployed:         {Allocated, MissingStatus, Broken, Ready, DiskErasing, Releasing, EnteringRescue, Testing},
	Releasing: {
		New, Allocated, Reserved, Deployed, Ready, Broken, MissingStatus, FailedDeployment,
		FailedDiskErasing, FailedReleasing,
	},
	FailedReleasing:      {Releasing, DiskErasing, Ready, Broken, Testing},
	DiskErasing:          {Broken, DiskErasing, FailedDiskErasing, Ready, Releasing},
	FailedDiskErasing:    {DiskErasing, Releasing, Broken, Allocated, Ready, EnteringRescue, Testing},
	Broken:               {Commissioning, Ready, DiskErasing, Releasing, EnteringRescue, Testing, Deployed},
	MissingStatus:        {New, Ready, Allocated, Commissioning, Broken, EnteringRescue, Testing},
	Retired:              {New, Ready, MissingStatus, Broken, EnteringRescue, Testing},
	EnteringRescue:       {Ready, Broken, Deployed, RescueMode, FailedEnteringRescue, ExitingRescue},
	FailedEnteringRescue: {Broken, EnteringRescue, ExitingRescue, Testing},
	RescueMode:           {Broken, ExitingRescue, Testing},
	ExitingRescue:        append([]Status{FailedExitingRescue, RescueMode}, stable...),
	FailedExitingRescue:  {Broken, ExitingRescue, Testing},
	Testing: {
		Broken, New, Ready, Reserved, Allocated, Deployed, Commissioning, FailedDeployment,
		MissingStatus, Retired, FailedReleasing, FailedDiskErasing, FailedEnteringRescue, FailedExitingRescue, FailedTesting,
	},
	FailedTesting: {Commissioning, Broken, MissingStatus, EnteringRescue, Testing, Ready, Deployed},
}

// Legal says whether MAAS lets a machine go from one status to another.
func Legal(from, to Status) bool { return slices.Contains(transitions[from], to) }

func (s Status) in(set ...Status) bool { return slices.Contains(set, s) }

// holdsDisks says whether MAAS shows the copies of the filesystems that it made
// for the owner, and not the configured ones.
func (s Status) holdsDisks() bool {
	return s.in(Allocated, Deploying, Deployed, FailedDeployment, Releasing, FailedReleasing, DiskErasing,
		FailedDiskErasing, RescueMode, EnteringRescue, FailedEnteringRescue, ExitingRescue, FailedExitingRescue, Testing)
}

// releasable says whether release can start from a status.
func (s Status) releasable() bool {
	return s.in(Allocated, Reserved, Broken, Deploying, Deployed, FailedDeployment, FailedDiskErasing, FailedReleasing)
}
