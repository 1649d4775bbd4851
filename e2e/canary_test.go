package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/apiclient"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
)

// TestSecretsStayWhereTheyBelong lets every secret of the product do its work
// and then looks for it everywhere: in all databases, in every file of the
// engines, in logs, events, and on command lines.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	state := stack.ThrowawayFolder("-canary")
	t.Cleanup(func() {
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	engines := stacktest.Start(t, stack.Options{State: state})
	machines, env := openCanaryLab(t)
	p := startPlane(t, engines.Endpoints(), planeOptions{env: append(env, "GPUAAS_LOG_LEVEL=debug")})
	secrets := secretFiles(t, state)
	maps.Copy(secrets, useTokens(t, p))
	maps.Copy(secrets, useSite(t, p, machines))
	secrets["admin token"] = p.token
	awaitDelivered(t, p)
	for what, secret := range secrets {
		if len(secret) < 20 {
			t.Fatalf("%s is %d characters long: too short to be looked for", what, len(secret))
		}
	}
	s := search{secrets: secrets}

	events, err := json.Marshal(readEvents(t, p, ""))
	if err != nil {
		t.Fatal(err)
	}
	s.in(t, "the event stream", events)
	s.inDatabases(t, engines.SuperuserURL())
	s.in(t, "the log of the control plane", []byte(p.output.String()))
	s.in(t, "gpuaas config show", []byte(succeed(t, p.env, "config", "show")))
	s.inCommandLines(t)
	p.end(t, 15)
	stopped, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := engines.Stop(stopped); err != nil { // what is still in memory goes to disk
		t.Fatal(err)
	}
	s.inFiles(t, state)
	if s.looked < 100 {
		t.Errorf("looked at %d places only", s.looked)
	}
	t.Logf("looked for %d secrets in %d places", len(secrets), s.looked)
}

// keysOfBao is the file of the unseal key and the root token.
const keysOfBao = "bao/UNSEAL-EMBEDDED-USE-ONLY.json"

// secretFiles are the secrets of the engines: passwords, tokens, the AppRole,
// the unseal key and the root token.
func secretFiles(t *testing.T, state string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "secrets", "*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range append(files, filepath.Join(state, keysOfBao)) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		var several map[string]string
		if json.Unmarshal(b, &several) == nil {
			for key, value := range several {
				if !strings.Contains(value, " ") { // a notice for people
					out[name+" "+key] = value
				}
			}
			continue
		}
		if !strings.Contains(name, "role-id") { // half a name, not a secret
			out[name] = strings.TrimSpace(string(b))
		}
	}
	for _, want := range []string{"postgres-", "nats-token", "secret-id", "root_token", "unseal_key"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(out)),
			func(name string) bool { return strings.Contains(name, want) }) {
			t.Fatalf("found no %s among %v", want, slices.Sorted(maps.Keys(out)))
		}
	}
	return out
}

