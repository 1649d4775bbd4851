package onboarding_test

import (
	"context"
	"flag"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

var writeHistories = flag.Bool("update-histories", false, "record the histories that must still replay")

// serve runs a worker and a relay for the yard on a real Temporal.
func (y *yard) serve(t testing.TB) client.Client {
	t.Helper()
	access := stacktest.Temporal(t)
	quiet := slog.New(slog.DiscardHandler)
	c, err := durable.Open(durable.Config(access), quiet)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := client.Dial(access.Options(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = c.RunWorker(ctx, time.Second, y.service.RegisterWorker) })
	group.Go(func() {
		outbox.NewRelay(outbox.RelayConfig{
			DB: y.db, Logger: quiet,
			Destinations: map[string]outbox.Deliverer{outbox.DestinationTemporal: durable.Intents{Client: c}},
		}).Run(ctx)
	})
	t.Cleanup(func() {
		stop()
		group.Wait()
		raw.Close()
		c.Close()
	})
	return raw
}

func (y *yard) becomes(t *testing.T, o id.Onboarding, want job.Status) onboarding.Onboarding {
	t.Helper()
	var now onboarding.Onboarding
	testkit.Eventually(t, string(want), func() bool {
		now = y.read(t, o)
		return now.Status == want
	})
	return now
}

// On real engines: a batch with a limit, one that fails and is resumed, one that
// is cancelled in the middle of a stage, one that was never admitted and is
// cancelled with its batch.
func TestABatchOnRealEngines(t *testing.T) {
	y := newYard(t, parallel(6))
	var live, peak atomic.Int32
	entered := make(chan struct{})
	y.script.on(bringup.WaitForReady, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		if n := live.Add(1); n > peak.Load() {
			peak.Store(n)
		}
		defer live.Add(-1)
		if w.Hostname == "c0003" {
			close(entered)
			<-ctx.Done()
			return job.Result{}, ctx.Err()
		}
		return y.script.well(ctx, bringup.WaitForReady, w)
	})
	y.script.on(bringup.ConfigureStorage, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		if w.Hostname == "c0002" && w.Epoch == 1 {
			f := failure(bringup.HardwareMismatch)
			return job.Result{}, &f
		}
		return y.script.well(ctx, bringup.ConfigureStorage, w)
	})
	began := time.Now()
	b, rows, err := y.service.RequestBatch(y.ctx, y.asked(1, 20))
	if err != nil {
		t.Fatal(err)
	}
	y.serve(t)
	<-entered
	if _, err := y.service.Act(y.ctx, rows[2].ID, job.Cancel, "wrong machine"); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	y.becomes(t, rows[2].ID, job.Cancelled)
	t.Logf("a stage that waits was stopped and undone after %s", time.Since(asked))
	y.becomes(t, rows[1].ID, job.FailedManualIntervention)
	if _, err := y.service.Act(y.ctx, rows[1].ID, job.Rerun, "disk replaced"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all have ended", func() bool {
		now, err := y.service.Batch(y.ctx, b.ID)
		return err == nil && now.Counts[job.Completed] == 19 && now.Counts[job.Cancelled] == 1 &&
			now.State() == job.BatchSettled
	})
	t.Logf("20 machines took %s", time.Since(began))
	if peak.Load() > 6 {
		t.Errorf("%d at once", peak.Load())
	}
	if n := y.count(t, `SELECT count(*) FROM nodes WHERE status = 'active'`); n != 19 {
		t.Errorf("%d nodes", n)
	}
}

// A job whose workflow Temporal has forgotten is started anew by an action.
func TestAnActionStartsAWorkflowThatIsGone(t *testing.T) {
	y := newYard(t)
	o := y.brought(t, 1, job.FailedManualIntervention, bringup.ConfigureStorage)
	y.exec(t, `DELETE FROM outbox_events`) // the start that brought it
	if _, err := y.service.Act(y.ctx, o.ID, job.Rerun, "because"); err != nil {
		t.Fatal(err)
	}
	y.serve(t)
	y.becomes(t, o.ID, job.Completed)
}

// Histories of workflows that are under way must replay with every release:
// change neither workflow in a way that these would not.
func TestHistoriesReplay(t *testing.T) {
	if *writeHistories {
		recordHistories(t)
	}
	for _, name := range []string{"happy", "parked", "batch"} {
		durabletest.Replay(t, filepath.Join("testdata", name+".json"), func(r worker.WorkflowReplayer) {
			r.RegisterWorkflowWithOptions(onboarding.Workflow, workflow.RegisterOptions{Name: "MaasNodeOnboardWorkflow"})
			r.RegisterWorkflowWithOptions(onboarding.BatchWorkflow,
				workflow.RegisterOptions{Name: "MaasNodeBatchOnboardWorkflow"})
		})
	}
}

func recordHistories(t *testing.T) {
	t.Helper()
	y := newYard(t)
	o, parked := y.request(t, 1), y.request(t, 2)
	y.script.on(bringup.ConfigureStorage, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		if w.Hostname == "c0002" {
			f := failure(bringup.UpstreamTransient)
			return job.Result{}, &f
		}
		return y.script.well(ctx, bringup.ConfigureStorage, w)
	})
	y.service = onboarding.New(onboarding.Config{
		DB: y.db, Sites: y.sites, Bringup: y.script,
		Backoff: func(int) time.Duration { return time.Millisecond },
	})
	b := y.batch(t, 11, 3)
	temporal := y.serve(t)
	y.becomes(t, o.ID, job.Completed)
	y.becomes(t, parked.ID, job.FailedRetryable)
	if _, err := y.service.Act(y.ctx, parked.ID, job.Cancel, "because"); err != nil {
		t.Fatal(err)
	}
	y.becomes(t, parked.ID, job.Cancelled)
	testkit.Eventually(t, "the batch has ended", func() bool {
		rows, err := y.service.List(y.ctx, onboarding.Filter{Batch: b.ID, Statuses: []job.Status{job.Completed}},
			postgres.Slice[id.Onboarding]{Limit: 10})
		return err == nil && len(rows) == 3
	})
	for name, workflowID := range map[string]string{
		"happy": o.WorkflowID, "parked": parked.WorkflowID,
		"batch": onboarding.BatchWorkflowID(b.ID.String()),
	} {
		durabletest.KeepHistory(t, temporal, workflowID, filepath.Join("testdata", name+".json"))
	}
}
