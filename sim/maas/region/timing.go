package region

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Pace is how the lengths of phases are drawn.
type Pace string

// The paces.
const (
	PaceZero       Pace = "zero"       // everything happens at once
	PaceRealistic  Pace = "realistic"  // scattered around real times, with a tail
	PaceTriangular Pace = "triangular" // within fixed limits
)

// ParsePace reads a pace from a flag or file.
func ParsePace(s string) (Pace, error) {
	switch p := Pace(s); p {
	case PaceZero, PaceRealistic, PaceTriangular:
		return p, nil
	}
	return "", fmt.Errorf("timing %q is not zero, realistic or triangular", s)
}

// Timing says how long things take.
type Timing struct {
	Pace  Pace
	Speed float64 // 60 makes an hour a minute
	// Ranges replace the built-in ranges by phase.
	Ranges map[string]Range
}

// Range is the shortest, the usual and the longest time of a phase.
type Range struct{ Least, Usual, Most time.Duration }

func seconds(least, usual, most int) Range {
	return Range{time.Duration(least) * time.Second, time.Duration(usual) * time.Second, time.Duration(most) * time.Second}
}

// ranges are the times of an eight-GPU server; its firmware alone needs
// minutes.
var ranges = map[string]Range{
	PhaseBMC: seconds(1, 2, 6), PhasePowerOff: seconds(2, 6, 30), PhasePXE: seconds(150, 240, 420),
	PhaseEphemeral: seconds(40, 70, 150),
	PhaseScripts:   seconds(150, 300, 700), PhaseTests: seconds(60, 120, 900), PhaseStorage: seconds(8, 20, 60),
	PhaseInstall:   seconds(90, 200, 600),
	PhaseConfigure: seconds(30, 60, 150), PhaseReboot: seconds(150, 260, 420), PhaseDatasource: seconds(15, 40, 90),
	PhaseFinal: seconds(15, 45, 180),
	PhaseErase: seconds(20, 120, 1800), PhaseRescue: seconds(5, 10, 30),
}

// Faster returns the built-in ranges, so many times faster. Unlike Speed it
// leaves time-outs and intervals as they are, because a real machine takes its
// time.
func Faster(times float64) map[string]Range {
	fast := make(map[string]Range, len(ranges))
	for phase, k := range ranges {
		by := Timing{Speed: times}
		fast[phase] = Range{Least: by.scaled(k.Least), Usual: by.scaled(k.Usual), Most: by.scaled(k.Most)}
	}
	return fast
}

func (t Timing) filled() Timing {
	if t.Pace == "" {
		t.Pace = PaceZero
	}
	if t.Speed <= 0 {
		t.Speed = 1
	}
	return t
}

// scaled shortens a fixed time, such as a time-out, by the speed.
func (t Timing) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / t.Speed) }

func (t Timing) draw(rng *rand.Rand, phase string) time.Duration {
	k, ok := t.Ranges[phase]
	if !ok {
		if t.Pace == PaceZero {
			return 0
		}
		k = ranges[phase]
	}
	least, usual, most := float64(k.Least), float64(k.Usual), float64(k.Most)
	var d float64
	switch {
	case most <= least:
		d = least
	case t.Pace == PaceRealistic:
		d = min(max(usual*math.Exp(0.25*rng.NormFloat64()), least), 2*most)
	default:
		u, bend := rng.Float64(), (usual-least)/(most-least)
		if u < bend {
			d = least + math.Sqrt(u*(most-least)*(usual-least))
		} else {
			d = most - math.Sqrt((1-u)*(most-least)*(most-usual))
		}
	}
	return t.scaled(time.Duration(d))
}
