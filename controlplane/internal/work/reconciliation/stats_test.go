package reconciliation_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/telemetry/telemetrytest"
	"gpuaas/controlplane/internal/work/reconciliation"
)

func TestMetricsSayHowSitesStand(t *testing.T) {
	scraper, o := telemetrytest.New(t), newDesk(t)
	if err := o.service.ObserveStats(); err != nil {
		t.Fatal(err)
	}
	dc1, dc2 := o.site(t, "dc1", ago(time.Minute)), o.site(t, "dc2", ago(time.Hour))
	n := o.node(t, "c07u43", dc1, ago(time.Minute))
	o.node(t, "c07u44", dc1, nil)
	o.find(t, finding{site: dc1, node: n})
	o.find(t, finding{site: dc1, kind: "of_a_newer_release", severity: reconciliation.Debug})
	o.exec(t, `UPDATE reconciliation_sites SET tripped_at = $2 WHERE site_id = $1`, dc2, noon)

	const prefix = "gpuaas_reconciliation_"
	scraper.Wants(t,
		prefix+`findings{severity="critical",type="released"} 1`, prefix+`findings{severity="warning",type="powered_off"} 0`,
		prefix+`findings{severity="debug",type="of_a_newer_release"} 1`,
		prefix+`drifted_nodes{site="dc1"} 1`, prefix+`drifted_nodes{site="dc2"} 0`, prefix+`unreconciled_nodes{site="dc1"} 1`,
		prefix+`stale_sites 1`, prefix+`breakers_open 1`,
		prefix+`since_informed_seconds{site="dc1"} 60`, prefix+`since_informed_seconds{site="dc2"} 3600`)
	o.exec(t, `UPDATE maas_sites SET status = 'disabled' WHERE id = $1`, dc2)
	scraper.Wants(t, prefix+`stale_sites 0`)
	if got := scraper.Scrape(t); strings.Contains(got, `since_informed_seconds{site="dc2"}`) {
		t.Errorf("a paused site counts: %s", got)
	}
	o.exec(t, `UPDATE maas_sites SET deleted_at = now() WHERE id = $1`, dc1)
	scraper.Wants(t, prefix+`findings{severity="critical",type="released"} 0`) // a deleted site does not count
}
