package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/work/job"
)

func shown(_ context.Context, _ chore, w *toil) (*job.Proof, error) {
	w.Facts.Image = "ubuntu/noble"
	return &job.Proof{Said: "it is there", Details: map[string]any{"image": "ubuntu/noble"}}, nil
}

// parkedChore is one that failed at a stage.
func (d *desk) parkedChore(t *testing.T) chore {
	t.Helper()
	at := d.clock
	return d.put(t, chore{Job: job.Job{
		Status: job.FailedRetryable, Stage: "begin", Attempt: 2, ParkedAt: &at, FailureClass: job.UpstreamTransient,
		ErrorCode: "made_up", ErrorMessage: "it does not work",
	}})
}

// Proof ends a job as its last stage would have, and gives its place back.
func TestAChoreThatIsProvenDoneEnds(t *testing.T) {
	d := newDesk(t)
	d.parkedChore(t)
	if reached, err := d.runner.Reconcile(d.ctx, "chore-1", shown); err != nil || !reached {
		t.Fatalf("reached is %t, %v", reached, err)
	}
	c, events := d.read(t)
	if c.Status != job.Reconciled || c.Epoch != 2 || c.CompletedAt == nil || c.ErrorCode != "" ||
		c.Facts.Image != "ubuntu/noble" {
		t.Errorf("it is %+v", c.Job)
	}
	if len(events) != 1 || events[0].Status != job.Observation || events[0].Stage != "begin" || events[0].Epoch != 2 ||
		!strings.Contains(events[0].Message, "it is there") {
		t.Errorf("the ledger is %+v", events)
	}
	if len(d.settled) != 1 || d.settled[0].Stage != "finish" || !d.settled[0].Complete || d.settled[0].Failure != nil ||
		d.freed != 1 {
		t.Errorf("settled are %+v, %d places were given back", d.settled, d.freed)
	}
	if len(d.told) != 1 || d.told[0] != job.AnnounceCompleted {
		t.Errorf("told is %v", d.told)
	}
}

// A family that refuses the end leaves the job parked as it was.
func TestAFamilyMayRefuseProof(t *testing.T) {
	d := newDesk(t)
	d.parkedChore(t)
	before, _ := d.read(t)
	d.refuse = func(job.Settled[chore, *toil]) error {
		return &job.Failure{Class: job.StateAmbiguity, Code: job.CodeNamed("no"), Message: "no"}
	}
	if reached, err := d.runner.Reconcile(d.ctx, "chore-1", shown); err != nil || reached {
		t.Errorf("reached is %t, %v", reached, err)
	}
	away := errors.New("the database is away")
	d.refuse = func(job.Settled[chore, *toil]) error { return away }
	if reached, err := d.runner.Reconcile(d.ctx, "chore-1", shown); !errors.Is(err, away) || reached {
		t.Errorf("reached is %t, %v", reached, err)
	}
	after, events := d.read(t)
	if text(t, before) != text(t, after) || len(events) != 0 || d.freed != 0 {
		t.Errorf("it became %+v, with %+v", after, events)
	}
}

// A job that is led on carries what was proven, once.
func TestAChoreIsLedOnOnce(t *testing.T) {
	d := newDesk(t)
	d.parkedChore(t)
	if led, err := d.runner.LeadOn(d.ctx, "chore-1", shown); err != nil || !led {
		t.Fatalf("led is %t, %v", led, err)
	}
	c, _ := d.read(t)
	if c.Status != job.Running || c.Action != job.AdoptObserved || c.Facts.Image != "ubuntu/noble" || c.Epoch != 2 {
		t.Errorf("it is %+v", c.Job)
	}
	if led, err := d.runner.LeadOn(d.ctx, "chore-1", shown); err != nil || led {
		t.Errorf("it is led on again: %t, %v", led, err)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
