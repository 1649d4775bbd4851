package node

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
)

// Quarantine blocks a node from scheduling until somebody returns it to
// service. A node that is quarantined already stays so.
func (s *Service) Quarantine(ctx context.Context, node id.Node, reason string) (Node, error) {
	return s.act(ctx, node, Quarantine, Quarantined, reason)
}

// ReturnToService ends a quarantine. A node that is active already stays so.
func (s *Service) ReturnToService(ctx context.Context, node id.Node, reason string) (Node, error) {
	return s.act(ctx, node, ReturnToService, Active, reason)
}

// act is an action of an operator that is done at once, without an operation
// that would own the node meanwhile.
func (s *Service) act(ctx context.Context, node id.Node, event Event, there Status, reason string) (Node, error) {
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.lock(ctx, node)
		if err != nil || before.Status == there {
			return err
		}
		if err := before.unowned(); err != nil {
			return err
		}
		_, err = c.move(ctx, before, event, reason)
		return err
	})
	if err != nil {
		return Node{}, err
	}
	return s.Node(ctx, node)
}
