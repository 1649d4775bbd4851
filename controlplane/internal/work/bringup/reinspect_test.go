package bringup_test

import (
	"testing"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/sim/maas/region"
)

// What is fitted into a machine that MAAS has inspected is seen by the rerun
// that its failure recommends.
func TestHardwareThatWasMendedIsSeenByARerun(t *testing.T) {
	t.Parallel()
	boss := region.Disk{Name: "sda", Model: "DELLBOSS VD"}
	for name, c := range map[string]struct {
		disks []region.Disk
		code  string
	}{
		"a BOSS card is fitted": {disks: []region.Disk{{Name: "sdb", Model: "Plain SSD"}}, code: "boss_disk_not_found"},
		"the second is removed": {
			disks: []region.Disk{boss, {Name: "sdb", Model: "DELLBOSS VD"}},
			code:  "boss_disk_ambiguous",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, known(1, "ready"))
			job := w.work(1)
			w.does(t, bringup.CreateOrFindInMAAS, job)
			w.rebuilt(t, job, c.disks...)
			w.fails(t, bringup.ConfigureStorage, job, bringup.HardwareMismatch, c.code)
			w.seenAnew(t, job)
			w.does(t, bringup.ConfigureStorage, job) // the server itself has one BOSS disk
		})
	}
	t.Run("a PXE interface is fitted", func(t *testing.T) {
		w := newWorld(t, known(1, "ready"), func(p *plan) {
			p.policy.NodePXEIface, p.policy.StrictPXEPreflight = set("eno1"),
				set(true)
		})
		job := w.work(1)
		w.does(t, bringup.CreateOrFindInMAAS, job)
		w.fails(t, bringup.EnsurePXEInterfaceAuto, job, bringup.HardwareMismatch, "pxe_interface_not_found")
		w.seenAnew(t, job)
	})
	t.Run("a PXE interface is not insisted on", func(t *testing.T) {
		w := newWorld(t, known(1, "ready"), func(p *plan) {
			p.policy.NodePXEIface, p.policy.StrictPXEPreflight = set("eno1"),
				set(false)
		})
		job := w.work(1)
		w.does(t, bringup.CreateOrFindInMAAS, job)
		w.does(t, bringup.EnsurePXEInterfaceAuto, job)
		if out := w.does(t, bringup.CommissionNode, job); !out.Skipped {
			t.Errorf("it is inspected again: %+v", out)
		}
	})
	t.Run("somebody has MAAS inspect it already", func(t *testing.T) {
		w := newWorld(t, known(1, "new"), slow)
		job := w.work(1)
		w.does(t, bringup.CreateOrFindInMAAS, job)
		w.does(t, bringup.CommissionNode, job)
		job.Facts.Reinspect = true
		if w.does(t, bringup.CommissionNode, job); job.Facts.Reinspect || w.asked.of("machine.commission") != 1 {
			t.Errorf("facts are %+v, %s", job.Facts, w.asked)
		}
	})
}

// seenAnew runs the job anew: MAAS inspects the Ready machine once more, and not
// a third time.
func (w *world) seenAnew(tb testing.TB, job *bringup.Work) {
	tb.Helper()
	kept(tb, job)
	w.asked.reset()
	w.does(tb, bringup.CreateOrFindInMAAS, job)
	if out := w.does(tb, bringup.CommissionNode, job); out.Skipped || w.asked.of("machine.commission") != 1 {
		tb.Fatalf("it is not inspected: %+v, %s", out, w.asked)
	}
	w.does(tb, bringup.WaitForReady, job)
	if out := w.does(tb, bringup.CommissionNode, job); !out.Skipped || w.asked.of("machine.commission") != 1 {
		tb.Errorf("it is inspected without end: %+v, %s", out, w.asked)
	}
}
