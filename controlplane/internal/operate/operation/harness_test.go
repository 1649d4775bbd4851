package operation_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
)

// world is a control plane with nodes, their agents, and a tenant with a project.
type world struct {
	db, owner *postgres.DB
	service   *operation.Service
	tasks     agenttask.Commands
	queue     *agenttask.Queue
	clock     *clock
	org       id.Org
	project   id.Project
	ctx       context.Context // of an operator

	kept []*agentwire.Envelope // fetched, and not reported yet

	mu    sync.Mutex
	given []agentwire.OperationRunParams // what nodes were told to do
	// do says what becomes of a step on a node; nil: it succeeds.
	do func(node id.Node, p agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome
}

type clock struct {
	mu   sync.Mutex
	more time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.more)
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more += d
}

// unsigned signs nothing: the agents of these tests believe everybody.
type unsigned struct{}

func (unsigned) SignEnvelope(context.Context, *agentwire.Envelope) error { return nil }

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{org: id.New[id.Org](), project: id.New[id.Project](), clock: &clock{}}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.tasks = agenttask.Commands{DB: w.db, Clock: w.clock.now}
	w.queue = agenttask.New(agenttask.QueueConfig{DB: w.db, Signer: unsigned{}, Clock: w.clock.now})
	w.service = w.serviceWith(nil)
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, w.org)
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.project, w.org)
	w.exec(tb, `INSERT INTO skus (id, display_name, gpu_vendor, gpu_model, gpus_total, capacity_shape, allowed_counts,
		price_minor, price_currency) VALUES ('h200-8', 'H200', 'nvidia', 'H200', 8, 'node', '{1}', 350, 'USD')`)
	w.ctx = auth.With(telemetry.WithCorrelation(tb.Context(), "corr"), &auth.Principal{
		Kind: auth.KindUser, ID: "op", Name: "op", Platform: auth.Operator,
	})
	return w
}

// serviceWith is a service that asks somebody about artifacts; nil: nobody.
func (w *world) serviceWith(artifacts operation.Artifacts) *operation.Service {
	return operation.New(operation.Config{
		DB: w.db, Tasks: w.tasks, Artifacts: artifacts, Linger: 50 * time.Millisecond,
		CheckInputs: func(_ definition.Version, given json.RawMessage) (json.RawMessage, error) {
			if len(given) == 0 {
				given = json.RawMessage("{}")
			}
			return given, nil
		},
	})
}

// as is a context in which somebody with a role in the project asks.
func (w *world) as(tb testing.TB, name string, role auth.Role) context.Context {
	tb.Helper()
	return auth.With(telemetry.WithCorrelation(tb.Context(), "corr"), &auth.Principal{
		Kind: auth.KindUser, ID: name, Name: name,
		Projects: map[id.Project]auth.ProjectRole{w.project: {Org: w.org, Role: role}},
	})
}

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) count(tb testing.TB, query string, args ...any) (n int) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// node adds a node whose agent knows the kinds of steps that tests use.
func (w *world) node(tb testing.TB, hostname string, kinds ...string) id.Node {
	tb.Helper()
	if len(kinds) == 0 {
		kinds = []string{"file.render", "health.check"}
	}
	found, err := json.Marshal(map[string]any{"step_kinds": kinds})
	if err != nil {
		tb.Fatal(err)
	}
	n := id.New[id.Node]()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable,
		capabilities) VALUES ($1, 'active', $2, '192.0.2.1', 'h200-8', 8, 'eu', 'manual', true, '{"gpu.vendor": "nvidia"}')`, n,
		hostname)
	w.exec(tb, `INSERT INTO node_inspections (node_id, found) VALUES ($1, $2)`, n, found)
	return n
}

func (w *world) nodes(tb testing.TB, count int) []id.Node {
	tb.Helper()
	out := make([]id.Node, count)
	for i := range out {
		out[i] = w.node(tb, fmt.Sprintf("n%03d", i))
	}
	return out
}

// rented has somebody of the project rent a node.
func (w *world) rented(tb testing.TB, n id.Node, by string) id.Allocation {
	tb.Helper()
	return w.rentedIn(tb, n, by, w.org, w.project)
}

func (w *world) rentedIn(tb testing.TB, n id.Node, by string, org id.Org, project id.Project) id.Allocation {
	tb.Helper()
	a := id.New[id.Allocation]()
	w.exec(tb, `INSERT INTO allocations (id, org_id, project_id, status, capacity_shape, sku_id, sku_terms, price_minor,
		price_currency, gpus, region_code, node_id, hostname, access, event_id, requested_by, active_at)
		VALUES ($1, $2, $3, 'active', 'baremetal', 'h200-8', '{}', 1, 'USD', 8, 'eu', $4, 'n', 'user', $5, $6, clock_timestamp())`,
		a, org, project, n, id.New[id.Event](), by)
	w.exec(tb, `INSERT INTO allocation_resource_claims (id, allocation_id, claim_kind, node_id)
		VALUES ($1, $2, 'node_exclusive', $3)`, id.NewString(), a, n)
	return a
}

// define registers an active version: two steps that change the node and one that looks.
func (w *world) define(tb testing.TB, name string, change ...func(*definition.Definition)) definition.Ref {
	tb.Helper()
	file := json.RawMessage(`{"path":"/etc/demo/demo.conf","format":"ini","template":"port = {{port}}\n","values":{"port":8080}}`)
	d := definition.Definition{
		Type: name, Version: "v1", Title: "Prepare", Backend: definition.NodeAgent, Risk: definition.Low, RiskText: "none",
		Inputs:  json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`),
		Targets: []definition.TargetKind{definition.TargetNode, definition.TargetAllocation, definition.TargetGroup},
		Safety:  definition.Safety{Rented: definition.RentedProject}, Approval: definition.NoApproval,
		MaxDurationSeconds: 600,
		Steps: []definition.Step{
			{ID: "one", Kind: "file.render", With: file, TimeoutSeconds: 30, OnFailure: definition.Stop},
			{ID: "two", Kind: "file.render", With: file, TimeoutSeconds: 30, OnFailure: definition.Stop},
			{
				ID: "look", Kind: "health.check", TimeoutSeconds: 30, OnFailure: definition.Stop,
				With: json.RawMessage(`{"probes":[{"kind":"file","path":"/etc/x"}]}`),
			},
		},
	}
	for _, c := range change {
		c(&d)
	}
	document, err := d.Canonical()
	if err != nil {
		tb.Fatal(err)
	}
	sum := sha256.Sum256(document)
	w.exec(tb, `INSERT INTO operation_definitions (type, created_by) VALUES ($1, 'test')`, name)
	w.exec(tb, `INSERT INTO operation_definition_versions (type, version, number, status, document, digest, origin, created_by,
		updated_by, activated_at) VALUES ($1, 'v1', 1, 'active', $2, $3, 'registered', 'test', 'test', clock_timestamp())`,
		name, string(document), "sha256:"+hex.EncodeToString(sum[:]))
	return d.Ref()
}

