package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/people/identity"
)

// stranger is an administrator of another tenant, who has no role here.
const stranger auth.Role = "stranger"

// workshop is a house in which operations can be run: nodes of one's own, of a
// colleague, of another tenant, and one that nobody has.
type workshop struct {
	*house
	own, colleagues, foreign, free      id.Node
	ownRent, colleagueRent, foreignRent string
	theirs                              id.Project
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{house: newHouse(t)}
	ctx := auth.With(telemetry.WithCorrelation(t.Context(), "furnish"), auth.System("test"))
	if err := w.installDefinitions(ctx); err != nil {
		t.Fatal(err)
	}
	org := must(w.identity.CreateTenant(ctx, identity.Naming{Slug: "foreign", Name: "Foreign"}))(t).ID
	w.theirs = must(w.identity.CreateProject(ctx, org, identity.Naming{Slug: "p", Name: "P"}))(t).ID
	u := must(w.identity.CreateUser(ctx, identity.NewUser{Email: "s@example.com", Name: "s"}))(t)
	must(w.identity.PutTenantMember(ctx, org, u.ID, auth.TenantAdmin))(t)
	w.people[stranger] = &auth.Principal{Kind: auth.KindUser, ID: u.ID.String(), Name: u.Name}
	w.own, w.ownRent = w.rented(t, "own", auth.ProjectMember, w.org, w.project)
	w.colleagues, w.colleagueRent = w.rented(t, "colleagues", auth.ProjectAdmin, w.org, w.project)
	w.foreign, w.foreignRent = w.rented(t, "foreign", stranger, org, w.theirs)
	w.free = w.machine(t, "free")
	return w
}

