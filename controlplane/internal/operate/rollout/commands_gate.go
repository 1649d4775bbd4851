package rollout

import (
	"fmt"
	"time"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

// baking is the health gate: reported version, an agent that ran and was heard, a
// certificate that it renewed itself, and a node that is as schedulable as it was.
func (l *look) baking(m Member, row rolloutdb.LiveRow, late bool) Member {
	switch {
	case row.ReportedAgentVersion != l.r.Version:
		return m.ended(Failed, l.now, "it reports version %s after it had reported %s", row.ReportedAgentVersion, l.r.Version)
	case node.Status(row.NodeStatus) == node.Offline:
		return m.ended(Failed, l.now, "its agent stopped reporting after the update")
	case l.now.Before(*m.BakeUntil):
		return m
	}
	if heavy := l.r.Plan.heavy(row.Memory, m.MemoryBefore); heavy != "" {
		return m.ended(Failed, l.now, "%s", heavy)
	}
	problem := l.unproven(m, row)
	switch {
	case problem == "":
		return m.ended(Verified, l.now, "")
	case late && row.HeldBy != "" && problem == notSchedulable:
		return m.ended(Excluded, l.now, "it is held by something else, so nobody knows whether it would be schedulable again")
	case late:
		return m.ended(Failed, l.now, "%s", problem)
	}
	m.Detail = problem
	return m
}

// clockSlack is by how much two clocks of the control plane may differ.
const clockSlack = 10 * time.Second

// unproven says what is missing at the end of the bake time, and may still come. An
// agent of before says nothing of its start, and renews nothing to prove that it can.
func (l *look) unproven(m Member, row rolloutdb.LiveRow) string {
	bake := l.r.Plan.bake()
	switch started := row.AgentStartedAt; {
	case !row.HeardAt.After(m.BakeUntil.Add(-min(bake, nearTheEnd))):
		return "its agent was not reporting at the end of the bake time"
	case started != nil && started.After(l.now.Add(min(clockSlack, bake/2)-bake)):
		return fmt.Sprintf("its agent was started again at %s, during the bake time, and must run through all of it",
			started.UTC().Format(time.TimeOnly+" MST"))
	case !row.Certified:
		return "it has no valid certificate"
	case started != nil && !row.Renewed:
		return "its agent has not renewed the certificate of the node since the update"
	case m.WasSchedulable && !row.Schedulable:
		return notSchedulable
	}
	return ""
}

const notSchedulable = "it is not schedulable again"

// A small agent may grow by so much, whatever the share.
const smallGrowth = 32 << 20

// heavy says that an agent uses more memory than the plan allows; empty: it does not, or
// nobody knows what it uses.
func (p Plan) heavy(now, before int64) string {
	uses := fmt.Sprintf("its agent uses %d MiB", now>>20)
	times := ""
	if before > 0 {
		times = fmt.Sprintf(", %.1f times what it used before", float64(now)/float64(before))
	}
	switch {
	case before > 0 && now-before > smallGrowth && now*100 > before*int64(p.MemoryPercent):
		return uses + times
	case now > int64(p.MemoryMiB)<<20 && now > before:
		return fmt.Sprintf("%s, more than the %d MiB that it may%s", uses, p.MemoryMiB, times)
	}
	return ""
}
