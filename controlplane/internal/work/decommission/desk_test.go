package decommission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/decommission"
)

// desk is the API of decommissions. No workflow runs by itself.
type desk struct {
	*yard
	feed *feed
	api  *httpapi.API
}

func newDesk(tb testing.TB) *desk {
	tb.Helper()
	d := &desk{yard: newYard(tb), feed: &feed{}}
	d.api = httpapi.New(httpapi.Config{
		Title: "test", Version: "1", Logger: slog.New(slog.DiscardHandler), DB: d.db, Auth: porter{}, Projects: porter{}, Denials: porter{},
		Limits: httpapi.Limits{RequestsPerSecond: 1e6, Burst: 1e6},
	})
	d.service.Register(d.api, d.feed)
	return d
}

// feed tells what a test put into it.
type feed struct {
	asked outbox.FeedRequest
	items []outbox.FeedItem
}

func (f *feed) Read(_ context.Context, r outbox.FeedRequest, tell func(outbox.FeedItem) error) error {
	f.asked = r
	for _, item := range f.items {
		if err := tell(item); err != nil {
			return err
		}
	}
	return nil
}

// porter knows a platform administrator by the token "root", an auditor by
// "auditor", and somebody without any role by "guest".
type porter struct{}

func (porter) Authenticate(_ context.Context, token redact.Secret) (*auth.Principal, error) {
	roles := map[string]auth.Role{"root": auth.PlatformAdmin, "auditor": auth.Auditor, "guest": ""}
	role, known := roles[token.Reveal()]
	if !known {
		return nil, fault.New(fault.Unauthenticated, "token_invalid", "unknown")
	}
	return &auth.Principal{Kind: auth.KindUser, ID: "principal-of-" + token.Reveal(), Name: token.Reveal(), Platform: role}, nil
}

func (porter) ProjectOrg(context.Context, id.Project) (id.Org, error) { return id.Org{}, nil }

func (porter) RecordDenial(context.Context, httpapi.Denial) error { return nil }

type object = map[string]any

// reply is what the API said.
type reply struct {
	status int
	body   []byte
}

func (a reply) decode(tb testing.TB, status int, into any) {
	tb.Helper()
	if a.status != status {
		tb.Fatalf("answer is %d %s, want %d", a.status, a.body, status)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		tb.Fatalf("decode %s: %v", a.body, err)
	}
}

// refused checks a refusal and what it says.
func (a reply) refused(tb testing.TB, status int, code string, says ...string) {
	tb.Helper()
	var p struct{ Code, Detail, Remedy string }
	if json.Unmarshal(a.body, &p) != nil || a.status != status || p.Code != code {
		tb.Errorf("answer is %d %s, want %d %s", a.status, a.body, status, code)
	}
	if status == http.StatusConflict && p.Remedy == "" {
		tb.Errorf("no remedy in %s", a.body)
	}
	for _, text := range says {
		if !strings.Contains(string(a.body), text) {
			tb.Errorf("no %q in %s", text, a.body)
		}
	}
}

// call sends one request as the platform administrator.
func (d *desk) call(tb testing.TB, method, path string, body any) reply {
	tb.Helper()
	return d.callAs(tb, "root", method, path, id.NewString(), body)
}

func (d *desk) callAs(tb testing.TB, token, method, path, key string, body any) reply {
	tb.Helper()
	var payload io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			tb.Fatal(err)
		}
		payload = bytes.NewReader(b)
	}
	r := httptest.NewRequestWithContext(tb.Context(), method, "/api/v1/admin/"+path, payload)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", key)
	rec := httptest.NewRecorder()
	d.api.Handler().ServeHTTP(rec, r)
	return reply{status: rec.Code, body: rec.Body.Bytes()}
}

// begin asks for something about a node over the API.
func (d *desk) begin(tb testing.TB, of id.Node, path string, body object) decommission.NewView {
	tb.Helper()
	var v decommission.NewView
	d.call(tb, http.MethodPost, "nodes/"+of.String()+"/"+path, body).decode(tb, http.StatusAccepted, &v)
	return v
}

// park parks a decommission as if a stage had failed.
func (d *desk) park(tb testing.TB, of id.Decommission, stage string) {
	tb.Helper()
	d.exec(tb, `UPDATE node_decommissions SET status = 'failed_manual_intervention', parked_at = now(), started_at = now(), current_stage = $2, current_attempt = 1,
		failure_class = 'node_agent_unreachable', error_code = 'agent_unreachable', error_message = 'the agent is silent' WHERE id = $1`, of, stage)
	d.exec(tb, `INSERT INTO node_decommission_events (decommission_id, epoch, stage, attempt, status, message) VALUES ($1, 1, $2, 1, 'started', ''),
		($1, 1, $2, 1, 'failed', 'the agent is silent')`, of, stage)
}

// told is the ids of what the feed sent.
func told(a reply) string {
	var ids []string
	for line := range strings.Lines(string(a.body)) {
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(v))
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}
