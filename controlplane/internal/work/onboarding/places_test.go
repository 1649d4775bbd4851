package onboarding_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
	"gpuaas/testkit"
)

// neighbour makes another site the one that the yard asks for machines at.
func (y *yard) neighbour(tb testing.TB, name, region string) {
	tb.Helper()
	url, pxe, nodePXE := "http://"+name+".example:5240/MAAS", "ens19", "eno8303"
	var err error
	y.site, err = y.sites.CreateSite(y.ctx, name,
		site.SettingsChange{RegionCode: &region, APIBaseURL: &url, PXEIface: &pxe, NodePXEIface: &nodePXE})
	if err != nil {
		tb.Fatal(err)
	}
	y.credentials(tb)
}

// Names of nodes are unique in a region, so a name is taken while any site of
// the region onboards it. Addresses of BMCs are a matter of each site.
func TestANameInFlightIsTakenInItsRegion(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	y.neighbour(t, "next-door", "eu-1")
	n := y.asked(1, 1)
	n.Machines = append(n.Machines, onboarding.Request{Hostname: "other", IPMIIP: o.IPMIIP})
	n.Machines[0].IPMIIP = "10.9.0.1"
	_, _, err := y.service.RequestBatch(y.ctx, n)
	f, _ := fault.As(err)
	if fault.CodeOf(err) != "onboarding_conflict" || len(f.Fields) != 1 || f.Fields[0].Path != "body.nodes[0].hostname" {
		t.Errorf("%v %+v", err, f)
	}
	n.Machines = n.Machines[1:]
	if _, err := y.service.Request(y.ctx, n); err != nil {
		t.Errorf("the address of another site: %v", err)
	}
	y.neighbour(t, "far-away", "us-1")
	if far := y.request(t, 1); far.Hostname != o.Hostname {
		t.Errorf("%+v", far)
	}
}

// Of those who ask for one name at two sites of a region at the same moment,
// one gets it.
func TestOneNameManySites(t *testing.T) {
	y := newYard(t)
	here := y.site
	y.neighbour(t, "next-door", "eu-1")
	results := make(chan error, 8)
	for i := range cap(results) {
		n := y.asked(1, 1)
		if i%2 == 0 {
			n.Site = here.ID
		}
		go func() {
			_, err := y.service.Request(y.ctx, n)
			results <- err
		}()
	}
	won := 0
	for range cap(results) {
		switch err := <-results; {
		case err == nil:
			won++
		case fault.CodeOf(err) != "onboarding_conflict":
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d got it", won)
	}
}

const anything = "mock.Anything" // matches every argument

// One child that cannot be started holds up no other and is tried again, and the
// batch does not end before it.
func TestAChildThatCannotBeStartedIsTriedAgain(t *testing.T) {
	y := newYard(t)
	b, rows, err := y.service.RequestBatch(y.ctx, y.asked(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	child := func(_ workflow.Context, in onboarding.Input) error {
		y.exec(t, `UPDATE node_onboardings SET status = 'running' WHERE id = $1`, in.ID)
		return nil
	}
	env := durabletest.New(t, func(w worker.Registry) {
		w.RegisterWorkflow(onboarding.BatchWorkflow)
		w.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: "MaasNodeOnboardWorkflow"})
		w.RegisterActivityWithOptions(y.service.Admission, activity.RegisterOptions{Name: "AdmitOnboardingBatch"})
	})
	refused := 0
	env.OnWorkflow("MaasNodeOnboardWorkflow", anything,
		anything).Return(func(ctx workflow.Context, in onboarding.Input) error {
		if in.ID == rows[0].ID && refused < 3 {
			refused++
			return testsuite.ErrMockStartChildWorkflowFailed
		}
		return child(ctx, in)
	})
	env.ExecuteWorkflow(onboarding.BatchWorkflow, onboarding.BatchInput{ID: b.ID})
	now, err := y.service.Batch(y.ctx, b.ID)
	if err != nil || env.GetWorkflowError() != nil || refused != 3 || now.Counts[job.Running] != 3 {
		t.Errorf("%+v %v, %v, refused %d times", now, err, env.GetWorkflowError(), refused)
	}
}

// The workflow of a batch died before it started children that have places: it is
// woken again after a while, even if the batch is paused by now.
func TestABatchWithPlacesThatNobodyUsesIsToldAgain(t *testing.T) {
	for _, paused := range []bool{false, true} {
		y := newYard(t)
		b := y.batch(t, 1, 2)
		if start, waiting := y.admitted(t, b); start != 2 || waiting != 0 {
			t.Fatalf("%d, %d wait", start, waiting)
		}
		if paused {
			if _, err := y.service.PauseBatch(y.ctx, b.ID, "because"); err != nil {
				t.Fatal(err)
			}
		}
		y.exec(t, `DELETE FROM outbox_events`)
		for after, want := range map[time.Duration]int{time.Minute: 0, 10 * time.Minute: 1} {
			y.exec(t, `DELETE FROM outbox_events`)
			if err := job.Tend(y.ctx, y.db, time.Now().Add(after)); err != nil {
				t.Fatal(err)
			}
			if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal' AND aggregate_id = $1`,
				onboarding.BatchWorkflowID(b.ID.String())); n != want {
				t.Errorf("paused %v, after %s: it was told %d times", paused, after, n)
			}
		}
	}
}

