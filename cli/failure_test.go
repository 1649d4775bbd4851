package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/output"
)

func TestExitCodes(t *testing.T) {
	for status, want := range map[int]int{
		400: failure.Usage, 401: failure.Unauthenticated, 403: failure.Forbidden, 404: failure.NotFound, 405: failure.Usage,
		408: failure.Unavailable, 409: failure.Conflict,
		412: failure.Conflict, 413: failure.Usage, 422: failure.Usage, 428: failure.Usage, 429: failure.Unavailable,
		500: failure.Unexpected, 502: failure.Unavailable,
		503: failure.Unavailable, 504: failure.Unavailable,
	} {
		f := newFakeAPI(t)
		f.on("list-tenants", refuse(status, "some_code", "it is so", "do this"))
		if got := signedIn(t, f).run("tenant", "list"); got.exit != want || got.stdout != "" {
			t.Errorf("%d: %+v, want %d", status, got, want)
		}
	}
}

func TestWhoeverForgetsTheProjectIsTold(t *testing.T) {
	f := newFakeAPI(t)
	denied := refuse(403, "insufficient_permissions", "this needs the permission operation:read", "ask an administrator")
	f.on("list-fleet-operations", denied)
	f.on("list-operations", denied)
	for args, want := range map[string]string{
		"operation list": "what to do: if it concerns a project, add --project TENANT/PROJECT; " +
			"otherwise ask an administrator\n",
		"operation list --project acme/training": "what to do: ask an administrator\n",
	} {
		got := signedIn(t, f).run(strings.Fields(args)...)
		if got.exit != failure.Forbidden || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

const rejection = `{"type":"urn:gpuaas:problem:validation_error","title":"Unprocessable Entity","status":422,"code":"validation_error",` +
	`"detail":"the request has fields that cannot be accepted","remedy":"correct them","correlation_id":"0190-corr",` +
	`"errors":[{"field":"body.slug","message":"has characters or a form that are not allowed here\u001b[2J"},{"field":"body.name","message":"too long"}]}`

func TestProblemForPeople(t *testing.T) {
	f := newFakeAPI(t)
	f.on("create-tenant", answer(422, rejection))
	golden(t, "output/problem.golden", signedIn(t, f).run("tenant", "create", "ACME").err)
}

func TestProblemForPrograms(t *testing.T) {
	f := newFakeAPI(t)
	f.on("create-tenant", answer(422, rejection))
	b := signedIn(t, f)
	b.environ = append(b.environ, "GPUAAS_OUTPUT=json")
	got := b.run("tenant", "create", "ACME")
	var problem, want map[string]any
	if err := json.Unmarshal([]byte(got.err), &problem); err != nil {
		t.Fatalf("%v in %q", err, got.err)
	}
	if err := json.Unmarshal([]byte(rejection), &want); err != nil {
		t.Fatal(err)
	}
	for field, value := range want {
		if a, b := compact(problem[field]), compact(value); a != b {
			t.Errorf("%s: %s, want %s", field, a, b)
		}
	}
	if problem["exit_code"] != 2.0 || strings.Count(got.err, "\n") != 1 {
		t.Error(got.err)
	}
}

func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	b := newBench(t)
	b.must("context", "set", "prod", "--url", server.URL, "--token-file", b.tokenFile(canary))
	got := b.run("tenant", "create", "acme", "--context", "prod")
	for _, part := range []string{
		server.URL, "(context prod)", "gpuaas context show --context prod",
		"--idempotency-key ",
	} {
		if !strings.Contains(got.err, part) {
			t.Errorf("%q is missing in:\n%s", part, got.err)
		}
	}
	if got.exit != failure.Unavailable || strings.Contains(got.err, canary) {
		t.Errorf("%+v", got)
	}
}

func TestUntrustedCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = nil
	b := newBench(t, "GPUAAS_URL="+server.URL)
	if got := b.run("auth", "methods"); got.exit != failure.Unavailable || !strings.Contains(got.err, "--ca-file") {
		t.Errorf("%+v", got)
	}
}

