package job_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/lifecycle"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/work/job"
)

// A loan of a book is a family with nothing of machines: statuses of its own, two
// actions, one column. What it does not bring here, package job does.
type loan struct {
	job.Job
	Book string
	Page int
}

// reading is the work of a loan.
type reading struct {
	job.Work
	Page int
}

const (
	again    job.Trigger = "try_again"
	withdraw job.Trigger = "withdraw"
)

var lending = job.Lifecycle{
	Table: lifecycle.Table[job.Status, job.Trigger]{
		Noun: "loan", Title: "Loan", Initial: []job.Status{"asked"},
		States: []lifecycle.State[job.Status]{
			{Name: "asked"},
			{Name: "lending"},
			{Name: "stuck"},
			{Name: "fetching_back"},
			{Name: "lent", Terminal: true},
			{Name: "withdrawn", Terminal: true},
		},
		Edges: []lifecycle.Edge[job.Status, job.Trigger]{
			{From: "asked", Event: job.TriggerStart, To: "lending"},
			{From: "asked", Event: withdraw, To: "withdrawn"},
			{From: "lending", Event: job.TriggerComplete, To: "lent"},
			{From: "lending", Event: job.TriggerBlock, To: "stuck"},
			{From: "stuck", Event: again, To: "lending"},
			{From: "stuck", Event: withdraw, To: "fetching_back"},
			{From: "lending", Event: withdraw, To: "fetching_back"},
			{From: "fetching_back", Event: job.TriggerCompensated, To: "withdrawn"},
		},
	},
	Phases: map[job.Status]job.Phase{
		"asked": job.Waiting, "lending": job.Working, "stuck": job.Parked,
		"fetching_back": job.Undoing,
	},
	Actions: []job.Action{{Name: again, Effect: job.RunsStageAgain}, {Name: withdraw, Effect: job.UndoesAndEnds}},
}

var loans = job.Family[loan]{
	Noun: "loan", Life: &lending, Sample: func(j job.Job) loan { return loan{Job: j} },
	Table: func(loan) job.Table {
		return job.Table{
			{Name: "find_book", Title: "Find the book", Attempts: 1, Resume: "find_book"},
			{Name: "hand_over", Title: "Hand the book over", Attempts: 1, Resume: "find_book", Expects: "the reader has it"},
			{Name: job.StageCompensate, Title: "Fetch the book back", Attempts: 1, Pseudo: true},
		}
	},
	First:    map[job.FailureClass][]job.Trigger{job.InputConfigError: {again, withdraw}},
	Undone:   func(loan) string { return "the book is fetched back" },
	AfterEnd: func(loan) string { return "ask for another book" },
	Reached:  func(l loan, took string) string { return l.Book + " was lent" + took },
}

const ownTable = `CREATE TABLE loans (job_id uuid PRIMARY KEY REFERENCES jobs, page integer NOT NULL DEFAULT 0);
	GRANT SELECT, INSERT, UPDATE ON loans TO gpuaas_app`

var loanColumns = job.Columns[loan, *reading]{
	Read: `SELECT j.id, COALESCE(j.batch_id::text, ''), j.site_id, j.subject, j.status, j.current_stage, j.current_attempt, j.epoch, j.action, j.failure_class,
		j.error_code, j.error_message, j.error_remedy, j.error_details, j.workflow_id, j.requested_at, j.admitted_at, j.stage_started_at, j.parked_at, j.completed_at,
		j.updated_at, l.page
		FROM jobs j JOIN loans l ON l.job_id = j.id WHERE j.id = ANY($1::uuid[]) ORDER BY j.id`,
	Scan: func(row pgx.CollectableRow) (l loan, err error) {
		err = row.Scan(&l.ID, &l.Batch, &l.Site, &l.Subject, &l.Status, &l.Stage, &l.Attempt, &l.Epoch, &l.Action,
			&l.FailureClass,
			&l.ErrorCode, &l.ErrorMessage, &l.ErrorRemedy, &l.ErrorDetails, &l.WorkflowID, &l.RequestedAt, &l.AdmittedAt,
			&l.StageStartedAt, &l.ParkedAt, &l.CompletedAt, &l.UpdatedAt, &l.Page)
		l.Book = l.Subject
		return l, err
	},
	Keep: func(of string, w *reading) ([]job.Statement, error) {
		return []job.Statement{{SQL: `UPDATE loans SET page = $2 WHERE job_id = $1`, Args: []any{of, w.Page}}}, nil
	},
}

