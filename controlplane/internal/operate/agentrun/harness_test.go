package agentrun_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/agentrun"
)

const (
	before = "1.0.0"
	target = "1.1.0"
)

// bootstraps renders commands that hold their token, as the real one does.
type bootstraps struct{}

func (bootstraps) Command(token redact.Secret) (redact.Secret, error) {
	return redact.New("curl … | sh -s " + token.Reveal()), nil
}

func (bootstraps) CloudInit(context.Context, redact.Secret) (redact.Secret, error) {
	return redact.New(""), nil
}

func (bootstraps) CAFingerprint() string { return "ca" }

// world is a node with an agent, and a control plane that cares for it.
type world struct {
	t          *testing.T
	db, owner  *postgres.DB
	service    *agentrun.Service
	queue      *agenttask.Queue
	ctx        context.Context
	more       time.Duration // by which the clock is ahead
	node       id.Node
	reinstalls []id.Decommission // that were asked for
	reinstall  error             // why none begins
	refused    error             // why the version may not be given
}

func (w *world) now() time.Time { return time.Now().Add(w.more) }

type unsigned struct{}

func (unsigned) SignEnvelope(context.Context, *agentwire.Envelope) error { return nil }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, node: id.New[id.Node]()}
	w.db, w.owner = postgrestest.NewWithOwner(t)
	w.queue = agenttask.New(agenttask.QueueConfig{DB: w.db, Signer: unsigned{}, Clock: w.now})
	w.ctx = auth.With(telemetry.WithCorrelation(t.Context(), "corr"), &auth.Principal{
		Kind: auth.KindUser, ID: "op", Name: "Olga", Platform: auth.PlatformAdmin,
	})
	w.exec(`INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable,
		agent_channel, reported_agent_version, reported_agent_commit, certificate_not_after, agent_instance)
		SELECT $1, 'active', 'n1', '192.0.2.1', (SELECT id FROM skus ORDER BY id LIMIT 1), 8, 'eu', 'manual', true,
		'pinned', $2, 'abc', clock_timestamp() + interval '1 year', 'i'`, w.node, before)
	w.restart()
	w.heard()
	return w
}

// restart is a control plane that knows nothing but its rows.
func (w *world) restart() {
	w.service = agentrun.New(agentrun.Config{
		DB: w.db, Tasks: agenttask.Commands{DB: w.db, Clock: w.now}, Clock: w.now,
		Nodes: node.New(node.Config{DB: w.db, Bootstrap: bootstraps{}, Clock: w.now}),
		Prepare: func(_ context.Context, _ id.Node, raw json.RawMessage) (json.RawMessage, error) {
			var p agentwire.SelfUpdateParams
			if err := json.Unmarshal(raw, &p); err != nil || w.refused != nil {
				return nil, w.refused
			}
			p.Digest, p.SizeBytes, p.SignerVersion, p.Signature = "sha256:"+strings.Repeat("a", 64), 1, "s", []byte("x")
			return json.Marshal(p)
		},
		Programs: func(context.Context, string) (map[string]string, error) {
			return map[string]string{"gpuaas-agent": "sha256:" + strings.Repeat("b", 64)}, nil
		},
		Reinstall: func(context.Context, id.Node, string) (id.Decommission, error) {
			if w.reinstall != nil {
				return id.Decommission{}, w.reinstall
			}
			if len(w.reinstalls) == 0 {
				w.reinstalls = append(w.reinstalls, w.job())
			}
			return w.reinstalls[0], nil
		},
	})
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.owner.Exec(w.t.Context(), query, args...); err != nil {
		w.t.Fatal(err)
	}
}

// job is a decommission that has begun.
func (w *world) job() id.Decommission {
	w.t.Helper()
	of := id.New[id.Decommission]()
	w.exec(`INSERT INTO jobs (id, family, kind, node_id, subject, status, phase, current_stage, workflow_id, requested_by,
		correlation_id) VALUES ($1, 'decommission', 'reimage', $2, 'n1', 'running', 'working', 'disable_node', 'w', 'op', 'c')`,
		of, w.node)
	return of
}

