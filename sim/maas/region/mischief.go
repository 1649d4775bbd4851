package region

import "time"

// The phases of a machine's work. Each takes time and can go wrong.
const (
	PhaseBMC        = "bmc"
	PhasePowerOff   = "power_off"
	PhasePXE        = "pxe"
	PhaseEphemeral  = "ephemeral"
	PhaseScripts    = "scripts"
	PhaseTests      = "tests"
	PhaseStorage    = "storage"
	PhaseInstall    = "install"
	PhaseConfigure  = "configure"
	PhaseReboot     = "reboot"
	PhaseDatasource = "datasource"
	PhaseFinal      = "final"
	PhaseErase      = "erase"
	PhaseRescue     = "rescue"
	PhaseToken      = "token"
	PhaseSync       = "sync"
)

// Phases lists them for code that checks a scenario.
var Phases = []string{
	PhaseBMC, PhasePowerOff, PhasePXE, PhaseEphemeral, PhaseScripts, PhaseTests, PhaseStorage,
	PhaseInstall, PhaseConfigure, PhaseReboot, PhaseDatasource, PhaseFinal, PhaseErase, PhaseRescue, PhaseToken, PhaseSync,
}

// Ref names a machine to code that decides its fate.
type Ref struct{ SystemID, Hostname, BMC, Operation string }

// Fate is what becomes of one phase.
type Fate struct {
	Fail  bool
	Text  string        // the text of the failure; empty: a usual one
	Hang  bool          // never ends; MAAS's own time-out applies
	Delay time.Duration // on top of its time
}

// Mischief decides what goes wrong. It is called with the lock of the region
// held, and must not call the region.
type Mischief interface {
	// Phase is called when a machine enters a phase.
	Phase(machine Ref, phase string) Fate
	// Power is called before the BMC. An error is what the BMC would say.
	Power(machine Ref, action string) error
}

type noMischief struct{}

func (noMischief) Phase(Ref, string) Fate  { return Fate{} }
func (noMischief) Power(Ref, string) error { return nil }
func (m *Machine) ref(operation string) Ref {
	return Ref{m.SystemID, m.Hostname, m.powerAddress(), operation}
}
