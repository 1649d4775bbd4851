package node

import "context"

// Still says whether a caller that was admitted would still be admitted now.
// Unlike Authorize it changes nothing: the caller may have spoken long ago, so
// its session does not prove which process is alive.
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
