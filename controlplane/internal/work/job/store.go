package job

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
)

// Store keeps the rows and ledgers of a family of jobs; Rows does. A row that is
// not as a call expects it is pgx.ErrNoRows; one that Get and Lock do not find is a
// fault of kind NotFound.
type Store[R Row, W Extended] interface {
	Get(ctx context.Context, job string) (R, error)
	// Latest are the newest entries of the ledger, in their order.
	Latest(ctx context.Context, job string, limit int32) ([]Event, error)
	// Unfinished says whether the newest attempt at a stage was begun and has not ended.
	Unfinished(ctx context.Context, job string, epoch int64, stage string) (bool, error)
	// Fence says whether the token is still that of the row.
	Fence(ctx context.Context, job string, epoch int64, token time.Time) (bool, error)
	// Begin takes a stage up; UpdatedAt of the row is the token from then on.
	Begin(ctx context.Context, b Begun) (R, error)
	// Save keeps what was found and gives the new token.
	Save(ctx context.Context, s Saved[W]) (time.Time, error)

	Lock(ctx context.Context, tx pgx.Tx, job string) (R, error)
	// Start makes a job run that waits for its workflow.
	Start(ctx context.Context, tx pgx.Tx, s Started) (R, error)
	// End ends an attempt: the row and the entry of the ledger.
	End(ctx context.Context, tx pgx.Tx, e Ended[W]) (R, error)
	Act(ctx context.Context, tx pgx.Tx, a Acted[R]) (R, error)
	// Noticed says whether that is what was last observed, or was observed since
	// anything else happened to the job.
	Noticed(ctx context.Context, tx pgx.Tx, job, seen string) (bool, error)
	Note(ctx context.Context, tx pgx.Tx, job string, e Event) error
	// HandOn gives the places that a job held to jobs that wait. It is the last thing
	// in the transaction that takes them from the job.
	HandOn(ctx context.Context, tx pgx.Tx, j Job, now time.Time) error
	// Queue is what a job that has no place waits in.
	Queue(ctx context.Context, j Job) (Queue, error)
}

// Started is a job that its workflow takes up.
type Started struct {
	Job, Run string
	Status   Status // that it has from then on
	Now      time.Time
}

// Begun is a stage that is taken up.
type Begun struct {
	Job, Stage, Run string
	Attempt         int
	Epoch           int64
	Chained         bool // by a worker that merely goes on from the stage before it
	Now             time.Time
}

// Saved is what is kept in the middle of a stage.
type Saved[W Extended] struct {
	Job   string
	Site  id.Site // of the job
	Epoch int64
	Token time.Time
	Work  W // of which the family keeps what it keeps
}

// Trouble is why a job is parked; the zero one: it is not.
type Trouble struct {
	Class                 FailureClass
	Code, Message, Remedy string
	Details               json.RawMessage
	ParkedAt              *time.Time
}

// Ended is how an attempt ends, and where the job goes from there.
type Ended[W Extended] struct {
	Job         string
	Site        id.Site // of the job
	Epoch       int64
	Token       time.Time
	Now         time.Time
	Work        W // of which the family keeps what it keeps
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

// Acted is what an action of an operator makes of a row.
type Acted[R Row] struct {
	Job         string
	Row         R // of which the family keeps what is its own
	Status      Status
	Stage       string
	Action      Trigger
	Trouble     Trouble
	CompletedAt *time.Time
}

// Hooks are what a family of jobs does in its own way.
type Hooks[R Row, W Extended] interface {
	// Limits are the time limits that hold for a job.
	Limits(ctx context.Context, r R) (Limits, error)
	// Work is the work of an attempt, as far as it follows from the row.
	Work(r R, w Work) W
	// Equip gives the work of an attempt what it needs beside the row, as it is
	// now, and the time limits that hold.
	Equip(ctx context.Context, r R, w W) (Limits, error)
	// Learn is the row with what was found out while its work only looked.
	Learn(r R, w W) R
	// Perform carries a stage, or a pseudo stage, out.
	Perform(ctx context.Context, r R, stage string, w W) (Result, error)
	// Anew is the work as the row keeps it when a clean restart has undone
	// everything: a copy, with what the family needs to begin from nothing.
	Anew(ctx context.Context, tx pgx.Tx, before R, w W) (W, error)
	// Acting may refuse an action or change what it makes of the row.
	Acting(ctx context.Context, tx pgx.Tx, before R, a *Acted[R]) error
	// Settle does the family's bookkeeping in the transaction that ends the
	// attempt. If it returns a *Failure, the attempt counts as failed even if it
	// reached the goal.
	Settle(ctx context.Context, tx pgx.Tx, s Settled[R, W]) error
	// Announce tells readers of events.
	Announce(ctx context.Context, tx pgx.Tx, r R, a Announcement) error
	// Claimed makes a failure of an error of Save or End that says that somebody
	// else has what the work claims; nil: it does not say that.
	Claimed(err error, before R, w W) *Failure
}

// Settled is an attempt that is being recorded.
type Settled[R Row, W Extended] struct {
	Before, After R
	Stage         string
	Work          W
	Result        Result   // what the stage brought, even if it failed
	Failure       *Failure // nil: it did not
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
