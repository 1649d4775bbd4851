package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/webhook/internal/webhookdb"
)

// How many deliveries are under way at a time.
const (
	ofWebhook = 2
	ofProject = 8
	ofTenant  = 16
	ofWorker  = 32
)

// lease is how long a worker may take for an attempt. If it dies, the next one tries
// again afterwards.
const lease = time.Minute

// claim takes deliveries that are due.
func (s *Service) claim(ctx context.Context, most int) (due []webhookdb.ClaimRow, _ error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := webhookdb.New(tx)
		if err := q.LockClaims(ctx); err != nil {
			return fmt.Errorf("lock deliveries of webhooks: %w", err)
		}
		var err error
		if due, err = q.Claim(ctx, webhookdb.ClaimParams{
			Lease: lease.Seconds(), OfWebhook: ofWebhook, OfProject: ofProject, OfTenant: ofTenant,
			Most: int32(most), //nolint:gosec // a few
		}); err != nil {
			return fmt.Errorf("claim deliveries of webhooks: %w", err)
		}
		return nil
	})
	return due, err
}

// outcome is how an attempt went.
type outcome struct {
	code    int
	took    time.Duration
	text    string
	failure string // empty: delivered
	gone    bool   // the receiver wants to be told nothing any more
}

// settle records an attempt, and what comes of it for the webhook.
func (s *Service) settle(ctx context.Context, d webhookdb.ClaimRow, o outcome) error {
	wait, more := s.backoff(d.Attempts)
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := webhookdb.New(tx)
		// The webhook before its deliveries, as whoever disables it does.
		row, err := q.Lock(ctx, d.WebhookID)
		if errors.Is(err, pgx.ErrNoRows) { // it was deleted meanwhile
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock webhook: %w", err)
		}
		n, err := q.Settle(ctx, webhookdb.SettleParams{
			ID: d.ID, Attempts: d.Attempts, Delivered: o.failure == "", Over: o.failure == "" || !more, Wait: wait.Seconds(),
			AnswerCode: int32(o.code), AnswerMs: int32(o.took.Milliseconds()), AnswerText: o.text, Failure: o.failure, //nolint:gosec // small
		})
		if err != nil {
			return fmt.Errorf("record attempt: %w", err)
		}
		if n == 0 { // it was disabled or taken over meanwhile
			return nil
		}
		why, err := s.note(ctx, q, d.WebhookID, o)
		if err != nil || why == "" {
			return err
		}
		_, err = s.disable(ctx, tx, from(row), why)
		return err
	})
}

// note records for a webhook how an attempt went. It says why the webhook must be
// disabled; empty: it need not.
func (s *Service) note(ctx context.Context, q *webhookdb.Queries, of id.Webhook, o outcome) (why string, _ error) {
	if o.failure == "" {
		if err := q.NoteSuccess(ctx, of); err != nil {
			return "", fmt.Errorf("note success of webhook: %w", err)
		}
	} else {
		over, err := q.NoteFailure(ctx, webhookdb.NoteFailureParams{ID: of, Allowed: s.disableAfter.Seconds()})
		switch {
		case err != nil:
			return "", fmt.Errorf("note failure of webhook: %w", err)
		case o.gone:
			return "its receiver answered 410: it wants to be told nothing any more", nil
		case over:
			return fmt.Sprintf("every delivery failed for %s", s.disableAfter), nil
		}
	}
	n, err := countWaiting(ctx, q, of)
	if err != nil || n <= maxWaiting {
		return "", err
	}
	return fellBehind, nil
}

// countWaiting counts what a webhook is still to be told, up to one more than the most.
func countWaiting(ctx context.Context, q *webhookdb.Queries, of id.Webhook) (int32, error) {
	n, err := q.CountWaiting(ctx, webhookdb.CountWaitingParams{WebhookID: of, Most: maxWaiting + 1})
	if err != nil {
		return 0, fmt.Errorf("count what a webhook is still to be told: %w", err)
	}
	return n, nil
}

// disable disables a webhook that is locked.
func (s *Service) disable(ctx context.Context, tx pgx.Tx, w Webhook, why string) (Webhook, error) {
	if err := s.set(ctx, tx, &w, Wish{Name: w.Name, URL: w.URL, Kinds: w.Kinds}, why); err != nil {
		return w, err
	}
	return w, tell(ctx, tx, eventwire.WebhookDisabled, w)
}

// putBack gives back a delivery that was not attempted.
func (s *Service) putBack(ctx context.Context, d webhookdb.ClaimRow, wait time.Duration) error {
	if err := webhookdb.New(s.db).PutBack(ctx, webhookdb.PutBackParams{
		ID: d.ID, Attempts: d.Attempts, Wait: wait.Seconds(),
	}); err != nil {
		return fmt.Errorf("put delivery back: %w", err)
	}
	return nil
}
