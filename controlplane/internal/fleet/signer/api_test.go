package signer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/signer"
)

// doorman knows a platform administrator by the token "root", an auditor by
// "auditor", and somebody without any role by "guest".
type doorman struct{}

func (doorman) Authenticate(_ context.Context, token redact.Secret) (*auth.Principal, error) {
	roles := map[string]auth.Role{"root": auth.PlatformAdmin, "auditor": auth.Auditor, "guest": ""}
	role, known := roles[token.Reveal()]
	if !known {
		return nil, fault.New(fault.Unauthenticated, "token_invalid", "unknown")
	}
	return &auth.Principal{Kind: auth.KindUser, ID: id.NewString(), Name: token.Reveal(), Platform: role}, nil
}

type nobody struct{}

func (nobody) ProjectOrg(context.Context, id.Project) (id.Org, error) { return id.Org{}, nil }

func (nobody) RecordDenial(context.Context, httpapi.Denial) error { return nil }

// call sends a request as somebody; into takes the answer of a success.
func (w *world) call(t *testing.T, who, method, path string, body map[string]any, into any) (status int, code string) {
	t.Helper()
	api := httpapi.New(httpapi.Config{
		Title: "test", Version: "1", Logger: slog.New(slog.DiscardHandler), DB: w.db, Auth: doorman{}, Projects: nobody{},
		Denials: nobody{},
		Limits:  httpapi.Limits{RequestsPerSecond: 1e6, Burst: 1e6},
	})
	w.service.Register(api)
	var payload io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		payload = bytes.NewReader(b)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1/admin/signers"+path, payload)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+who)
	r.Header.Set("Idempotency-Key", id.NewString())
	rec := httptest.NewRecorder()
	api.Handler().ServeHTTP(rec, r)
	if rec.Code >= http.StatusBadRequest {
		var p struct{ Code string }
		if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v", rec.Body, err)
		}
		return rec.Code, p.Code
	}
	if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
		t.Fatalf("%s: %v", rec.Body, err)
	}
	return rec.Code, ""
}

func TestARotationOverTheAPI(t *testing.T) {
	w := newWorld(t)
	why := map[string]any{"reason": "it is time"}
	var staged, active, revoked signer.View
	if status, code := w.call(t, "root", http.MethodPost, "/rotate", why, &staged); status != http.StatusOK {
		t.Fatal(status, code)
	}
	if staged.Status != signer.Staged || staged.WaitingFor == nil || staged.WaitingFor.NodesBehind != 2 ||
		len(staged.WaitingFor.Nodes) != 2 {
		t.Errorf("%+v", staged)
	}
	if status, code := w.call(t, "root", http.MethodPost, "/rotate", why, nil); status != http.StatusConflict ||
		code != "signer_rotation_running" {
		t.Error(status, code)
	}
	w.deliver(t, w.one, w.two)
	if status, _ := w.call(t, "root", http.MethodPost, "/rotate", map[string]any{"reason": "now", "force": true},
		&active); status != http.StatusOK ||
		active.ID != staged.ID || active.Status != signer.Active || active.WaitingFor != nil || active.EffectiveAt == nil {
		t.Errorf("%d %+v", status, active)
	}
	if status, _ := w.call(t, "root", http.MethodPost, "/rollback", why, &active); status != http.StatusOK ||
		active.ID == staged.ID {
		t.Errorf("%d %+v", status, active)
	}
	if status, _ := w.call(t, "root", http.MethodPost, "/"+staged.ID+"/revoke", why, &revoked); status != http.StatusOK ||
		revoked.Status != signer.Revoked || revoked.FinishedAt == nil {
		t.Errorf("%d %+v", status, revoked)
	}
	var first, second httpapi.List[signer.View]
	if status, _ := w.call(t, "auditor", http.MethodGet, "?page_size=1", nil, &first); status != http.StatusOK ||
		len(first.Items) != 1 || first.NextCursor == "" {
		t.Fatalf("%d %+v", status, first)
	}
	if status, _ := w.call(t, "auditor", http.MethodGet, "?page_size=1&cursor="+first.NextCursor, nil,
		&second); status != http.StatusOK ||
		len(second.Items) != 1 || second.NextCursor != "" || second.Items[0].ID == first.Items[0].ID {
		t.Errorf("%d %+v", status, second)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	why := map[string]any{"reason": "it is time"}
	active := w.in(t, signer.Active).ID
	before := w.trace(t)
	for name, c := range map[string]struct {
		who, method, path string
		body              map[string]any
		status            int
		code              string
	}{
		"a guest lists": {
			"guest", http.MethodGet, "", nil, http.StatusForbidden,
			"insufficient_permissions",
		},
		"an auditor rotates": {
			"auditor", http.MethodPost, "/rotate", why, http.StatusForbidden,
			"insufficient_permissions",
		},
		"an auditor rolls back": {
			"auditor", http.MethodPost, "/rollback", why, http.StatusForbidden,
			"insufficient_permissions",
		},
		"an auditor revokes": {
			"auditor", http.MethodPost, "/" + active + "/revoke", why, http.StatusForbidden,
			"insufficient_permissions",
		},
		"no reason": {
			"root", http.MethodPost, "/rotate",
			map[string]any{},
			http.StatusUnprocessableEntity, "validation_error",
		},
		"a reason that says nothing": {
			"root", http.MethodPost, "/rollback",
			map[string]any{"reason": "x"},
			http.StatusUnprocessableEntity, "validation_error",
		},
		"nothing to roll back": {
			"root", http.MethodPost, "/rollback", why, http.StatusConflict,
			"signer_no_rollback",
		},
		"no successor": {
			"root", http.MethodPost, "/" + active + "/revoke", why, http.StatusConflict,
			"signer_no_successor",
		},
		"a signer that is not there": {
			"root", http.MethodPost, "/nobody/revoke", why, http.StatusNotFound,
			"signer_not_found",
		},
		"a name that no signer can have": {
			"root", http.MethodPost, "/No_Body/revoke", why, http.StatusUnprocessableEntity,
			"validation_error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, code := w.call(t, c.who, c.method, c.path, c.body, nil)
			if status != c.status || code != c.code {
				t.Errorf("%d %s, want %d %s", status, code, c.status, c.code)
			}
		})
	}
	w.keys.breaks(errAway)
	if status, code := w.call(t, "root", http.MethodPost, "/rotate", why, nil); status != http.StatusServiceUnavailable ||
		code != "secrets_unavailable" {
		t.Error(status, code)
	}
	if w.trace(t) != before {
		t.Error("a refused request left something behind")
	}
}
