package agenttask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
)

// Signer signs tasks as they are handed out.
type Signer interface {
	SignEnvelope(ctx context.Context, e *agentwire.Envelope) error
}

// QueueConfig is what the queue needs.
type QueueConfig struct {
	DB     *postgres.DB
	Signer Signer
	Logger *slog.Logger
	// Clock is time.Now except in tests.
	Clock func() time.Time
}

// Queue hands tasks to the agents that poll this process.
type Queue struct {
	cfg     QueueConfig
	waiting *waiters
	signing time.Duration // time limit of a signature
}

// New makes a queue. Run must run for polls to be woken.
func New(cfg QueueConfig) *Queue {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Queue{cfg: cfg, waiting: newWaiters(), signing: signingTime}
}

// Wait hands the next task to a node and waits for one up to hold. It returns
// nil if no task came up, if the caller went away, or if the node polled again:
// only the latest poll is sure to have an agent at the other end.
func (q *Queue) Wait(ctx context.Context, node id.Node, generation int64, hold time.Duration) (
	*agentwire.Envelope, error,
) {
	// Register before the first look, so that no task can come up unnoticed
	// between looking and waiting.
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	w := q.waiting.add(node, leave)
	defer q.waiting.remove(w)
	timer := time.NewTimer(hold)
	defer timer.Stop()
	for {
		e, err := q.next(ctx, node, generation)
		if e != nil || err != nil {
			return e, err
		}
		select {
		case <-ctx.Done():
			return nil, nil // the caller has gone
		case <-timer.C:
			return nil, nil // no task came up: the answer to an idle poll
		case <-w.woken:
		}
	}
}

// From the claim of a task until it is known whether the node can have it,
// nothing may be cut short. Each part has its own time limit, so that one that
// hangs does not use up the time of the next.
const (
	claimTime   = 10 * time.Second
	signingTime = 5 * time.Second
	putBackTime = 5 * time.Second
)

// next claims and signs a task. If the task cannot be handed over, next puts it
// back as if it had never been claimed.
func (q *Queue) next(ctx context.Context, node id.Node, generation int64) (*agentwire.Envelope, error) {
	if left(ctx) {
		return nil, nil // the caller has gone
	}
	t, err := q.claim(ctx, node, generation)
	if err != nil || t == nil {
		return nil, err
	}
	e := t.envelope(q.cfg.Clock())
	if err = q.sign(ctx, *t, &e); err == nil {
		err = ctx.Err() // the agent may have gone meanwhile
	}
	if err == nil {
		return &e, nil
	}
	q.putBack(ctx, t.ID, t.Attempt)
	if left(ctx) {
		return nil, nil // the caller has gone
	}
	return nil, err
}

// left reports whether the caller has gone.
func left(ctx context.Context) bool { return ctx.Err() != nil }

// claimRaces limits how often a claim that lost a race is repeated. The next
// look sees the winner's task, so one repetition usually suffices.
const claimRaces = 3

func (q *Queue) claim(ctx context.Context, node id.Node, generation int64) (*Task, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), claimTime)
	defer stop()
	for attempt := 1; ; attempt++ {
		now := q.cfg.Clock()
		row, err := agenttaskdb.New(q.cfg.DB).Claim(ctx, agenttaskdb.ClaimParams{
			NodeID: node, Generation: generation, Now: now, LeaseExpiresAt: now.Add(agentwire.Lease),
		})
		switch {
		case err == nil:
			t, err := fromRow(row)
			return &t, err
		case errors.Is(err, pgx.ErrNoRows):
			return nil, nil // nothing to hand out
		case postgres.Violates(err, "node_tasks_one_at_a_time") && attempt < claimRaces:
			continue // another poll of this node was faster
		}
		return nil, fmt.Errorf("claim task of node %s: %w", node, err)
	}
}

// sign signs the envelope and stores which signer signed it.
func (q *Queue) sign(ctx context.Context, t Task, e *agentwire.Envelope) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(causeOf(ctx, t)), q.signing)
	defer stop()
	if err := q.cfg.Signer.SignEnvelope(ctx, e); err != nil {
		return fault.Wrap(err, fault.Unavailable, "node_task_unsigned", "task %s cannot be signed now", t.ID).
			WithRemedy("check that the secrets engine is up and that there is an active signer: gpuaas signer list")
	}
	err := agenttaskdb.New(q.cfg.DB).NoteSigner(ctx, agenttaskdb.NoteSignerParams{ID: t.ID, Attempt: int32(t.Attempt), SignerVersion: e.SignerVersion}) //nolint:gosec // small
	if err != nil {
		return fmt.Errorf("note signer of task %s: %w", t.ID, err)
	}
	return nil
}

// TakeBack undoes the handing out of a task that Wait returned and that the
// node must not have after all. It does not count as an attempt.
func (q *Queue) TakeBack(ctx context.Context, e *agentwire.Envelope) error {
	task, err := id.Parse[id.NodeTask](e.TaskID)
	if err != nil {
		return fmt.Errorf("read id of task: %w", err)
	}
	q.putBack(ctx, task, e.Attempt)
	return nil
}

// putBack undoes a claim. If that fails, the lease runs out and the task is
// queued again.
func (q *Queue) putBack(ctx context.Context, task id.NodeTask, attempt int) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), putBackTime)
	defer stop()
	err := q.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return q.unclaim(ctx, tx, task, attempt) })
	if err != nil {
		q.cfg.Logger.WarnContext(ctx, "task could not be put back; its lease will run out", "task_id", task.String(), "error",
			err)
	}
}

// unclaim puts a task back and wakes the polls that waited behind it. If the
// task was cancelled since it was claimed, it ends: no agent has it.
func (q *Queue) unclaim(ctx context.Context, tx pgx.Tx, task id.NodeTask, attempt int) error {
	if _, err := Lifecycle.Next(Dispatched, Requeue); err != nil {
		return err
	}
	row, err := agenttaskdb.New(tx).PutBack(ctx, agenttaskdb.PutBackParams{ID: task, Attempt: int32(attempt)}) //nolint:gosec // small
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // the sweep or a result was faster
	}
	t, err := found(row, err, task)
	if err != nil {
		return err
	}
	if t.CancelRequested {
		end := ending{event: Cancel, err: agentwire.TaskError{
			Code:    CodeCancelled,
			Message: "cancelled before its node had it; nothing was done",
		}}
		if t, err = finish(causeOf(ctx, t), tx, t, q.cfg.Clock(), end); err != nil {
			return err
		}
	}
	return postgres.Notify(ctx, tx, channel, t.Node.String())
}
