package job

// Proof is what shows that the goal of a parked job was reached.
type Proof struct {
	Said    string         // for people
	Details map[string]any // never a secret
}
