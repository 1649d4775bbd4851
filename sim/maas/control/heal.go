package control

import (
	"fmt"

	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// Heal lets nothing of a machine fail any more, and lets MAAS take it back where
// its tests failed or it is broken.
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
