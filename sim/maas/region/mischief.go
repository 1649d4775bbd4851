package region

import "time"

// The phases of a machine's work, where things take time and can go wrong.
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

// Phases lists them for those who check a scenario.
var Phases = []string{PhaseBMC, PhasePowerOff, PhasePXE, PhaseEphemeral, PhaseScripts, PhaseTests, PhaseStorage, PhaseInstall, PhaseConfigure, PhaseReboot, PhaseDatasource, PhaseFinal, PhaseErase, PhaseRescue, PhaseToken, PhaseSync}

// Ref names a machine to those who decide its fate.
type Ref struct{ SystemID, Hostname, BMC, Operation string }

// Fate is what becomes of one phase.
type Fate struct {
	Fail  bool
	Text  string        // what the failing part says; a usual text when empty
	Hang  bool          // never ends; MAAS's own time-out applies
	Delay time.Duration // on top of its time
}

// Mischief decides what goes wrong. It is asked under the lock of the region
// and must not call it.
type Mischief interface {
	// Phase is asked as a machine enters a phase.
	Phase(machine Ref, phase string) Fate
	// Power is asked before the BMC is: an error is what the BMC would say.
	Power(machine Ref, action string) error
}

type noMischief struct{}

func (noMischief) Phase(Ref, string) Fate  { return Fate{} }
func (noMischief) Power(Ref, string) error { return nil }
func (m *Machine) ref(operation string) Ref {
	return Ref{m.SystemID, m.Hostname, m.powerAddress(), operation}
}
