package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/job"
)

// parkedChores adds chores that are parked for one cause, by their ids.
func (d *desk) parkedChores(t *testing.T, ids ...string) []chore {
	t.Helper()
	var out []chore
	for _, of := range ids {
		c := chore{Job: job.Job{
			ID: of, Subject: of, WorkflowID: "wf-" + of, UpdatedAt: d.clock, Epoch: 1, Status: job.FailedManualIntervention,
			Stage: "finish", FailureClass: broken, ErrorCode: "jammed", ParkedAt: &d.clock,
		}}
		raw, err := json.Marshal(c)
		if err == nil {
			_, err = d.db.Exec(d.ctx, `INSERT INTO chores (id, row) VALUES ($1, $2)`, of, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// What breaks on our side is told, and what was not reached is not called done.
func TestManyJobsWhenSomethingBreaks(t *testing.T) {
	d := newDesk(t)
	d.parkedChores(t, "a", "b", "c")
	meant := []job.Meant{{Job: "a"}, {Job: "b"}, {Job: "c"}}
	d.acting = func(c chore) error {
		if c.ID == "b" {
			return errors.New("connection lost")
		}
		return nil
	}
	out, err := d.runner.ActMany(d.ctx, meant, job.RetryStage, "because")
	if err != nil || len(out) != 3 || out[0].Refused != nil || out[0].Row.Status != job.Running ||
		out[1].Refused == nil || out[1].Refused.Code != "outcome_unknown" || out[2].Refused == nil ||
		out[2].Refused.Code != "not_tried" {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := d.runner.ActMany(d.ctx, meant[1:], job.RetryStage, "because"); fault.KindOf(err) != fault.Internal {
		t.Errorf("nothing was done, and the error is %v", err)
	}
	// A repetition of the request has taken its place: that is not about one job.
	d.acting = func(c chore) error {
		if c.ID == "b" {
			return fault.New(fault.Conflict, "idempotency_overtaken", "a repetition of this request took its place")
		}
		return nil
	}
	d.parkedChores(t, "d")
	out, err = d.runner.ActMany(d.ctx, []job.Meant{{Job: "d"}, {Job: "b"}, {Job: "c"}}, job.RetryStage, "because")
	if err != nil || len(out) != 3 || out[1].Refused.Code != "outcome_unknown" || out[2].Refused.Code != "not_tried" {
		t.Errorf("overtaken: %+v, %v", out, err)
	}
	ended, cancel := context.WithCancel(d.ctx)
	cancel()
	if out, err := d.runner.ActMany(ended, meant, job.RetryStage, "because"); fault.KindOf(err) != fault.Ambiguous {
		t.Errorf("nobody waits any more: %+v, %v", out, err)
	}
}

// A job that goes on, or is parked for something else, between the look and the
// action is left alone.
func TestManyJobsThatChangeMeanwhile(t *testing.T) {
	d := newDesk(t)
	rows := d.parkedChores(t, "a", "b", "c")
	meant, err := job.ParkedFor(rows, job.Cause{Stage: "finish", Class: broken, Code: "jammed"})
	if err != nil || len(meant) != 3 {
		t.Fatalf("%+v, %v", meant, err)
	}
	if _, err := job.ParkedFor(rows, job.Cause{Code: "lost"}); fault.CodeOf(err) != "none_parked_so" {
		t.Errorf("%v", err)
	}
	d.alter(t, "a", func(c *chore) { c.ErrorCode = "lost" })
	d.alter(t, "b", func(c *chore) { c.Status, c.ErrorCode, c.FailureClass = job.Running, "", "" })
	out, err := d.runner.ActMany(d.ctx, meant, job.Cancel, "because")
	if err != nil || out[0].Refused == nil || out[0].Refused.Code != "job_changed" || out[1].Refused == nil ||
		out[1].Refused.Code != "job_changed" || out[2].Refused != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

func (d *desk) alter(t *testing.T, of string, change func(*chore)) {
	t.Helper()
	err := d.db.InTx(d.ctx, func(ctx context.Context, tx pgx.Tx) error {
		c, err := shelf{d}.Lock(ctx, tx, of)
		if err != nil {
			return err
		}
		change(&c)
		_, err = shelf{d}.change(ctx, tx, c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