// machine adds a node whose agent carries out operations.
func (w *workshop) machine(t *testing.T, hostname string) id.Node {
	t.Helper()
	n := id.New[id.Node]()
	w.write(t, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode,
		schedulable) VALUES ($1, 'active', $2, '192.0.2.1', $3, 8, 'eu', 'manual', true)`, n, hostname, rentedSKU)
	w.write(t, `INSERT INTO node_inspections (node_id, found)
		VALUES ($1, '{"step_kinds": ["health.check", "file.render"]}')`, n)
	return n
}

// rented adds a node that somebody has.
func (w *workshop) rented(t *testing.T, hostname string, by auth.Role, org id.Org, project id.Project) (
	of id.Node, rent string,
) {
	t.Helper()
	n, a := w.machine(t, hostname), id.New[id.Allocation]()
	w.write(t, `INSERT INTO allocations (id, org_id, project_id, status, capacity_shape, sku_id, sku_terms, price_minor,
		price_currency, gpus, region_code, node_id, hostname, access, event_id, requested_by, active_at)
		VALUES ($1, $2, $3, 'active', 'baremetal', $4, '{}', 1, 'USD', 8, 'eu', $5, $6, 'user', $7, $8,
			clock_timestamp())`, a, org, project, rentedSKU, n, hostname, id.New[id.Event](), w.people[by].ID)
	w.write(t, `INSERT INTO allocation_resource_claims (id, allocation_id, claim_kind, node_id)
		VALUES ($1, $2, 'node_exclusive', $3)`, id.NewString(), a, n)
	return n, a.String()
}

func (w *workshop) write(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := w.db.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// given counts what was asked for and what nodes were given.
func (w *workshop) given(t *testing.T) (n int) {
	t.Helper()
	if err := w.db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM operations) +
		(SELECT count(*) FROM node_tasks)`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// run asks for a run, and says what became of it: accepted, or the code of the problem.
// A zero project is the fleet. Nothing may be left of what is refused.
func (w *workshop) run(t *testing.T, by auth.Role, project id.Project, operation, inputs, targets string) (
	verdict, body string,
) {
	t.Helper()
	path := "/api/v1/admin/operations"
	if !project.IsZero() {
		path = "/api/v1/projects/" + project.String() + "/operations"
	}
	before := w.given(t)
	a := w.ask(t, by, http.MethodPost, path, fmt.Sprintf(`{"operation": %q, "inputs": %s, "targets": %s}`, operation,
		inputs, targets))
	if after := w.given(t); a.Code != http.StatusAccepted && after != before {
		t.Errorf("%s: a request that was refused (%d) left %d rows", by, a.Code, after-before)
	}
	if a.Code == http.StatusAccepted {
		return yes, a.Body.String()
	}
	var p httpapi.Problem
	if err := json.Unmarshal(a.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %s: %v", a.Code, a.Body, err)
	}
	return fmt.Sprintf("%d %s", a.Code, p.Code), a.Body.String()
}

const (
	rentedSKU = "h200-sxm-baremetal-8g"

	looks    = "node.health.check"
	writes   = "node.file.render"
	aFile    = `{"path": "/srv/demo/x", "content": "x"}`
	yes      = "accepted"
	noRight  = "403 insufficient_permissions"
	notOwn   = "403 ownership_required"
	noTarget = "404 operation_target_not_found"
	noPlace  = "404 not_found"
	denied   = "403 operation_denied_by_policy"
	unfit    = "409 operation_no_fitting_target"
)

// projectRoles are the roles that a request of a project is tried in, in the order of
// the rows below.
var projectRoles = []auth.Role{
	auth.ProjectViewer, auth.ProjectMember, auth.ProjectAdmin, auth.TenantAdmin, stranger, auth.Operator, auth.Auditor,
}

// Who may run what on whose node, in every role and under every policy. What is refused
// leaves nothing behind: no run, and no task for a node.
func TestWhoMayDoWhatWithOperations(t *testing.T) {
	w := newWorkshop(t)
	rows := w.requests()
	t.Run("without a policy", func(t *testing.T) {
		for _, r := range rows {
			w.tried(t, r.name, r.targets, r.want)
		}
	})
	t.Run("on the fleet", func(t *testing.T) { w.fleet(t) })
	t.Run("what is another's does not exist", func(t *testing.T) { w.hidden(t) })
	t.Run("selectors", func(t *testing.T) { w.selects(t) })
	t.Run("policies", func(t *testing.T) { w.policies(t, rows) })
}

// request is a row of the matrix: for each of projectRoles what becomes of it.
type request struct {
	name, targets string
	want          []string
}

func (w *workshop) requests() []request {
	node := func(n id.Node) string { return fmt.Sprintf(`{"nodes": [%q]}`, n) }
	rent := func(a string) string { return fmt.Sprintf(`{"allocations": [%q]}`, a) }
	refused := []string{noRight, noTarget, noTarget, noTarget, noPlace, noRight, noRight}
	return []request{
		{"the member's node", node(w.own), []string{noRight, yes, yes, yes, noPlace, noRight, noRight}},
		{"the member's allocation", rent(w.ownRent), []string{noRight, yes, yes, yes, noPlace, noRight, noRight}},
		{"a colleague's node", node(w.colleagues), []string{noRight, notOwn, yes, yes, noPlace, noRight, noRight}},
		{
			"a colleague's allocation", rent(w.colleagueRent),
			[]string{noRight, notOwn, yes, yes, noPlace, noRight, noRight},
		},
		{"another tenant's node", node(w.foreign), refused},
		{"another tenant's allocation", rent(w.foreignRent), refused},
		{"a node that nobody has", node(w.free), refused},
		{"a node that is none", node(id.New[id.Node]()), refused},
		{"an allocation that is none", rent(id.NewString()), refused},
		{"a group that is none", fmt.Sprintf(`{"groups": [%q]}`, id.NewString()), refused},
		{
			"one's own and another tenant's", fmt.Sprintf(`{"allocations": [%q, %q]}`, w.ownRent, w.foreignRent), refused,
		},
	}
}

// tried asks for a run in all roles.
func (w *workshop) tried(t *testing.T, name, targets string, want []string) {
	t.Helper()
	for i, role := range projectRoles {
		if got, _ := w.run(t, role, w.project, looks, "{}", targets); got != want[i] {
			t.Errorf("%s as %s: %s, want %s", name, role, got, want[i])
		}
	}
}

// fleet tries runs on nodes of the fleet: only people of the platform may, and what a
// tenant has is left alone by what changes it.
func (w *workshop) fleet(t *testing.T) {
	on := func(n id.Node) string { return fmt.Sprintf(`{"nodes": [%q]}`, n) }
	for _, r := range []struct {
		by                         auth.Role
		operation, inputs, targets string
		want                       string
	}{
		{auth.Operator, looks, "{}", on(w.free), yes},
		{auth.Operator, looks, "{}", on(w.own), yes}, // it changes nothing
		{auth.Operator, writes, aFile, on(w.free), yes},
		{auth.Operator, writes, aFile, on(w.own), unfit},
		{auth.Operator, writes, aFile, on(w.foreign), unfit},
		{auth.Operator, looks, "{}", on(id.New[id.Node]()), noTarget},
		{auth.PlatformAdmin, writes, aFile, on(w.own), unfit},
		{auth.Auditor, looks, "{}", on(w.free), noRight},
		{auth.TenantAdmin, looks, "{}", on(w.own), noRight},
		{auth.ProjectMember, looks, "{}", on(w.own), noRight},
		{stranger, looks, "{}", on(w.foreign), noRight},
	} {
		if got, body := w.run(t, r.by, id.Project{}, r.operation, r.inputs, r.targets); got != r.want {
			t.Errorf("%s as %s on %s: %s, want %s: %s", r.operation, r.by, r.targets, got, r.want, body)
		}
	}
}

// hidden compares the answers for what is another tenant's with those for what is not
// there: nobody can tell the one from the other.
func (w *workshop) hidden(t *testing.T) {
	for _, role := range []auth.Role{auth.ProjectMember, auth.ProjectAdmin, auth.TenantAdmin} {
		for kind, theirs := range map[string]string{
			"nodes": w.foreign.String(), "allocations": w.foreignRent,
		} {
			answer := func(of string) string {
				_, body := w.run(t, role, w.project, looks, "{}", fmt.Sprintf(`{%q: [%q]}`, kind, of))
				return strings.ReplaceAll(anonymised(body), of, "ID")
			}
			if there, not := answer(theirs), answer(id.NewString()); there != not {
				t.Errorf("%s as %s: %s\nbut for nothing: %s", kind, role, there, not)
			}
		}
	}
}

// selects describes nodes instead of naming them: what is described is looked for among
// what the caller may use, and nowhere else.
func (w *workshop) selects(t *testing.T) {
	const all = `{"where": {"region": "eu"}}`
	for role, want := range map[auth.Role]int{auth.ProjectMember: 1, auth.ProjectAdmin: 2, auth.TenantAdmin: 2} {
		got, body := w.run(t, role, w.project, looks, "{}", all)
		var o struct{ Targets struct{ Total int } }
		if err := json.Unmarshal([]byte(body), &o); err != nil || got != yes || o.Targets.Total != want {
			t.Errorf("%s: %s, %d targets, want %d: %s", role, got, o.Targets.Total, want, body)
		}
	}
	if got, body := w.run(t, stranger, w.theirs, looks, "{}", all); got != yes || strings.Contains(body, w.own.String()) {
		t.Errorf("the other tenant: %s %s", got, body)
	}
	if got, _ := w.run(t, auth.ProjectMember, w.project, looks, "{}", `{"where": {"region": "us"}}`); got != noTarget {
		t.Errorf("nothing is described: %s", got)
	}
}

// policies tries the matrix again under policies. A policy never opens what a role
// does not: what was refused stays so.
func (w *workshop) policies(t *testing.T, rows []request) {
	global := "/api/v1/admin/operation-policies/" + looks
	tenant := "/api/v1/tenants/" + w.org.String() + "/operation-policies/" + looks
	project := "/api/v1/projects/" + w.project.String() + "/operation-policies/" + looks
	all := "/api/v1/tenants/" + w.org.String() + "/operation-policies/*"
	set := func(by auth.Role, path, body string, want int) {
		t.Helper()
		version := w.ask(t, auth.PlatformAdmin, http.MethodGet, path, "").Header().Get("ETag")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("If-Match", version)
		w.bearer(t, by)(r)
		a := httptest.NewRecorder()
		if w.handler().ServeHTTP(a, r); a.Code != want {
			t.Fatalf("%s %s: %d %s, want %d", path, body, a.Code, a.Body, want)
		}
	}
	// under tries all rows; allowed says of a row whether the policy lets it through.
	under := func(name string, allowed func(request) bool) {
		t.Helper()
		for _, r := range rows {
			want := make([]string, len(r.want))
			for i, before := range r.want {
				if want[i] = before; before == yes && !allowed(r) {
					want[i] = denied
				}
			}
			w.tried(t, name+": "+r.name, r.targets, want)
		}
	}
	for _, by := range []auth.Role{auth.ProjectMember, auth.ProjectAdmin, auth.Operator} {
		set(by, tenant, `{"enabled": true}`, http.StatusForbidden)
		set(by, project, `{"enabled": true}`, http.StatusForbidden)
	}
	set(auth.TenantAdmin, global, `{"enabled": true}`, http.StatusForbidden)
	set(stranger, tenant, `{"enabled": false}`, http.StatusNotFound)

	set(auth.TenantAdmin, all, `{"enabled": false}`, http.StatusOK)
	under("all are disabled", func(request) bool { return false })
	set(auth.TenantAdmin, tenant, `{"enabled": true, "allowed_target_kinds": ["allocation"]}`, http.StatusOK)
	under("only allocations", func(r request) bool { return strings.Contains(r.targets, "allocations") })
	set(auth.TenantAdmin, project, `{"enabled": false}`, http.StatusOK)
	under("the project has it off", func(request) bool { return false })
	set(auth.TenantAdmin, project, `{"enabled": true}`, http.StatusOK)
	if got, body := w.run(t, stranger, w.theirs, looks, "{}", fmt.Sprintf(`{"nodes": [%q]}`, w.foreign)); got != yes {
		t.Errorf("the other tenant has the policy of this one: %s %s", got, body)
	}
	set(auth.PlatformAdmin, global, `{"hard_deny": true, "reason": "not here"}`, http.StatusOK)
	under("denied for good", func(request) bool { return false })
	got, body := w.run(t, auth.Operator, id.Project{}, looks, "{}", fmt.Sprintf(`{"nodes": [%q]}`, w.free))
	if got != denied || !strings.Contains(body, "not here") {
		t.Errorf("an operator, although it is denied for good: %s %s", got, body)
	}
}
