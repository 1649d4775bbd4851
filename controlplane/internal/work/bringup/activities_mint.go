package bringup

import (
	"context"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/binding"
)

// MachineToken reads, for the agent of a node, the token with which its machine
// reports to MAAS. A node gets only the token of its own machine.
func (b *Bringup) MachineToken(ctx context.Context, node id.Node, systemID string) (map[string]redact.Secret, error) {
	bound, err := binding.OfNode(ctx, b.cfg.DB, node)
	if err != nil {
		return nil, err
	}
	if bound.SystemID != systemID {
		return nil, fault.New(fault.Forbidden, "machine_of_other_node",
			"the machine that was asked for is not that of the node")
	}
	at, err := b.cfg.Sites.Site(ctx, bound.Site)
	if err != nil {
		return nil, err
	}
	r, err := b.region(ctx, &Work{Site: at})
	if err != nil {
		return nil, err
	}
	token, err := r.MachineToken(ctx, bound.SystemID)
	if err != nil {
		return nil, err
	}
	return map[string]redact.Secret{"consumer_key": token.Consumer, "token_key": token.Key, "token_secret": token.Secret},
		nil
}
