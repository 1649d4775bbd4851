package onboarding_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/work/job"
	"gpuaas/testkit"
)

// BenchmarkBatch is what the control plane itself costs: 200 machines whose
// stages take no time, on real engines.
func BenchmarkBatch(b *testing.B) {
	const machines = 200
	y := newYard(b, parallel(40))
	y.exec(b, `UPDATE maas_site_profiles SET batch_max_parallel = 40`)
	y.serve(b)
	number := 1
	for b.Loop() {
		began := time.Now()
		batch := y.batch(b, number, machines)
		number += machines
		testkit.Eventually(b, "all have ended", func() bool {
			now, err := y.service.Batch(y.ctx, batch.ID)
			return err == nil && now.Counts[job.Completed] == machines
		})
		b.ReportMetric(machines/time.Since(began).Minutes(), "nodes/min")
	}
}
