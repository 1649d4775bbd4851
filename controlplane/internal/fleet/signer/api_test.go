package signer_test

import (
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/signer"
)

// callAs sends a request; into takes the answer of a success.
func (w *world) callAs(
	t *testing.T, token, method, path string, body map[string]any, into any,
) (status int, code string) {
	t.Helper()
	api := httpapitest.New(w.db)
	w.service.Register(api)
	r := httpapitest.Request{As: token, Method: method, Path: "/api/v1/admin/signers" + path}
	if body != nil {
		r.Body = body
	}
	a := httpapitest.Call(t, api.Handler(), r)
	if a.Status < http.StatusBadRequest {
		a.Decode(t, into)
	}
	return a.Status, a.Problem(t).Code
}

func TestARotationOverTheAPI(t *testing.T) {
	w := newWorld(t)
	why := map[string]any{"reason": "it is time"}
	var staged, active, revoked signer.View
	if status, code := w.callAs(t, "root", http.MethodPost, "/rotate", why, &staged); status != http.StatusOK {
		t.Fatal(status, code)
	}
	if staged.Status != signer.Staged || staged.WaitingFor == nil || staged.WaitingFor.NodesBehind != 2 ||
		len(staged.WaitingFor.Nodes) != 2 {
		t.Errorf("%+v", staged)
	}
	if status, code := w.callAs(t, "root", http.MethodPost, "/rotate", why, nil); status != http.StatusConflict ||
		code != "signer_rotation_running" {
		t.Error(status, code)
	}
	w.deliver(t, w.one, w.two)
	if status, _ := w.callAs(t, "root", http.MethodPost, "/rotate", map[string]any{"reason": "now", "force": true},
		&active); status != http.StatusOK ||
		active.ID != staged.ID || active.Status != signer.Active || active.WaitingFor != nil || active.EffectiveAt == nil {
		t.Errorf("%d %+v", status, active)
	}
	if status, _ := w.callAs(t, "root", http.MethodPost, "/rollback", why, &active); status != http.StatusOK ||
		active.ID == staged.ID {
		t.Errorf("%d %+v", status, active)
	}
	if status, _ := w.callAs(t, "root", http.MethodPost, "/"+staged.ID+"/revoke", why,
		&revoked); status != http.StatusOK ||
		revoked.Status != signer.Revoked || revoked.FinishedAt == nil {
		t.Errorf("%d %+v", status, revoked)
	}
	var first, second httpapi.List[signer.View]
	if status, _ := w.callAs(t, "auditor", http.MethodGet, "?page_size=1", nil, &first); status != http.StatusOK ||
		len(first.Items) != 1 || first.NextCursor == "" {
		t.Fatalf("%d %+v", status, first)
	}
	if status, _ := w.callAs(t, "auditor", http.MethodGet, "?page_size=1&cursor="+first.NextCursor, nil,
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
			status, code := w.callAs(t, c.who, c.method, c.path, c.body, nil)
			if status != c.status || code != c.code {
				t.Errorf("%d %s, want %d %s", status, code, c.status, c.code)
			}
		})
	}
	w.keys.breaks(errAway)
	if status, code := w.callAs(t, "root", http.MethodPost, "/rotate", why,
		nil); status != http.StatusServiceUnavailable ||
		code != "secrets_unavailable" {
		t.Error(status, code)
	}
	if w.trace(t) != before {
		t.Error("a refused request left something behind")
	}
}
