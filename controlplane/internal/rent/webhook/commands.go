package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/rent/webhook/internal/webhookdb"
)

// SecretsPrefix begins the paths of all secrets of webhooks.
const SecretsPrefix = "webhooks/"

// What is kept at the path of a webhook.
const (
	keySecret   = "secret"
	keyPrevious = "previous"
	keyUntil    = "previous_until"
)

// overlap is how long the secret before the last also signs.
const overlap = 24 * time.Hour

func pathOf(w id.Webhook) string { return SecretsPrefix + w.String() }

// Create makes a webhook and returns its secret, which is never shown again.
func (s *Service) Create(ctx context.Context, project id.Project, w Wish) (
	made Webhook, secret redact.Secret, _ error,
) {
	if err := s.check(w, nil); err != nil {
		return Webhook{}, secret, err
	}
	secret = newSecret()
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := webhookdb.New(tx)
		if err := q.LockProject(ctx, project.String()); err != nil {
			return fmt.Errorf("lock webhooks of project: %w", err)
		}
		n, err := q.Count(ctx, project)
		if err != nil {
			return fmt.Errorf("count webhooks: %w", err)
		}
		if n >= MaxHooks {
			return fault.New(fault.Conflict, "webhooks_too_many", "the project has %d webhooks already, which is the most", n).
				WithRemedy("delete one that nobody uses: gpuaas webhook list --project PROJECT")
		}
		org, err := q.Org(ctx, project)
		if err != nil {
			return fmt.Errorf("read tenant of project: %w", err)
		}
		row, err := q.Insert(ctx, webhookdb.InsertParams{
			ID: id.New[id.Webhook](), OrgID: org, ProjectID: project, Name: w.Name, Url: w.URL, Kinds: kindsOf(w),
			CreatedBy: auth.From(ctx).ID,
		})
		if err != nil {
			return taken(err, w.Name)
		}
		made = from(row)
		if err := record(ctx, tx, "webhook.create", eventwire.WebhookCreated, made); err != nil {
			return err
		}
		// Last, so that nothing is left in the secrets engine of a webhook that was refused.
		return s.secrets.Put(ctx, pathOf(made.ID), map[string]redact.Secret{keySecret: secret})
	})
	return made, secret, err
}

func kindsOf(w Wish) []string {
	if w.Kinds == nil {
		return []string{}
	}
	return w.Kinds
}

func (s *Service) check(w Wish, had []string) error {
	if err := w.check(had); err != nil {
		return err
	}
	return s.courier.Check(w.URL)
}

func taken(err error, name string) error {
	if postgres.Violates(err, "webhooks_of_project") {
		return fault.New(fault.Conflict, "webhook_exists", "the project has a webhook %q already", name).
			WithRemedy("choose another name")
	}
	return fmt.Errorf("write webhook: %w", err)
}

// Change is what is to be different; nil: as it was.
type Change struct {
	Name, URL *string
	Kinds     *[]string
	Enabled   *bool
}

// Update changes a webhook. It fails if the webhook is no longer at this version.
func (s *Service) Update(ctx context.Context, project id.Project, of id.Webhook, version int64, c Change) (
	Webhook, error,
) {
	return s.change(ctx, project, of, func(ctx context.Context, tx pgx.Tx, w Webhook) (Webhook, error) {
		if w.Version != version {
			return w, fault.New(fault.Stale, "version_stale", "the webhook is at version %d, not %d", w.Version, version).
				WithRemedy("read it again and repeat the change")
		}
		wish := Wish{Name: w.Name, URL: w.URL, Kinds: w.Kinds}
		if c.Name != nil {
			wish.Name = *c.Name
		}
		if c.URL != nil {
			wish.URL = *c.URL
		}
		if c.Kinds != nil {
			wish.Kinds = *c.Kinds
		}
		if err := s.check(wish, w.Kinds); err != nil {
			return w, err
		}
		reason := w.DisabledReason
		switch {
		case c.Enabled == nil:
		case *c.Enabled:
			reason = ""
		case reason == "":
			reason = "somebody disabled it"
		}
		if wish.Name == w.Name && wish.URL == w.URL && slices.Equal(wish.Kinds, w.Kinds) && reason == w.DisabledReason {
			return w, nil // nothing is different
		}
		if err := s.set(ctx, tx, &w, wish, reason); err != nil {
			return w, err
		}
		return w, record(ctx, tx, "webhook.update", eventwire.WebhookUpdated, w)
	})
}

// set writes a webhook. One that is disabled gives up what it was still to be told.
func (s *Service) set(ctx context.Context, tx pgx.Tx, w *Webhook, wish Wish, disabled string) error {
	q := webhookdb.New(tx)
	row, err := q.Update(ctx, webhookdb.UpdateParams{
		ID: w.ID, Name: wish.Name, Url: wish.URL, Kinds: kindsOf(wish), DisabledReason: disabled,
	})
	if err != nil {
		return taken(err, wish.Name)
	}
	*w = from(row)
	if disabled == "" {
		return nil
	}
	if err := q.GiveUpWaiting(ctx, webhookdb.GiveUpWaitingParams{
		WebhookID: w.ID, Failure: "the webhook was disabled: " + disabled,
	}); err != nil {
		return fmt.Errorf("give up deliveries: %w", err)
	}
	return nil
}

// change locks a webhook of a project and changes it.
func (s *Service) change(
	ctx context.Context, project id.Project, of id.Webhook,
	do func(context.Context, pgx.Tx, Webhook) (Webhook, error),
) (after Webhook, _ error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := webhookdb.New(tx).Lock(ctx, of)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && row.ProjectID != project {
			return notFound()
		}
		if err != nil {
			return fmt.Errorf("lock webhook: %w", err)
		}
		after, err = do(ctx, tx, from(row))
		return err
	})
	return after, err
}

