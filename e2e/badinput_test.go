package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/apiclient"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// TestBadInput sends every operation of the contract what it must not accept:
// each is refused with a reason, and nothing changes.
func TestBadInput(t *testing.T) {
	t.Parallel()
	engines := stacktest.Start(t, stack.Options{})
	p := startPlane(t, engines.Endpoints(), planeOptions{env: []string{
		"GPUAAS_LIMITS_REQUESTS_PER_SECOND=100000", "GPUAAS_LIMITS_BURST=100000",
		"GPUAAS_NODES_URL=https://" + freeAddress(t),
	}})
	db := connect(t, engines.SuperuserURL(), "gpuaas")
	ids := furnish(t, p)
	tokens := uselessTokens(t, p, db)
	awaitDelivered(t, p)
	before := contents(t, db)
	count := 0
	for _, o := range operations(t) {
		t.Run(o.ID, func(t *testing.T) {
			for _, c := range (&junk{t: t, op: o, ids: ids}).probes(tokens) {
				count++
				p.checkRefused(t, c)
			}
		})
	}
	t.Logf("%d requests were tried", count)
	t.Run("routes", func(t *testing.T) { badRoutes(t, p) })
	after := contents(t, db)
	for table := range after {
		if before[table] != after[table] {
			t.Errorf("table %s was changed by requests that were refused: %s, before %s", table, after[table], before[table])
		}
	}
	p.do(t, http.MethodGet, "/api/v1/me", nil, http.StatusOK, nil)
}

func badRoutes(t *testing.T, p *plane) {
	for _, c := range []probe{
		{what: "unknown route", method: http.MethodGet, path: "/api/v1/surprises", status: http.StatusNotFound},
		{what: "unknown version", method: http.MethodGet, path: "/api/v9/tenants", status: http.StatusNotFound},
		{what: "way out", method: http.MethodGet, path: "/docs/assets/..%2f..%2fetc%2fpasswd", status: http.StatusNotFound},
		{what: "strange method", method: "BREW", path: "/api/v1/tenants", status: http.StatusMethodNotAllowed},
	} {
		p.checkRefused(t, c)
	}
	byPath := map[string][]string{}
	for _, o := range operations(t) {
		byPath[o.path] = append(byPath[o.path], o.method)
	}
	for path, methods := range byPath {
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if slices.Contains(methods, m) {
				continue
			}
			if covered(byPath, path, m) {
				p.checkRefused(t, probe{what: "a word for an id", method: m, path: path})
				continue
			}
			a := p.checkRefused(t, probe{what: "wrong method", method: m, path: path, status: http.StatusMethodNotAllowed})
			for _, right := range methods {
				if !strings.Contains(a.header.Get("Allow"), right) {
					t.Errorf("%s %s: Allow is %q, want %s in it", m, path, a.header.Get("Allow"), right)
				}
			}
		}
	}
	// The HTTP server itself refuses this one, before anything of ours is asked.
	a, err := p.call(t.Context(), http.MethodGet, "/api/v1/me", nil, header{"X-Huge", strings.Repeat("h", 200<<10)})
	if err != nil || a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a huge header: %s, %v, want 431", a, err)
	}
}

// covered says whether a path is also one of another operation of the method
// that has a parameter in its place, as batch may be the id of something.
func covered(byPath map[string][]string, path, method string) bool {
	parts := strings.Split(path, "/")
	for other, methods := range byPath {
		fits := func(i int, part string) bool {
			return part == parts[i] || strings.HasPrefix(part, "{") && !strings.HasPrefix(parts[i], "{")
		}
		pattern := strings.Split(other, "/")
		if other == path || len(pattern) != len(parts) || !slices.Contains(methods, method) {
			continue
		}
		matches := true
		for i, part := range pattern {
			matches = matches && fits(i, part)
		}
		if matches {
			return true
		}
	}
	return false
}

// checkRefused sends a probe and expects a problem that blames the caller.
func (p *plane) checkRefused(t *testing.T, c probe) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a stream that opens would not end
	defer cancel()
	var body any
	if c.body != nil {
		body = c.body
	}
	a, err := p.call(ctx, c.method, c.path, body, c.headers...)
	where := fmt.Sprintf("%s: %s %.120s", c.what, c.method, c.path)
	switch {
	case err != nil:
		t.Errorf("%s: %v", where, err)
	case c.status == odd && a.status < 500 && (a.status < 300 || a.problem.Code != ""):
	case a.status < 400 || a.status > 499 || c.status != 0 && a.status != c.status:
		t.Errorf("%s: %s, want status %d (0: any 4xx, %d: any but 5xx)", where, a, c.status, odd)
	case a.header.Get("Content-Type") != "application/problem+json":
		t.Errorf("%s: content type %q in %s", where, a.header.Get("Content-Type"), a)
	case a.problem.Code == "" || a.problem.CorrelationId == nil ||
		*a.problem.CorrelationId != a.header.Get("X-Correlation-Id"):
		t.Errorf("%s: no code, or another correlation id than in the header, in %s", where, a)
	case a.problem.Status != int64(a.status):
		t.Errorf("%s: status %d in %s", where, a.problem.Status, a)
	}
	return a
}

