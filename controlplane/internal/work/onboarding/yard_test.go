package onboarding_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

const yardSKU = "h200-sxm-baremetal-8g"

// yard is onboardings with real rows, real activities and real workflows, whose
// stages do what a script says.
type yard struct {
	db, owner *postgres.DB
	ctx       context.Context
	service   *onboarding.Service
	sites     *site.Service
	site      site.Site
	script    *script
	mischief  *mischief
}

func newYard(tb testing.TB, change ...func(*site.SettingsChange)) *yard {
	tb.Helper()
	y := &yard{mischief: &mischief{}}
	y.db, y.owner = postgrestest.NewWithOwner(tb)
	admin := &auth.Principal{Kind: auth.KindUser, ID: "operator-1", Name: "operator", Platform: auth.PlatformAdmin}
	y.ctx = auth.With(telemetry.WithCorrelation(tb.Context(), "corr-1"), admin)
	y.sites = site.New(site.Config{DB: y.db})
	y.script = &script{db: y.db, does: map[string]scripted{}}
	y.service = onboarding.New(onboarding.Config{DB: y.db, Sites: y.sites, Bringup: y.script, Mischief: y.mischief})
	region, url, pxe, nodePXE := "eu-1", "http://maas.example:5240/MAAS", "ens19", "eno8303"
	settings := site.SettingsChange{RegionCode: &region, APIBaseURL: &url, PXEIface: &pxe, NodePXEIface: &nodePXE}
	for _, c := range change {
		c(&settings)
	}
	var err error
	if y.site, err = y.sites.CreateSite(y.ctx, "yard", settings); err != nil {
		tb.Fatal(err)
	}
	y.credentials(tb)
	y.exec(tb, `UPDATE maas_site_profiles SET data_disks = 'leave'`) // or no proof from outside would end an onboarding
	return y
}

// credentials lets every site have some: a request for a machine of a site without
// them is refused.
func (y *yard) credentials(tb testing.TB) {
	tb.Helper()
	y.exec(tb, `UPDATE maas_sites SET api_token_fingerprint = 'a1', api_token_rotated_at = now(), power_fingerprint = 'b2', power_rotated_at = now()`)
}

// scripted is what a stage does at its nth execution, from 1.
type scripted func(ctx context.Context, w *bringup.Work, n int) (job.Result, error)

// script plays the stages. Those that it says nothing of do what they should.
type script struct {
	db    *postgres.DB
	mu    sync.Mutex
	does  map[string]scripted
	calls []string
	// proves is what a look shows; nil: nothing.
	proves  func(ctx context.Context, w *bringup.Work) (bringup.Proof, string, error)
	dropped []string // jobs whose first boots were removed
}

// ProveInstalled implements onboarding.Bringup.
func (s *script) ProveInstalled(ctx context.Context, w *bringup.Work) (bringup.Proof, string, error) {
	s.note("prove")
	if s.proves == nil {
		return bringup.Proof{}, "nothing is there", nil
	}
	return s.proves(ctx, w)
}

// Forget implements onboarding.Bringup.
func (s *script) Forget(_ context.Context, w *bringup.Work) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = append(s.dropped, w.Job)
	return nil
}

func (s *script) on(stage string, do scripted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.does[stage] = do
}

func (s *script) note(stage string) (do scripted, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, stage)
	for _, c := range s.calls {
		if c == stage {
			n++
		}
	}
	return s.does[stage], n
}

func (s *script) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *script) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

func (s *script) Stages() map[string]bringup.Stage {
	out := map[string]bringup.Stage{}
	for _, stage := range onboarding.Stages() {
		out[stage.Name] = func(ctx context.Context, w *bringup.Work) (job.Result, error) {
			if do, n := s.note(stage.Name); do != nil {
				return do(ctx, w, n)
			}
			return s.well(ctx, stage.Name, w)
		}
	}
	return out
}

func (s *script) Compensate(ctx context.Context, w *bringup.Work) error {
	if do, n := s.note(job.StageCompensate); do != nil {
		_, err := do(ctx, w, n)
		return err
	}
	return nil
}

func (s *script) Adopt(ctx context.Context, w *bringup.Work) (job.Result, error) {
	if do, n := s.note(job.StageAdopt); do != nil {
		return do(ctx, w, n)
	}
	return job.Result{Next: bringup.WaitForAgentEnrollment}, nil
}

// well is a stage of a machine that nothing is wrong with.
func (s *script) well(ctx context.Context, stage string, w *bringup.Work) (job.Result, error) {
	now := time.Now()
	switch stage {
	case bringup.CreateOrFindInMAAS:
		w.SystemID, w.PXEMAC = "sys-"+w.Hostname, "52:54:00:00:00:01"
		w.Observed = bringup.Observed{Status: "New", Power: "off", At: now}
	case bringup.WaitForReady:
		w.Observed = bringup.Observed{Status: "Ready", Power: "off", At: now}
	case bringup.RenderCloudInit:
		w.Facts.NodeCreated = true
		return job.Result{Message: "rendered"}, s.makeNode(ctx, w)
	case bringup.WaitForDeployed:
		w.Observed = bringup.Observed{Status: "Deployed", Power: "on", IPs: []string{"10.20.0.1"}, At: now}
		w.Facts.DeployedAt, w.Facts.Addresses = &now, []string{"10.20.0.1"}
	case bringup.WaitForHardwareSyncHealthy:
		w.Facts.SyncHealthy = &now
	case bringup.WaitForAgentEnrollment:
		return job.Result{Message: "the agent polled"}, s.poll(ctx, w.Node)
	}
	return job.Result{}, nil
}

