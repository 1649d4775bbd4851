package job

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

// A job begins when it has a place. The limit of its batch counts the jobs of the
// batch, the limit of its site the jobs of all families that use the site. Whoever
// gives a place back hands it on in the same transaction.
//
// One lock guards all places. A transaction takes it after the locks of rows that
// it changes, and before it changes batches. Places are counted from rows while it
// is held, so a crash cannot lose one.

// registered are the families that this process carries out. A runner adds its own.
var registered = struct {
	mu       sync.Mutex
	families map[string]carried
}{families: map[string]carried{}}

// carried holds what places and metrics need to know about a family.
type carried struct {
	life  *Lifecycle
	start func(Job) outbox.WorkflowStart
	// batch, if set, wakes the workflow that starts the jobs of a batch. If
	// nil, each job is started by itself.
	batch func(batch string) outbox.WorkflowSignal
}

func register(family string, c carried) {
	registered.mu.Lock()
	defer registered.mu.Unlock()
	registered.families[family] = c
}

// families are the registered ones, in the order of their names.
func families() (names []string, of map[string]carried) {
	registered.mu.Lock()
	defer registered.mu.Unlock()
	of = map[string]carried{}
	for name, c := range registered.families {
		names, of[name] = append(names, name), c
	}
	slices.Sort(names)
	return names, of
}

func lockPlaces(ctx context.Context, tx pgx.Tx) error {
	if err := jobdb.New(tx).LockPlaces(ctx); err != nil {
		return fmt.Errorf("lock places: %w", err)
	}
	return nil
}

// Admit gives free places to the named jobs and to those of a batch, as far as the
// limits allow, and starts them. Call it last in the transaction that adds them. A
// job that no limit counts begins without the lock: every other job would wait for
// the end of its transaction.
func (s *Rows[R, W]) Admit(ctx context.Context, tx pgx.Tx, batch string, now time.Time, jobs ...string) error {
	if batch == "" && len(jobs) > 0 {
		names, known := families()
		free, err := jobdb.New(tx).AdmitFree(ctx, jobdb.AdmitFreeParams{Now: now, Ids: jobs, Families: names})
		if err != nil {
			return fmt.Errorf("admit jobs that need no place: %w", err)
		}
		rows := make([]jobdb.AdmitRow, len(free))
		for i, r := range free {
			rows[i] = jobdb.AdmitRow(r)
		}
		if err := s.beginFree(ctx, tx, known, rows); err != nil || len(free) == len(jobs) {
			return err
		}
	}
	if err := lockPlaces(ctx, tx); err != nil {
		return err
	}
	return admit(ctx, tx, jobdb.AdmitParams{Now: now, BatchID: optional(batch), Ids: slices.Concat([]string{}, jobs)})
}

// HandOn implements Store: it pauses the batch of the job if too many of it failed,
// and gives the places that the job held to jobs that wait.
func (s *Rows[R, W]) HandOn(ctx context.Context, tx pgx.Tx, j Job, now time.Time) error {
	held, err := s.heldPlace(ctx, tx, j)
	if err != nil || !held {
		return err
	}
	if err := lockPlaces(ctx, tx); err != nil {
		return err
	}
	if j.Batch != "" {
		if err := halt(ctx, tx, s.noun, s.life, &j.Batch, now); err != nil {
			return err
		}
	}
	return admit(ctx, tx, jobdb.AdmitParams{
		Now: now, BatchID: optional(j.Batch), SiteID: optional(textOf(j.Site)), Ids: []string{},
	})
}

// heldPlace says whether anybody can have a place because a job gave its own back.
func (s *Rows[R, W]) heldPlace(ctx context.Context, tx pgx.Tx, j Job) (bool, error) {
	if j.Batch != "" || j.Site.IsZero() {
		return j.Batch != "", nil
	}
	held, err := jobdb.New(tx).HasSitePlace(ctx, j.ID)
	if err != nil {
		return false, fmt.Errorf("look whether %s %s had a place: %w", s.noun, j.ID, err)
	}
	return held, nil
}

// halt pauses batches of which too many failed: one, or all of a family.
func halt(ctx context.Context, tx pgx.Tx, family string, life *Lifecycle, batch *string, now time.Time) error {
	err := jobdb.New(tx).Halt(ctx, jobdb.HaltParams{Now: now, Missed: life.missed(), Family: family, BatchID: batch})
	if err != nil {
		return fmt.Errorf("pause batches with too many failures: %w", err)
	}
	return nil
}

// admit gives out places until nothing more can have one, and starts the workflows
// of the jobs that got one. The places are locked.
func admit(ctx context.Context, tx pgx.Tx, p jobdb.AdmitParams) error {
	names, known := families()
	p.Families = names
	var got []jobdb.AdmitRow
	for {
		more, err := jobdb.New(tx).Admit(ctx, p)
		if err != nil {
			return fmt.Errorf("admit jobs: %w", err)
		}
		if len(more) == 0 {
			return begin(ctx, tx, known, got, false)
		}
		got = append(got, more...)
	}
}

// begin starts the workflows of jobs that have a place. If the family has a workflow
// for batches, that one starts the jobs of its batch. With again, begin also starts
// workflows that were started before and are gone.
func begin(ctx context.Context, tx pgx.Tx, known map[string]carried, rows []jobdb.AdmitRow, again bool) error {
	told := map[string]bool{}
	for _, r := range rows {
		c, j := known[r.Family], jobOf(r)
		var err error
		switch {
		case j.Batch != "" && c.batch != nil && told[j.Batch]:
		case j.Batch != "" && c.batch != nil:
			told[j.Batch] = true
			err = outbox.SignalWorkflow(ctx, tx, c.batch(j.Batch))
		case again:
			start := c.start(j)
			err = outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{
				WorkflowID: j.WorkflowID, Name: durable.ActSignal, Start: &start,
			})
		default:
			err = outbox.StartWorkflow(ctx, tx, c.start(j))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func jobOf(r jobdb.AdmitRow) Job {
	j := Job{
		ID: r.ID, Site: r.SiteID, Subject: r.Subject, Status: Status(r.Status), Stage: r.CurrentStage,
		WorkflowID: r.WorkflowID,
	}
	if r.BatchID != nil {
		j.Batch = *r.BatchID
	}
	return j
}

// overdue is how long a job with a place may wait for its workflow before Tend
// starts the workflow again.
const overdue = 5 * time.Minute

// Tend hands out places that became free without a job that gave them back, such as
// when somebody raised a limit. It also starts the workflows again of jobs that have
// a place and did not begin.
func Tend(ctx context.Context, db *postgres.DB, now time.Time) error {
	return db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockPlaces(ctx, tx); err != nil {
			return err
		}
		names, known := families()
		for _, name := range names {
			if err := halt(ctx, tx, name, known[name].life, nil, now); err != nil {
				return err
			}
		}
		if err := admit(ctx, tx, jobdb.AdmitParams{Now: now, Everything: true, Ids: []string{}}); err != nil {
			return err
		}
		late, err := jobdb.New(tx).NotBegun(ctx, jobdb.NotBegunParams{Before: now.Add(-overdue), Families: names})
		if err != nil {
			return fmt.Errorf("list jobs that were not begun: %w", err)
		}
		rows := make([]jobdb.AdmitRow, len(late))
		for i, r := range late {
			rows[i] = jobdb.AdmitRow(r)
		}
		return begin(ctx, tx, known, rows, true)
	})
}
