package rollout

import (
	"slices"
	"strings"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

// occupiedByClaim is the kind of occupation that somebody rents a node. A plan says
// whether that keeps an update off; every other kind does.
const occupiedByClaim = "claim"

// ready says whether a node can be begun with now, and what became of it otherwise.
func (l *look) ready(m Member, row rolloutdb.StartableRow) (Member, bool) {
	status := node.Status(row.NodeStatus)
	path, because := node.PathOf(m.Hostname, row.ReportedAgentVersion, row.Protocol, row.CertificateNotAfter, l.now)
	rented := slices.Contains(row.Occupied, occupiedByClaim)
	busy := slices.DeleteFunc(slices.Clone(row.Occupied), func(by string) bool { return by == occupiedByClaim })
	switch {
	case status.Is(node.Out):
		return m.ended(Excluded, l.now, "it is %s now", row.NodeStatus), false
	case path != node.PathInPlace:
		return m.ended(Excluded, l.now, "%s", because), false
	case status == node.Offline:
		m.Outcome, m.Detail = SkippedOffline, "it was offline; it is updated when it is back while the rollout lasts"
		return m, false
	case status != node.Active:
		return m.ended(Excluded, l.now, "it is %s now", row.NodeStatus), false
	case row.AgentChannel == string(node.Pinned) || row.AgentChannel == string(node.Unassigned):
		return m.ended(Excluded, l.now, "it is %s now", row.AgentChannel), false
	case row.ReportedAgentVersion == l.r.Version:
		return m.ended(Excluded, l.now, "it runs the version already"), false
	case row.ForeignArchitecture != "":
		return m.ended(Excluded, l.now, "%s", foreign(row.ForeignArchitecture)), false
	case rented && l.r.Plan.Rented == rentedLeave:
		return m.ended(Excluded, l.now, "somebody rents it now"), false
	case len(busy) > 0:
		if m.DeadlineAt != nil && l.now.After(*m.DeadlineAt) {
			return m.ended(Excluded, l.now, "it was never idle: there was still %s", occupied(busy)), false
		}
		if m.DeadlineAt == nil {
			deadline := l.now.Add(l.r.Plan.node())
			m.DeadlineAt = &deadline
			m.Detail = "it waits until the node is idle: there is still " + occupied(busy)
		}
		return m, false
	}
	return m, true
}

// occupied names what a node is busy with.
func occupied(kinds []string) string {
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = "a " + kind
		if kind == "operation" || kind == "agent run" {
			words[i] = "an " + kind
		}
	}
	return strings.Join(words, " and ")
}