func TestUnavailableIsTriedAgain(t *testing.T) {
	f := newFakeAPI(t)
	f.on("create-tenant", refuse(503, "database_unavailable", "the database does not answer", "wait"),
		answer(201, tenantJSON))
	b := signedIn(t, f)
	b.must("tenant", "create", "acme", "--idempotency-key", "mine")
	calls := f.received()
	if len(calls) != 2 || slices.ContainsFunc(calls,
		func(c received) bool { return c.header.Get("Idempotency-Key") != "mine" }) {
		t.Error(calls)
	}
}

func TestInterruptedChange(t *testing.T) {
	f := newFakeAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.on("create-tenant", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	got := signedIn(t, f).runContext(ctx, "tenant", "create", "acme")
	key := f.received()[0].header.Get("Idempotency-Key")
	if got.exit != failure.Interrupted || !strings.Contains(got.err, "--idempotency-key "+key) ||
		!strings.Contains(got.err, "may or may not") {
		t.Errorf("%+v", got)
	}
}

func TestSomethingElseAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>"))
	}))
	defer server.Close()
	b := newBench(t, "GPUAAS_URL="+server.URL)
	if got := b.run("tenant", "list"); got.exit != failure.Unexpected ||
		!strings.Contains(got.err, "check that the URL is that of the control plane") {
		t.Errorf("%+v", got)
	}
}

func TestMissing(t *testing.T) {
	f := newFakeAPI(t)
	b := signedIn(t, f)
	for _, args := range []string{
		"tenant get nobody", "project get acme/nothing", "user get nobody@example.com", "lifecycle show unicorn",
		"service-account get nothing --project acme/training", "member remove nobody@example.com --tenant acme",
	} {
		if got := b.run(strings.Fields(args)...); got.exit != failure.NotFound || !strings.Contains(got.err, "what to do: ") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// Tenant admins may not look up all people, but can name members by address.
func TestMemberByAddressWithoutDirectory(t *testing.T) {
	f := newFakeAPI(t)
	f.on("list-users", refuse(403, "forbidden", "not allowed", ""))
	b := signedIn(t, f)
	b.must("member", "set", "ada@example.com", "--project", projectID, "--role", "project_admin")
	if got := b.run("member", "set", "bob@example.com", "--project", projectID, "--role",
		"project_admin"); got.exit != failure.NotFound || !strings.Contains(got.err, "user id") {
		t.Errorf("%+v", got)
	}
}

func TestVersionWithoutControlPlane(t *testing.T) {
	if got := newBench(t).must("version"); !strings.Contains(got.stdout, "CLIENT  1.2.3") {
		t.Error(got)
	}
	f := newFakeAPI(t)
	b := signedIn(t, f)
	f.on("get-system-status", refuse(403, "forbidden", "not allowed", ""))
	b.must("version")
	b.must("version", "--client")
	f.on("get-system-status", refuse(401, "token_invalid", "no", ""))
	if got := b.run("version"); got.exit != failure.Unauthenticated || !strings.Contains(got.stdout, "1.2.3") {
		t.Errorf("%+v", got)
	}
	if got := b.must("--version"); got.stdout != "1.2.3\n" {
		t.Error(got)
	}
}

// No token is ever printed, whatever goes wrong.
func TestTokenIsNeverPrinted(t *testing.T) {
	f := newFakeAPI(t)
	for op := range f.answers { // not 503: a watch would go on
		f.answers[op] = refuse(500, "internal", "something went wrong in the control plane", "report it")
	}
	b := newBench(t)
	b.must("context", "set", "prod", "--url", f.URL, "--token-file", b.tokenFile(canary))
	for _, e := range errands {
		for _, format := range []string{output.Table, output.JSON} { // failures are printed in these two ways
			got := b.run(append(strings.Fields(e.args), "-o", format)...)
			if strings.Contains(got.stdout+got.err, canary) {
				t.Errorf("%s -o %s printed the token", e.args, format)
			}
			if got.exit == failure.OK {
				t.Errorf("%s succeeded", e.args)
			}
		}
	}
}
