package allocation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/terminal"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// world is a control plane with nodes, a tenant with a project, and an agent on
// every node that does what it is asked for.
type world struct {
	db, owner *postgres.DB
	service   *allocation.Service
	agents    *agents
	cleanups  *cleanups
	terminals *terminals
	mischief  *plan
	org       id.Org
	project   id.Project
	ctx       context.Context
}

const h200 = "h200-8"

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{org: id.New[id.Org](), project: id.New[id.Project]()}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.agents = &agents{db: w.db, fail: map[id.Node]map[string]agentwire.TaskError{}, unhealthy: map[id.Node]string{}}
	w.cleanups, w.terminals, w.mischief = &cleanups{w: w}, &terminals{db: w.db}, &plan{}
	w.service = allocation.New(allocation.Config{
		DB: w.db, Tasks: w.agents, Cleanups: w.cleanups, Terminals: w.terminals, Mischief: w.mischief,
	})
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, w.org)
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.project, w.org)
	w.exec(tb, `INSERT INTO skus (id, display_name, gpu_vendor, gpu_model, gpus_total, capacity_shape, allowed_counts, price_minor, price_currency)
		VALUES ($1, 'H200', 'nvidia', 'H200', 8, 'node', '{1}', 350, 'USD')`, h200)
	w.ctx = w.as(tb, "ann")
	return w
}

// plan makes stages go wrong as a test wants it.
type plan struct{ allocation.Mischief }

func (p *plan) Around(ctx context.Context, of id.Allocation, at allocation.Stage,
	stage func(context.Context) error,
) error {
	if p.Mischief == nil {
		return stage(ctx)
	}
	return p.Mischief.Around(ctx, of, at, stage)
}