func (s *script) makeNode(ctx context.Context, w *bringup.Work) error {
	if _, err := node.Get(ctx, s.db, w.Node); err == nil {
		return nil
	}
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.CreateInTx(ctx, tx, node.NewNode{
			ID: w.Node, Hostname: w.Hostname, SKU: w.SKU, RegionCode: w.Site.Settings.RegionCode, Mode: node.MAAS,
			AwaitedBy: w.WorkflowID,
		})
		return err
	})
}

// poll is what the first poll of an agent leaves behind.
func (s *script) poll(ctx context.Context, n id.Node) error {
	_, err := s.db.Exec(ctx, `UPDATE nodes SET first_poll_at = clock_timestamp() WHERE id = $1`, n)
	return err
}

// mischief goes wrong around stages.
type mischief struct {
	before func(durable.StageCall) error
	after  func(durable.StageCall, error) error
}

// Around implements job.Mischief[*bringup.Work].
func (m *mischief) Around(ctx context.Context, call durable.StageCall, w *bringup.Work,
	stage bringup.Stage,
) (job.Result, error) {
	if m.before != nil {
		if err := m.before(call); err != nil {
			return job.Result{}, err
		}
	}
	result, err := stage(ctx, w)
	if m.after != nil {
		if replaced := m.after(call, err); replaced != nil {
			return result, replaced
		}
	}
	return result, err
}

// asked is a request for machines, numbered from a number.
func (y *yard) asked(from, count int) onboarding.NewOnboarding {
	n := onboarding.NewOnboarding{Site: y.site.ID, SKU: yardSKU}
	for i := from; i < from+count; i++ {
		n.Machines = append(n.Machines, onboarding.Request{
			Hostname: fmt.Sprintf("c%04d", i),
			IPMIIP:   fmt.Sprintf("10.1.%d.%d", i/250, i%250+1),
		})
	}
	return n
}

func (y *yard) request(tb testing.TB, number int) onboarding.Onboarding {
	tb.Helper()
	o, err := y.service.Request(y.ctx, y.asked(number, 1))
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func (y *yard) read(tb testing.TB, o id.Onboarding) onboarding.Onboarding {
	tb.Helper()
	now, err := y.service.Get(y.ctx, o)
	if err != nil {
		tb.Fatal(err)
	}
	return now
}

// run carries an onboarding out. Each visit happens when nothing else does,
// with the workflow parked or waiting; after the last one it may still wait.
func (y *yard) run(tb testing.TB, o id.Onboarding,
	visits ...func(env *testsuite.TestWorkflowEnvironment),
) onboarding.Onboarding {
	tb.Helper()
	env := durabletest.New(tb, y.service.RegisterWorker)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: y.read(tb, o).WorkflowID})
	for i, visit := range visits {
		env.RegisterDelayedCallback(func() { visit(env) }, time.Duration(i+1)*24*time.Hour)
	}
	// Whoever is parked stays so: the end of the world ends the workflow.
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Duration(len(visits)+1)*24*time.Hour)
	env.ExecuteWorkflow(onboarding.Workflow, onboarding.Input{ID: o})
	return y.read(tb, o)
}

// act is a visit of an operator.
func (y *yard) act(tb testing.TB, o id.Onboarding, action job.Trigger) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		if _, err := y.service.Act(y.ctx, o, action, "because of the test"); err != nil {
			tb.Errorf("%s: %v", action, err)
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

func (y *yard) told(tb testing.TB, o id.Onboarding, event string) int {
	tb.Helper()
	return y.count(tb, `SELECT count(*) FROM outbox_events WHERE event_type = $1 AND aggregate_id = $2`, event, o.String())
}

// ledger is the ledger as stage/attempt:status.
func (y *yard) ledger(tb testing.TB, o id.Onboarding) []string {
	tb.Helper()
	events, err := y.service.Events(y.ctx, o, 0, 1000)
	if err != nil {
		tb.Fatal(err)
	}
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = fmt.Sprintf("%s/%d:%s", e.Stage, e.Attempt, e.Status)
	}
	return out
}

// fails is a stage that fails the first times.
func (s *script) fails(times int, stage string, f job.Failure) {
	s.on(stage, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		if n <= times {
			return job.Result{}, &f
		}
		return s.well(ctx, stage, w)
	})
}

const always = 1 << 30

func failure(class job.FailureClass) job.Failure {
	return job.Failure{
		Class: class, Code: job.CodeNamed("made_up"), Message: "it does not work", Remedy: "mend it",
		Details: map[string]any{"disk": "sda"},
	}
}

// abandon is what undoing does to the node.
func (y *yard) abandon(ctx context.Context, n id.Node) error {
	return y.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.Abandon(ctx, tx, n, "undone")
		return err
	})
}
