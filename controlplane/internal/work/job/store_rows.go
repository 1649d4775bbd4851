package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

// ClaimTaken is the constraint that is violated when a job claims what another one
// that has not ended has claimed.
const ClaimTaken = "job_claims_key"

// fenceLost is the constraint that is violated when a job is saved by a worker
// that was superseded.
const fenceLost = "jobs_fence"

// Statement is an SQL statement with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Prepared is a statement that sqlc made, with the parameters that sqlc made for
// it: a struct whose fields are in the order of the arguments.
func Prepared(sql string, params any) Statement {
	v := reflect.ValueOf(params)
	st := Statement{SQL: sql, Args: make([]any, v.NumField())}
	for i := range st.Args {
		st.Args[i] = v.Field(i).Interface()
	}
	return st
}

// Claim is something that one job at a time may have. Its kind is named after the
// family; an empty key claims nothing.
type Claim struct{ Kind, Key string }

// Columns describes the columns that a family has besides those of Job. They
// are in a table of the family, which is written in the transactions that
// change the job, and only after these have passed the fence.
type Columns[R Row, W Extended] struct {
	// Read is the statement that reads whole rows by their ids, in the order of
	// ids, and Scan makes a row of what it finds.
	Read string
	Scan pgx.RowToFunc[R]
	// Keep returns the statements that store what the work of a job found out.
	// If nil, nothing is stored.
	Keep func(job string, w W) ([]Statement, error)
	// Change returns the statements that store what an action changed in a row.
	// If nil, actions change no columns of the family.
	Change func(r R) ([]Statement, error)
	// Node returns the node that the job is about from now on. If nil, the node
	// never changes.
	Node func(w W) id.Node
	// Claims returns what the work of a job claims at a site. If nil, jobs
	// claim only what they claimed at the request.
	Claims func(at id.Site, w W) []Claim
}

// Rows keeps the jobs of a family, their ledgers and claims. It implements Store.
// No call takes more round trips for what the family keeps of its own.
type Rows[R Row, W Extended] struct {
	db   *postgres.DB
	noun string
	life *Lifecycle
	own  Columns[R, W]

	// ahead does errand of a job before its workflow starts.
	ahead  *outbox.Ahead
	errand func(job string) outbox.Errand
}

// NewRows makes the store of a family. It connects to nothing.
func NewRows[R Row, W Extended](db *postgres.DB, f *Family[R], own Columns[R, W]) *Rows[R, W] {
	return &Rows[R, W]{db: db, noun: f.Noun, life: f.Life, own: own}
}

// together is statements that are sent at once.
type together struct{ pgx.Batch }

// must adds a statement that concerns a row; if it concerns none, what is sent
// fails with pgx.ErrNoRows.
func (b *together) must(st Statement) {
	b.Queue(st.SQL, st.Args...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return pgx.ErrNoRows
		}
		return nil
	})
}

func (b *together) add(statements ...Statement) {
	for _, st := range statements {
		b.Queue(st.SQL, st.Args...)
	}
}

func (b *together) sendIn(ctx context.Context, tx pgx.Tx) error {
	return tx.SendBatch(ctx, &b.Batch).Close()
}

// read adds that whole rows are read, in the order of their ids.
func (s *Rows[R, W]) read(b *together, jobs []string, into *[]R) {
	b.Queue(s.own.Read, jobs).Query(func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, s.own.Scan)
		return err
	})
}

// one adds that a whole row is read; if it is not there, what is sent fails with
// pgx.ErrNoRows.
func (s *Rows[R, W]) one(b *together, job string, into *R) {
	b.Queue(s.own.Read, []string{job}).Query(func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectExactlyOneRow(rows, s.own.Scan)
		return err
	})
}

// missing turns the error for a row that does not exist into one that says that
// there is no such job.
func (s *Rows[R, W]) missing(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.New(fault.NotFound, s.noun+"_not_found", "there is no such %s", s.noun).
			WithRemedy("list them with: gpuaas %s list", s.noun)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.noun, err)
	}
	return nil
}

// checked refuses what is not the id of a job.
func (s *Rows[R, W]) checked(job string) error {
	if _, err := id.Parse[id.Of[struct{}]](job); err != nil {
		return fault.Wrap(err, fault.Internal, s.noun+"_id_malformed",
			"%q is not the id of a job of family %s", job, s.noun)
	}
	return nil
}

// Get implements Store.
func (s *Rows[R, W]) Get(ctx context.Context, job string) (row R, err error) {
	if err := s.checked(job); err != nil {
		return row, err
	}
	var b together
	s.one(&b, job, &row)
	return row, s.missing(s.db.Send(ctx, &b.Batch))
}

