package agenttask

import "time"

// SignWithin bounds how long a signature may take.
func (q *Queue) SignWithin(d time.Duration) { q.signing = d }

// Waiting is how many polls the queue holds.
func (q *Queue) Waiting() int {
	q.waiting.mu.Lock()
	defer q.waiting.mu.Unlock()
	n := 0
	for _, all := range q.waiting.by {
		n += len(all)
	}
	return n
}
