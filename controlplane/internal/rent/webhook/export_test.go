package webhook

import "time"

// MaxWaiting is how many deliveries of a webhook may wait.
const MaxWaiting = maxWaiting

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