// as is a context in which a member of the project asks.
func (w *world) as(tb testing.TB, name string) context.Context {
	tb.Helper()
	return auth.With(telemetry.WithCorrelation(tb.Context(), "corr"), &auth.Principal{
		Kind: auth.KindServiceAccount, ID: name, Name: name,
		Projects: map[id.Project]auth.ProjectRole{w.project: {Org: w.org, Role: auth.ProjectMember}},
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

// node adds a node in service, with what a test wants to be different about it.
func (w *world) node(tb testing.TB, hostname string, changes ...string) id.Node {
	tb.Helper()
	n := id.New[id.Node]()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable)
		VALUES ($1, 'active', $2, '192.0.2.1', $3, 8, 'eu', 'manual', true)`, n, hostname, h200)
	w.exec(tb, `INSERT INTO node_contacts (node_id, last_contact_at) VALUES ($1, clock_timestamp())`, n)
	for _, c := range changes {
		w.exec(tb, `UPDATE nodes SET `+c+` WHERE id = $1`, n)
	}
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

func (w *world) create(tb testing.TB, ask allocation.Ask) []allocation.Allocation {
	tb.Helper()
	made, err := w.try(ask)
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

func (w *world) try(ask allocation.Ask) ([]allocation.Allocation, error) {
	if ask.SKU == "" {
		ask.SKU = h200
	}
	if ask.Project.IsZero() {
		ask.Project = w.project
	}
	return w.service.Create(w.ctx, ask)
}

func (w *world) get(tb testing.TB, of id.Allocation) allocation.Allocation {
	tb.Helper()
	a, err := allocation.Get(tb.Context(), w.db, of)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// provision runs the workflow of an allocation to its end.
func (w *world) provision(tb testing.TB, a allocation.Allocation,
	before ...func(*testsuite.TestWorkflowEnvironment),
) allocation.Allocation {
	tb.Helper()
	env := durabletest.New(tb, w.service.RegisterWorker)
	for _, f := range before {
		f(env)
	}
	env.ExecuteWorkflow(allocation.Provision, allocation.Input{ID: a.ID})
	if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
		tb.Fatalf("the workflow must end well whatever happens: %v", env.GetWorkflowError())
	}
	return w.get(tb, a.ID)
}

func (w *world) active(tb testing.TB, ask allocation.Ask) allocation.Allocation {
	tb.Helper()
	a := w.provision(tb, w.create(tb, ask)[0])
	if a.Status != allocation.Active {
		tb.Fatalf("%s: %+v", a.Status, a.Failure)
	}
	return a
}

func (w *world) release(tb testing.TB, a allocation.Allocation) allocation.Allocation {
	tb.Helper()
	a, err := w.service.Release(w.ctx, a.ID, allocation.Leaving{Cause: allocation.ByTenant})
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// clean runs the workflow that asks for the cleaning of a node.
func (w *world) clean(tb testing.TB, a allocation.Allocation) allocation.Allocation {
	tb.Helper()
	env := durabletest.New(tb, w.service.RegisterWorker)
	env.ExecuteWorkflow(allocation.Leave, allocation.Input{ID: a.ID})
	if env.GetWorkflowError() != nil {
		tb.Fatal(env.GetWorkflowError())
	}
	return w.get(tb, a.ID)
}

// claims counts the live claims of an allocation.
func (w *world) claims(tb testing.TB, of id.Allocation) int {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM allocation_resource_claims WHERE allocation_id = $1 AND ended_at IS NULL`, of)
}

// agents are the agents of all nodes: tasks end as soon as they are given.
type agents struct {
	db        *postgres.DB
	mu        sync.Mutex
	fail      map[id.Node]map[string]agentwire.TaskError // by type
	unhealthy map[id.Node]string
	given     []agenttask.Request
	silent    bool
	noLogin   bool         // nobody can log in to the accounts that they make
	hadUID    map[int]bool // uids that somebody had on their installations
	late      bool         // nobody fetches anything until its time is over
	tasks     map[id.NodeTask]agenttask.Task
}

func (a *agents) Enqueue(ctx context.Context, tx pgx.Tx, r agenttask.Request) (agenttask.Task, error) {
	if err := r.Owner.Owns(ctx, tx, r.Node, r.Type); err != nil {
		return agenttask.Task{}, err
	}
	if r.Type == agentwire.TypeProvisionUser {
		var root node.RootCause
		if r.Params.(agentwire.ProvisionUserParams).Sudo {
			root = node.RootBySudo
		}
		if err := node.LetIn(ctx, tx, r.Node, root, "test"); err != nil {
			return agenttask.Task{}, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.given = append(a.given, r)
	t := agenttask.Task{
		ID: id.New[id.NodeTask](), Node: r.Node, Type: r.Type, Status: agenttask.Succeeded, CreatedAt: time.Now(),
		DeadlineAt: time.Now().Add(time.Hour),
	}
	if a.silent {
		t.Status = agenttask.Queued
	}
	if a.late {
		t.Status, t.Error = agenttask.Expired, agentwire.TaskError{Code: agenttask.CodeNotFetched, Message: "nobody came"}
	}
	if e, bad := a.fail[r.Node][r.Type]; bad {
		t.Status, t.Error = agenttask.Failed, e
	}
	out := agentwire.HealthProbeOutput{Healthy: true, Checks: []agentwire.HealthCheck{{Name: "disk", Status: "ok"}}}
	if p, ok := r.Params.(agentwire.ProvisionUserParams); ok {
		if a.hadUID[p.UID] {
			t.Status, t.Error = agenttask.Failed, agentwire.TaskError{
				Code: "id_used_before", Message: "uid was given to mallory of allocation 0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c",
			}
		}
		var err error
		if t.Params, err = json.Marshal(p); err != nil {
			return t, err
		}
		t.Output, err = json.Marshal(agentwire.ProvisionUserOutput{UID: p.UID, LoginChecked: !a.noLogin})
		return a.keep(t), err
	}
	if why := a.unhealthy[r.Node]; why != "" {
		out = agentwire.HealthProbeOutput{Checks: []agentwire.HealthCheck{{Name: "gpu", Status: "failed", Detail: why}}}
	}
	var err error
	t.Output, err = json.Marshal(out)
	return a.keep(t), err
}

func (a *agents) keep(t agenttask.Task) agenttask.Task {
	if a.tasks == nil {
		a.tasks = map[id.NodeTask]agenttask.Task{}
	}
	a.tasks[t.ID] = t
	return t
}

func (a *agents) Task(_ context.Context, task id.NodeTask) (agenttask.Task, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tasks[task], nil
}

// expire ends what the agents do not fetch.
func (a *agents) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = true
}

func (a *agents) TellWhenEnded(ctx context.Context, task id.NodeTask, _ string) (agenttask.Task, error) {
	return a.Task(ctx, task)
}

func (a *agents) Cancel(ctx context.Context, task id.NodeTask, _ string) (agenttask.Task, error) {
	return a.Task(ctx, task)
}

// cleanups are the operations that clean nodes, which a test ends as it likes.
type cleanups struct {
	w       *world
	asked   []decommission.Request
	acted   []job.Trigger
	refuse  error
	live    decommission.Decommission
	started int
	ready   bool // a cleanup may begin in the transaction of a release
	// refusals is how often refuse is the answer; zero: always.
	refusals, refused int
}

func (c *cleanups) Request(ctx context.Context, of id.Node, r decommission.Request) (d decommission.Decommission,
	made bool, err error,
) {
	if c.refuse != nil && (c.refusals == 0 || c.refused < c.refusals) {
		c.refused++
		return d, false, c.refuse
	}
	c.asked = append(c.asked, r)
	d.ID, d.Node = id.New[id.Decommission](), of
	c.live, c.started = d, c.started+1
	return d, true, c.w.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return allocation.Tenancies{}.End(ctx, tx, of, d.ID, r.Reason)
	})
}

