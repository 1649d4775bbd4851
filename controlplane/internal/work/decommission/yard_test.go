package decommission_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/binding"
	certificates "gpuaas/controlplane/internal/fleet/certificate"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

const (
	yardSKU  = "h200-sxm-baremetal-8g"
	yardGPUs = 8 // of a node
)

// yard is operations on nodes with real rows, real activities, real tasks and
// real certificates. What MAAS does is scripted, and so are the agents.
type yard struct {
	db, owner *postgres.DB
	ctx       context.Context
	service   *decommission.Service
	nodes     *node.Service
	sites     *site.Service
	site      site.Site
	profile   id.Profile
	tasks     agenttask.Commands
	agent     *agent
	script    *script
	vault     *vault
	papers    *certificates.Service
	doors     *doors
	before    func(durable.StageCall) error
	after     func(durable.StageCall, error) error
	equip     func(durable.StageCall, *bringup.Work) // before the stage runs

	mu       sync.Mutex
	watched  []string         // what a node was at each look, without repetitions
	serves   map[id.Node]bool // whether it was schedulable at the last look
	doubts   []string         // nodes that are to be looked at, and why
	unproven []string         // looks at which a tainted node had become schedulable
}

func newYard(tb testing.TB, change ...func(*decommission.Config)) *yard {
	tb.Helper()
	y := &yard{vault: &vault{}, doors: &doors{}, serves: map[id.Node]bool{}}
	y.db, y.owner = postgrestest.NewWithOwner(tb)
	admin := &auth.Principal{Kind: auth.KindUser, ID: "operator-1", Name: "operator", Platform: auth.PlatformAdmin}
	y.ctx = auth.With(telemetry.WithCorrelation(tb.Context(), "corr-1"), admin)
	y.sites = site.New(site.Config{DB: y.db})
	y.nodes = node.New(node.Config{DB: y.db, OnDoubt: func(_ context.Context, _ pgx.Tx, of id.Node, reason string) error {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.doubts = append(y.doubts, of.String()+": "+reason)
		return nil
	}})
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	y.tasks = agenttask.Commands{DB: y.db}
	y.agent = &agent{
		owner: y.owner, does: map[string][]answer{},
		queue: agenttask.New(agenttask.QueueConfig{DB: y.db, Signer: signer{key}}),
	}
	y.script = &script{db: y.db, does: map[string]scripted{}}
	y.papers = certificates.New(certificates.Config{DB: y.db, Engine: &engine{key: key}, Issuer: "test"})
	cfg := decommission.Config{
		DB: y.db, Nodes: y.nodes, Sites: y.sites, Bringup: y.script, Tasks: y.tasks, Terminals: y.doors, Secrets: y.vault,
		Certificates: y.papers,
		Mischief:     y, Backoff: func(int) time.Duration { return time.Second }, Linger: -1,
	}
	for _, c := range change {
		c(&cfg)
	}
	y.service = decommission.New(cfg)
	region, url, pxe, nodePXE := "eu-1", "http://maas.example:5240/MAAS", "ens19", "eno8303"
	if y.site, err = y.sites.CreateSite(y.ctx, "yard",
		site.SettingsChange{RegionCode: &region, APIBaseURL: &url, PXEIface: &pxe, NodePXEIface: &nodePXE}); err != nil {
		tb.Fatal(err)
	}
	profiles, err := y.sites.Profiles(y.ctx, y.site.ID, postgres.Slice[id.Profile]{Limit: 1})
	if err != nil {
		tb.Fatal(err)
	}
	y.profile = profiles[0].ID
	return y
}

// watch notes how the node is.
func (y *yard) watch(ctx context.Context, of id.Node) {
	n, err := node.Get(ctx, y.db, of)
	if err != nil {
		return
	}
	text := string(n.Status)
	if n.HeldBy != "" {
		text += " held"
	}
	if n.Schedulable {
		text += " schedulable"
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.watched) == 0 || y.watched[len(y.watched)-1] != text {
		y.watched = append(y.watched, text)
	}
	if before, known := y.serves[of]; known && !before && n.Schedulable && n.Tainted() {
		y.unproven = append(y.unproven, text)
	}
	y.serves[of] = n.Schedulable
}

