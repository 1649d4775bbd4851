package node

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"gpuaas/contract/agentwire"
)

// UpdatePath is how the agent of a node can get another version.
type UpdatePath string

// The paths. All but the first need somebody on the machine, or a reimage.
const (
	PathInPlace   UpdatePath = "in_place"
	PathBootstrap UpdatePath = "bootstrap_install"
	PathRepair    UpdatePath = "certificate_repair"
	PathByHand    UpdatePath = "manual_install"
	PathUpgrade   UpdatePath = "control_plane_upgrade"
	NoPath        UpdatePath = "none"
)

var updatePaths = []UpdatePath{PathInPlace, PathBootstrap, PathRepair, PathByHand, PathUpgrade, NoPath}

// UpdatePath says how the agent of the node can get another version, and what to do where
// that is not in place.
func (n Node) UpdatePath(now time.Time) (path UpdatePath, because string) {
	if n.Status.Is(Out) {
		return NoPath, ""
	}
	var facts map[string]string
	_ = json.Unmarshal(n.Capabilities, &facts) // a node that says nothing speaks the first protocol
	return PathOf(n.Hostname, n.ReportedAgentVersion, facts[agentwire.FactProtocol], n.CertificateNotAfter, now)
}

// PathOf is UpdatePath for those who have read some facts of a node only.
func PathOf(hostname, version, protocol string, certificateEnd *time.Time, now time.Time) (UpdatePath, string) {
	const orReimage = ", or reimage it: gpuaas decommission start %[1]s --mode reimage"
	speaks, err := strconv.Atoi(protocol)
	if err != nil {
		speaks = 1
	}
	switch {
	case version == "":
		return PathBootstrap, "it has no agent yet: its onboarding installs one, or somebody who runs on it what this prints: " +
			"gpuaas node bootstrap " + hostname
	case certificateEnd == nil || !certificateEnd.After(now):
		return PathRepair, fmt.Sprintf("its agent has no valid certificate and is refused: run on it what this prints: "+
			"gpuaas node bootstrap %[1]s --recovery"+orReimage, hostname)
	case speaks < agentwire.OldestProtocol:
		return PathByHand, fmt.Sprintf("its agent is too old to be updated from here: it speaks protocol %[2]d, and this "+
			"control plane %[3]d and later. Run on it what this prints: gpuaas node bootstrap %[1]s --recovery"+orReimage,
			hostname, speaks, agentwire.OldestProtocol)
	case speaks > agentwire.Protocol:
		return PathUpgrade, fmt.Sprintf("its agent is newer than this control plane: it speaks protocol %d, and this control "+
			"plane %d. Upgrade the control plane", speaks, agentwire.Protocol)
	}
	return PathInPlace, ""
}
