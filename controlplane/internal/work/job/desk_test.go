package job_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/work/job"
)

// chore is the row of the least family that there can be.
type chore struct {
	job.Job
	Long     bool // it has one stage more
	SystemID string
	Facts    facts
}

// Common implements job.Row.
func (c chore) Common() job.Job { return c.Job }

// facts are what chores find out.
type facts struct {
	NodeCreated bool
	Image       string
	Left        []string
}

// toil is the work of a chore.
type toil struct {
	job.Work
	SystemID string
	Facts    facts
}

// broken is a failure class of chores.
const broken job.FailureClass = "broken"

var limits = job.Limits{"linger": time.Hour}

var short = job.Table{
	{Name: "begin", Title: "Begin", Attempts: 2, Resume: "begin"},
	{Name: "finish", Title: "Finish", Attempts: 1, Resume: "begin"},
	{Name: job.StageCompensate, Title: "Undo", Attempts: 1, Pseudo: true},
	{Name: job.StageAdopt, Title: "Adopt", Attempts: 1, Pseudo: true},
}

var long = slices.Insert(slices.Clone(short), 1,
	job.Stage{Name: "linger", Title: "Linger", Attempts: 1, Resume: "begin", Limit: "linger"})

// desk is chores in a real database, whose hooks note what they are asked.
type desk struct {
	db      *postgres.DB
	ctx     context.Context
	runner  *job.Runner[chore, *toil]
	perform func(stage string, w *toil) (job.Result, error)
	refuse  func(s job.Settled[chore, *toil]) error
	forbid  error
	acting  func(chore) error
	settled []job.Settled[chore, *toil]
	told    []job.Announced
	freed   int
	clock   time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	db, owner := postgrestest.NewWithOwner(t)
	admin := &auth.Principal{Kind: auth.KindUser, ID: "operator-1", Name: "operator", Platform: auth.PlatformAdmin}
	d := &desk{
		db: db, ctx: auth.With(telemetry.WithCorrelation(t.Context(), "corr-1"), admin),
		clock: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	}
	_, err := owner.Exec(d.ctx, `CREATE TABLE chores (id text PRIMARY KEY, row jsonb NOT NULL, events jsonb NOT NULL DEFAULT '[]');
		GRANT SELECT, INSERT, UPDATE ON chores TO gpuaas_app`)
	if err != nil {
		t.Fatal(err)
	}
	d.perform = func(string, *toil) (job.Result, error) { return job.Result{}, nil }
	d.refuse = func(job.Settled[chore, *toil]) error { return nil }
	d.runner = job.New(job.Config[chore, *toil]{
		DB: db, Store: shelf{d}, Hooks: d, Stages: []string{"begin", "linger", "finish"},
		Family: &job.Family[chore]{
			Noun: "chore", Life: &job.Parking, Sample: func(j job.Job) chore { return chore{Job: j} },
			Table: func(c chore) job.Table {
				if c.Long {
					return long
				}
				return short
			},
			Undone: func(chore) string { return "nothing is undone" }, AfterEnd: func(chore) string { return "do another one" },
			Reached: func(c chore, took string) string { return c.Subject + " is done" + took },
		},
		Workflow: job.WorkflowNames{Type: "Chore", Next: "next", Lost: "lost", Stage: func(s string) string {
			return "chore." + s
		}},
		Clock: func() time.Time { return d.clock }, Backoff: func(int) time.Duration { return time.Second },
	})
	return d
}

// put adds a chore.
func (d *desk) put(t *testing.T, c chore) chore {
	t.Helper()
	c.ID, c.Subject, c.WorkflowID, c.UpdatedAt = "chore-1", "c07u43", "wf-1", d.clock
	if c.Epoch == 0 {
		c.Epoch = 1
	}
	raw, err := json.Marshal(c)
	if err == nil {
		_, err = d.db.Exec(d.ctx, `INSERT INTO chores (id, row) VALUES ($1, $2)`, c.ID, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *desk) read(t *testing.T) (chore, []job.Event) {
	t.Helper()
	c, err := shelf{d}.Get(d.ctx, "chore-1")
	if err != nil {
		t.Fatal(err)
	}
	events, err := shelf{d}.Latest(d.ctx, "chore-1", 100)
	if err != nil {
		t.Fatal(err)
	}
	return c, events
}

// execute runs an activity, as a worker would.
func execute(t *testing.T, fn any, args ...any) (turn durable.Turn, err error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: "it"})
	env.SetWorkerOptions(durable.WorkerOptions(slog.New(slog.DiscardHandler), time.Second))
	out, err := env.ExecuteActivity("it", args...)
	if err != nil {
		return turn, durable.FromTemporal(err)
	}
	return turn, out.Get(&turn)
}

