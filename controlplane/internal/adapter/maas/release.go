package maas

import (
	"context"
)

// Erase is how the disks are treated when a machine is released.
type Erase string

// The ways to erase.
const (
	EraseNone   Erase = "none"
	EraseQuick  Erase = "quick"
	EraseSecure Erase = "secure"
	EraseFull   Erase = "full" // overwrite everything
)

// ReleaseOptions say how to give a machine back.
type ReleaseOptions struct {
	Erase   Erase // empty: none, unless the region is set to erase always
	Force   bool
	Comment string
}

// ReleaseOutcome says what a release set in motion.
type ReleaseOutcome string

// The outcomes. MAAS answers a release of a machine that is already free, or on
// its way, with success and does nothing: an erase that was asked for has then
// not happened, which is why it is an outcome of its own.
const (
	ReleaseNothing ReleaseOutcome = "nothing"  // it was Ready or Releasing already; nothing was sent
	ReleaseErasing ReleaseOutcome = "erasing"  // disks are being erased; wait for the end
	ReleaseStarted ReleaseOutcome = "started"  // powering off; wait for the end
	ReleaseDone    ReleaseOutcome = "released" // free at once, because it was off
)

// Released is what a release led to.
type Released struct {
	Machine Machine
	Outcome ReleaseOutcome
}

// Release gives a machine back. It ends in Ready, or in New when the latest
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