// furnish makes one of everything that can be made, and gives its id by the
// name of the path parameter.
func furnish(t *testing.T, p *plane) map[string]string {
	t.Helper()
	post := func(path string, body any, status int, field string) string {
		var made map[string]any
		p.do(t, http.MethodPost, path, body, status, &made)
		return fmt.Sprint(made[field])
	}
	ids := map[string]string{}
	ids["org_id"] = post("/api/v1/admin/tenants", naming{"furnished", "Furnished"}, http.StatusCreated, "org_id")
	ids["project_id"] = post("/api/v1/tenants/"+ids["org_id"]+"/projects", naming{"room", "Room"}, http.StatusCreated,
		"project_id")
	ids["user_id"] = post("/api/v1/admin/users", map[string]string{"email": "someone@example.com"}, http.StatusCreated,
		"user_id")
	p.do(t, http.MethodPut, "/api/v1/tenants/"+ids["org_id"]+"/members/"+ids["user_id"],
		map[string]string{"role": "tenant_admin"}, http.StatusOK, nil)
	p.do(t, http.MethodPut, "/api/v1/projects/"+ids["project_id"]+"/members/"+ids["user_id"],
		map[string]string{"role": "project_viewer"}, http.StatusOK, nil)
	accounts := "/api/v1/projects/" + ids["project_id"] + "/service-accounts"
	ids["service_account_id"] = post(accounts, map[string]string{"name": "robot", "role": "project_viewer"},
		http.StatusCreated, "service_account_id")
	ids["token_id"] = post(accounts+"/"+ids["service_account_id"]+"/tokens", map[string]string{"name": "robot"},
		http.StatusCreated, "token_id")
	ids["self_check_id"] = post("/api/v1/admin/self-checks", nil, http.StatusAccepted, "id")
	testkit.Succeeds(t, "the self-check to pass", time.Minute, func() error {
		var check apiclient.SelfCheck
		p.do(t, http.MethodGet, "/api/v1/admin/self-checks/"+ids["self_check_id"], nil, http.StatusOK, &check)
		if check.Status != "passed" {
			return fmt.Errorf("it is %s", check.Status)
		}
		return nil
	})
	return ids
}

// uselessTokens are values of Authorization that prove nothing, by what is
// wrong with them.
func uselessTokens(t *testing.T, p *plane, db *pgx.Conn) map[string]string {
	t.Helper()
	var expired, revoked apiclient.IdentityNewTokenView
	p.do(t, http.MethodPost, "/api/v1/me/tokens", map[string]any{"name": "expired", "expires_in": 60}, http.StatusCreated,
		&expired)
	p.do(t, http.MethodPost, "/api/v1/me/tokens", map[string]any{"name": "revoked"}, http.StatusCreated, &revoked)
	p.do(t, http.MethodDelete, "/api/v1/me/tokens/"+revoked.TokenId.String(), nil, http.StatusNoContent, nil)
	_, err := db.Exec(t.Context(),
		`UPDATE api_tokens SET created_at = created_at - interval '1 hour', expires_at = expires_at - interval '1 hour' WHERE id = $1`,
		expired.TokenId.String())
	if err != nil {
		t.Fatalf("let a token expire: %v", err)
	}
	last := p.token[len(p.token)-1:]
	return map[string]string{
		"an expired token": "Bearer " + expired.Token,
		"a revoked token":  "Bearer " + revoked.Token,
		"a foreign token":  "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
		"half a token":     "Bearer " + p.token[:len(p.token)/2],
		"a token of nobody": "Bearer " + strings.TrimSuffix(p.token, last) +
			map[bool]string{true: "Q", false: "A"}[last == "A"],
		"a token in other form": "Basic " + p.token,
		"an empty token":        "Bearer ",
	}
}

func connect(t *testing.T, url, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.Database = database
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// contents is a digest of each table, except of what refusals leave behind on
// purpose and of when a token was last used.
func contents(t *testing.T, db *pgx.Conn) map[string]string {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, table := range tables {
		switch table {
		// refusals are told, requests counted, and what is in use is noted
		case "audit_logs", "rate_allowances", "node_trust", "pruning", "billing_checks":
			continue
		}
		var digest string // without the hourly review of keys
		err := db.QueryRow(t.Context(), fmt.Sprintf(
			"SELECT count(*) || ' rows ' || coalesce(md5(string_agg(row, ';' ORDER BY row)), '') FROM (SELECT (to_jsonb(x) - 'last_used_at')::text AS row FROM %s x) y WHERE row !~ 'allocation-keys-review-[0-9]{10}\"'",
			pgx.Identifier{table}.Sanitize())).Scan(&digest)
		if err != nil {
			t.Fatalf("read table %s: %v", table, err)
		}
		out[table] = digest
	}
	if len(out) < 8 {
		t.Fatalf("found only tables %v", slices.Collect(maps.Keys(out)))
	}
	return out
}
