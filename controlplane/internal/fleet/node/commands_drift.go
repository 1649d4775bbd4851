package node

import (
	"context"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/outbox"
)

// tellDrift says that the drift of an agent is another after its report. What is wanted
// of the node comes from known; a command does not read it.
func (c change) tellDrift(ctx context.Context, known, after Node, now time.Time) error {
	after.verifiersWanted, after.channelWants = known.verifiersWanted, known.channelWants
	was, is := known.Drift(now), after.Drift(now)
	if was == is {
		return nil
	}
	return outbox.Append(ctx, c.tx, outbox.Event{
		Type: eventwire.AgentDriftChanged, AggregateKind: "node", AggregateID: after.ID.String(),
		Payload: eventwire.AgentDrift{
			NodeID: after.ID.String(), Hostname: after.Hostname, Version: after.ReportedAgentVersion, Was: string(was),
			Is: string(is),
		},
	})
}
