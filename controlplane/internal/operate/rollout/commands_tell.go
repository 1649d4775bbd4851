package rollout

import (
	"context"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
)

// tell says what became of a node, and counts it once that has committed.
func (l *look) tell(ctx context.Context, before, after Member) error {
	if after.Outcome != before.Outcome && after.FinishedAt != nil {
		postgres.AfterCommit(ctx, func() { ends.Add(ctx, 1, string(after.Outcome)) })
	}
	switch {
	case after.Failures > before.Failures:
		if after.Outcome != Failed { // it is on its way back already
			postgres.AfterCommit(ctx, func() { ends.Add(ctx, 1, string(Failed)) })
		}
		return l.announceNode(ctx, eventwire.AgentNodeFailed, after)
	case after.Outcome == Returned && before.Outcome != Returned:
		return l.announceNode(ctx, eventwire.AgentNodeReturned, after)
	}
	return nil
}

func (l *look) announceNode(ctx context.Context, event eventwire.Type, m Member) error {
	payload := eventwire.AgentRolloutNode{
		RolloutID: l.r.ID.String(), NodeID: m.Node.String(), Hostname: m.Hostname, Version: l.r.Version, From: m.From,
		Because: m.Detail,
	}
	if m.Wave != nil {
		payload.Wave = *m.Wave
	}
	return outbox.Append(ctx, l.tx, outbox.Event{
		Type: event, AggregateKind: "agent_rollout", AggregateID: l.r.ID.String(), Payload: payload,
	})
}
