package decommission_test

import (
	"context"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// runsOn makes an installation the one that the node is known to run on.
func (y *yard) runsOn(tb testing.TB, of id.Node, installation int) {
	tb.Helper()
	y.exec(tb, `UPDATE node_maas_state SET installation_id = $2 WHERE node_id = $1`, of, installation)
}

// knownToRun is the installation that the node is known to run on; 0: none.
func (y *yard) knownToRun(tb testing.TB, of id.Node) int {
	tb.Helper()
	return y.count(tb, `SELECT installation_id FROM node_maas_state WHERE node_id = $1`, of)
}

// What runs on the machine after a reimage is the node, however MAAS counts it.
func TestAReimageForgetsTheInstallationBeforeIt(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.runsOn(t, n, 77)
	at := map[string]int{}
	y.before = func(call durable.StageCall) error {
		if _, again := at[call.Stage]; again {
			return nil
		}
		at[call.Stage] = y.knownToRun(t, n)
		switch call.Stage {
		case bringup.WaitForAgentEnrollment: // a look from before the release that is written late
			y.runsOn(t, n, 77)
		case decommission.StageValidate:
			y.runsOn(t, n, 78)
		}
		return nil
	}
	wants(t, y.run(t, y.request(t, n, decommission.Reimage).ID), job.Completed, decommission.StageEnable, "")
	for stage, want := range map[string]int{
		bringup.ReleaseMAASNode: 77, bringup.ConfigureStorage: 0, bringup.WaitForAgentEnrollment: 0,
		decommission.StageValidate: 0, decommission.StageEnable: 78,
	} {
		if got := at[stage]; got != want {
			t.Errorf("before %s it is known to run %d, not %d", stage, got, want)
		}
	}
	if got := y.knownToRun(t, n); got != 78 {
		t.Errorf("what was seen since it enrolled is forgotten: %d", got)
	}
}

// The installation that a reimage made is known at once: its node may never be seen in service.
func TestAReimageKnowsTheInstallationThatItMade(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.runsOn(t, n, 77)
	y.script.on(bringup.DeployViaMAAS, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		w.Facts.Deploys++
		w.Facts.Installation = &bringup.InstallationFacts{ID: 78, Image: "ubuntu/noble"}
		return job.Result{}, nil
	})
	wants(t, y.run(t, y.request(t, n, decommission.Reimage).ID), job.Completed, decommission.StageEnable, "")
	if got := y.knownToRun(t, n); got != 78 {
		t.Errorf("it is known to run %d", got)
	}
}

// begunOnly is a release that MAAS was asked for, and that did not end well.
func begunOnly(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
	at := time.Now().UTC()
	w.Facts.Release = &bringup.ReleaseFacts{Requested: w.Erase, RequestedAt: &at}
	f := failure(bringup.StateAmbiguity, "release_erase_failed")
	f.Final = true
	return job.Result{}, &f
}

func TestAnOperationThatEndsEarlyCarriesNoInstallationThatIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode  decommission.Mode
		stage string   // fails
		does  scripted // nil: it fails and does nothing
		want  int
	}{
		"a reimage, before the release":           {decommission.Reimage, bringup.ReleaseMAASNode, nil, 77},
		"a reimage, in the release":               {decommission.Reimage, bringup.ReleaseMAASNode, begunOnly, 0},
		"a reimage, after the release":            {decommission.Reimage, bringup.ConfigureStorage, nil, 0},
		"a reimage, after the deployment":         {decommission.Reimage, bringup.WaitForAgentEnrollment, nil, 0},
		"a full decommission, before the release": {decommission.FullDecommission, bringup.ReleaseMAASNode, nil, 77},
		"a full decommission, in the release": {
			decommission.FullDecommission, bringup.ReleaseMAASNode, begunOnly,
			0,
		},
		"a full decommission, after the release":        {decommission.FullDecommission, bringup.PowerOffMAASNode, nil, 0},
		"a soft reset, for which nothing was installed": {decommission.SoftReset, "", nil, 77},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			y.runsOn(t, n, 77)
			d := y.request(t, n, c.mode)
			if c.stage == "" {
				if end := y.run(t, d.ID); end.Status != job.Completed || y.knownToRun(t, n) != c.want {
					t.Errorf("it is %s, and known to run %d", end.Status, y.knownToRun(t, n))
				}
				return
			}
			if y.script.on(c.stage, c.does); c.does == nil {
				f := failure(bringup.StateAmbiguity, "broken")
				f.Final = true
				y.script.fails(always, c.stage, f)
			}
			parked := 0
			cancel := y.act(t, d.ID, job.Cancel, func() { parked = y.knownToRun(t, n) })
			end := y.run(t, d.ID, cancel)
			if got := y.knownToRun(t, n); end.Status != job.Cancelled || parked != c.want || got != c.want {
				t.Errorf("it is %s at %s; known to run %d while parked and %d now, not %d", end.Status, end.Stage, parked, got,
					c.want)
			}
		})
	}
}

// A cancel may come while the release is under way, whose end is not recorded
// then.
func TestACancelInTheMiddleOfAReleaseForgetsTheInstallation(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.runsOn(t, n, 77)
	d := y.request(t, n, decommission.Reimage)
	y.script.on(bringup.ReleaseMAASNode, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		at := time.Now().UTC()
		w.Facts.Release = &bringup.ReleaseFacts{Requested: w.Erase, RequestedAt: &at}
		if err := w.Save(ctx); err != nil {
			return job.Result{}, err
		}
		if _, err := y.service.Act(y.ctx, d.ID, job.Cancel, "because of the test"); err != nil {
			t.Error(err)
		}
		return job.Result{}, w.Fence(ctx)
	})
	end := y.run(t, d.ID)
	if got := y.knownToRun(t, n); end.Status != job.Cancelled || got != 0 {
		t.Errorf("it is %s at %s, and known to run %d", end.Status, end.Stage, got)
	}
}

// Somebody else's release that is taken over ends an installation as well.
func TestAnAdoptedReleaseForgetsTheInstallation(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.runsOn(t, n, 77)
	f := failure(bringup.StateAmbiguity, "released_elsewhere")
	f.Final = true
	y.script.fails(always, bringup.ReleaseMAASNode, f)
	y.script.fails(always, bringup.PowerOffMAASNode, f)
	y.script.on("adopt", func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		at := time.Now().UTC()
		w.Facts.Release = &bringup.ReleaseFacts{Requested: w.Erase, Achieved: "unknown", EndedAt: &at}
		return job.Result{Next: bringup.PowerOffMAASNode}, nil
	})
	d := y.request(t, n, decommission.FullDecommission)
	end := y.run(t, d.ID, y.act(t, d.ID, job.AdoptObserved), y.act(t, d.ID, job.Cancel))
	if got := y.knownToRun(t, n); end.Status != job.Cancelled || got != 0 {
		t.Errorf("it is %s at %s, and known to run %d", end.Status, end.Stage, got)
	}
}