// useTokens makes tokens of each kind, with and without a key, uses them well
// and badly, and gives them.
func useTokens(t *testing.T, p *plane) map[string]string {
	t.Helper()
	ids := furnish(t, p)
	out := map[string]string{}
	robots := "/api/v1/projects/" + ids["project_id"] + "/service-accounts/" + ids["service_account_id"] + "/tokens"
	for name, path := range map[string]string{
		"own token": "/api/v1/me/tokens", "robot's token": robots,
		"revoked token": "/api/v1/me/tokens",
	} {
		var made apiclient.IdentityNewTokenView
		key := header{"Idempotency-Key", "make " + name}
		key[1] = strings.ReplaceAll(key[1], " ", "-")
		p.do(t, http.MethodPost, path, map[string]string{"name": name}, http.StatusCreated, &made, key)
		if a, err := p.call(t.Context(), http.MethodPost, path, map[string]string{"name": name}, key); err != nil ||
			a.problem.Code != "idempotency_response_withheld" {
			t.Errorf("a repeated request for a token: %s, %v, want that the token is withheld", a, err)
		}
		out[name] = made.Token
		use := header{"Authorization", "Bearer " + made.Token}
		p.do(t, http.MethodGet, "/api/v1/me", nil, http.StatusOK, nil, use)
		if name == "revoked token" {
			p.do(t, http.MethodDelete, "/api/v1/me/tokens/"+made.TokenId.String(), nil, http.StatusNoContent, nil)
			p.do(t, http.MethodGet, "/api/v1/me", nil, http.StatusUnauthorized, nil, use)
		}
		// Where it does not belong: people paste tokens into anything.
		for _, misplaced := range []struct{ method, path string }{
			{http.MethodGet, "/api/v1/me?token=" + made.Token},
			{http.MethodGet, "/api/v1/tenants?cursor=" + made.Token},
			{http.MethodGet, "/api/v1/" + made.Token},
			{http.MethodGet, "/api/v1/tenants/" + made.Token},
			{http.MethodGet, "/api/v1/admin/users/" + made.Token},
			{"BREW", "/api/v1/me"},
		} {
			if a, err := p.call(t.Context(), misplaced.method, misplaced.path, nil, use); err != nil || a.status < 400 ||
				a.status > 499 {
				t.Errorf("%s %s: %s, %v, want a refusal", misplaced.method, misplaced.path, a, err)
			}
		}
		body := map[string]string{"slug": made.Token, "name": "x"}
		if a, err := p.call(t.Context(), http.MethodPost, "/api/v1/admin/tenants", body); err != nil ||
			a.status != http.StatusUnprocessableEntity || bytes.Contains(a.body, []byte(made.Token)) {
			t.Errorf("a token as slug: %s, %v, want a refusal that does not repeat it", a, err)
		}
	}
	return out
}

// search looks for secrets.
type search struct {
	secrets map[string]string
	looked  int
}

// found names the secrets in a text.
func (s *search) found(text []byte) []string {
	s.looked++
	var out []string
	for what, secret := range s.secrets {
		if bytes.Contains(text, []byte(secret)) {
			out = append(out, what)
		}
	}
	return out
}

func (s *search) in(t *testing.T, place string, text []byte) {
	t.Helper()
	if len(text) == 0 {
		t.Errorf("%s is empty: nothing was looked at", place)
	}
	if f := s.found(text); len(f) > 0 {
		t.Errorf("%s holds %v", place, f)
	}
}

// inDatabases reads every row of every table as text.
func (s *search) inDatabases(t *testing.T, url string) {
	t.Helper()
	for _, database := range column(t, connect(t, url, "postgres"), "SELECT datname FROM pg_database WHERE datallowconn") {
		db := connect(t, url, database)
		for _, table := range column(t, db,
			`SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname <> 'pg_catalog'`) {
			rows := column(t, db, "SELECT x::text FROM "+table+" x")
			if f := s.found([]byte(strings.Join(rows, "\n"))); len(f) > 0 {
				t.Errorf("table %s of database %s holds %v", table, database, f)
			}
			// Bytes are shown as hexadecimal digits.
			for what, secret := range s.secrets {
				if hex := fmt.Sprintf("%x", secret); slices.ContainsFunc(rows,
					func(r string) bool { return strings.Contains(r, hex) }) {
					t.Errorf("table %s of database %s holds %s as bytes", table, database, what)
				}
			}
		}
	}
}

func column(t *testing.T, db *pgx.Conn, query string) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}

// inCommandLines looks where every user of the machine can.
func (s *search) inCommandLines(t *testing.T) {
	t.Helper()
	for _, pid := range processes(t) {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
			if f := s.found(b); len(f) > 0 {
				t.Errorf("the command line of process %d holds %v", pid, f)
			}
		}
	}
}

// inFiles looks through the state folder. What is meant to hold a secret is
// closed to others.
func (s *search) inFiles(t *testing.T, state string) {
	t.Helper()
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f := s.found(text)
		if len(f) == 0 {
			return nil
		}
		name, err := filepath.Rel(state, path)
		if err != nil {
			return err
		}
		// Temporal's own database password is in its configuration.
		meant := strings.HasPrefix(name, "secrets/") || name == keysOfBao || name == "temporal/config.json" &&
			slices.Equal(f, []string{"postgres-temporal"})
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !meant || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("file %s (mode %o) holds %v", name, info.Mode().Perm(), f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