// shelf keeps chores as documents in a table of the test's own.
type shelf struct{ d *desk }

func scan(row pgx.Row) (chore, error) {
	var c chore
	var raw []byte
	if err := row.Scan(&raw); err != nil {
		return c, err
	}
	return c, json.Unmarshal(raw, &c)
}

func (s shelf) Get(ctx context.Context, of string) (chore, error) {
	return scan(s.d.db.QueryRow(ctx, `SELECT row FROM chores WHERE id = $1`, of))
}

func (shelf) Lock(ctx context.Context, tx pgx.Tx, of string) (chore, error) {
	return scan(tx.QueryRow(ctx, `SELECT row FROM chores WHERE id = $1 FOR UPDATE`, of))
}

func (s shelf) Latest(ctx context.Context, of string, _ int32) (out []job.Event, err error) {
	var raw []byte
	if err := s.d.db.QueryRow(ctx, `SELECT events FROM chores WHERE id = $1`, of).Scan(&raw); err != nil {
		return nil, err
	}
	return out, json.Unmarshal(raw, &out)
}

func (s shelf) Unfinished(ctx context.Context, of string, epoch int64, stage string) (bool, error) {
	events, err := s.Latest(ctx, of, 100)
	last := ""
	for _, e := range events {
		if e.Epoch == epoch && e.Stage == stage && e.Status != job.StageNote && e.Status != job.OperatorAction {
			last = string(e.Status)
		}
	}
	return last == string(job.StageStarted), err
}

func (s shelf) Fence(ctx context.Context, of string, epoch int64, token time.Time) (bool, error) {
	c, err := s.Get(ctx, of)
	return c.Epoch == epoch && c.UpdatedAt.Equal(token), err
}

// change keeps a row, with a new token.
func (s shelf) change(ctx context.Context, tx pgx.Tx, c chore, told ...job.Event) (chore, error) {
	c.UpdatedAt = c.UpdatedAt.Add(time.Millisecond)
	raw, err := json.Marshal(c)
	if err != nil {
		return c, err
	}
	events, err := json.Marshal(told)
	if err != nil {
		return c, err
	}
	if len(told) == 0 {
		events = []byte("[]")
	}
	_, err = tx.Exec(ctx, `UPDATE chores SET row = $2, events = events || $3::jsonb WHERE id = $1`, c.ID, raw, events)
	return c, err
}

func (s shelf) Begin(ctx context.Context, b job.Begun) (out chore, err error) {
	unfinished, err := s.Unfinished(ctx, b.Job, b.Epoch, b.Stage)
	if err != nil {
		return out, err
	}
	err = s.d.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c, err := s.Lock(ctx, tx, b.Job)
		if err != nil {
			return err
		}
		undoes := b.Stage == job.StageCompensate && c.Status == job.Compensating
		again := c.Attempt == b.Attempt && unfinished && !b.Chained
		if c.Epoch != b.Epoch || !undoes && (c.Status != job.Running || c.Stage != b.Stage) || c.Attempt != b.Attempt-1 &&
			!again {
			return pgx.ErrNoRows
		}
		c.Attempt, c.Takes = b.Attempt, c.Takes+1
		out, err = s.change(ctx, tx, c, job.Event{
			Epoch: b.Epoch, Stage: b.Stage, Attempt: b.Attempt,
			Status: job.StageStarted,
		})
		return err
	})
	return out, err
}

func (s shelf) Save(ctx context.Context, v job.Saved[*toil]) (token time.Time, err error) {
	err = s.d.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c, err := s.held(ctx, tx, v.Job, v.Epoch, v.Token)
		if err != nil {
			return err
		}
		c.SystemID = v.Work.SystemID
		c, err = s.change(ctx, tx, c)
		token = c.UpdatedAt
		return err
	})
	return token, err
}

func (s shelf) held(ctx context.Context, tx pgx.Tx, of string, epoch int64, token time.Time) (chore, error) {
	c, err := s.Lock(ctx, tx, of)
	if err == nil && (c.Epoch != epoch || !c.UpdatedAt.Equal(token)) {
		err = pgx.ErrNoRows
	}
	return c, err
}

func (s shelf) Start(ctx context.Context, tx pgx.Tx, b job.Started) (chore, error) {
	c, err := s.Lock(ctx, tx, b.Job)
	if err != nil {
		return c, err
	}
	if c.Status != job.Pending {
		return c, pgx.ErrNoRows
	}
	c.Status, c.StartedAt, c.WorkflowRunID = b.Status, &b.Now, b.Run
	return s.change(ctx, tx, c)
}