// A child that was ended in Temporal before its onboarding began is started
// anew by its batch.
func TestAChildThatWasEndedBeforeItBeganIsStartedAnew(t *testing.T) {
	y := newYard(t)
	_, rows, err := y.service.RequestBatch(y.ctx, y.asked(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	y.exec(t, `DELETE FROM outbox_events`) // what told its batch is lost
	temporal := y.serve(t)
	child := rows[0].WorkflowID
	if _, err := temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: child, TaskQueue: "nobody"},
		"MaasNodeOnboardWorkflow", onboarding.Input{ID: rows[0].ID}); err != nil {
		t.Fatal(err)
	}
	if err := temporal.TerminateWorkflow(t.Context(), child, "", "somebody tidied up"); err != nil {
		t.Fatal(err)
	}
	if err := job.Tend(y.ctx, y.db, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	y.becomes(t, rows[0].ID, job.Completed)
}

// A pause that was answered is kept: whoever hands out places meanwhile gives none
// to the batch.
func TestNoPlaceIsGivenOutAfterAPause(t *testing.T) {
	y := newYard(t, parallel(1))
	single := y.request(t, 11)
	b := y.batch(t, 1, 5)
	held, released := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	var others sync.WaitGroup
	others.Go(func() { // somebody else hands out places
		err := y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('places', 0))`)
			close(held)
			<-released
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	others.Go(func() {
		if _, err := y.service.Act(y.ctx, single.ID, job.Cancel, "because"); err != nil { // it gives its place back
			t.Error(err)
		}
	})
	const waiting = `SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()`
	testkit.Eventually(t, "the cancel waits for the places", func() bool { return y.count(t, waiting) == 1 })
	others.Go(func() {
		if _, err := y.service.PauseBatch(y.ctx, b.ID, "because"); err != nil {
			t.Error(err)
		}
	})
	paused := func() bool {
		return y.count(t, `SELECT count(*) FROM node_onboarding_batches WHERE paused_at IS NOT NULL`) == 1
	}
	testkit.Eventually(t, "the pause is through, or waits for the places", func() bool {
		return paused() || y.count(t, waiting) == 2
	})
	answered := paused()
	release()
	others.Wait()
	if n := y.count(t, `SELECT count(*) FROM jobs WHERE batch_id = $1 AND admitted_at > (SELECT paused_at FROM job_batches)`, b.ID); answered || n != 0 {
		t.Errorf("the pause waited: %v; %d got places after it", !answered, n)
	}
}

// A limit that is raised is used although nothing ends: those that were asked
// for on their own go first, and batches are told.
func TestARaisedLimitIsUsedSoon(t *testing.T) {
	y := newYard(t, parallel(1))
	b := y.batch(t, 1, 3)
	if start, waiting := y.admitted(t, b); start != 1 || waiting != 2 {
		t.Fatalf("%d, %d wait", start, waiting)
	}
	single := y.request(t, 11)
	if err := job.Tend(y.ctx, y.db, time.Now()); err != nil || y.read(t, single.ID).AdmittedAt != nil {
		t.Fatalf("it got a place that there is not, or %v", err)
	}
	most := int32(4)
	now, err := y.sites.Site(y.ctx, y.site.ID)
	if err == nil {
		_, err = y.sites.UpdateSite(y.ctx, y.site.ID, now.Version,
			site.Change{Settings: site.SettingsChange{MaxParallel: &most}})
	}
	if err != nil {
		t.Fatal(err)
	}
	told := func() int {
		return y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal' AND aggregate_id = $1`,
			onboarding.BatchWorkflowID(b.ID.String()))
	}
	before := told()
	if err := job.Tend(y.ctx, y.db, time.Now()); err != nil || y.read(t, single.ID).AdmittedAt == nil {
		t.Fatalf("the single one still waits, %v", err)
	}
	if told() != before+1 {
		t.Error("the batch was not told")
	}
	if start, waiting := y.admitted(t, b); start != 3 || waiting != 0 {
		t.Errorf("%d of the batch, %d wait", start, waiting)
	}
}

// Whoever cancels a batch wants none of it: what is parked is undone, too, and
// its name and address are free again.
func TestCancellingABatchTakesWhatIsParked(t *testing.T) {
	y := newYard(t)
	b := y.batch(t, 1, 2)
	y.admitted(t, b)
	y.started(t, b)
	y.exec(t, `UPDATE node_onboardings SET status = 'failed_manual_intervention', parked_at = now(), error_code = 'made_up', failure_class = 'hardware_mismatch'
		WHERE batch_id = $1 AND hostname = (SELECT min(hostname) FROM node_onboardings WHERE batch_id = $1)`, b.ID)
	now, err := y.service.CancelBatch(y.ctx, b.ID, "wrong rack")
	if err != nil || now.Counts[job.Compensating] != 2 {
		t.Errorf("%+v %v", now.Counts, err)
	}
}