// Ready implements allocation.Cleanups.
func (c *cleanups) Ready(_ context.Context, of id.Node, r decommission.Request) (postgres.TxFunc, error) {
	if !c.ready {
		return nil, nil //nolint:nilnil // only a request can decide
	}
	return func(ctx context.Context, tx pgx.Tx) error {
		if c.refuse != nil {
			return c.refuse
		}
		c.asked = append(c.asked, r)
		c.live.ID, c.live.Node = id.New[id.Decommission](), of
		c.started++
		return allocation.Tenancies{}.End(ctx, tx, of, c.live.ID, r.Reason)
	}, nil
}

func (c *cleanups) Get(context.Context, id.Decommission) (decommission.Decommission, error) {
	if c.live.ID.IsZero() {
		return c.live, fault.New(fault.NotFound, "not_found", "there is none")
	}
	return c.live, nil
}

func (c *cleanups) Act(_ context.Context, _ id.Decommission, action job.Trigger, _ string) (decommission.Decommission,
	error,
) {
	c.acted = append(c.acted, action)
	return c.live, nil
}

// cleaned ends the operation on a node with a proof.
func (c *cleanups) cleaned(tb testing.TB, of id.Node) {
	tb.Helper()
	c.in(tb, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := node.NoteClean(ctx, tx, of, time.Now(), "test"); err != nil {
			return err
		}
		return allocation.Tenancies{}.Cleaned(ctx, tx, of, c.live.ID, "proven clean")
	})
}

func (c *cleanups) in(tb testing.TB, f func(ctx context.Context, tx pgx.Tx) error) {
	tb.Helper()
	if err := c.w.db.InTx(c.w.ctx, f); err != nil {
		tb.Fatal(err)
	}
}

type terminals struct {
	db     *postgres.DB
	ended  []id.Node
	refuse error
}

func (t *terminals) Mint(ctx context.Context, _ terminal.Wish, admit postgres.TxFunc) (terminal.Session,
	redact.Secret, error,
) {
	return terminal.Session{ID: id.New[id.TerminalSession]()}, redact.New("token"), cmp.Or(t.db.InTx(ctx, admit), t.refuse)
}

func (t *terminals) EndAll(_ context.Context, _ pgx.Tx, of id.Node) error {
	t.ended = append(t.ended, of)
	return nil
}