// library is loans in a real database.
type library struct {
	db      *postgres.DB
	ctx     context.Context
	noun    string
	rows    *job.Rows[loan, *reading]
	runner  *job.Runner[loan, *reading]
	batches *job.Batches[loan, *reading]
	perform func(ctx context.Context, stage string, w *reading) (job.Result, error)
}

func newLibrary(t *testing.T) *library {
	t.Helper()
	s, _ := newLibraryWithOwner(t)
	return s
}

func newLibraryWithOwner(t *testing.T) (*library, *postgres.DB) {
	t.Helper()
	db, owner := postgrestest.NewWithOwner(t)
	who := &auth.Principal{Kind: auth.KindUser, ID: "librarian", Platform: auth.PlatformAdmin}
	s := &library{
		db: db, ctx: auth.With(telemetry.WithCorrelation(t.Context(), "corr"), who), noun: loans.Noun,
		rows: job.NewRows(db, &loans, loanColumns),
	}
	if _, err := owner.Exec(s.ctx, ownTable); err != nil {
		t.Fatal(err)
	}
	s.perform = func(context.Context, string, *reading) (job.Result, error) { return job.Result{}, nil }
	s.runner = job.New(job.Config[loan, *reading]{
		DB: db, Family: &loans, Stages: []string{"find_book", "hand_over"}, Store: s.rows, Hooks: librarian{s},
		Workflow: loanNames,
	})
	s.batches = job.NewBatches(s.rows, s.runner)
	return s, owner
}

// ask asks for a book, which one reader at a time may have.
func (s *library) ask(ctx context.Context, book string) (made loan, err error) {
	of := id.NewString()
	err = s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := s.rows.Insert(ctx, tx, job.Asked{At: time.Now()}, []job.NewJob{{
			ID: of, Subject: book, Stage: "find_book", WorkflowID: "loan-" + of,
			Claims: []job.Claim{{Kind: "loan.book", Key: book}},
		}}, job.Statement{SQL: `INSERT INTO loans (job_id) VALUES ($1)`, Args: []any{of}})
		if err != nil {
			return err
		}
		made = rows[0]
		return s.rows.Admit(ctx, tx, "", time.Now(), of) // last: it starts the workflow
	})
	return made, err
}

// librarian is what loans do in their own way: next to nothing.
type librarian struct{ *library }

func (librarian) Limits(context.Context, loan) (job.Limits, error) { return nil, nil }
func (librarian) Work(l loan, w job.Work) *reading {
	return &reading{Work: w, Page: l.Page}
}
func (librarian) Equip(context.Context, loan, *reading) (job.Limits, error)    { return nil, nil }
func (librarian) Learn(l loan, _ *reading) loan                                { return l }
func (librarian) Acting(context.Context, pgx.Tx, loan, *job.Acted[loan]) error { return nil }
func (librarian) Claimed(error, loan, *reading) *job.Failure                   { return nil }

func (s librarian) Perform(ctx context.Context, _ loan, stage string, w *reading) (job.Result, error) {
	return s.perform(ctx, stage, w)
}

func (librarian) Anew(_ context.Context, _ pgx.Tx, _ loan, w *reading) (*reading, error) {
	return w, nil
}

func (librarian) Settle(context.Context, pgx.Tx, job.Settled[loan, *reading]) error { return nil }

func (librarian) Announce(context.Context, pgx.Tx, loan, job.Announcement) error { return nil }

