package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/node/internal/nodedb"
)

// Still says whether a caller that was let in would be known as the same now.
// Unlike Authorize it changes nothing: it is asked long after the caller last
// spoke, so that its session proves nothing about who is alive.
func (s *Service) Still(ctx context.Context, p Presented) (Identity, error) {
	row, err := s.reads.Presented(ctx, nodedb.PresentedParams{Serial: strings.ToLower(p.Serial), NodeID: p.Node})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Revoked {
		return Identity{}, certificateRevoked()
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read identity of node: %w", err)
	}
	who := Identity{
		Node: p.Node, Status: Status(row.Status), Generation: row.Generation,
		OnboardingMode: Mode(row.OnboardingMode), VerifierVersion: row.VerifierVersion,
	}
	switch {
	case who.Status.fenced():
		return Identity{}, nodeFenced(who.Status)
	case row.AgentInstance != p.Instance:
		return Identity{}, identityInUse("another machine has this identity now")
	case row.SessionID != p.Session:
		return Identity{}, identityInUse("another process has this identity now")
	}
	return who, nil
}
