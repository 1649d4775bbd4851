package conformance_test

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/adapter/maas/conformance"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/sim/maas/api"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
)

func TestSimulator(t *testing.T) {
	r := region.Open(region.Options{})
	t.Cleanup(r.Close)
	if err := fleet.Populate(r, fleet.Options{Machines: 1}); err != nil {
		t.Fatal(err)
	}
	r.AddImage("gpuaas-h200")
	s := httptest.NewServer(api.New(api.Options{Region: r}))
	t.Cleanup(s.Close)
	conformance.Run(t, conformance.Config{
		URL: s.URL, Token: redact.New(r.AdminKey()), Machine: r.SystemIDs()[0], Image: "gpuaas-h200", Timeout: time.Minute,
	})
}

// BenchmarkSimulatorRead reads single machines; client and simulator share the
// processor.
func BenchmarkSimulatorRead(b *testing.B) {
	r := region.Open(region.Options{})
	b.Cleanup(r.Close)
	if err := fleet.Populate(r, fleet.Options{Machines: 100}); err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(api.New(api.Options{Region: r}))
	b.Cleanup(s.Close)
	c, err := maas.New(maas.Config{
		URL: s.URL, Token: redact.New(r.AdminKey()),
		Loopback: func(netip.AddrPort) bool { return true },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	ids := r.SystemIDs()
	for i := 0; b.Loop(); i++ {
		if _, err := c.Machine(b.Context(), ids[i%len(ids)]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
}
