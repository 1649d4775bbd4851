package webhook

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/rent/webhook/internal/webhookdb"
)

// look is how often a worker looks for what is due.
const look = time.Second

// Run posts what is due until the context ends.
func (s *Service) Run(ctx context.Context) {
	var under sync.WaitGroup
	defer under.Wait()
	free := make(chan struct{}, ofWorker)
	for range ofWorker {
		free <- struct{}{}
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for ctx.Err() == nil {
		due, err := s.claim(ctx, len(free))
		if err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "deliveries of webhooks cannot be read", "error", err)
		}
		for _, d := range due {
			<-free
			under.Go(func() {
				defer func() { free <- struct{}{} }()
				s.deliver(ctx, d)
			})
		}
		if len(due) > 0 && len(free) > 0 {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// deliver makes one attempt and records it. An attempt that this process could not
// make does not count.
func (s *Service) deliver(ctx context.Context, d webhookdb.ClaimRow) {
	err := s.attempt(ctx, d)
	if err == nil || ctx.Err() != nil { // stopping: the lease runs out, and another worker tries again
		return
	}
	s.logger.WarnContext(ctx, "a delivery of a webhook could not be attempted", "webhook", d.WebhookID, "delivery", d.ID,
		"error", err)
	if err := s.putBack(ctx, d, 10*time.Second); err != nil {
		s.logger.WarnContext(ctx, "a delivery of a webhook waits for its lease", "delivery", d.ID, "error", err)
	}
}

func (s *Service) attempt(ctx context.Context, d webhookdb.ClaimRow) error {
	secrets, err := s.signers(ctx, d)
	if fault.KindOf(err) == fault.NotFound {
		return s.settle(ctx, d, outcome{failure: "the secret of the webhook is lost; rotate it: gpuaas webhook rotate-secret"})
	}
	if err != nil {
		return err
	}
	began := time.Now()
	header, err := sign(d.EventID.String(), began, d.Envelope, secrets)
	if err != nil {
		return s.settle(ctx, d, outcome{failure: err.Error()})
	}
	code, text, err := s.courier.Post(ctx, d.Url, header, d.Envelope)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o := outcome{code: code, took: time.Since(began), text: text, gone: code == http.StatusGone}
	switch {
	case err != nil:
		o.failure = err.Error()
	case code < http.StatusOK || code >= http.StatusMultipleChoices:
		o.failure = fmt.Sprintf("the receiver answered %d", code)
	}
	return s.settle(ctx, d, o)
}

// signers returns the secrets that sign now.
func (s *Service) signers(ctx context.Context, d webhookdb.ClaimRow) ([]redact.Secret, error) {
	kept, err := s.secrets.Get(ctx, pathOf(d.WebhookID))
	if err != nil {
		return nil, err
	}
	out := []redact.Secret{kept[keySecret]}
	until, err := time.Parse(time.RFC3339, kept[keyUntil].Reveal())
	if err == nil && time.Now().Before(until) { // without a time there is no secret before
		out = append(out, kept[keyPrevious])
	}
	return out, nil
}
