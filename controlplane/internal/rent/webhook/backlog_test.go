package webhook_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/webhook"
	"gpuaas/testkit"
)

// project makes a project of a tenant with a webhook.
func (w *world) project(t *testing.T, org id.Org, slug string) webhook.Webhook {
	t.Helper()
	p := id.New[id.Project]()
	w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, $3, $3)`, p, org, slug)
	h, _, err := w.hooks.Create(w.ctx, p,
		webhook.Wish{Name: slug, URL: "https://" + slug + ".example/", Kinds: []string{"provisioning.*"}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A tenant with many projects, whose receivers all hang, does not use up all workers.
func TestAttackProjectsWithoutEndHoldUpNoOtherTenant(t *testing.T) {
	w := newWorld(t)
	hang := make(chan struct{})
	w.post.answer = func(l letter) (int, string, error) {
		if strings.HasPrefix(l.url, "https://slow") {
			<-hang
		}
		return 204, "", nil
	}
	for i := range 20 {
		h := w.project(t, w.org, fmt.Sprintf("slow%d", i))
		for range 2 {
			w.happen(t, h.Project, eventwire.AllocationActive, false)
		}
	}
	other := id.New[id.Org]()
	w.exec(t, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'globex', 'Globex')`, other)
	quick := w.project(t, other, "quick")
	w.run(t)
	t.Cleanup(func() { close(hang) }) // before the run is waited for
	w.happen(t, quick.Project, eventwire.AllocationActive, false)
	w.log(t, quick, 1)
	w.post.mu.Lock()
	defer w.post.mu.Unlock()
	if slow := len(w.post.got) - 1; slow > 16 {
		t.Errorf("%d calls to the slow tenant are under way", slow)
	}
}

// pile lets so many deliveries wait for a webhook that are not due for long.
func (w *world) pile(t *testing.T, h webhook.Webhook, deliveries int) {
	t.Helper()
	w.exec(t, `INSERT INTO webhook_deliveries (webhook_id, project_id, event_id, event_type, envelope, next_at)
		SELECT $1, $2, gen_random_uuid(), 'provisioning.active', '{}', clock_timestamp() + interval '8 hours'
		FROM generate_series(1, $3)`, h.ID, h.Project, deliveries)
}

// fellBehind expects that a webhook is disabled, that nothing waits for it, and that
// its owner reads why.
func (w *world) fellBehind(t *testing.T, h webhook.Webhook) {
	t.Helper()
	var waiting, told int
	if err := w.db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM webhook_deliveries WHERE webhook_id = $1 AND next_at IS NOT NULL),
		(SELECT count(*) FROM outbox_events WHERE event_type = 'webhook.disabled' AND aggregate_id = $1::text)`, h.ID).
		Scan(&waiting, &told); err != nil || waiting != 0 || told != 1 {
		t.Errorf("%d wait for %s, %d events tell of it, %v", waiting, h.Name, told, err)
	}
	now, err := w.hooks.Get(w.ctx, h.Project, h.ID)
	if err != nil || now.DisabledAt == nil || !strings.Contains(now.DisabledReason, "10000 deliveries waited") {
		t.Errorf("%s is %+v, %v", h.Name, now, err)
	}
}

// Nobody lets a backlog grow without end, by events or by asking for deliveries: the
// webhook is disabled, and whoever owns it reads why.
func TestAttackABacklogDoesNotGrowWithoutEnd(t *testing.T) {
	w := newWorld(t)
	asked, _ := w.hook(t, "asked", "allocation_request.*")
	first, err := w.hooks.Test(w.ctx, asked.Project, asked.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.pile(t, asked, webhook.MaxWaiting-2)
	if _, err := w.hooks.Redeliver(w.ctx, asked.Project, asked.ID, first.ID); err != nil {
		t.Fatalf("one more is allowed: %v", err)
	}
	if _, err := w.hooks.Redeliver(w.ctx, asked.Project, asked.ID, first.ID); fault.CodeOf(err) != "webhook_disabled" {
		t.Errorf("once more: %v", err)
	}
	w.fellBehind(t, asked)

	slow, _ := w.hook(t, "slow", "provisioning.*")
	w.pile(t, slow, webhook.MaxWaiting+1)
	w.happen(t, w.projects[0], eventwire.AllocationActive, false)
	w.run(t)
	testkit.Succeeds(t, "the webhook is disabled", time.Minute, func() error {
		now, err := w.hooks.Get(w.ctx, slow.Project, slow.ID)
		if err == nil && now.DisabledAt == nil {
			err = errors.New("it is enabled")
		}
		return err
	})
	w.fellBehind(t, slow)
}

// An update that changes nothing is told to nobody: a webhook that is told of updates
// would be told without end.
func TestAnUpdateThatChangesNothingIsNoEvent(t *testing.T) {
	w := newWorld(t)
	h, _ := w.hook(t, "all")
	for _, c := range []webhook.Change{
		{}, {Enabled: new(true)}, {Name: &h.Name, URL: &h.URL, Kinds: &[]string{}},
	} {
		now, err := w.hooks.Update(w.ctx, h.Project, h.ID, h.Version, c)
		if err != nil || now.Version != h.Version {
			t.Errorf("%+v: version %d, %v", c, now.Version, err)
		}
	}
	off, err := w.hooks.Update(w.ctx, h.Project, h.ID, h.Version, webhook.Change{Enabled: new(false)})
	if err != nil || off.Version == h.Version {
		t.Fatalf("%+v, %v", off, err)
	}
	again, err := w.hooks.Update(w.ctx, h.Project, h.ID, off.Version, webhook.Change{Enabled: new(false)})
	if err != nil || again.Version != off.Version {
		t.Errorf("disabled once more: %+v, %v", again, err)
	}
	var told int
	if err := w.db.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events WHERE event_type = 'webhook.updated'`).
		Scan(&told); err != nil || told != 1 {
		t.Errorf("%d events, %v", told, err)
	}
}
