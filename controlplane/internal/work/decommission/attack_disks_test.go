package decommission_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// hadRootBefore makes the node one that was installed since somebody had root on
// it, and not cleaned through that: as a cancelled reimage leaves it, or an
// onboarding of a machine that left so.
func (y *yard) hadRootBefore(tb testing.TB, of id.Node) {
	tb.Helper()
	y.exec(tb, `UPDATE nodes SET installed_at = clock_timestamp(), installed_generation = generation, root_at = clock_timestamp() - interval '1 second', root_cause = 'sudo' WHERE id = $1`, of)
}

// rootBefore lets that become known before a stage, once.
func (y *yard) rootBefore(tb testing.TB, of id.Node, stage string) {
	once := false
	y.before = func(call durable.StageCall) error {
		if call.Stage == stage && !once {
			once = true
			y.exec(tb, `UPDATE nodes SET root_at = installed_at - interval '1 second', root_cause = 'sudo' WHERE id = $1`, of)
		}
		return nil
	}
}

// A new installation alone makes nothing of the data disks that somebody with
// root filled: no mode that leaves them as they are ends that somebody had root.
func TestAttackRootIsNotEndedWhileDataDisksStayAsTheyAre(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	ends := func(t *testing.T, n id.Node, r decommission.Request) decommission.Decommission {
		t.Helper()
		d, _, err := y.service.Request(y.ctx, n, r)
		if err != nil {
			t.Fatal(err)
		}
		return y.run(t, d.ID)
	}
	for _, mode := range []decommission.Mode{decommission.SoftReset, decommission.Retire} {
		for _, cleanup := range []decommission.Cleanup{decommission.CleanupNone, decommission.CleanupWeka} {
			t.Run(string(mode)+" with "+string(cleanup), func(t *testing.T) {
				n := y.node(t, node.Active, true)
				r := asked(mode)
				r.StorageCleanup = cleanup
				d, _, err := y.service.Request(y.ctx, n, r) // when nobody knew
				if err != nil {
					t.Fatal(err)
				}
				y.exec(t, `UPDATE nodes SET installed_at = clock_timestamp(), installed_generation = generation WHERE id = $1`, n)
				y.rootBefore(t, n, decommission.StageValidate)
				wants(t, y.run(t, d.ID), job.FailedManualIntervention, decommission.StageValidate, "node_root_tainted")
				if !y.see(t, n).Root.Stands() {
					t.Error("what began before it was known ended it")
				}
				n = y.node(t, node.Active, true)
				y.hadRootBefore(t, n)
				if _, _, err := y.service.Request(y.ctx, n, r); fault.CodeOf(err) != "node_root_tainted" ||
					!strings.Contains(err.Error(), "data disks") {
					t.Errorf("it is taken: %v", err)
				}
				r.StorageCleanup = decommission.CleanupLocal
				if end := ends(t, n, r); end.Status != job.Completed || y.see(t, n).Root.Stands() {
					t.Errorf("cleaned, it is %s at %s (%s)", end.Status, end.Stage, end.ErrorCode)
				}
			})
		}
	}
	t.Run("a storage cleanup cleans no GPU", func(t *testing.T) {
		n := y.proven(t, node.Active, true)
		y.hadRootBefore(t, n)
		r := asked(decommission.StorageCleanup)
		r.StorageCleanup = decommission.CleanupWeka
		if end := ends(t, n, r); !y.see(t, n).Root.Stands() || y.see(t, n).Schedulable {
			t.Errorf("%s at %s ended it, or let it serve", end.Status, end.Stage)
		}
	})
	t.Run("a reactivation cleans", func(t *testing.T) {
		n := y.proven(t, node.Retired, true)
		y.hadRootBefore(t, n)
		y.agent.asked = nil
		wants(t, ends(t, n, asked(decommission.Reactivate)), job.Completed, decommission.StageEnable, "")
		same(t, "tasks", y.agent.asked, listed(
			"node.drain, node.storage_cleanup, node.gpu_scrub, node.validate_clean, node.drain"))
		if now := y.see(t, n); now.Root.Stands() || !now.Schedulable {
			t.Errorf("the node is %+v", now)
		}
	})
}

// A reimage that is cancelled once its agent has come leaves root standing, and
// words about the disks do not end it.
func TestAttackACancelledReimageDoesNotEndRoot(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.provision(t, n, true)
	d := y.request(t, n, decommission.Reimage)
	y.before = func(call durable.StageCall) error {
		if call.Stage == decommission.StageStorageAgain && call.Epoch == 1 {
			f := failure(bringup.SanitizationFailure, "device_not_sanitized")
			f.Final = true
			return &f
		}
		return nil
	}
	y.run(t, d.ID, y.act(t, d.ID, job.Cancel))
	now := y.see(t, n)
	if !now.Root.Stands() || now.Compromised() || now.Schedulable {
		t.Fatalf("the node is %+v", now)
	}
	r := asked(decommission.SoftReset)
	r.StorageCleanup = decommission.CleanupNone
	if _, _, err := y.service.Request(y.ctx, n, r); fault.CodeOf(err) != "node_root_tainted" {
		t.Errorf("it is taken: %v", err)
	}
	if y.see(t, n).Schedulable || !y.see(t, n).Root.Stands() {
		t.Error("it serves")
	}
}

// What somebody else installed while a reimage ran is not what the reimage would
// have installed, however often it tried.
func TestAttackAnInstallationOfSomebodyElseDoesNotTestify(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.provision(t, n, true)
	d := y.request(t, n, decommission.Reimage)
	y.equip = func(call durable.StageCall, w *bringup.Work) {
		if call.Stage == bringup.WaitForAgentEnrollment {
			w.Facts.Adopted = true
		}
	}
	wants(t, y.run(t, d.ID), job.FailedManualIntervention, decommission.StageValidate, "node_root_tainted")
	if now := y.see(t, n); !now.Compromised() || now.Installation.MadeAt != nil {
		t.Errorf("the node is %+v", now)
	}
}
