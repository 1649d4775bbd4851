package node

import "context"

// Still says whether a caller that was let in would be known as the same now.
// Unlike Authorize it changes nothing: it is asked long after the caller last
// spoke, so that its session proves nothing about who is alive.
func (s *Service) Still(ctx context.Context, p Presented) (Identity, error) {
	who, row, err := s.known(ctx, p)
	if err != nil {
		return Identity{}, err
	}
	switch {
	case row.AgentInstance != p.Instance:
		return Identity{}, identityInUse("another machine has this identity now")
	case row.SessionID != p.Session:
		return Identity{}, identityInUse("another process has this identity now")
	}
	return who, nil
}