// Of reads jobs in a transaction, in the order of their ids. One that is not there
// is left out.
func (s *Rows[R, W]) Of(ctx context.Context, tx pgx.Tx, jobs []string) (rows []R, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	var b together
	s.read(&b, jobs, &rows)
	if err := b.sendIn(ctx, tx); err != nil {
		return nil, fmt.Errorf("read jobs of family %s: %w", s.noun, err)
	}
	return rows, nil
}

// Lock implements Store.
func (s *Rows[R, W]) Lock(ctx context.Context, tx pgx.Tx, job string) (row R, err error) {
	if err := s.checked(job); err != nil {
		return row, err
	}
	var b together
	b.must(Statement{jobdb.Lock, []any{job}})
	s.one(&b, job, &row)
	return row, s.missing(b.sendIn(ctx, tx))
}

// NewJob is a job that is asked for.
type NewJob struct {
	ID, Kind       string
	Site           id.Site // zero: it is about none
	SitePlace      bool    // it uses the MAAS or the BMCs of the site, and takes a place of it
	Node           id.Node // zero: it is about none
	Subject, Stage string
	WorkflowID     string
	Claims         []Claim
}

// Asked holds what jobs of one request have in common.
type Asked struct {
	Batch string // empty: they are on their own
	At    time.Time
}

// Insert adds jobs, which wait until Admit gives them places, with the statements that add what
// the family keeps of them,
// and gives their rows in the order of the request. The error violates ClaimTaken
// if another job has what one of them claims.
func (s *Rows[R, W]) Insert(ctx context.Context, tx pgx.Tx, r Asked, jobs []NewJob, own ...Statement) ([]R, error) {
	p := jobdb.InsertJobsParams{
		Family: s.noun, Status: string(s.life.Table.Initial[0]), RequestedBy: auth.From(ctx).ID,
		CorrelationID: telemetry.Correlation(ctx),
		RequestedAt:   r.At, BatchID: optional(r.Batch),
	}
	var claims jobdb.ClaimParams
	for _, j := range jobs {
		p.Ids, p.Kinds, p.Subjects = append(p.Ids, j.ID), append(p.Kinds, j.Kind), append(p.Subjects, j.Subject)
		p.SiteIds, p.NodeIds = append(p.SiteIds, textOf(j.Site)), append(p.NodeIds, textOf(j.Node))
		p.SitePlaces = append(p.SitePlaces, j.SitePlace)
		p.Stages, p.WorkflowIds = append(p.Stages, j.Stage), append(p.WorkflowIds, j.WorkflowID)
		add(&claims, j.ID, j.Claims)
	}
	var b together
	b.add(Prepared(jobdb.InsertJobs, p), Prepared(jobdb.Claim, claims))
	b.add(own...)
	var rows []R
	s.read(&b, p.Ids, &rows)
	if err := b.sendIn(ctx, tx); err != nil {
		return nil, fmt.Errorf("insert jobs of family %s: %w", s.noun, err)
	}
	at := map[string]R{}
	for _, row := range rows {
		at[row.Common().ID] = row
	}
	out := make([]R, len(p.Ids))
	for i, job := range p.Ids {
		out[i] = at[job]
	}
	return out, nil
}

// add adds what a job claims.
func add(p *jobdb.ClaimParams, job string, claims []Claim) {
	for _, c := range claims {
		p.Jobs, p.Kinds, p.Keys = append(p.Jobs, job), append(p.Kinds, c.Kind), append(p.Keys, c.Key)
	}
}

// keep adds the statements that keep what the work of a job found out. A job that
// is over claims nothing.
func (s *Rows[R, W]) keep(b *together, job string, at id.Site, w W, over bool) error {
	if s.own.Keep != nil {
		own, err := s.own.Keep(job, w)
		if err != nil {
			return err
		}
		b.add(own...)
	}
	if s.own.Claims == nil || over {
		return nil
	}
	var claims jobdb.ClaimParams
	add(&claims, job, s.own.Claims(at, w))
	b.add(Prepared(jobdb.Claim, claims))
	return nil
}

// Fence implements Store.
func (s *Rows[R, W]) Fence(ctx context.Context, job string, epoch int64, token time.Time) (bool, error) {
	return jobdb.New(s.db).Fence(ctx, jobdb.FenceParams{ID: job, Epoch: epoch, Token: token})
}

