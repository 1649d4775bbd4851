package job

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
)

// Store keeps the rows and ledgers of a family of jobs. Rows implements it. A call
// returns pgx.ErrNoRows if the row is not as the call expects it; Get and Lock return
// a fault of kind NotFound if there is no such row.
type Store[R Row, W Extended] interface {
	Get(ctx context.Context, job string) (R, error)
	// Latest returns the newest entries of the ledger, oldest first.
	Latest(ctx context.Context, job string, limit int32) ([]Event, error)
	// Unfinished reports whether the newest attempt at a stage began and has not ended.
	Unfinished(ctx context.Context, job string, epoch int64, stage string) (bool, error)
	// Fence reports whether the row still has this token. If it has not, another
	// worker or an operator took the job over, and the caller must stop.
	Fence(ctx context.Context, job string, epoch int64, token time.Time) (bool, error)
	// Begin takes a stage up. UpdatedAt of the returned row is the token from then on.
	Begin(ctx context.Context, b Begun) (R, error)
	// Save keeps what the stage found out so far, and returns the new token.
	Save(ctx context.Context, s Saved[W]) (time.Time, error)

	Lock(ctx context.Context, tx pgx.Tx, job string) (R, error)
	// Start records that the workflow of a waiting job has taken it up.
	Start(ctx context.Context, tx pgx.Tx, s Started) (R, error)
	// End ends an attempt: it writes the row and the entry of the ledger.
	End(ctx context.Context, tx pgx.Tx, e Ended[W]) (R, error)
	Act(ctx context.Context, tx pgx.Tx, a Acted[R]) (R, error)
	// Noticed reports whether reconciliation noted the same observation already, and
	// nothing else has happened to the job since.
	Noticed(ctx context.Context, tx pgx.Tx, job, seen string) (bool, error)
	Note(ctx context.Context, tx pgx.Tx, job string, e Event) error
	// HandOn gives the places that a job held to jobs that wait. Call it last in the
	// transaction that takes the places from the job.
	HandOn(ctx context.Context, tx pgx.Tx, j Job, now time.Time) error
	// Queue tells what a job without a place waits for.
	Queue(ctx context.Context, j Job) (Queue, error)
}

// Started says which job its workflow takes up.
type Started struct {
	Job, Run string
	Status   Status // the status that the job has from then on
	Now      time.Time
}

// Begun says which stage a worker takes up.
type Begun struct {
	Job, Stage, Run string
	Attempt         int
	Epoch           int64
	Chained         bool // the same worker goes on from the stage before
	Now             time.Time
}

// Saved says what a stage keeps before it has ended.
type Saved[W Extended] struct {
	Job   string
	Site  id.Site // of the job
	Epoch int64
	Token time.Time
	Work  W // the columns of the family keep a part of it
}

// Trouble says why a job is parked. The zero value says that it is not parked.
type Trouble struct {
	Class                 FailureClass
	Code, Message, Remedy string
	Details               json.RawMessage
	ParkedAt              *time.Time
}

// Ended says how an attempt ends, and where the job goes from there.
type Ended[W Extended] struct {
	Job         string
	Site        id.Site // of the job
	Epoch       int64
	Token       time.Time
	Now         time.Time
	Work        W // the columns of the family keep a part of it
	Status      Status
	NextStage   string
	NextAttempt int  // begun at it
	SameStage   bool // the stage goes on
	Action      Trigger
	Adopted     bool
	Trouble     Trouble
	CompletedAt *time.Time
	Told        Event // without a status: nothing is told
}

// Acted says what an action of an operator changes in a row.
type Acted[R Row] struct {
	Job         string
	Row         R // the columns of the family keep its own part
	Status      Status
	Stage       string
	Action      Trigger
	Trouble     Trouble
	CompletedAt *time.Time
}

// Hooks are the steps that each family of jobs does in its own way.
type Hooks[R Row, W Extended] interface {
	// Limits returns the time limits of a job.
	Limits(ctx context.Context, r R) (Limits, error)
	// Work makes the work of an attempt from the row.
	Work(r R, w Work) W
	// Equip adds to the work what the attempt needs beside the row, as it is now. It
	// returns the time limits of the job.
	Equip(ctx context.Context, r R, w W) (Limits, error)
	// Learn returns the row with what the work found out while it only looked.
	Learn(r R, w W) R
	// Perform carries out a stage or a pseudo stage.
	Perform(ctx context.Context, r R, stage string, w W) (Result, error)
	// Anew returns the work that the row keeps after a clean restart has undone
	// everything: a copy with only what the family needs to begin from nothing.
	Anew(ctx context.Context, tx pgx.Tx, before R, w W) (W, error)
	// Acting may refuse an action or change what it makes of the row.
	Acting(ctx context.Context, tx pgx.Tx, before R, a *Acted[R]) error
	// Settle does the family's bookkeeping in the transaction that ends the
	// attempt. If it returns a *Failure, the attempt counts as failed even if it
	// reached the goal.
	Settle(ctx context.Context, tx pgx.Tx, s Settled[R, W]) error
	// Announce tells readers of events.
	Announce(ctx context.Context, tx pgx.Tx, r R, a Announcement) error
	// Claimed turns an error of Save or End into a failure if the error says that
	// another job has what this work claims. It returns nil for any other error.
	Claimed(err error, before R, w W) *Failure
}

// Settled is an attempt that is being recorded.
type Settled[R Row, W Extended] struct {
	Before, After R
	Stage         string
	Work          W
	Result        Result   // what the stage brought, even if it failed
	Failure       *Failure // nil if it did not fail
	Complete      bool     // the goal is reached
	Told          Event
}

// Announcement is what readers of events are told.
type Announcement struct {
	Kind  Announced
	Event Event
}

// Announced says what happened to a job, in every family's own event types.
type Announced string

// What can happen to a job.
const (
	AnnounceStarted   Announced = "started"
	AnnounceStage     Announced = "stage"
	AnnounceCompleted Announced = "completed"
	AnnounceFailed    Announced = "failed"
	AnnounceManual    Announced = "manual_intervention_required"
	AnnounceCancelled Announced = "cancelled"
)