func (w *world) submit(tb testing.TB, ask operation.Ask) operation.Operation {
	tb.Helper()
	o, err := w.service.Submit(w.ctx, ask)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func (w *world) get(tb testing.TB, of id.Operation) operation.Operation {
	tb.Helper()
	o, err := operation.Get(tb.Context(), w.db, of)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func (w *world) targets(tb testing.TB, of id.Operation) []operation.Target {
	tb.Helper()
	all, err := w.service.Targets(tb.Context(), of, nil, postgres.Slice[int32]{Limit: 5000})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func (w *world) steps(tb testing.TB, of id.Operation) []operation.Step {
	tb.Helper()
	return w.stepsThatAre(tb, of, "")
}

// stepsThatAre gives the steps whose newest attempt has a status.
func (w *world) stepsThatAre(tb testing.TB, of id.Operation, status string) []operation.Step {
	tb.Helper()
	all, err := w.service.Steps(tb.Context(), of, id.OperationTarget{}, status, operation.StepPosition{}, 5000)
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// turn takes one turn with a run, and wants it to go well.
func (w *world) turn(tb testing.TB, of id.Operation) operation.Look {
	tb.Helper()
	look, err := w.service.Turn(w.ctx, of)
	if err != nil {
		tb.Fatal(err)
	}
	return look
}

// settle lets agents work and takes turns until nothing moves any more.
func (w *world) settle(tb testing.TB, of id.Operation) operation.Operation {
	tb.Helper()
	for range 1000 {
		worked := w.work(tb)
		look := w.turn(tb, of)
		if look.Done || !worked && !look.Moved {
			return w.get(tb, of)
		}
	}
	tb.Fatal("the run does not come to rest")
	return operation.Operation{}
}

// fetch is what the nodes of running targets have to do, as they get it.
func (w *world) fetch(tb testing.TB) []*agentwire.Envelope {
	tb.Helper()
	rows, err := w.owner.Query(tb.Context(), `SELECT DISTINCT node_id::text FROM node_tasks WHERE status = 'queued'`)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var nodes []id.Node
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			tb.Fatal(err)
		}
		n, err := id.Parse[id.Node](text)
		if err != nil {
			tb.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	var out []*agentwire.Envelope
	for _, n := range nodes {
		e, err := w.queue.Wait(tb.Context(), n, 1, 0)
		if err != nil {
			tb.Fatal(err)
		}
		if e != nil {
			out = append(out, e)
		}
	}
	return out
}

// work has every agent do what it is asked for.
func (w *world) work(tb testing.TB) bool {
	tb.Helper()
	all := w.fetch(tb)
	for _, e := range all {
		w.report(tb, e)
	}
	return len(all) > 0
}

// fetchAndKeep has nodes fetch their work, and not yet do it.
func (w *world) fetchAndKeep(tb testing.TB) []*agentwire.Envelope {
	tb.Helper()
	w.kept = append(w.kept, w.fetch(tb)...)
	return w.kept
}

// reportKept has nodes do what they fetched.
func (w *world) reportKept(tb testing.TB) {
	tb.Helper()
	for _, e := range w.kept {
		w.report(tb, e)
	}
	w.kept = nil
}

// report does the steps of a task and reports them, as an agent would.
func (w *world) report(tb testing.TB, e *agentwire.Envelope) {
	tb.Helper()
	var p agentwire.OperationRunParams
	if err := json.Unmarshal(e.Params, &p); err != nil {
		tb.Fatal(err)
	}
	node, err := id.Parse[id.Node](e.NodeID)
	if err != nil {
		tb.Fatal(err)
	}
	w.mu.Lock()
	w.given = append(w.given, p)
	do := w.do
	w.mu.Unlock()
	out := agentwire.OperationRunOutput{}
	stopped := false
	for _, s := range p.Steps[p.Begin:] {
		o := outcome(s, agentwire.StepSucceeded)
		if p.Plan {
			o.Status = agentwire.StepPlanned
		}
		if do != nil {
			o = do(node, p, s)
		}
		if stopped {
			o = agentwire.StepOutcome{ID: s.ID, Kind: s.Kind, Status: agentwire.StepNotReached}
		}
		stopped = stopped || o.Status == agentwire.StepCancelled ||
			o.Status == agentwire.StepFailed && s.OnFailure == agentwire.OnFailureStop
		out.Steps = append(out.Steps, o)
	}
	w.result(tb, e, agentwire.ResultSucceeded, out)
}

func (w *world) result(tb testing.TB, e *agentwire.Envelope, status string, output any) {
	tb.Helper()
	raw, err := json.Marshal(output)
	if err != nil {
		tb.Fatal(err)
	}
	node, errNode := id.Parse[id.Node](e.NodeID)
	task, errTask := id.Parse[id.NodeTask](e.TaskID)
	if err := errors.Join(errNode, errTask, w.queue.Result(tb.Context(), node, task, agentwire.ResultRequest{
		Attempt: e.Attempt, Status: status, Output: raw, Build: agentwire.Build{Version: "1.2.3"},
	})); err != nil {
		tb.Fatal(err)
	}
}

// failed reports that a task failed, and nothing of its steps.
func (w *world) failed(tb testing.TB, e *agentwire.Envelope, status, code string) {
	tb.Helper()
	node, errNode := id.Parse[id.Node](e.NodeID)
	task, errTask := id.Parse[id.NodeTask](e.TaskID)
	if err := errors.Join(errNode, errTask, w.queue.Result(tb.Context(), node, task, agentwire.ResultRequest{
		Attempt: e.Attempt, Status: status, Build: agentwire.Build{Version: "1.2.3"},
		Error: &agentwire.TaskError{Code: code, Message: "it failed"},
	})); err != nil {
		tb.Fatal(err)
	}
}

func outcome(s agentwire.OperationStep, status string) agentwire.StepOutcome {
	o := agentwire.StepOutcome{
		ID: s.ID, Kind: s.Kind, Status: status, Changed: status == agentwire.StepSucceeded, Summary: "did " + s.ID,
		Attempts: 1, StartedAt: time.Now().Add(-time.Second).UTC(), FinishedAt: time.Now().UTC(),
	}
	if status == agentwire.StepFailed {
		o.Error = &agentwire.StepError{
			Code: "disk_full", Class: agentwire.FailurePermanent, Message: "no space is left", Remedy: "make some",
		}
	}
	return o
}

// failing has a step fail on some nodes.
func (w *world) failing(step string, on ...id.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.do = func(node id.Node, p agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome {
		for _, n := range on {
			if n == node && s.ID == step {
				return outcome(s, agentwire.StepFailed)
			}
		}
		if p.Plan {
			return outcome(s, agentwire.StepPlanned)
		}
		return outcome(s, agentwire.StepSucceeded)
	}
}

// run runs the workflow of a run to its end, with agents that work beside it.
func (w *world) run(tb testing.TB, of id.Operation) operation.Operation {
	tb.Helper()
	ctx, stop := context.WithCancel(tb.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			w.work(tb)
		}
	})
	env := durabletest.New(tb, w.service.RegisterWorker)
	env.ExecuteWorkflow(operation.Run, operation.Input{ID: of})
	stop()
	working.Wait()
	if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
		tb.Fatalf("the workflow must end well whatever happens: %v", env.GetWorkflowError())
	}
	return w.get(tb, of)
}

func wantCode(tb testing.TB, what string, err error, code string) {
	tb.Helper()
	if code == "" && err != nil || code != "" && fault.CodeOf(err) != code {
		tb.Errorf("%s: got %v, want code %q", what, err, code)
	}
}

func wantStatus(tb testing.TB, o operation.Operation, status operation.Status,
	counts map[operation.TargetStatus]int32,
) {
	tb.Helper()
	if o.Status != status {
		tb.Errorf("the run is %s (%s), want %s", o.Status, o.ErrorMessage, status)
	}
	for s, n := range counts {
		if o.Counts[s] != n {
			tb.Errorf("%d targets are %s, want %d: %v", o.Counts[s], s, n, o.Counts)
		}
	}
}
