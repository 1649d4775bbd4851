package outbox

import "time"

// NewShortFeed is a feed whose readings last no longer than a test wants.
func NewShortFeed(n *NATS, longest time.Duration) *Feed {
	return &Feed{nats: n, longest: longest, turns: newTurns()}
}
