package maas_test

import (
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/engine/telemetry/telemetrytest"
)

// No id of a machine is a label, or there would be as many series as machines.
func TestRequestsAreMeasuredByOperationAndOutcome(t *testing.T) {
	scraper := telemetrytest.New(t)
	g := serve(t, func(_ int, r request, w http.ResponseWriter) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte("[]"))
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	c := client(t, g.URL+"/MAAS/")
	if _, err := c.Interfaces(t.Context(), "abc123"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetBootDisk(t.Context(), "abc123", 7); err == nil {
		t.Fatal("no failure")
	}
	const series = "gpuaas_maas_request_duration_seconds_count"
	scraper.Wants(t, series+`{operation="GET nodes/{id}/interfaces/",outcome="ok"} 1`,
		series+`{operation="POST nodes/{id}/blockdevices/{id}/ op=set_boot_disk",outcome="ambiguous"} 1`)
}
