package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/sim/lab"
	"gpuaas/sim/maas/fault"
	"gpuaas/testkit"
)

// TestLateAgentWakesItsOnboarding lets an agent enrol after its onboarding has
// given up: it goes on at once, and nobody has to do anything.
func TestLateAgentWakesItsOnboarding(t *testing.T) {
	t.Parallel()
	late := make(chan struct{})
	l := openAgentsLab(t, lab.Options{BeforeEnroll: func(ctx context.Context, _ lab.Boot) error {
		select {
		case <-late:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}, 1)
	w := watch(t, l.Record(), t.TempDir(), false)
	profiles := all[apiclient.SiteProfileView](t, w.p, "/api/v1/admin/maas-sites/"+w.site+"/profiles")
	w.p.do(t, http.MethodPatch, fmt.Sprintf("/api/v1/admin/maas-sites/%s/profiles/%s", w.site, profiles[0].ProfileId),
		map[string]any{"enrollment_timeout_seconds": 60}, http.StatusOK, nil,
		header{"If-Match", fmt.Sprintf(`"%d"`, profiles[0].Version)})
	view := w.p.onboard(t, w.cli, l.Record().Machines[0])
	read := func() onboardingView {
		w.p.do(t, http.MethodGet, "/api/v1/admin/onboardings/"+view.ID, nil, http.StatusOK, &view)
		return view
	}
	testkit.Succeeds(t, "the onboarding to give up", 3*time.Minute, func() error {
		if now := read(); now.Status != "failed_manual_intervention" {
			return fmt.Errorf("it is %s in %s", now.Status, now.Stage)
		}
		return nil
	})
	if view.Stage != "wait_for_agent_enrollment" {
		t.Fatalf("it gave up in %s: %s", view.Stage, view.Message)
	}
	w.awaitRun(t, time.Now(), "informed")
	if now := read(); now.Status != "failed_manual_intervention" {
		t.Errorf("it is %s before the agent has come", now.Status)
	}

	close(late)
	testkit.Succeeds(t, "the onboarding to be completed", 2*time.Minute, func() error {
		if now := read(); now.Status != "completed" {
			return fmt.Errorf("it is %s in %s", now.Status, now.Stage)
		}
		return nil
	})
	w.awaitNode(t, view.Hostname, "active")
	w.awaitRun(t, time.Now(), "informed") // the one before has ended, too
	settled := 0
	for _, r := range w.runs(t) {
		for _, j := range r.Report.JobsReconciled {
			if strings.Contains(j.Job, view.ID) {
				settled++
			}
		}
	}
	if settled != 0 {
		t.Errorf("%d runs say that they reconciled what went on by itself", settled)
	}
	if list := w.findings(t, view.Hostname); len(list) != 0 {
		t.Errorf("about the new node there is %s", summary(list))
	}
}

// TestReconciliationOutlivesWorkers kills the worker in the middle of looks and
// between two of them, while machines are released one after the other: each is
// found and acted on once, and runs go on without ever overlapping.
func TestReconciliationOutlivesWorkers(t *testing.T) {
	t.Parallel()
	l := openAgentsLab(t, lab.Options{}, 8)
	record := l.Record()
	w := watch(t, record, t.TempDir(), true, "GPUAAS_RECONCILIATION_MAX_QUARANTINE_NODES=8",
		"GPUAAS_RECONCILIATION_LOOK_AGAIN_AFTER=2s")
	w.onboardAll(t, record.Machines)
	// a look takes a while
	if _, err := l.Faults.Add(fault.Rule{Fault: fault.Slow, Delay: fault.Duration(200 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	released := record.Machines[:6]
	for i, when := range []string{
		// between the two looks of a run, and in the middle of a look
		`SELECT count(*) FROM reconciliation_sites WHERE running_id IS NULL AND EXISTS (SELECT FROM reconciliation_findings WHERE status = 'open' AND looks = 1)`,
		`SELECT count(*) FROM reconciliation_sites WHERE running_id IS NOT NULL`,
	} {
		for _, m := range released[3*i : 3*i+3] {
			w.happens(t, "release", m.Hostname)
		}
		testkit.Succeeds(t, "the moment to kill the worker", 2*time.Minute, func() error {
			if w.counted(t, when) == 0 {
				return errors.New("it does not come")
			}
			return nil
		})
		t.Logf("killing the worker at %s", time.Now().Format(time.TimeOnly))
		w.worker.signal(syscall.SIGKILL)
		<-w.worker.exited
		w.startWorker(t)
	}
	for _, m := range released {
		w.awaitFinding(t, m.Hostname, "acted", "released")
		w.awaitNode(t, m.Hostname, "quarantined")
	}
	run := w.awaitRun(t, time.Now(), "informed") // the schedule is still there
	t.Logf("the schedule goes on: a run began at %s", run.BeganAt.Format(time.TimeOnly))

	for _, m := range released {
		node := w.p.nodeID(t, m.Hostname)
		w.count(t, 1, `SELECT count(*) FROM node_events WHERE node_id = $1 AND event = 'quarantine'`, node)
		w.count(t, 1, `SELECT count(*) FROM audit_logs WHERE target_id = $1::text AND action = 'reconciliation.quarantine'`,
			node)
		w.count(t, 1, `SELECT count(*) FROM reconciliation_findings WHERE node_id = $1`, node)
	}
	for _, m := range record.Machines[6:] {
		if list := w.findings(t, m.Hostname); len(list) != 0 {
			t.Errorf("about %s there is %s", m.Hostname, summary(list))
		}
	}
	w.count(t, 0, `SELECT count(*) FROM reconciliation_runs a JOIN reconciliation_runs b ON a.site_id = b.site_id AND a.id < b.id
		WHERE a.trigger = 'schedule' AND b.trigger = 'schedule' AND a.began_at < coalesce(b.ended_at, 'infinity') AND b.began_at < coalesce(a.ended_at, 'infinity')`)
	w.count(t, 0, `SELECT count(*) FROM reconciliation_runs WHERE began_at < (SELECT max(began_at) FROM reconciliation_runs WHERE trigger = 'schedule') AND ended_at IS NULL`)
}
