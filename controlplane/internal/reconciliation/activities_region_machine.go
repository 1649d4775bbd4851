package reconciliation

import (
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/maas"
)

// stateOf is what the status of a machine means to a node on it.
func stateOf(m maas.Machine) State {
	switch m.Status {
	case maas.StatusDeployed:
		if m.Hollow() {
			return Hollow
		}
		return Installed
	case maas.StatusNew, maas.StatusReady:
		return Free
	case maas.StatusAllocated, maas.StatusReserved:
		return Taken
	case maas.StatusDeploying:
		return Deploying
	case maas.StatusReleasing, maas.StatusDiskErasing:
		return Leaving
	case maas.StatusCommissioning, maas.StatusTesting, maas.StatusRescueMode, maas.StatusEnteringRescueMode, maas.StatusExitingRescueMode:
		return Maintenance
	case maas.StatusRetired, maas.StatusMissing:
		return Withdrawn
	case maas.StatusBroken, maas.StatusFailedCommissioning, maas.StatusFailedDeployment, maas.StatusFailedReleasing, maas.StatusFailedDiskErasing,
		maas.StatusFailedEnteringRescueMode, maas.StatusFailedExitingRescueMode, maas.StatusFailedTesting:
		return Failed
	default:
		return Strange
	}
}

// machineOf keeps of a machine what rules go by, and nothing that would keep the
// rest of it in memory.
func machineOf(m maas.Machine) Machine {
	out := Machine{
		SystemID: m.SystemID, Hostname: m.Hostname, Status: m.Status.Label(), State: stateOf(m), Power: string(m.PowerState), Owner: m.Owner,
		IPs: m.IPAddresses, Installation: m.InstallationResultID,
		SyncEnabled: m.EnableHWSync, SyncInterval: time.Duration(m.SyncInterval) * time.Second, LastSync: m.LastSync,
	}
	if out.Power == "" {
		out.Power = string(maas.PowerUnknown)
	}
	out.MACs = macsOf(m)
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			if l.IPAddress != "" {
				out.Links = append(out.Links, Link{Interface: i.Name, Address: l.IPAddress})
			}
		}
	}
	return out
}

func macsOf(m maas.Machine) []string {
	var out []string
	add := func(mac string) {
		if mac = strings.ToLower(mac); mac != "" && !slices.Contains(out, mac) {
			out = append(out, mac)
		}
	}
	if m.BootInterface != nil {
		add(m.BootInterface.MAC)
	}
	for _, i := range m.Interfaces {
		add(i.MAC)
	}
	return out
}
