package agenttask

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
