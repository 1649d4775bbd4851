package job_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/job"
)

// askMany asks for a batch of loans. A site of which each takes a place is one that
// is not zero.
func (s *library) askMany(count int, n job.Batch, at id.Site) (job.Batch, error) {
	n.ID, n.Total, n.RequestedAt = id.New[id.JobBatch](), count, time.Now()
	err := s.db.InTx(s.ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if n, err = s.rows.InsertBatch(ctx, tx, n); err != nil {
			return err
		}
		jobs, own := make([]job.NewJob, count), make([]job.Statement, count)
		for i := range jobs {
			of := id.NewString()
			jobs[i] = job.NewJob{
				ID: of, Subject: "book " + of, Stage: "find_book", WorkflowID: "loan-" + of, Site: at, SitePlace: !at.IsZero(),
			}
			own[i] = job.Statement{SQL: `INSERT INTO loans (job_id) VALUES ($1)`, Args: []any{of}}
		}
		if _, err := s.rows.Insert(ctx, tx, job.Asked{At: time.Now(), Batch: n.ID.String()}, jobs, own...); err != nil {
			return err
		}
		return s.rows.Admit(ctx, tx, n.ID.String(), time.Now())
	})
	return n, err
}

// moved puts one job of a family that is in a phase into another, as its runner
// would; false: there is none.
func (s *library) moved(from string, to job.Status) (bool, error) {
	set := map[job.Status]string{
		"lending":   `status = 'lending', phase = 'working', started_at = now()`,
		"lent":      `status = 'lent', phase = 'over', completed_at = now()`,
		"withdrawn": `status = 'withdrawn', phase = 'over', completed_at = now()`,
		"stuck":     `status = 'stuck', phase = 'parked', parked_at = now()`,
	}[to]
	found := false
	err := s.db.InTx(s.ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `UPDATE jobs SET updated_at = clock_timestamp(), `+set+`
			WHERE id = (SELECT id FROM jobs WHERE family = $1 AND phase = $2 AND (phase <> 'waiting' OR admitted_at IS NOT NULL)
				ORDER BY random() LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) RETURNING id::text`, s.noun, from)
		if err != nil {
			return err
		}
		jobs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if found = len(jobs) == 1; err != nil || !found || to == "lending" {
			return err
		}
		after, err := s.rows.Of(ctx, tx, jobs)
		if err != nil {
			return err
		}
		return s.rows.HandOn(ctx, tx, after[0].Common(), time.Now())
	})
	return found, err
}

func (s *library) move(t *testing.T, from string, to job.Status, times int) {
	t.Helper()
	for range times {
		if found, err := s.moved(from, to); err != nil || !found {
			t.Fatalf("from %s to %s: %t, %v", from, to, found, err)
		}
	}
}

// stands says how many jobs of a batch are in which status, and its state.
func (s *library) stands(t *testing.T, of job.Batch, want string) job.Batch {
	t.Helper()
	b, err := s.rows.Batch(s.ctx, s.db, of.ID)
	if err != nil {
		t.Fatal(err)
	}
	var held int
	if err := s.db.QueryRow(s.ctx, `SELECT count(*) FROM job_places WHERE batch_id = $1`, of.ID).Scan(&held); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s: %d asked, %d hold places, %d failed, %d succeeded", b.State(), b.Counts["asked"], held,
		b.Failures(),
		b.Succeeded())
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	return b
}

