package maas

// Verdict says what the present state of a machine means to somebody who waits.
type Verdict struct {
	done   bool
	failed bool
	reason string
}

// Waiting says that nothing is decided yet.
func Waiting() Verdict { return Verdict{} }

// Reached says that the wait is over.
func Reached() Verdict { return Verdict{done: true} }

// Failing says that the awaited state will not come.
func Failing(reason string) Verdict { return Verdict{done: true, failed: true, reason: reason} }

// Done reports whether the wait is over, with success or not.
func (v Verdict) Done() bool { return v.done }

// Failed reports whether the wait is over without success.
func (v Verdict) Failed() bool { return v.failed }

// Reason says why it failed.
func (v Verdict) Reason() string { return v.reason }

// UntilCommissioned waits for Ready after a commissioning was accepted.
func UntilCommissioned(m Machine) Verdict {
	switch m.Status {
	case StatusReady:
		return Reached()
	case StatusFailedCommissioning, StatusFailedTesting:
		return Failing("the machine did not pass")
	case StatusNew:
		return Failing("the commissioning was aborted")
	case StatusBroken, StatusRetired, StatusMissing, StatusAllocated, StatusDeploying, StatusDeployed:
		return Failing("somebody else took the machine")
	default:
		return Waiting()
	}
}

// UntilDeployed waits for Deployed after a deployment was accepted. Deployed
// means that the first boot asked for its user data, not that it succeeded.
func UntilDeployed(m Machine) Verdict {
	switch m.Status {
	case StatusDeployed:
		if m.Hollow() {
			return Failing("nothing is installed on the machine")
		}
		return Reached()
	case StatusFailedDeployment:
		return Failing("the installation failed")
	case StatusAllocated:
		return Failing("the deployment was aborted")
	case StatusBroken, StatusReady, StatusNew, StatusReleasing, StatusFailedReleasing, StatusDiskErasing,
		StatusFailedDiskErasing, StatusRetired, StatusMissing:
		return Failing("the machine was taken away")
	default:
		return Waiting()
	}
}

// UntilReleased waits until nobody holds the machine after a release was
// accepted. The machine may end in New.
func UntilReleased(m Machine) Verdict {
	switch m.Status {
	case StatusReady, StatusNew:
		return Reached()
	case StatusFailedReleasing, StatusFailedDiskErasing:
		return Failing("the machine could not be released")
	case StatusBroken:
		return Failing("the machine was marked broken")
	default:
		return Waiting()
	}
}
