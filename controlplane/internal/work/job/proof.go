package job

// Proof shows that a parked job has reached its goal.
type Proof struct {
	Said    string         // for people
	Details map[string]any // never a secret
}
