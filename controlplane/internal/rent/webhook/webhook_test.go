package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/rent/webhook"
	"gpuaas/testkit"
)

// vault is a secrets engine in memory.
type vault struct {
	mu   sync.Mutex
	kept map[string]map[string]redact.Secret
	away bool
}

func (v *vault) Put(_ context.Context, path string, values map[string]redact.Secret) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept[path] = values
	return nil
}

func (v *vault) Get(_ context.Context, path string) (map[string]redact.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away {
		return nil, fault.New(fault.Unavailable, "secrets_unavailable", "it is away")
	}
	if values, ok := v.kept[path]; ok {
		return values, nil
	}
	return nil, fault.New(fault.NotFound, "secret_not_found", "there is none")
}

func (v *vault) Delete(_ context.Context, path string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.kept, path)
	return nil
}

func (v *vault) leave(away bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.away = away
}

// letter is what a receiver got.
type letter struct {
	url    string
	header map[string]string
	body   string
}

// post carries letters to receivers in memory.
type post struct {
	mu     sync.Mutex
	got    []letter
	answer func(l letter) (int, string, error)
}

func (p *post) Check(url string) error {
	if !strings.HasPrefix(url, "https://") {
		return fault.New(fault.Invalid, "webhook_url_invalid", "no")
	}
	return nil
}

func (p *post) Post(_ context.Context, url string, header map[string]string, body []byte) (int, string, error) {
	l := letter{url, header, string(body)}
	p.mu.Lock()
	p.got = append(p.got, l)
	answer := p.answer
	p.mu.Unlock()
	return answer(l)
}

func (p *post) letters(of string) (out []letter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.got {
		if l.url == of {
			out = append(out, l)
		}
	}
	return out
}

