package agentgateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/agentgateway"
)

const canary = "canary-of-a-credential"

type minter struct {
	life  time.Duration
	fail  error
	asked []agentgateway.Mint
}

func (m *minter) Mint(_ context.Context, in agentgateway.Mint) (agentgateway.Minted, error) {
	m.asked = append(m.asked, in)
	made := agentgateway.Minted{Values: map[string]redact.Secret{"password": redact.New(canary)}}
	if m.life > 0 {
		made.ExpiresAt = time.Now().Add(m.life)
	}
	return made, m.fail
}

// dispatched is a task that the agent carries out, with a path into it.
func (a *agent) dispatched(t *testing.T, typ string, params any) (agentwire.Envelope, func(string) string) {
	t.Helper()
	a.p.enqueue(t, a.node, typ, params)
	var e agentwire.Envelope
	a.get(agentwire.PathWait, "").want(http.StatusOK, "").into(&e)
	return e, func(path string) string { return strings.Replace(path, "{task_id}", e.TaskID, 1) }
}

func (p *plane) mints(t *testing.T) (out []string) {
	t.Helper()
	rows, err := p.db.Query(t.Context(),
		"SELECT result || ' ' || reason || ' ' || (metadata->>'credential_type') || ' ' || actor_id FROM audit_logs WHERE action = 'node_credential.mint' ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func TestCredentialsAreMintedForTheTaskThatIsCarriedOut(t *testing.T) {
	t.Parallel()
	m, kept := &minter{life: 10 * time.Minute}, &minter{}
	p := newPlane(t, newEngine(t), func(c *agentgateway.Config) {
		c.Backends = map[string]agentgateway.Backend{
			agentwire.CredentialMAASMachineToken: {
				Minter: kept, TaskTypes: []string{agentwire.TypeHWSyncReseed},
				LongLived: true,
			},
			agentwire.CredentialOCIPull: {Minter: m, TaskTypes: []string{agentwire.TypeHWSyncReseed}},
		}
	})
	a := p.active(t, "gpu-1")
	e, path := a.dispatched(t, agentwire.TypeHWSyncReseed,
		agentwire.HWSyncParams{MAASURL: "http://maas.example.com/MAAS", SystemID: "abc123", Interval: "15m"})
	in := agentwire.MintRequest{
		Attempt: e.Attempt, StepID: "seed", CredentialType: agentwire.CredentialMAASMachineToken,
		Intent: map[string]string{"system_id": "abc123"},
	}
	var c agentwire.Credential
	a.post(path(agentwire.PathMint), in).want(http.StatusOK, "").into(&c)
	if c.Values["password"] != canary || c.CredentialType != in.CredentialType || !c.ExpiresAt.IsZero() {
		t.Errorf("%+v", c)
	}
	a.post(path(agentwire.PathRegistry), agentwire.RegistryRequest{
		Attempt: e.Attempt, StepID: "pull",
		Repository: "registry.example.com/a/b", Digest: "sha256:" + strings.Repeat("a", 64),
	}).
		want(http.StatusOK, "").into(&c)
	if c.ExpiresAt.IsZero() {
		t.Errorf("%+v", c)
	}
	if len(kept.asked) != 1 || kept.asked[0].Task.ID.String() != e.TaskID ||
		kept.asked[0].Intent["system_id"] != "abc123" || len(m.asked) != 1 ||
		m.asked[0].Intent["repository"] != "registry.example.com/a/b" {
		t.Errorf("%+v, %+v", kept.asked, m.asked)
	}
	by := " node:" + a.node.String()
	if got := p.mints(t); len(got) != 2 || got[0] != "success  maas_machine_token"+by || got[1] != "success  oci_pull"+by {
		t.Errorf("%q", got)
	}
	var leaked int
	if err := p.db.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM audit_logs a WHERE a::text LIKE '%'||$1||'%') + (SELECT count(*) FROM outbox_events o WHERE o::text LIKE '%'||$1||'%')", canary).Scan(&leaked); err != nil || leaked > 0 {
		t.Errorf("%d rows hold the credential, %v", leaked, err)
	}
	if strings.Contains(p.log.String(), canary) {
		t.Error("the log holds the credential")
	}
}