func (s shelf) End(ctx context.Context, tx pgx.Tx, e job.Ended[*toil]) (chore, error) {
	c, err := s.held(ctx, tx, e.Job, e.Epoch, e.Token)
	if err != nil {
		return c, err
	}
	c.Status, c.Stage, c.Attempt, c.Takes, c.Action, c.Adopted, c.SystemID = e.Status, e.NextStage, e.NextAttempt, 0,
		e.Action, e.Adopted, e.Work.SystemID
	c.FailureClass, c.ErrorCode, c.ErrorMessage, c.ErrorRemedy, c.ErrorDetails = e.Trouble.Class, e.Trouble.Code,
		e.Trouble.Message, e.Trouble.Remedy, e.Trouble.Details
	c.ParkedAt, c.CompletedAt, c.Facts = e.Trouble.ParkedAt, e.CompletedAt, e.Work.Facts
	if e.Told.Status == "" {
		return s.change(ctx, tx, c)
	}
	return s.change(ctx, tx, c, e.Told)
}

func (s shelf) Act(ctx context.Context, tx pgx.Tx, a job.Acted[chore]) (chore, error) {
	c, err := s.Lock(ctx, tx, a.Job)
	if err != nil {
		return c, err
	}
	c.Epoch++
	c.Status, c.Stage, c.Attempt, c.Action, c.Facts = a.Status, a.Stage, 0, a.Action, a.Row.Facts
	c.FailureClass, c.ErrorCode, c.ErrorMessage, c.ErrorRemedy, c.ErrorDetails = a.Trouble.Class, a.Trouble.Code,
		a.Trouble.Message, a.Trouble.Remedy, a.Trouble.Details
	c.ParkedAt, c.CompletedAt = a.Trouble.ParkedAt, a.CompletedAt
	return s.change(ctx, tx, c)
}

func (s shelf) Noticed(ctx context.Context, tx pgx.Tx, of, seen string) (bool, error) {
	var raw []byte
	if err := tx.QueryRow(ctx, `SELECT events FROM chores WHERE id = $1`, of).Scan(&raw); err != nil {
		return false, fmt.Errorf("read events: %w", err)
	}
	var events []job.Event
	if err := json.Unmarshal(raw, &events); err != nil {
		return false, fmt.Errorf("decode events: %w", err)
	}
	return slices.ContainsFunc(events, func(e job.Event) bool {
		return e.Status == job.Observation && e.Message == seen
	}), nil
}

func (s shelf) Note(ctx context.Context, tx pgx.Tx, of string, e job.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE chores SET events = events || $2::jsonb WHERE id = $1`, of, raw)
	return err
}

func (d *desk) Limits(context.Context, chore) (job.Limits, error) { return limits, nil }

func (d *desk) Work(c chore, w job.Work) *toil {
	return &toil{Work: w, SystemID: c.SystemID, Facts: c.Facts}
}

func (d *desk) Equip(context.Context, chore, *toil) (job.Limits, error) { return limits, nil }

func (d *desk) Learn(c chore, w *toil) chore {
	c.Facts = w.Facts
	return c
}

func (d *desk) Perform(_ context.Context, _ chore, stage string, w *toil) (job.Result, error) {
	return d.perform(stage, w)
}

func (d *desk) Anew(_ context.Context, _ pgx.Tx, before chore, w *toil) (*toil, error) {
	return &toil{SystemID: before.SystemID + "-kept", Facts: facts{Left: w.Facts.Left}}, nil
}

func (d *desk) Acting(_ context.Context, _ pgx.Tx, before chore, _ *job.Acted[chore]) error {
	if d.acting != nil {
		return d.acting(before)
	}
	return d.forbid
}

func (d *desk) Settle(_ context.Context, _ pgx.Tx, s job.Settled[chore, *toil]) error {
	if err := d.refuse(s); err != nil {
		return err
	}
	d.settled = append(d.settled, s)
	return nil
}

func (d *desk) Announce(_ context.Context, _ pgx.Tx, _ chore, a job.Announcement) error {
	d.told = append(d.told, a.Kind)
	return nil
}

func (s shelf) HandOn(context.Context, pgx.Tx, job.Job, time.Time) error {
	s.d.freed++
	return nil
}

func (shelf) Queue(context.Context, job.Job) (job.Queue, error) { return job.Queue{}, nil }

func (d *desk) Claimed(error, chore, *toil) *job.Failure { return nil }