type world struct {
	db       *postgres.DB
	ctx      context.Context
	hooks    *webhook.Service
	vault    *vault
	post     *post
	org      id.Org
	projects [2]id.Project
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		db: postgrestest.New(t), vault: &vault{kept: map[string]map[string]redact.Secret{}}, org: id.New[id.Org](),
		post: &post{answer: func(letter) (int, string, error) { return 204, "", nil }},
	}
	w.ctx = auth.With(t.Context(), auth.System("test"))
	w.hooks = webhook.New(webhook.Config{DB: w.db, Secrets: w.vault, Courier: w.post}).Hurry()
	w.exec(t, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, w.org)
	for i, slug := range []string{"training", "serving"} {
		w.projects[i] = id.New[id.Project]()
		w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, $3, $3)`, w.projects[i], w.org, slug)
	}
	return w
}

func (w *world) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := w.db.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// run posts while the test lasts.
func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(w.ctx)
	var over sync.WaitGroup
	over.Go(func() { w.hooks.Run(ctx) })
	t.Cleanup(func() { stop(); over.Wait() })
}

func (w *world) hook(t *testing.T, name string, kinds ...string) (webhook.Webhook, redact.Secret) {
	t.Helper()
	h, secret, err := w.hooks.Create(w.ctx, w.projects[0],
		webhook.Wish{Name: name, URL: "https://" + name + ".example/", Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return h, secret
}

// happen appends an event to a project, in a transaction that may fail.
func (w *world) happen(t *testing.T, project id.Project, of eventwire.Type, fails bool) string {
	t.Helper()
	event := id.New[id.Event]()
	failed := errors.New("it did not happen")
	err := w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := outbox.Append(ctx, tx, outbox.Event{
			ID: event, Type: of, AggregateKind: "allocation", AggregateID: "a", Org: w.org, Project: project,
			Payload: eventwire.Allocation{AllocationID: "a"},
		})
		if err == nil && fails {
			err = failed
		}
		return err
	})
	if err != nil && !errors.Is(err, failed) {
		t.Fatal(err)
	}
	return event.String()
}

// log waits until all that a webhook is to be told is over, and returns it, the
// oldest first.
func (w *world) log(t *testing.T, h webhook.Webhook, want int) []webhook.Delivery {
	t.Helper()
	var all []webhook.Delivery
	testkit.Succeeds(t, "the log of the webhook", time.Minute, func() (err error) {
		if all, err = w.hooks.Deliveries(w.ctx, h.Project, h.ID, "", postgres.Slice[int64]{Limit: 100}); err != nil {
			return err
		}
		if len(all) != want || slices.ContainsFunc(all, func(d webhook.Delivery) bool { return d.FinishedAt == nil }) {
			return errors.New("not all is over")
		}
		return nil
	})
	slices.Reverse(all)
	return all
}

// verify does what the description of Standard Webhooks asks of receivers.
func verify(l letter, secret redact.Secret) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Reveal(), "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(l.header["webhook-id"] + "." + l.header["webhook-timestamp"] + "." + l.body))
	return slices.Contains(strings.Fields(l.header["webhook-signature"]),
		"v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func TestAWebhookIsToldWhatItAskedForOfItsProjectAndNothingElse(t *testing.T) {
	w := newWorld(t)
	all, secret := w.hook(t, "all")
	some, _ := w.hook(t, "some", "provisioning.releasing.*", "provisioning.active")
	w.run(t)
	active := w.happen(t, w.projects[0], eventwire.AllocationActive, false)
	gone := w.happen(t, w.projects[0], eventwire.AllocationReleased, false)
	w.happen(t, w.projects[0], eventwire.AllocationFailed, false)
	w.happen(t, w.projects[0], eventwire.AllocationActive, true)  // never happened
	w.happen(t, w.projects[1], eventwire.AllocationActive, false) // of others
	if got := w.log(t, some, 2); got[0].Event.String() != active || got[1].Event.String() != gone {
		t.Errorf("it was told %+v", got)
	}
	// Both webhooks were made, and three things happened.
	for _, d := range w.log(t, all, 5) {
		if !d.Delivered || d.Attempts != 1 || d.AnswerCode != 204 {
			t.Errorf("delivery %+v", d)
		}
	}
	for _, l := range w.post.letters("https://all.example/") {
		var e eventwire.Envelope
		if err := json.Unmarshal([]byte(l.body), &e); err != nil || e.EventID != l.header["webhook-id"] ||
			e.ProjectID != w.projects[0].String() || !verify(l, secret) {
			t.Errorf("letter %+v (%v)", l, err)
		}
	}
}

func TestAReceiverThatFailsIsTriedAgainAndTheLogSaysHow(t *testing.T) {
	w := newWorld(t)
	w.post.answer = func(letter) (int, string, error) { return 500, "out of order", nil }
	h, _ := w.hook(t, "broken", "provisioning.*")
	w.run(t)
	w.happen(t, w.projects[0], eventwire.AllocationActive, false)
	d := w.log(t, h, 1)[0]
	if d.Delivered || d.Attempts != 11 || d.AnswerCode != 500 || d.AnswerText != "out of order" || d.Failure == "" {
		t.Errorf("it was given up as %+v", d)
	}
	w.post.mu.Lock()
	w.post.answer = func(letter) (int, string, error) { return 200, "", nil }
	w.post.mu.Unlock()
	if _, err := w.hooks.Redeliver(w.ctx, h.Project, h.ID, d.ID); err != nil {
		t.Fatal(err)
	}
	again := w.log(t, h, 2)[1]
	if !again.Delivered || again.Event != d.Event {
		t.Errorf("delivered again: %+v", again)
	}
	now, err := w.hooks.Get(w.ctx, h.Project, h.ID)
	if err != nil || now.FailingSince != nil || now.LastDeliveredAt == nil {
		t.Errorf("the webhook is %+v, %v", now, err)
	}
}

func TestAttemptsGoOnForAboutADay(t *testing.T) {
	var least, most time.Duration
	for attempt := int32(1); ; attempt++ {
		short, more := webhook.Backoff(attempt, 0)
		long, _ := webhook.Backoff(attempt, 1)
		if !more {
			break
		}
		least, most = least+short, most+long
	}
	if least < 18*time.Hour || most > 30*time.Hour {
		t.Errorf("attempts go on for %s to %s", least, most)
	}
}

func TestAWebhookThatOnlyFailsIsDisabled(t *testing.T) {
	w := newWorld(t)
	w.post.answer = func(l letter) (int, string, error) {
		if l.url == "https://gone.example/" {
			return 410, "", nil
		}
		return 0, "", errors.New("nobody is there")
	}
	dead, _ := w.hook(t, "dead", "provisioning.*")
	gone, _ := w.hook(t, "gone", "provisioning.*")
	w.exec(t, `UPDATE webhooks SET failing_since = clock_timestamp() - interval '80 hours' WHERE id = $1`, dead.ID)
	w.happen(t, w.projects[0], eventwire.AllocationActive, false)
	w.happen(t, w.projects[0], eventwire.AllocationReleased, false)
	w.run(t)
	for _, h := range []webhook.Webhook{dead, gone} {
		w.log(t, h, 2) // what waited is given up
		now, err := w.hooks.Get(w.ctx, h.Project, h.ID)
		if err != nil || now.DisabledAt == nil || now.DisabledReason == "" {
			t.Errorf("%s is %+v, %v", h.Name, now, err)
		}
		if _, err := w.hooks.Test(w.ctx, h.Project, h.ID); fault.CodeOf(err) != "webhook_disabled" {
			t.Errorf("a test of %s: %v", h.Name, err)
		}
	}
	var told int
	if err := w.db.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events WHERE event_type = 'webhook.disabled'`).
		Scan(&told); err != nil || told != 2 {
		t.Errorf("%d events, %v", told, err)
	}
	w.happen(t, w.projects[0], eventwire.AllocationActive, false)
	w.log(t, dead, 2) // it is told nothing any more
	enabled := true
	now, err := w.hooks.Get(w.ctx, dead.Project, dead.ID)
	if err != nil {
		t.Fatal(err)
	}
	now, err = w.hooks.Update(w.ctx, dead.Project, dead.ID, now.Version, webhook.Change{Enabled: &enabled})
	if err != nil || now.DisabledAt != nil || now.FailingSince != nil {
		t.Errorf("enabled again: %+v, %v", now, err)
	}
}

