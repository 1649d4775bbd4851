package maas

import (
	"context"
)

// Erase says how to treat the disks when a machine is released.
type Erase string

// The ways to erase.
const (
	EraseNone   Erase = "none"
	EraseQuick  Erase = "quick"
	EraseSecure Erase = "secure"
	EraseFull   Erase = "full" // overwrite everything
)

// ReleaseOptions say how to release a machine.
type ReleaseOptions struct {
	Erase   Erase // empty: none, unless the region always erases
	Force   bool
	Comment string
}

// ReleaseOutcome says what a release set in motion.
type ReleaseOutcome string

// The outcomes. If a machine is already free, or being released, MAAS answers
// with success and does nothing. Then a requested erase has not happened, so
// this is an outcome of its own.
const (
	ReleaseNothing ReleaseOutcome = "nothing"  // it was Ready or Releasing already; nothing was sent
	ReleaseErasing ReleaseOutcome = "erasing"  // disks are being erased; wait for the end
	ReleaseStarted ReleaseOutcome = "started"  // powering off; wait for the end
	ReleaseDone    ReleaseOutcome = "released" // free at once, because it was off
)

// Released is the result of a release.
type Released struct {
	Machine Machine
	Outcome ReleaseOutcome
}

// Release releases a machine. It ends in Ready, or in New if the latest
// commissioning had not passed: Status.Free covers both.
func (c *Client) Release(ctx context.Context, id string, o ReleaseOptions) (Released, error) {
	before, err := c.Machine(ctx, id)
	if err != nil {
		return Released{}, err
	}
	if before.Status == StatusReady || before.Status == StatusReleasing {
		return Released{Machine: before, Outcome: ReleaseNothing}, nil
	}
	f := newForm().text("comment", o.Comment).option("force", o.Force)
	switch o.Erase {
	case EraseQuick:
		f.flag("erase", true).flag("quick_erase", true)
	case EraseSecure:
		f.flag("erase", true).flag("secure_erase", true)
	case EraseFull:
		f.flag("erase", true)
	case EraseNone, "":
	}
	m, err := c.operate(ctx, post(id, "release", f), id)
	if err != nil {
		return Released{Machine: m}, err
	}
	return Released{Machine: m, Outcome: outcomeOf(m)}, nil
}

func outcomeOf(m Machine) ReleaseOutcome {
	switch {
	case m.Status.Free():
		return ReleaseDone
	case m.Status == StatusDiskErasing:
		return ReleaseErasing
	default:
		return ReleaseStarted
	}
}