func (w *world) change(set string, args ...any) {
	w.t.Helper()
	w.exec(`UPDATE nodes SET `+set+` WHERE id = $1`, append([]any{w.node}, args...)...)
}

// heard is a sign of life of the agent.
func (w *world) heard() {
	w.t.Helper()
	w.exec(`INSERT INTO node_contacts (node_id, last_contact_at, agent_started_at) VALUES ($1, $2, $2)
		ON CONFLICT (node_id) DO UPDATE SET last_contact_at = excluded.last_contact_at`, w.node, w.now())
}

// renews is a certificate that the node has just been given.
func (w *world) renews() {
	w.t.Helper()
	w.exec(`INSERT INTO node_certificates (serial, node_id, key_fingerprint, issued_at, not_after)
		VALUES ($1, $2, '', $3, $3::timestamptz + interval '1 year')`, id.New[id.Node]().String(), w.node, w.now())
	w.change(`certificate_not_after = $2`, w.now().Add(365*24*time.Hour))
}

// enrols is a machine on which somebody ran the bootstrap.
func (w *world) enrols(version string) {
	w.t.Helper()
	w.change(`generation = generation + 1, status = 'active', schedulable = (held_by = '' AND hold_reason = ''),
		reported_agent_version = $2, reported_agent_commit = 'abc', agent_instance = 'i'`, version)
	w.renews()
	w.more += time.Second
	w.heard()
}

// works lets the agent do what it was told.
func (w *world) works(fails string) {
	w.t.Helper()
	var generation int64
	if err := w.owner.QueryRow(w.ctx, `SELECT generation FROM nodes WHERE id = $1`, w.node).Scan(&generation); err != nil {
		w.t.Fatal(err)
	}
	e, err := w.queue.Wait(w.ctx, w.node, generation, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	if e == nil {
		return
	}
	var p agentwire.SelfUpdateParams
	if err := json.Unmarshal(e.Params, &p); err != nil {
		w.t.Fatal(err)
	}
	result := agentwire.ResultRequest{
		Attempt: e.Attempt, Status: agentwire.ResultSucceeded, StartedAt: w.now(), FinishedAt: w.now(),
		Output: json.RawMessage(`{"from":"a","to":"b","rolled_back":false}`),
	}
	if fails != "" {
		result.Status, result.Output = agentwire.ResultFailed, nil
		result.Error = &agentwire.TaskError{Code: fails, Message: "it crashed three times"}
	} else {
		w.change(`reported_agent_version = $2`, p.Version)
		w.renews()
	}
	task, err := id.Parse[id.NodeTask](e.TaskID)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.queue.Result(w.ctx, w.node, task, result); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) begin(o agentrun.Order) agentrun.Begun {
	w.t.Helper()
	o.Reason = "test"
	if o.Safety == "" {
		o.Safety = agentrun.IdleOnly
	}
	b, err := w.service.Begin(w.ctx, w.node, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// look lets a control plane that was just started look at a run.
func (w *world) look(of id.AgentRun) agentrun.Run {
	w.t.Helper()
	w.restart()
	if _, _, err := w.service.Look(context.Background(), of); err != nil {
		w.t.Fatal(err)
	}
	w.more += time.Second
	return w.get(of)
}

func (w *world) get(of id.AgentRun) agentrun.Run {
	w.t.Helper()
	r, err := w.service.Get(w.ctx, w.node, of)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// stands fails the test unless a run has a status.
func (w *world) stands(r agentrun.Run, want agentrun.Status) agentrun.Run {
	w.t.Helper()
	if r.Status != want {
		w.t.Fatalf("it is %s, not %s: %s %+v", r.Status, want, r.Detail, r.Why)
	}
	return r
}

func (w *world) refuses(o agentrun.Order, code string) {
	w.t.Helper()
	o.Reason = "test"
	if o.Safety == "" {
		o.Safety = agentrun.IdleOnly
	}
	if _, err := w.service.Begin(w.ctx, w.node, o); fault.CodeOf(err) != code {
		w.t.Errorf("%+v: %v, not %s", o, err, code)
	}
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	if err := w.owner.QueryRow(w.ctx, query, args...).Scan(&n); err != nil {
		w.t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	return n
}
