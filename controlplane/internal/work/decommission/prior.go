package decommission

// initializes says whether the data disks of a node are made at its first boot:
// what mounts them is written on the root disk then. Jobs are oldest first.
func initializes(prior []priorJob) (yes bool) {
	for _, p := range prior {
		if p.kind == onboardingJob {
			yes = p.initializesDisks
		}
	}
	return yes
}

// blankAtJoin lists the disks that were blank when the node was last installed: the
// last job that looked says so.
func blankAtJoin(prior []priorJob) (serials []string) {
	for _, p := range prior {
		if p.blankDisks != nil {
			serials = p.blankDisks
		}
	}
	return serials
}

// onboardingJob is the kind of a prior job that installed the node first.
const onboardingJob = "onboarding"

// priorJob is a job that brought the node up, or worked on it, before.
type priorJob struct {
	kind, id         string
	initializesDisks bool
	blankDisks       []string // serial numbers
}
