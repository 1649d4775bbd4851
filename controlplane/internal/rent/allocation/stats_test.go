package allocation_test

import (
	"strconv"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/telemetry/telemetrytest"
	"gpuaas/controlplane/internal/rent/allocation"
)

// What nobody ends is told with its age, and not while there is nothing of the kind.
func TestWhatNobodyEndsIsMeasured(t *testing.T) {
	scraper := telemetrytest.New(t)
	w := newWorld(t)
	w.nodes(t, 2)
	if err := allocation.ObserveStats(w.db); err != nil {
		t.Fatal(err)
	}
	scraper.Wants(t, "gpuaas_allocation_repair_since_seconds 0", "gpuaas_allocation_maintenance_overdue_seconds 0",
		"gpuaas_allocation_release_failed_since_seconds 0")
	a, b := w.active(t, allocation.Ask{}), w.active(t, allocation.Ask{})
	if _, err := w.service.BeginRepair(w.ctx, a.ID, "a fan is replaced"); err != nil {
		t.Fatal(err)
	}
	// Time goes on between the change and the look, so ages are told apart by millions of seconds.
	w.exec(t, `UPDATE allocation_repairs SET began_at = began_at - interval '2000000 s'`)
	w.exec(t, `UPDATE allocations SET status = 'release_failed', release_failed_at = clock_timestamp() - interval '3000000 s'
		WHERE id = $1`, b.ID)
	w.exec(t, `INSERT INTO maintenances (id, announcement_id, allocation_id, node_id, hostname, org_id, project_id, kind,
			consent_asked, not_before, due_at, reason, announced_by)
		SELECT gen_random_uuid(), gen_random_uuid(), id, node_id, hostname, org_id, project_id, 'reboot', false,
			clock_timestamp() - interval '5000000 s', clock_timestamp() - interval '4000000 s', 'firmware', 'x'
		FROM allocations WHERE id = $1`, a.ID)
	for name, least := range map[string]float64{
		"gpuaas_allocation_repair_since_seconds": 2e6, "gpuaas_allocation_release_failed_since_seconds": 3e6,
		"gpuaas_allocation_maintenance_overdue_seconds": 4e6,
	} {
		_, rest, _ := strings.Cut(scraper.Scrape(t), "\n"+name+" ")
		value, _, _ := strings.Cut(rest, "\n")
		if got, err := strconv.ParseFloat(value, 64); err != nil || got < least || got > least+1e5 {
			t.Errorf("%s is %q: %v", name, value, err)
		}
	}
}
