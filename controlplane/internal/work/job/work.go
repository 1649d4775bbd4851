package job

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Work is an attempt at a stage, as the stage sees it. Families embed it in a
// work of their own, with what their stages need beside it.
type Work struct {
	Kind       string // of the job, such as onboarding
	Job        string // its id
	WorkflowID string
	Epoch      int64
	Attempt    int
	Since      time.Time // when the stage began, over all its attempts
	Deadline   time.Time // of the stage; zero: none
	Reset      bool      // what is undone is undone in order to begin from nothing

	// Fence refuses once the job was taken over. Ask it before every effect that
	// cannot be taken back.
	Fence func(ctx context.Context) error
	// FenceIn is Fence within a transaction: nobody takes the job over until that
	// ends. It is the first thing in it, because the row of a job is locked before
	// the rows of what the job is about.
	FenceIn func(ctx context.Context, tx pgx.Tx) error
	// Save keeps what the family keeps of its work now, because losing it would
	// cost an effect to be repeated.
	Save func(ctx context.Context) error
	// Heartbeat says that the stage is still at it. Somebody else calls it, too.
	Heartbeat func()
}

// Common implements Extended.
func (w *Work) Common() *Work { return w }

// Extended is Work with what a family adds to it.
type Extended interface {
	// Common returns the part that all works have.
	Common() *Work
}

// Result is how a stage ended when it did not fail.
type Result struct {
	Skipped bool
	Message string         // for people: what was found or done
	Details map[string]any // never a secret
	Next    string         // the stage to go on with; if empty, the following one
	Await   *Await         // the stage is not over: run it again when something happened
	// Evidence is what the stage saw that proves, or disproves, its claims.
	Evidence []Evidence
	// Left is what undoing could not, or must not, undo.
	Left []string
}

// Evidence is something that a stage saw, as it is kept.
type Evidence struct {
	Kind  string // which tells how to read the value
	Value any    // never a secret
}

// Await says what a stage that is not over waits for.
type Await struct {
	Signal string        // to the workflow of the job
	Most   time.Duration // look again after that in any case
}
