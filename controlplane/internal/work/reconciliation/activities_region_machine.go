package reconciliation

import (
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"gpuaas/controlplane/internal/adapter/maas"
)

// stateOf says what MAAS's status of a machine means to the node on it.
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
	case maas.StatusCommissioning, maas.StatusTesting, maas.StatusRescueMode, maas.StatusEnteringRescueMode,
		maas.StatusExitingRescueMode:
		return Maintenance
	case maas.StatusRetired, maas.StatusMissing:
		return Withdrawn
	case maas.StatusBroken, maas.StatusFailedCommissioning, maas.StatusFailedDeployment, maas.StatusFailedReleasing,
		maas.StatusFailedDiskErasing,
		maas.StatusFailedEnteringRescueMode, maas.StatusFailedExitingRescueMode, maas.StatusFailedTesting:
		return Failed
	default:
		return Strange
	}
}

// Limits of what is kept of a machine. Real servers stay far below them.
const (
	maxText      = 255
	maxAddresses = 256
	maxLinks     = 512
	maxSync      = 365 * 24 * time.Hour
)

// machineOf copies only what the rules use, so that the rest of MAAS's answer
// can be freed. The copy goes into rows, so it is bounded and holds nothing
// that the database would refuse.
func machineOf(m maas.Machine) Machine {
	out := Machine{
		SystemID: clean(m.SystemID), Hostname: clean(m.Hostname), Status: clean(m.Status.Label()), State: stateOf(m),
		Power: clean(string(m.PowerState)), Owner: clean(m.Owner),
		IPs: addresses(m.IPAddresses), MACs: macsOf(m), Links: linksOf(m), Installation: m.InstallationResultID,
		SyncEnabled: m.EnableHWSync, SyncInterval: time.Duration(
			min(max(m.SyncInterval, 0), int64(maxSync/time.Second))) * time.Second, LastSync: m.LastSync,
	}
	if out.Power == "" {
		out.Power = string(maas.PowerUnknown)
	}
	return out
}

// clean makes text of MAAS fit for rows. It replaces characters that rows
// cannot hold instead of dropping them: a shortened id could be the id of
// another machine.
func clean(s string) string {
	const instead = "\uFFFD"
	s = strings.ReplaceAll(strings.ToValidUTF8(s, instead), "\x00", instead)
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end])
}

// addresses drops texts that are no addresses, and duplicates.
func addresses(said []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range said {
		if isAddress(s) && !seen[s] && len(out) < maxAddresses {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// isAddress refuses addresses with a zone, because a zone may be any text.
func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

func linksOf(m maas.Machine) []Link {
	var out []Link
	for _, i := range m.Interfaces {
		for _, l := range i.Links {
			if isAddress(l.IPAddress) && len(out) < maxLinks {
				out = append(out, Link{Interface: clean(i.Name), Address: l.IPAddress})
			}
		}
	}
	return out
}

func macsOf(m maas.Machine) []string {
	var out []string
	seen := map[string]bool{}
	add := func(mac string) {
		if mac = clean(strings.ToLower(mac)); mac != "" && !seen[mac] && len(out) < maxAddresses {
			seen[mac] = true
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