func TestBothSecretsSignAfterARotation(t *testing.T) {
	w := newWorld(t)
	h, first := w.hook(t, "all", "provisioning.*")
	_, second, err := w.hooks.Rotate(w.ctx, h.Project, h.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.vault.leave(true) // while the secrets engine is away, attempts wait and none is lost
	w.run(t)
	w.happen(t, w.projects[0], eventwire.AllocationActive, false)
	w.vault.leave(false)
	if d := w.log(t, h, 1)[0]; !d.Delivered || d.Attempts != 1 {
		t.Errorf("delivery %+v", d)
	}
	l := w.post.letters(h.URL)[0]
	if !verify(l, first) || !verify(l, second) {
		t.Error("not both secrets sign")
	}
	var rows string
	if err := w.db.QueryRow(t.Context(), `SELECT string_agg(t::text, ' ') FROM (SELECT w::text t FROM webhooks w
		UNION ALL SELECT o::text FROM outbox_events o UNION ALL SELECT a::text FROM audit_logs a
		UNION ALL SELECT d::text FROM webhook_deliveries d) x`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []redact.Secret{first, second} {
		if strings.Contains(rows, secret.Reveal()) {
			t.Error("a row holds the secret")
		}
	}
	if err := w.hooks.Delete(w.ctx, h.Project, h.ID); err != nil || len(w.vault.kept) != 0 {
		t.Errorf("after the deletion %d secrets are kept (%v)", len(w.vault.kept), err)
	}
}

// A receiver that hangs must not keep others from being told, in its own project or
// in another.
func TestAttackASlowReceiverHoldsUpNobodyElse(t *testing.T) {
	w := newWorld(t)
	hang := make(chan struct{})
	w.post.answer = func(l letter) (int, string, error) {
		if l.url == "https://slow.example/" {
			<-hang
		}
		return 204, "", nil
	}
	w.hook(t, "slow", "provisioning.*")
	for range 50 {
		w.happen(t, w.projects[0], eventwire.AllocationActive, false)
	}
	quick, _ := w.hook(t, "quick", "provisioning.*")
	w.run(t)
	t.Cleanup(func() { close(hang) }) // before the run is waited for
	w.happen(t, w.projects[0], eventwire.AllocationReleased, false)
	w.log(t, quick, 1)
	if n := len(w.post.letters("https://slow.example/")); n > 2 {
		t.Errorf("%d calls are under way to the slow one", n)
	}
}

// The log does not grow without end: what is over goes, and so does what a deleted
// webhook was to be told.
func TestTheLogIsPruned(t *testing.T) {
	w := newWorld(t)
	h, _ := w.hook(t, "all", "provisioning.*")
	for range 3 {
		w.happen(t, w.projects[0], eventwire.AllocationActive, false)
	}
	later := time.Now().Add(time.Hour)
	if n, err := w.hooks.CountPrunable(w.ctx, later, 0); err != nil || n != 0 {
		t.Errorf("%d that wait would go (%v)", n, err)
	}
	w.exec(t, `INSERT INTO webhook_deliveries (webhook_id, project_id, event_id, event_type, envelope)
		VALUES (gen_random_uuid(), $1, gen_random_uuid(), 'x', '{}')`, h.Project)
	w.run(t)
	w.log(t, h, 3)
	if n, err := w.hooks.CountPrunable(w.ctx, later, 0); err != nil || n != 4 {
		t.Errorf("%d would go (%v), want 4", n, err)
	}
	if n, err := w.hooks.Prune(w.ctx, later, 0, 3); err != nil || n != 3 {
		t.Errorf("%d went (%v), want a batch of 3", n, err)
	}
}

func TestWebhooksThatAreRefused(t *testing.T) {
	w := newWorld(t)
	h, _ := w.hook(t, "one")
	for code, wish := range map[string]webhook.Wish{
		"webhook_exists":      {Name: "one", URL: "https://a.example/"},
		"webhook_url_invalid": {Name: "two", URL: "http://a.example/"},
		"webhook_invalid":     {Name: "two", URL: "https://a.example/", Kinds: []string{"provisionning.*"}},
	} {
		if _, _, err := w.hooks.Create(w.ctx, w.projects[0], wish); fault.CodeOf(err) != code {
			t.Errorf("%+v: %v", wish, err)
		}
	}
	// Whoever wants to be told what no project is told learns so at once.
	for kind, refused := range map[string]bool{
		"billing.*": true, "billing.low_balance_warning": true, "payments.*": true, "node.*": true, "price.changed": true,
		"tenant.updated": true, "billing.budget_reached": false, "membership.*": false, "*": false,
	} {
		_, _, err := w.hooks.Create(w.ctx, w.projects[0], webhook.Wish{
			Name: kind, URL: "https://a.example/", Kinds: []string{"provisioning.*", kind},
		})
		if (fault.CodeOf(err) == "webhook_invalid") != refused || !refused && err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := w.hooks.Get(w.ctx, w.projects[1], h.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another project reads it: %v", err)
	}
	if err := w.hooks.Delete(w.ctx, w.projects[1], h.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another project deletes it: %v", err)
	}
	if _, err := w.hooks.Update(w.ctx, h.Project, h.ID, h.Version+1, webhook.Change{}); fault.KindOf(err) != fault.Stale {
		t.Errorf("another version: %v", err)
	}
	if len(w.vault.kept) != 4 {
		t.Errorf("%d secrets are kept", len(w.vault.kept))
	}
}

// A webhook asks for exactly the types of events that a project can be told.
func TestAWebhookAsksForEventsOfProjectsOnly(t *testing.T) {
	w := newWorld(t)
	h, _ := w.hook(t, "one")
	for _, d := range eventwire.Events() {
		got, err := w.hooks.Update(w.ctx, h.Project, h.ID, h.Version, webhook.Change{Kinds: &[]string{string(d.Type)}})
		if refused := d.Audience != eventwire.ToProject; (fault.CodeOf(err) == "webhook_invalid") != refused {
			t.Errorf("%s is told to a %s: %v", d.Type, d.Audience, err)
		}
		if err == nil {
			h = got
		}
	}
}

// A webhook of a previous release has kinds that are refused now.
func TestAWebhookWithKindsOfBeforeCanBeDisabled(t *testing.T) {
	w := newWorld(t)
	h, _ := w.hook(t, "old")
	w.exec(t, `UPDATE webhooks SET kinds = '{billing.*}' WHERE id = $1`, h.ID)
	off, err := w.hooks.Update(w.ctx, h.Project, h.ID, h.Version, webhook.Change{Enabled: new(false)})
	if err != nil || off.DisabledReason == "" {
		t.Fatalf("%+v, %v", off, err)
	}
	more := webhook.Change{Kinds: &[]string{"billing.*", "payments.*"}}
	_, err = w.hooks.Update(w.ctx, h.Project, h.ID, off.Version, more)
	if fault.CodeOf(err) != "webhook_invalid" {
		t.Errorf("another such kind: %v", err)
	}
}