// engine signs certificates.
type engine struct{ key ed25519.PrivateKey }

func (e *engine) CreateSigningKey(context.Context, string) ([]byte, error) {
	return e.key.Public().(ed25519.PublicKey), nil
}

func (e *engine) Sign(_ context.Context, _ string, message []byte) ([]byte, error) {
	return ed25519.Sign(e.key, message), nil
}

// vault is the secrets engine: what was deleted, and why it cannot be.
type vault struct {
	mu      sync.Mutex
	failure error
	deleted []string
}

func (v *vault) Delete(_ context.Context, path string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failure == nil {
		v.deleted = append(v.deleted, path)
	}
	return v.failure
}

// doors are the terminals.
type doors struct {
	mu     sync.Mutex
	closed int
}

func (d *doors) EndAll(context.Context, pgx.Tx, id.Node) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed++
	return nil
}

// node adds one that is in a state; managed: it is a machine of MAAS.
func (y *yard) node(tb testing.TB, status node.Status, managed bool) id.Node {
	tb.Helper()
	n := id.New[id.Node]()
	mode := node.Manual
	if managed {
		mode = node.MAAS
	}
	hostname := "n-" + n.String()
	y.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable, tainted_at)
		VALUES ($1, $2, $3, '10.0.0.1', $4, 8, 'eu-1', $5, $6, clock_timestamp())`, n, string(status), hostname, yardSKU, string(mode), status == node.Active)
	if status != node.BootstrapIssued {
		y.shows(tb, n, yardGPUs)
	}
	if !managed {
		return n
	}
	err := y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
		return binding.Bind(ctx, tx, binding.Binding{
			Node: n, Site: y.site.ID, Profile: y.profile, SystemID: "m" + hostname[len(hostname)-6:],
			IPMIIP: "10.1.0." + strconv.Itoa(y.count(tb, `SELECT count(*) FROM nodes`)), Status: "Deployed",
		})
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func asked(mode decommission.Mode) decommission.Request {
	return decommission.Request{Mode: mode, Reason: "because of the test"}
}

func (y *yard) request(tb testing.TB, of id.Node, mode decommission.Mode) decommission.Decommission {
	tb.Helper()
	d, made, err := y.service.Request(y.ctx, of, asked(mode))
	if err != nil || !made {
		tb.Fatalf("request %s: made %t, %v", mode, made, err)
	}
	return d
}

func (y *yard) read(tb testing.TB, of id.Decommission) decommission.Decommission {
	tb.Helper()
	now, err := y.service.Get(y.ctx, of)
	if err != nil {
		tb.Fatal(err)
	}
	return now
}

func (y *yard) see(tb testing.TB, of id.Node) node.Node {
	tb.Helper()
	n, err := node.Get(y.ctx, y.db, of)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// run carries an operation out. Each visit happens when the workflow is parked
// or waits; after the last one it may still do so.
func (y *yard) run(tb testing.TB, of id.Decommission,
	visits ...func(env *testsuite.TestWorkflowEnvironment),
) decommission.Decommission {
	tb.Helper()
	env := durabletest.New(tb, y.service.RegisterWorker)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: y.read(tb, of).WorkflowID})
	for i, visit := range visits {
		env.RegisterDelayedCallback(func() { visit(env) }, time.Duration(i+1)*24*time.Hour)
	}
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Duration(len(visits)+1)*24*time.Hour)
	env.ExecuteWorkflow(decommission.Workflow, job.Input{ID: of.String()})
	d := y.read(tb, of)
	if panicked := (*temporal.PanicError)(nil); errors.As(env.GetWorkflowError(), &panicked) {
		tb.Errorf("the workflow ended: %v", panicked)
	}
	y.watch(y.ctx, d.Node)
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.unproven) > 0 {
		tb.Errorf("schedulable while tainted: %v", y.unproven)
	}
	return d
}

// act is a visit of an operator.
func (y *yard) act(tb testing.TB, of id.Decommission, action job.Trigger,
	first ...func(),
) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		for _, f := range first {
			f()
		}
		if _, err := y.service.Act(y.ctx, of, action, "because of the test"); err != nil {
			tb.Errorf("%s: %v", action, err)
		}
		env.SignalWorkflow(durable.ActSignal, nil)
	}
}

func (y *yard) override(tb testing.TB, of id.Decommission, stage string) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		if _, err := y.service.Override(y.ctx, of, stage, "the disk is shredded anyway", "data may be readable"); err != nil {
			tb.Errorf("override %s: %v", stage, err)
		}
		env.SignalWorkflow(durable.ActSignal, nil)
	}
}

func (y *yard) count(tb testing.TB, query string, args ...any) (n int) {
	tb.Helper()
	if err := y.owner.QueryRow(y.ctx, query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (y *yard) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := y.owner.Exec(y.ctx, query, args...); err != nil {
		tb.Fatal(err)
	}
}

// ledger is the ledger as stage/attempt:status, without what was started.
func (y *yard) ledger(tb testing.TB, of id.Decommission) []string {
	tb.Helper()
	events, err := y.service.Events(y.ctx, of, 0, 1000)
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, e := range events {
		if e.Status != job.StageStarted {
			out = append(out, fmt.Sprintf("%s/%d:%s", e.Stage, e.Attempt, e.Status))
		}
	}
	return out
}

// history is the states that the node passed, in their order.
func (y *yard) history(tb testing.TB, of id.Node) []string {
	tb.Helper()
	entries, err := y.nodes.History(y.ctx, of, 0, nil, 1000)
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, e := range slices.Backward(entries) {
		if e.To != "" && e.To != e.From {
			out = append(out, string(e.To))
		}
	}
	return out
}

// kinds are the kinds of evidence that there are, in their order.
func (y *yard) kinds(tb testing.TB, of id.Decommission) []string {
	tb.Helper()
	evidence, err := y.service.EvidenceOf(y.ctx, of)
	if err != nil {
		tb.Fatal(err)
	}
	out := []string{}
	for _, e := range evidence {
		out = append(out, e.Kind)
	}
	return out
}

// paper is the last certificate of an operation, checked as anybody can. It is
// nil if there is none.
func (y *yard) paper(tb testing.TB, of id.Decommission) *certificate.Signed {
	tb.Helper()
	var issued id.Certificate
	err := y.db.QueryRow(y.ctx,
		`SELECT id FROM decommission_certificates WHERE decommission_id = $1 ORDER BY seq DESC LIMIT 1`, of).Scan(&issued)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := y.papers.Signed(y.ctx, issued)
	keys, other := y.papers.Keys(y.ctx)
	if err := errors.Join(err, other); err != nil {
		tb.Fatal(err)
	}
	signed, err := certificate.Verify(raw, keys)
	if err != nil {
		tb.Fatalf("certificate does not verify: %v", err)
	}
	return signed
}

// tasksOf are the tasks of a node of a type.
func (y *yard) tasksOf(tb testing.TB, of id.Node, typ string) int {
	tb.Helper()
	return y.count(tb, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = $2`, of, typ)
}

// wants checks how an operation stands.
func wants(tb testing.TB, d decommission.Decommission, status job.Status, stage, code string) {
	tb.Helper()
	if d.Status != status || d.Stage != stage || d.ErrorCode != code {
		tb.Errorf("it is %s at %s with %q (%s: %s), want %s at %s with %q", d.Status, d.Stage, d.ErrorCode, d.FailureClass,
			d.ErrorMessage, status, stage, code)
	}
}