func TestCredentialsThatAreRefused(t *testing.T) {
	t.Parallel()
	good, eternal, broken := &minter{life: time.Minute}, &minter{life: 48 * time.Hour},
		&minter{fail: fault.New(fault.Unavailable, "bucket_away", "away")}
	p := newPlane(t, newEngine(t), func(c *agentgateway.Config) {
		all := []string{agentwire.TypeHeartbeatCheck}
		c.Backends = map[string]agentgateway.Backend{
			agentwire.CredentialMAASMachineToken: {Minter: good, TaskTypes: []string{agentwire.TypeHWSyncReseed}},
			agentwire.CredentialHFToken:          {Minter: eternal, TaskTypes: all},
			agentwire.CredentialS3Read:           {Minter: broken, TaskTypes: all},
			agentwire.CredentialGCSRead:          {Minter: good, TaskTypes: all},
			agentwire.CredentialClusterJoin:      {Minter: good, TaskTypes: all, LongLived: true},
		}
	})
	a := p.active(t, "gpu-1")
	e, path := a.dispatched(t, agentwire.TypeHeartbeatCheck, nil)
	ask := func(credential string, change func(*agentwire.MintRequest)) reply {
		in := agentwire.MintRequest{Attempt: e.Attempt, StepID: "s", CredentialType: credential}
		if change != nil {
			change(&in)
		}
		return a.post(path(agentwire.PathMint), in)
	}
	missing := ask(agentwire.CredentialOCIPull, nil).want(http.StatusServiceUnavailable, "credential_backend_missing")
	if !strings.Contains(string(missing.body), "remedy") {
		t.Error("nobody is told what to do")
	}
	ask(agentwire.CredentialMAASMachineToken, nil).want(http.StatusForbidden, "credential_not_for_task")
	ask(agentwire.CredentialHFToken, nil).want(http.StatusInternalServerError, "credential_not_short_lived")
	ask(agentwire.CredentialClusterJoin, nil).want(http.StatusInternalServerError, "credential_not_long_lived")
	ask(agentwire.CredentialS3Read, nil).want(http.StatusServiceUnavailable, "bucket_away")
	ask("root_password", nil).want(http.StatusUnprocessableEntity, "validation_error")
	ask(agentwire.CredentialGCSRead, func(m *agentwire.MintRequest) { m.StepID = "" }).
		want(http.StatusUnprocessableEntity, "validation_error")
	ask(agentwire.CredentialGCSRead, func(m *agentwire.MintRequest) {
		m.Intent = map[string]string{"x": strings.Repeat("y", 1100)}
	}).want(http.StatusUnprocessableEntity, "validation_error")
	ask(agentwire.CredentialGCSRead, func(m *agentwire.MintRequest) { m.Attempt = 7 }).
		want(http.StatusConflict, "node_task_attempt_unknown")
	a.post(path(agentwire.PathRegistry), agentwire.RegistryRequest{
		Attempt: 1, StepID: "s", Repository: "a b",
		Digest: "sha256:x",
	}).
		want(http.StatusUnprocessableEntity, "validation_error")
	ask(agentwire.CredentialGCSRead, nil).want(http.StatusOK, "")
	a.post(path(agentwire.PathResult), agentwire.ResultRequest{
		Attempt: e.Attempt, Status: agentwire.ResultFailed,
		Error: &agentwire.TaskError{Code: "x", Message: "y"},
	}).
		want(http.StatusNoContent, "")
	ask(agentwire.CredentialGCSRead, nil).want(http.StatusConflict, agentwire.CodeTaskFinal)

	by := " node:" + a.node.String()
	want := []string{
		"failure credential_backend_missing oci_pull" + by, "denied credential_not_for_task maas_machine_token" + by,
		"failure credential_not_short_lived hf_token" + by, "failure credential_not_long_lived cluster_join_token" + by,
		"failure bucket_away s3_read" + by,
		"denied node_task_attempt_unknown gcs_read" + by, "success  gcs_read" + by, "denied node_task_final gcs_read" + by,
	}
	if got := p.mints(t); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