// A family that knows no site has batches with limits, pauses and a maximum of
// failures, and brings nothing for them.
func TestAnyFamilyHasBatches(t *testing.T) {
	s, none := newLibrary(t), 0
	b, err := s.askMany(6, job.Batch{MaxParallel: 2, MaxFailures: &none}, id.Site{})
	if err != nil {
		t.Fatal(err)
	}
	s.stands(t, b, "running: 6 asked, 2 hold places, 0 failed, 0 succeeded")
	s.move(t, "waiting", "lending", 2)
	s.move(t, "working", "lent", 1)
	s.stands(t, b, "running: 4 asked, 2 hold places, 0 failed, 1 succeeded")

	if err := s.batches.Pause(s.ctx, b.ID, " "); fault.CodeOf(err) != "reason_missing" {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := s.batches.Pause(s.ctx, b.ID, "lunch"); err != nil {
			t.Fatal(err)
		}
	}
	s.move(t, "working", "lent", 1)
	s.stands(t, b, "paused: 4 asked, 1 hold places, 0 failed, 2 succeeded")
	s.explains(t, b, "its batch has been paused by librarian (lunch)", "gpuaas loan batch resume")
	if err := s.batches.Resume(s.ctx, b.ID, "lunch is over"); err != nil {
		t.Fatal(err)
	}
	s.stands(t, b, "running: 4 asked, 2 hold places, 0 failed, 2 succeeded")
	s.explains(t, b, "of its batch: 2 of 2 are in use", "")

	// One may not fail: the batch is halted, and says so, until somebody decides.
	s.move(t, "waiting", "lending", 2)
	s.move(t, "working", "stuck", 1)
	s.stands(t, b, "halted: 2 asked, 1 hold places, 1 failed, 2 succeeded")
	s.explains(t, b, "its batch has been halted (1 failed or were cancelled; the limit is 0)", "loan list --batch")
	s.move(t, "working", "lent", 1)
	if err := job.Tend(s.ctx, s.db, time.Now()); err != nil {
		t.Fatal(err)
	}
	s.stands(t, b, "halted: 2 asked, 0 hold places, 1 failed, 3 succeeded")
	if err := s.batches.Resume(s.ctx, b.ID, "that one is known"); err != nil {
		t.Fatal(err)
	}
	if now := s.stands(t, b, "running: 2 asked, 2 hold places, 1 failed, 3 succeeded"); *now.MaxFailures != 1 {
		t.Errorf("%d may fail", *now.MaxFailures)
	}

	s.move(t, "waiting", "lending", 1)
	for range 2 { // repeating it is harmless
		if err := s.batches.Cancel(s.ctx, b.ID, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	s.stands(t, b, "cancelled: 0 asked, 2 hold places, 1 failed, 3 succeeded") // what runs or was stuck is fetched back
	s.move(t, "undoing", "withdrawn", 2)
	s.stands(t, b, "cancelled: 0 asked, 0 hold places, 3 failed, 3 succeeded")
	if err := s.batches.Resume(s.ctx, b.ID, "no"); fault.CodeOf(err) != "batch_cancelled" {
		t.Errorf("%v", err)
	}
	if err := s.batches.Pause(s.ctx, id.New[id.JobBatch](), "x"); fault.CodeOf(err) != "loan_batch_not_found" {
		t.Errorf("%v", err)
	}
	var audited, told int
	if err := s.db.QueryRow(s.ctx, `SELECT count(*), (SELECT count(*) FROM job_events WHERE message = 'enough') FROM audit_logs
		WHERE target_id = $1 AND target_kind = 'loan_batch'`, b.ID.String()).Scan(&audited, &told); err != nil || audited != 4 || told != 3 {
		t.Errorf("%d entries of the audit log, %d of ledgers, %v", audited, told, err)
	}
}

// explains looks how a job of a batch that waits for a place is explained.
func (s *library) explains(t *testing.T, b job.Batch, summary, remedy string) {
	t.Helper()
	var of string
	if err := s.db.QueryRow(s.ctx, `SELECT id::text FROM jobs WHERE batch_id = $1 AND phase = 'waiting' AND admitted_at IS NULL LIMIT 1`,
		b.ID).Scan(&of); err != nil {
		t.Fatal(err)
	}
	_, _, e, err := s.runner.Explain(s.ctx, of)
	if err != nil || !strings.Contains(e.Summary, summary) || !strings.Contains(e.Remedy, remedy) {
		t.Errorf("%q, remedy %q, %v", e.Summary, e.Remedy, err)
	}
}
