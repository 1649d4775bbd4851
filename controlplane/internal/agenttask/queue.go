package agenttask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/agenttask/internal/agenttaskdb"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/postgres"
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
	// Clock is time.Now unless a test says otherwise.
	Clock func() time.Time
}

// Queue hands tasks to the agents that poll this process.
type Queue struct {
	cfg     QueueConfig
	waiting *waiters
}

// New prepares a queue; Run keeps it awake.
func New(cfg QueueConfig) *Queue {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Queue{cfg: cfg, waiting: newWaiters()}
}

// Wait hands the next task to a node, waiting for one as long as hold. It is
// nil when nothing came up or the caller went away.
func (q *Queue) Wait(ctx context.Context, node id.Node, generation int64, hold time.Duration) (*agentwire.Envelope, error) {
	// Registered before the first look, so that nothing can come up unnoticed
	// between looking and waiting.
	w := q.waiting.add(node)
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
			return nil, nil // nothing for whoever has gone
		case <-timer.C:
			return nil, nil // nothing came up: the answer of an idle poll
		case <-w.woken:
		}
	}
}

// handover bounds what happens between the claim of a task and the moment it is
// known whether the node can have it. It must not be cut short in the middle.
const handover = 10 * time.Second

// next claims and signs a task. One that cannot be handed over goes back as if
// it had never been claimed.
func (q *Queue) next(ctx context.Context, node id.Node, generation int64) (*agentwire.Envelope, error) {
	if ctx.Err() != nil {
		return nil, nil // nothing for whoever has gone
	}
	whole, stop := context.WithTimeout(context.WithoutCancel(ctx), handover)
	defer stop()
	t, err := q.claim(whole, node, generation)
	if err != nil || t == nil {
		return nil, err
	}
	e := t.envelope(q.cfg.Clock())
	if err = q.sign(whole, *t, &e); err == nil {
		err = ctx.Err() // the agent went away meanwhile
	}
	if err == nil {
		return &e, nil
	}
	if back := q.putBack(whole, *t); back != nil {
		q.cfg.Logger.WarnContext(whole, "task could not be put back; its lease will run out", "task_id", t.ID.String(), "error", back)
	}
	if ctx.Err() != nil {
		return nil, nil // nothing for whoever has gone
	}
	return nil, err
}

// claimRaces is how often a claim that lost a race is repeated. The winner's
// task is seen at the next look, so one repetition settles it.
const claimRaces = 3

func (q *Queue) claim(ctx context.Context, node id.Node, generation int64) (*Task, error) {
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

// sign also keeps whose signature it was.
func (q *Queue) sign(ctx context.Context, t Task, e *agentwire.Envelope) error {
	ctx = causeOf(ctx, t)
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

// putBack undoes a claim, and wakes whoever waited for what it held.
func (q *Queue) putBack(ctx context.Context, t Task) error {
	if _, err := Lifecycle.Next(t.Status, Requeue); err != nil {
		return err
	}
	n, err := agenttaskdb.New(q.cfg.DB).PutBack(ctx, agenttaskdb.PutBackParams{ID: t.ID, Attempt: int32(t.Attempt)}) //nolint:gosec // small
	if err != nil {
		return fmt.Errorf("put task %s back: %w", t.ID, err)
	}
	if n == 0 {
		return nil // the sweeper or a result was faster
	}
	return q.cfg.DB.Notify(ctx, channel, t.Node.String())
}
