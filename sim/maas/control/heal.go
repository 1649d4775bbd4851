package control

import (
	"fmt"

	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// Heal ends all failures of a machine. If its tests failed or it is broken,
// Heal makes MAAS accept it again.
func Heal(r *region.Region, plan *fault.Plan, name string) error {
	m, known := r.Named(name)
	if !known {
		return fmt.Errorf("no machine is called %q", name)
	}
	spared := plan.Spare(m.Ref())
	unwell := m.Status == region.FailedTesting.String() || m.Status == region.Broken.String()
	if spared > 0 && !unwell {
		return nil
	}
	return r.Happen(m.SystemID, "heal")
}
