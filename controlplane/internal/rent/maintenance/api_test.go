package maintenance_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/rent/maintenance"
)

// door knows the people of a world: an operator, an administrator of the platform, the
// member who rents, a colleague in the same project and somebody of another one.
type door struct {
	w       *world
	foreign id.Project
}

func (d door) Authenticate(_ context.Context, token redact.Secret) (*auth.Principal, error) {
	p := &auth.Principal{Kind: auth.KindUser, ID: token.Reveal(), Name: token.Reveal()}
	switch token.Reveal() {
	case "olga":
		p.Platform = auth.Operator
	case "root":
		p.Platform = auth.PlatformAdmin
	case "ann", "bob":
		p.Projects = map[id.Project]auth.ProjectRole{d.w.project: {Org: d.w.org, Role: auth.ProjectMember}}
	case "eve":
		p.Projects = map[id.Project]auth.ProjectRole{d.foreign: {Org: d.w.org, Role: auth.ProjectAdmin}}
	default:
		return nil, fault.New(fault.Unauthenticated, "token_invalid", "unknown token")
	}
	return p, nil
}

func (door) TenantEnabled(context.Context, id.Org) error { return nil }

func (d door) ProjectOrg(context.Context, id.Project) (id.Org, error) { return d.w.org, nil }

// called calls the API as somebody.
type called func(who, method, path string, body any) httpapitest.Answer

func (w *world) api(t *testing.T) (called, id.Project) {
	t.Helper()
	d := door{w: w, foreign: id.New[id.Project]()}
	api := httpapitest.New(w.db, func(c *httpapi.Config) { c.Auth, c.Projects = d, d })
	w.service.Register(api)
	w.allocations.Register(api)
	return func(who, method, path string, body any) httpapitest.Answer {
		t.Helper()
		return httpapitest.Call(t, api.Handler(), httpapitest.Request{As: who, Method: method, Path: path, Body: body})
	}, d.foreign
}

type object = map[string]any

// Only whoever rents a node, or administrates its project, answers what is announced
// for it, and nobody for a role on the platform; people of other projects do not learn
// of it, and tenants not who announced it.
func TestAttackNobodyElseAnswersForATenant(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	call, foreign := w.api(t)
	plan := object{
		"node_ids": []id.Node{a.Node}, "kind": "release", "ask_consent": true, "reason": "the rack is moved",
		"due_at": time.Now().Add(time.Hour).UTC(),
	}
	call("ann", http.MethodPost, "/api/v1/admin/maintenances", plan).Refused(t, 403, "insufficient_permissions")
	var made maintenance.MadeView
	call("olga", http.MethodPost, "/api/v1/admin/maintenances", plan).Into(t, 201, &made)
	m := made.Maintenances[0].MaintenanceID.String()
	for project, code := range map[id.Project]string{foreign: "maintenance_not_found", w.project: "not_found"} {
		call("eve", http.MethodPost, "/api/v1/projects/"+project.String()+"/maintenances/"+m+"/consent",
			object{"now": true}).Refused(t, 404, code)
	}
	call("eve", http.MethodGet, "/api/v1/maintenances/"+m, nil).Refused(t, 404, "maintenance_not_found")
	own := "/api/v1/projects/" + w.project.String() + "/maintenances"
	call("bob", http.MethodPost, own+"/"+m+"/consent", object{}).Refused(t, 403, "ownership_required")
	call("root", http.MethodPost, own+"/"+m+"/consent", object{"now": true}).Refused(t, 403, "tenant_answers")
	call("root", http.MethodPost, own+"/"+m+"/decline", object{"reason": "not now"}).Refused(t, 403, "tenant_answers")
	w.is(t, made.Maintenances[0].MaintenanceID, maintenance.Announced)

	answer := call("ann", http.MethodGet, own, nil)
	if answer.Status != http.StatusOK || strings.Contains(string(answer.Body), "olga") ||
		!strings.Contains(string(answer.Body), m) {
		t.Errorf("the tenant is shown %s", answer.Body)
	}
	all := call("olga", http.MethodGet, "/api/v1/admin/maintenances", nil)
	if !strings.Contains(string(all.Body), "olga") {
		t.Errorf("operators are shown %s", all.Body)
	}
	call("ann", http.MethodPost, own+"/"+m+"/decline", object{"reason": "our training ends on Sunday"}).
		Into(t, 200, &struct{}{})
	call("ann", http.MethodPost, own+"/"+m+"/consent", object{}).Into(t, 200, &struct{}{})
	got := w.is(t, made.Maintenances[0].MaintenanceID, maintenance.Consented)
	if got.Answer.By != "ann" {
		t.Errorf("answered by %q", got.Answer.By)
	}
}

// While a node is repaired its allocation says so to both sides, and opens no terminal.
func TestTerminalsAreRefusedDuringARepair(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	call, _ := w.api(t)
	admin := "/api/v1/admin/allocations/" + a.ID.String() + "/repair/"
	call("ann", http.MethodPost, admin+"begin", object{"reason": "fan"}).Refused(t, 403, "insufficient_permissions")
	call("olga", http.MethodPost, admin+"begin", object{"reason": "a fan is replaced"}).Into(t, 200, &struct{}{})
	for _, path := range []string{
		"/api/v1/allocations/" + a.ID.String(), "/api/v1/projects/" + w.project.String() + "/allocations",
	} {
		got := call("ann", http.MethodGet, path, nil)
		if !strings.Contains(string(got.Body), `"reason":"a fan is replaced"`) {
			t.Errorf("%s shows %s", path, got.Body)
		}
	}
	terminal := "/api/v1/projects/" + w.project.String() + "/allocations/" + a.ID.String() + "/terminal-token"
	call("ann", http.MethodPost, terminal, object{}).Refused(t, 409, "allocation_repairing", "a fan is replaced")
	call("olga", http.MethodPost, admin+"end", object{"reason": "replaced"}).Into(t, 200, &struct{}{})
	call("olga", http.MethodPost, admin+"end", object{"reason": "replaced"}).Refused(t, 409, "allocation_not_repairing")
}
