package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
)

// inspected is the report of a machine with eight GPUs.
var inspected = func() string {
	c := agentwire.Capabilities{
		Facts: map[string]string{
			"gpu.vendor": "nvidia", "gpu.architecture": "hopper", "gpu.driver_series": "570", "compute.runtime": "cuda12",
			"fabric.type": "roce", "container.runtime": "containerd",
		},
		CPUModel: "Intel(R) Xeon(R) Platinum 8480C", CPUs: 224, MemoryBytes: 2164663517184, NUMANodes: 2,
		Kernel: "6.8.0-60-generic", OS: "Ubuntu 24.04.2 LTS",
	}
	for i := range 8 {
		c.GPUs = append(c.GPUs, agentwire.GPU{
			Index: i, UUID: fmt.Sprintf("GPU-5a0c7a9e-1f7b-4f55-9d1c-00000000000%d", i), Name: "NVIDIA H200",
			Architecture: "hopper",
			MemoryBytes:  150754820096, PCIBusID: fmt.Sprintf("00000000:%d8:00.0", i),
		})
		c.NICs = append(c.NICs, agentwire.NIC{
			Name: fmt.Sprintf("rdma%d", i), MAC: fmt.Sprintf("0c:42:a1:00:00:0%d", i),
			SpeedMbps: 400000, Driver: "mlx5_core", RDMA: true,
		})
		c.Disks = append(c.Disks, agentwire.Disk{
			Name: fmt.Sprintf("nvme%dn1", i), Model: "Micron 7450",
			SizeBytes: 3840755982336,
		})
	}
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(b)
}()

// The inventory of 10,000 nodes over the API: an operator waits for it.
func BenchmarkInventory(b *testing.B) {
	w := newWorld(b)
	all := w.fill(b, 10_000)
	w.exec(b, `INSERT INTO node_events (node_id, kind, cause, actor_kind, actor_id, correlation_id, snapshot)
		SELECT id, 'updated', 'changed by an operator', 'user', 'user:root', 'test', '{}' FROM nodes, generate_series(1, 20)`)
	w.exec(b, `ANALYZE`)
	b.Run("page of 1000 with detail", func(b *testing.B) {
		measure(b, func(int) { w.must(b, "?page_size=1000") })
	})
	b.Run("page of 1000 of a region", func(b *testing.B) {
		measure(b, func(int) { w.must(b, "?page_size=1000&region_code=eu-1&status=active&schedulable=true") })
	})
	w.benchSorted(b, all)
	b.Run("one node with history", func(b *testing.B) {
		measure(b, func(i int) { w.must(b, "/"+all[i*7919%len(all)].String()) })
	})
	b.Run("flush of 1000 contacts", func(b *testing.B) {
		measure(b, func(i int) {
			for j := range 1000 {
				w.service.Contacts().Note(all[(i*1000+j)%len(all)], agentwire.Vitals{})
			}
			w.flush(b)
		})
	})
	w.listens(b)
	b.Run("sweep without changes", func(b *testing.B) {
		measure(b, func(int) {
			if n := w.sweep(b); n != 0 {
				b.Fatal(n)
			}
		})
	})
}

// benchSorted reads a page from the middle of the fleet, by every sort column.
// It first reads all of them in turn, as several operators would, so that no
// cached plan of the database fits by luck.
func (w *world) benchSorted(b *testing.B, all []id.Node) {
	b.Helper()
	site, profile := w.maas(b)
	for _, n := range all[:len(all)/4] {
		w.exec(b, `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id) VALUES ($1, $2, $3, $4)`, n,
			site, profile, n.String())
	}
	w.exec(b, `INSERT INTO node_hardware (node_id, known, origin, addresses) SELECT n, jsonb_build_object('uuid', n, 'system_serial', 'SN-' || i,
			'board_serial', 'BRD' || i, 'chassis_serial', 'CH' || i,
			'macs', (SELECT jsonb_agg(format('0c:42:a1:%s:%s:0%s', lpad(to_hex(i / 256), 2, '0'),
				lpad(to_hex(i % 256), 2, '0'), k)) FROM generate_series(0, 9) k)),
			'maas', ARRAY['10.20.' || i / 256 || '.' || i % 256]
		FROM (SELECT id AS n, row_number() OVER (ORDER BY id)::int AS i FROM nodes) numbered`)
	w.exec(b, `ANALYZE`)
	var queries []string
	for _, sort := range []string{
		"hostname", "status", "status_changed_at", "last_agent_contact_at", "sku", "region_code",
		"created_at",
	} {
		for _, order := range []string{"asc", "desc"} {
			queries = append(queries, "sort="+sort+"&order="+order)
		}
	}
	queries = append(queries, "", "order=desc", "sort=hostname&q=N99", "sort=hostname&q=0c:42:a1:1a:2b:03",
		"sort=hostname&q=sn-4711", "sort=last_agent_contact_at&order=desc&site_id="+site.String(),
		"drift_state=config_drift", "sort=hostname&agent=drift", "agent=unknown_build", "sort=sku&held=true&tainted=false",
		"sort=hostname&drift_state=in_sync&statuses=active,offline")
	for _, q := range queries {
		for range 3 {
			w.listed(b, q)
		}
	}
	for _, q := range queries {
		cursor := ""
		for range 5 {
			if next := w.listed(b, q+"&page_size=1000&cursor="+cursor).NextCursor; next != "" {
				cursor = next
			}
		}
		b.Run("page of 200 "+strings.ReplaceAll(q, site.String(), "dc1"), func(b *testing.B) {
			measure(b, func(int) { w.must(b, "?page_size=200&"+q+"&cursor="+cursor) })
		})
	}
}

func (w *world) must(b *testing.B, path string) {
	b.Helper()
	if a := w.call(b, http.MethodGet, path, "", nil); a.Status != http.StatusOK {
		b.Fatalf("%d %s", a.Status, a.Body)
	}
}

func measure(b *testing.B, fn func(i int)) {
	b.Helper()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		fn(i)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
