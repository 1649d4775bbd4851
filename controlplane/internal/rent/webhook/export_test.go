package webhook

import "time"

// Backoff is how long to wait after an attempt.
var Backoff = backoff

// Hurry makes attempts follow each other at once.
func (s *Service) Hurry() *Service {
	s.backoff = func(attempt int32) (time.Duration, bool) {
		_, more := backoff(attempt, 0)
		return 0, more
	}
	return s
}
