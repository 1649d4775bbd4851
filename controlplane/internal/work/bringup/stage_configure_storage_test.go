package bringup_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// rebuilt gives the nth server other disks before MAAS has looked at it.
func (w *world) rebuilt(tb testing.TB, job *bringup.Work, disks ...region.Disk) {
	tb.Helper()
	h := &region.Hardware{
		BMCAddress: job.IPMIIP, PXEMAC: "52:54:00:00:00:01", UUID: "4c4c4544-0000-4000-8000-000000000001",
		Architecture: "amd64/generic",
		BootMethod:   "uefi", CPUCount: 8, Memory: 65536, NUMANodes: 1,
		NICs: []region.NIC{{Name: "eno8303", MAC: "52:54:00:00:00:01"}},
	}
	for i, d := range disks {
		d.Serial, d.BlockSize = string(rune('A'+i))+"123", 512
		if d.Size == 0 {
			d.Size = 480_000_000_000
		}
		h.Disks = append(h.Disks, d)
	}
	if err := w.sim.Inspect(job.SystemID, h); err != nil {
		tb.Fatal(err)
	}
}

func TestTheBOSSDiskIsChosen(t *testing.T) {
	t.Parallel()
	boss, data := region.Disk{Name: "sda", Model: "DELLBOSS VD"},
		region.Disk{Name: "nvme0n1", Model: "Dell Ent NVMe CM7", Size: 3_840_000_000_000}
	for name, c := range map[string]struct {
		disks  []region.Disk
		want   string // its name; empty: none
		code   string
		writes int
	}{
		"first": {disks: []region.Disk{boss, data}, want: "sda"},
		"last":  {disks: []region.Disk{data, {Name: "sdb", Model: "DELLBOSS VD"}}, want: "sdb", writes: 2},
		"by an old model": {
			disks: []region.Disk{data, {Name: "sdb", Model: "Dell Boot Optimized Server Storage"}},
			want:  "sdb", writes: 2,
		},
		"by the way to it": {disks: []region.Disk{data, {
			Name: "sdb", Model: "Disk",
			IDPath: "/dev/disk/by-id/ata-M.2_SSD",
		}}, want: "sdb", writes: 2},
		"BOSS beside an M.2": {disks: []region.Disk{
			{Name: "sda", Model: "Some M.2 SSD"},
			{Name: "sdb", Model: "dellboss vd"},
		}, want: "sdb", writes: 2},
		"none":    {disks: []region.Disk{data, {Name: "sdb", Model: "Plain SSD"}}, code: "boss_disk_not_found"},
		"no disk": {code: "boss_disk_not_found"},
		"two":     {disks: []region.Disk{boss, {Name: "sdb", Model: "DELLBOSS VD"}}, code: "boss_disk_ambiguous"},
		"two M.2 and no BOSS": {
			disks: []region.Disk{{Name: "sda", Model: "M.2 A"}, {Name: "sdb", Model: "M.2 B"}},
			code:  "boss_disk_ambiguous",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(1, "ready"))
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			w.rebuilt(t, job, c.disks...)
			w.asked.reset()
			if c.code != "" {
				f := w.fails(t, bringup.ConfigureStorage, job, bringup.HardwareMismatch, c.code)
				if disks, _ := f.Details["disks"].([]map[string]any); !f.Final || len(disks) != len(c.disks) {
					t.Errorf("failure is %+v", f)
				}
				return
			}
			w.does(t, bringup.ConfigureStorage, job)
			m := w.machine(t, job.SystemID)
			if m.BootDisk == nil || m.BootDisk.Name != c.want || !strings.HasPrefix(job.Facts.BootDisk, c.want+" ") ||
				job.Facts.BootDiskID != int64(m.BootDisk.ID) {
				t.Errorf("boots from %+v, facts are %+v", m.BootDisk, job.Facts)
			}
			for _, d := range m.BlockDevices {
				if has := len(d.Partitions) > 0; has != (d.Name == c.want) {
					t.Errorf("%s has %d partitions", d.Name, len(d.Partitions))
				}
			}
			if n := w.asked.of("blockdevice.set_boot_disk") + w.asked.of("machine.set_storage_layout"); n != c.writes {
				t.Errorf("%d writes, want %d", n, c.writes)
			}
			w.asked.reset()
			if out := w.does(t, bringup.ConfigureStorage, job); !out.Skipped || w.asked.total() != 1 {
				t.Errorf("the second time: %+v, %s", out, w.asked)
			}
		})
	}
}

func TestAnotherLayoutIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, known(1, "ready"))
	job := w.work(1)
	w.does(t, bringup.CreateOrFindInMAAS, job)
	if _, err := w.sim.SetStorageLayout(admin, job.SystemID, url.Values{"storage_layout": {"lvm"}}); err != nil {
		t.Fatal(err)
	}
	w.does(t, bringup.ConfigureStorage, job)
	if n := w.asked.of("machine.set_storage_layout"); n != 1 || len(w.machine(t, job.SystemID).Virtual) != 0 {
		t.Errorf("%d layouts were set", n)
	}
}

func TestALostAnswerAboutStorage(t *testing.T) {
	t.Parallel()
	for _, kind := range []simfault.Kind{simfault.LostAnswer, simfault.ErrorAfter} {
		for _, operation := range []string{"blockdevice.set_boot_disk", "machine.set_storage_layout"} {
			t.Run(operation+" "+string(kind), func(t *testing.T) {
				w := newWorld(t, known(1, "ready"))
				job := w.work(1)
				w.does(t, bringup.CreateOrFindInMAAS, job)
				w.rebuilt(t, job, region.Disk{Name: "sda", Model: "Plain"}, region.Disk{Name: "sdb", Model: "DELLBOSS VD"})
				w.fault(t, simfault.Rule{Operation: operation, Fault: kind, Count: 1})
				w.does(t, bringup.ConfigureStorage, job)
				if n := w.asked.of(operation); n != 1 {
					t.Errorf("%s was asked for %d times", operation, n)
				}
			})
		}
	}
	t.Run("nothing was done", func(t *testing.T) {
		w := newWorld(t, known(1, "ready"))
		job := w.work(1)
		w.does(t, bringup.CreateOrFindInMAAS, job)
		w.rebuilt(t, job, region.Disk{Name: "sda", Model: "Plain"}, region.Disk{Name: "sdb", Model: "DELLBOSS VD"})
		w.fault(t, simfault.Rule{Operation: "machine.set_storage_layout", Fault: simfault.ErrorBefore, Count: 1})
		if f := w.fails(t, bringup.ConfigureStorage, job, bringup.UpstreamTransient, "storage_unproven"); f.Final {
			t.Error("it is not tried again")
		}
		w.does(t, bringup.ConfigureStorage, job)
	})
	t.Run("MAAS says it did, and did not", func(t *testing.T) {
		w := newWorld(t, known(1, "ready"))
		job := w.work(1)
		w.does(t, bringup.CreateOrFindInMAAS, job)
		w.rebuilt(t, job, region.Disk{Name: "sda", Model: "Plain"}, region.Disk{Name: "sdb", Model: "DELLBOSS VD"})
		w.fault(t, simfault.Rule{
			Operation: "blockdevice.set_boot_disk", Fault: simfault.ErrorBefore, Status: 200,
			Text: "OK",
		})
		w.fails(t, bringup.ConfigureStorage, job, bringup.UpstreamTransient, "storage_unproven")
	})
}

func TestAMachineThatIsNoLongerReadyIsNotConfigured(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{bringup.ConfigureStorage, bringup.EnsurePXEInterfaceAuto} {
		t.Run(stage, func(t *testing.T) {
			w := newWorld(t, known(1, "ready"), slow)
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			if _, err := w.sim.Commission(t.Context(), admin, job.SystemID, url.Values{}); err != nil {
				t.Fatal(err)
			}
			w.fails(t, stage, job, bringup.StateAmbiguity, "machine_not_ready")
			w.happens(t, job.SystemID, "redeploy")
			w.fails(t, stage, job, bringup.StateAmbiguity, "machine_in_use")
		})
	}
}

func TestATakenOverJobConfiguresNothing(t *testing.T) {
	w := newWorld(t, known(1, "ready"))
	job := w.work(1)
	w.does(t, bringup.CreateOrFindInMAAS, job)
	w.rebuilt(t, job, region.Disk{Name: "sda", Model: "Plain"}, region.Disk{Name: "sdb", Model: "DELLBOSS VD"})
	w.unlink(t, job, "eno8303")
	w.assign(t, "eno8303", "172.30.0.1/31", 0)
	before := w.sim.Changes()
	job.Fence = func(context.Context) error { return durable.Superseded("onboarding", job.Job) }
	for _, stage := range []string{bringup.ConfigureStorage, bringup.EnsurePXEInterfaceAuto} {
		if _, err := w.bringup.Stages()[stage](system(t), job); err == nil {
			t.Errorf("%s goes on", stage)
		}
	}
	if w.sim.Changes() != before {
		t.Errorf("MAAS was changed: %s", w.asked)
	}
}
