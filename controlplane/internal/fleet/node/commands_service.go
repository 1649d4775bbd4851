package node

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
)

// Quarantine blocks a node from scheduling until somebody returns it to
// service. For a quarantined node it does nothing.
func (s *Service) Quarantine(ctx context.Context, node id.Node, reason string) (Node, error) {
	return s.act(ctx, node, Quarantine, Quarantined, reason)
}

// ReturnToService ends a quarantine. For an active node it does nothing.
func (s *Service) ReturnToService(ctx context.Context, node id.Node, reason string) (Node, error) {
	return s.act(ctx, node, ReturnToService, Active, reason)
}

// act carries out an operator's action at once, without an operation that owns
// the node meanwhile.
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