// Delete removes a webhook with its log and its secret.
func (s *Service) Delete(ctx context.Context, project id.Project, of id.Webhook) error {
	_, err := s.change(ctx, project, of, func(ctx context.Context, tx pgx.Tx, w Webhook) (Webhook, error) {
		q := webhookdb.New(tx)
		if err := q.Delete(ctx, of); err != nil {
			return w, fmt.Errorf("delete webhook: %w", err)
		}
		if err := q.DeleteDeliveries(ctx, of); err != nil {
			return w, fmt.Errorf("delete log of webhook: %w", err)
		}
		if err := record(ctx, tx, "webhook.delete", eventwire.WebhookDeleted, w); err != nil {
			return w, err
		}
		return w, s.secrets.Delete(ctx, pathOf(of))
	})
	return err
}

// Rotate gives a webhook another secret. The one before also signs for a day, so
// that its receivers can change over.
func (s *Service) Rotate(ctx context.Context, project id.Project, of id.Webhook) (
	w Webhook, secret redact.Secret, _ error,
) {
	secret = newSecret()
	w, err := s.change(ctx, project, of, func(ctx context.Context, tx pgx.Tx, w Webhook) (Webhook, error) {
		kept, err := s.secrets.Get(ctx, pathOf(of))
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return w, err
		}
		row, err := webhookdb.New(tx).NoteRotation(ctx, of)
		if err != nil {
			return w, fmt.Errorf("note rotation: %w", err)
		}
		if err := record(ctx, tx, "webhook.rotate_secret", eventwire.WebhookUpdated, from(row)); err != nil {
			return w, err
		}
		values := map[string]redact.Secret{keySecret: secret}
		if before := kept[keySecret]; !before.IsZero() {
			values[keyPrevious], values[keyUntil] = before, redact.New(time.Now().Add(overlap).UTC().Format(time.RFC3339))
		}
		return from(row), s.secrets.Put(ctx, pathOf(of), values)
	})
	return w, secret, err
}

// Test tells a webhook an event that means nothing.
func (s *Service) Test(ctx context.Context, project id.Project, of id.Webhook) (Delivery, error) {
	return s.add(ctx, project, of, func(w Webhook) (webhookdb.InsertDeliveryParams, error) {
		event := id.New[id.Event]()
		content, err := json.Marshal(payload(w))
		if err != nil {
			return webhookdb.InsertDeliveryParams{}, fmt.Errorf("encode test: %w", err)
		}
		envelope, err := json.Marshal(eventwire.Envelope{
			EventID: event.String(), EventType: eventwire.WebhookTest, OccurredAt: time.Now().UTC(), Version: eventwire.Version,
			CorrelationID: telemetry.Correlation(ctx), OrgID: w.Org.String(), ProjectID: w.Project.String(), Payload: content,
		})
		if err != nil {
			return webhookdb.InsertDeliveryParams{}, fmt.Errorf("encode test: %w", err)
		}
		return webhookdb.InsertDeliveryParams{
			EventID: event, EventType: string(eventwire.WebhookTest), Envelope: envelope,
		}, nil
	})
}

// Redeliver tells a webhook an event of its log once more.
func (s *Service) Redeliver(ctx context.Context, project id.Project, of id.Webhook, which id.WebhookDelivery) (
	Delivery, error,
) {
	return s.add(ctx, project, of, func(Webhook) (webhookdb.InsertDeliveryParams, error) {
		d, err := webhookdb.New(s.db).GetDelivery(ctx, webhookdb.GetDeliveryParams{ID: which, WebhookID: of})
		if errors.Is(err, pgx.ErrNoRows) {
			return webhookdb.InsertDeliveryParams{}, fault.New(fault.NotFound, "webhook_delivery_not_found",
				"the log of the webhook has no such delivery").WithRemedy("see what it has: gpuaas webhook deliveries WEBHOOK")
		}
		if err != nil {
			return webhookdb.InsertDeliveryParams{}, fmt.Errorf("read delivery: %w", err)
		}
		return webhookdb.InsertDeliveryParams{EventID: d.EventID, EventType: d.EventType, Envelope: d.Envelope}, nil
	})
}

// add adds a delivery that somebody asked for.
func (s *Service) add(
	ctx context.Context, project id.Project, of id.Webhook, what func(Webhook) (webhookdb.InsertDeliveryParams, error),
) (d Delivery, _ error) {
	w, err := s.change(ctx, project, of, func(ctx context.Context, tx pgx.Tx, w Webhook) (Webhook, error) {
		if w.DisabledAt != nil {
			return w, nil
		}
		n, err := countWaiting(ctx, webhookdb.New(tx), of)
		if err != nil {
			return w, err
		}
		if n >= maxWaiting {
			return s.disable(ctx, tx, w, fellBehind)
		}
		p, err := what(w)
		if err != nil {
			return w, err
		}
		p.WebhookID, p.ProjectID = w.ID, w.Project
		row, err := webhookdb.New(tx).InsertDelivery(ctx, p)
		if err != nil {
			return w, fmt.Errorf("add delivery: %w", err)
		}
		d = deliveryFrom(row)
		return w, nil
	})
	if err == nil && w.DisabledAt != nil {
		err = fault.New(fault.Conflict, "webhook_disabled", "the webhook is disabled: %s", w.DisabledReason).
			WithRemedy("fix its receiver, then: gpuaas webhook update WEBHOOK --enable")
	}
	return d, err
}