// carryOut runs the workflow of a loan; then does what a reader of its row would
// do once it is parked.
func (s *library) carryOut(t *testing.T, l loan, then func()) loan {
	t.Helper()
	env := durabletest.New(t, s.RegisterWorker)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: l.WorkflowID})
	env.RegisterDelayedCallback(func() {
		then()
		env.SignalWorkflow(durable.ActSignal, nil)
	}, time.Hour)
	env.ExecuteWorkflow("Loan", job.Input{ID: l.ID})
	if err := env.GetWorkflowError(); !env.IsWorkflowCompleted() || err != nil {
		t.Fatal(err)
	}
	now, err := s.rows.Get(s.ctx, l.ID)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestAFamilyBringsItsOwnLifeAndColumnsAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		action job.Trigger
		ends   job.Status
	}{"it goes on": {again, "lent"}, "it is withdrawn": {withdraw, "withdrawn"}} {
		t.Run(name, func(t *testing.T) {
			s := newLibrary(t)
			missing := true
			var undone bool
			s.perform = func(_ context.Context, stage string, w *reading) (job.Result, error) {
				undone = undone || stage == job.StageCompensate
				if w.Page++; stage == "hand_over" && missing {
					unknown := job.CodeNamed("reader_unknown").FailedAs(job.InputConfigError, "nobody knows the reader")
					return job.Result{}, unknown.With("ask who it is").ForGood()
				}
				return job.Result{Message: "done"}, nil
			}
			l, err := s.ask(s.ctx, "Dune")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.ask(s.ctx, "Dune"); !postgres.Violates(err, job.ClaimTaken) {
				t.Errorf("two readers have the book: %v", err)
			}
			after := s.carryOut(t, l, func() {
				row, events, e, err := s.runner.Explain(s.ctx, l.ID)
				if err != nil || row.Status != "stuck" || row.Page != 2 || len(events) != 4 || e.Remedy != "ask who it is" ||
					e.Actions[0].Action != again ||
					!strings.Contains(e.Summary, "Hand the book over") || !strings.Contains(e.Summary, "nobody knows the reader") {
					t.Errorf("%+v %+v %+v %v", row, events, e, err)
				}
				missing = false
				if _, err := s.runner.Act(s.ctx, l.ID, c.action, "it was found out"); err != nil {
					t.Error(err)
				}
			})
			if after.Status != c.ends || after.CompletedAt == nil || undone != (c.action == withdraw) || after.Page != 3 {
				t.Errorf("%+v", after)
			}
			if _, err := s.ask(s.ctx, "Dune"); err != nil {
				t.Errorf("the book is not free: %v", err)
			}
		})
	}
}

// A worker of before an action neither ends the stage nor writes a column of the
// family.
func TestAStaleWorkerOfAnyFamilyWritesNothing(t *testing.T) {
	s := newLibrary(t)
	l, err := s.ask(s.ctx, "Dune")
	if err != nil {
		t.Fatal(err)
	}
	var saved, fenced error
	s.perform = func(ctx context.Context, _ string, w *reading) (job.Result, error) {
		w.Page = 7
		if err := w.Save(ctx); err != nil {
			return job.Result{}, err
		}
		if _, err := s.runner.Act(s.ctx, l.ID, withdraw, "it is needed elsewhere"); err != nil {
			return job.Result{}, err
		}
		w.Page = 8
		saved, fenced = w.Save(ctx), w.Fence(ctx)
		return job.Result{}, nil
	}
	// The activity that begins a job carries out its first stage, too, and says what the
	// row wants when somebody else has taken over.
	turn, err := execute(t, s.runner.NextTurn, l.ID)
	if err != nil || turn.Do != durable.TurnRun || turn.Stage != job.StageCompensate || turn.Epoch != 2 {
		t.Errorf("%+v %v", turn, err)
	}
	_, err = execute(t, s.runner.RunStage, durable.StageCall{Job: l.ID, Stage: "find_book", Attempt: 1, Epoch: 1})
	for what, err := range map[string]error{"end": err, "save": saved, "fence": fenced} {
		if fault.CodeOf(err) != durable.CodeSuperseded {
			t.Errorf("%s: %v", what, err)
		}
	}
	now, err := s.rows.Get(s.ctx, l.ID)
	if err != nil || now.Page != 7 || now.Status != "fetching_back" || now.Epoch != 2 {
		t.Errorf("%+v %v", now, err)
	}
	if _, err := s.rows.Get(s.ctx, id.NewString()); fault.CodeOf(err) != "loan_not_found" ||
		errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("%v", err)
	}
}
