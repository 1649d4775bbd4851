package allocation

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

var (
	repairSince = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.allocation.repair_since", Seconds: true,
		Help: "How long the oldest repair of a rented node lasts that nobody has ended; 0: there is none.",
	})
	maintenanceOverdue = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.allocation.maintenance_overdue", Seconds: true,
		Help: "How long the time of the oldest announced maintenance is past that nobody has ended; 0: there is none.",
	})
	releaseFailedSince = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.allocation.release_failed_since", Seconds: true,
		Help: "How long the oldest allocation waits whose cleaning stopped; 0: there is none.",
	})
)

// ObserveStats exports for how long something waits that an operator has to end. It
// asks the database at each collection.
func ObserveStats(db allocationdb.DBTX) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		now, err := allocationdb.New(db).Neglected(ctx)
		if err != nil {
			return fmt.Errorf("look what of allocations nobody ends: %w", err)
		}
		seen(repairSince, now.Repair)
		seen(maintenanceOverdue, now.Maintenance)
		seen(releaseFailedSince, now.ReleaseFailed)
		return nil
	}, repairSince, maintenanceOverdue, releaseFailedSince)
	return err
}
