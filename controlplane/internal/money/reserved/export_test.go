package reserved

// Holding is a reservation at a moment, for tests.
type Holding struct {
	Nodes, Unused, Kept int64
	Fits                []bool
}

// Lacking says how many nodes each reservation lacks.
func Lacking(of []Holding, inUse []int64) []int64 {
	all := make([]holding, len(of))
	for i, h := range of {
		all[i] = holding{nodes: h.Nodes, unused: h.Unused, kept: h.Kept, fits: h.Fits}
	}
	return lacking(all, inUse)
}