// Begin implements Store.
func (s *Rows[R, W]) Begin(ctx context.Context, g Begun) (row R, err error) {
	if err := s.checked(g.Job); err != nil {
		return row, err
	}
	var b together
	b.must(Prepared(jobdb.BeginStage, jobdb.BeginStageParams{
		ID: g.Job, Epoch: g.Epoch, Stage: g.Stage, Attempt: few(g.Attempt), WorkflowRunID: g.Run, Chained: g.Chained,
		Now: g.Now, Undoes: g.Stage == StageCompensate, Adopts: g.Stage == StageAdopt,
		Adopting: texts(s.life.Having(AdoptsObserved)),
	}))
	s.one(&b, g.Job, &row)
	return row, s.db.Send(ctx, &b.Batch)
}

// Save implements Store.
func (s *Rows[R, W]) Save(ctx context.Context, v Saved[W]) (token time.Time, err error) {
	var b together
	b.Queue(jobdb.Save, Prepared(jobdb.Save, jobdb.SaveParams{ID: v.Job, Epoch: v.Epoch, Token: v.Token}).Args...).
		QueryRow(func(row pgx.Row) error { return row.Scan(&token) })
	if err := s.keep(&b, v.Job, v.Site, v.Work, false); err != nil {
		return token, err
	}
	err = s.db.Send(ctx, &b.Batch)
	if postgres.Violates(err, fenceLost) {
		err = pgx.ErrNoRows
	}
	return token, err
}

// Start implements Store.
func (s *Rows[R, W]) Start(ctx context.Context, tx pgx.Tx, v Started) (row R, err error) {
	var b together
	b.must(Prepared(jobdb.Start, jobdb.StartParams{
		ID: v.Job, Status: string(v.Status), Now: v.Now, WorkflowRunID: v.Run,
	}))
	s.one(&b, v.Job, &row)
	return row, b.sendIn(ctx, tx)
}

// End implements Store.
func (s *Rows[R, W]) End(ctx context.Context, tx pgx.Tx, e Ended[W]) (row R, err error) {
	p := jobdb.EndStageParams{
		ID: e.Job, Epoch: e.Epoch, Token: e.Token, Now: e.Now, Status: string(e.Status),
		Phase: string(s.life.PhaseOf(e.Status)), NextStage: e.NextStage, NextAttempt: few(e.NextAttempt),
		SameStage: e.SameStage, Action: string(e.Action), Adopted: e.Adopted,
		FailureClass: string(e.Trouble.Class), ErrorCode: e.Trouble.Code, ErrorMessage: e.Trouble.Message,
		ErrorRemedy: e.Trouble.Remedy, ErrorDetails: object(e.Trouble.Details), ParkedAt: e.Trouble.ParkedAt,
		CompletedAt: e.CompletedAt, ToldStage: e.Told.Stage, Attempt: few(e.Told.Attempt),
		ToldStatus: string(e.Told.Status), ToldMessage: e.Told.Message, ToldDetails: object(e.Told.Details),
	}
	if s.own.Node != nil {
		p.NodeID = optional(textOf(s.own.Node(e.Work)))
	}
	var b together
	b.must(Prepared(jobdb.EndStage, p))
	if err := s.keep(&b, e.Job, e.Site, e.Work, e.CompletedAt != nil); err != nil {
		return row, err
	}
	s.one(&b, e.Job, &row)
	return row, b.sendIn(ctx, tx)
}

// Act implements Store.
func (s *Rows[R, W]) Act(ctx context.Context, tx pgx.Tx, a Acted[R]) (row R, err error) {
	var b together
	b.must(Prepared(jobdb.Act, jobdb.ActParams{
		ID: a.Job, Status: string(a.Status), Phase: string(s.life.PhaseOf(a.Status)), CurrentStage: a.Stage,
		Action: string(a.Action),
		NodeID: optional(textOf(a.Row.Common().Node)), FailureClass: string(a.Trouble.Class),
		ErrorCode: a.Trouble.Code, ErrorMessage: a.Trouble.Message,
		ErrorRemedy: a.Trouble.Remedy, ErrorDetails: object(a.Trouble.Details), ParkedAt: a.Trouble.ParkedAt,
		CompletedAt: a.CompletedAt,
	}))
	if s.own.Change != nil {
		own, err := s.own.Change(a.Row)
		if err != nil {
			return row, err
		}
		b.add(own...)
	}
	s.one(&b, a.Job, &row)
	return row, s.missing(b.sendIn(ctx, tx))
}

// few is a number of attempts.
func few(n int) int32 { return int32(n) } //nolint:gosec // attempts are few

// textOf is an id as text; the zero one is empty.
func textOf[noun any](u id.Of[noun]) string {
	if u.IsZero() {
		return ""
	}
	return u.String()
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func texts[T ~string](words []T) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

// object is a JSON object; nil is the empty one.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}
