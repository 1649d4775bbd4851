package balance

import "context"

// Standings are how all tenants stand that are held to a limit.
func (s *Service) Standings(ctx context.Context) ([]Standing, error) { return s.standings(ctx) }
