package selfcheck_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/work/selfcheck"
)

// memory is a secrets engine in a map whose failures a test controls.
type memory struct {
	held map[string]map[string]redact.Secret
	fail error
	swap bool
}

func (m *memory) Put(_ context.Context, path string, v map[string]redact.Secret) error {
	if m.fail != nil {
		return m.fail
	}
	m.held[path] = v
	return nil
}

func (m *memory) Get(_ context.Context, path string) (map[string]redact.Secret, error) {
	if m.swap {
		return map[string]redact.Secret{"canary": redact.New("other")}, nil
	}
	return m.held[path], nil
}

func (m *memory) Delete(_ context.Context, path string) error {
	delete(m.held, path)
	return nil
}

type delivered struct{ after int }

func (d *delivered) Delivered(context.Context, string, string) (bool, error) {
	d.after--
	return d.after < 0, nil
}

type bench struct {
	db       *postgres.DB
	commands selfcheck.Commands
	secrets  *memory
	events   *delivered
	ctx      context.Context
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		db: postgrestest.New(t), secrets: &memory{held: map[string]map[string]redact.Secret{}},
		events: &delivered{},
	}
	b.commands = selfcheck.Commands{DB: b.db}
	b.ctx = auth.With(telemetry.WithCorrelation(t.Context(), "corr"), &auth.Principal{
		Kind: auth.KindUser, ID: "u1", Name: "op", Platform: auth.PlatformAdmin,
	})
	return b
}

func (b *bench) request(t *testing.T) selfcheck.Check {
	t.Helper()
	c, err := b.commands.Request(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run carries out a check in Temporal's test environment, on the real database.
func (b *bench) run(t *testing.T, c selfcheck.Check, before func(*testsuite.TestWorkflowEnvironment)) selfcheck.Check {
	t.Helper()
	env := durabletest.New(t, selfcheck.Register(
		&selfcheck.Activities{Commands: b.commands, Secrets: b.secrets, Events: b.events}))
	if before != nil {
		before(env)
	}
	env.ExecuteWorkflow(selfcheck.Workflow, selfcheck.Input{ID: c.ID})
	if !env.IsWorkflowCompleted() || env.GetWorkflowError() != nil {
		t.Fatalf("the workflow must end well whatever happens: %v", env.GetWorkflowError())
	}
	now, err := selfcheck.Get(t.Context(), b.db, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestARequestIsOneTransaction(t *testing.T) {
	b := newBench(t)
	c := b.request(t)
	var audits, events, starts int
	err := b.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM audit_logs WHERE action = 'self_check.request' AND target_id = $1::text AND correlation_id = 'corr'),
			(SELECT count(*) FROM outbox_events WHERE destination = 'nats' AND aggregate_id = $1::text),
			(SELECT count(*) FROM outbox_events WHERE destination = 'temporal' AND envelope->>'id' = 'self-check-' || $1::text)`,
			c.ID.String()).Scan(&audits, &events, &starts)
	})
	if err != nil || audits != 1 || events != 1 || starts != 1 {
		t.Errorf("%d audit entries, %d events, %d workflow starts, %v", audits, events, starts, err)
	}
}

func TestACheckPassesAndLeavesNoSecretBehind(t *testing.T) {
	b := newBench(t)
	c := b.run(t, b.request(t), nil)
	if c.Status != selfcheck.Passed || len(c.Steps) != 4 || c.FinishedAt == nil || c.WaitingFor != "" {
		t.Errorf("%+v", c)
	}
	if len(b.secrets.held) != 0 {
		t.Errorf("left behind: %v", b.secrets.held)
	}
}

// How long the request was on its way to a worker is told too.
func TestACheckSaysHowLongItWaitedForAWorker(t *testing.T) {
	b := newBench(t)
	c := b.request(t)
	if _, err := b.db.Exec(t.Context(),
		"UPDATE self_checks SET created_at = clock_timestamp() - interval '90 seconds'"); err != nil {
		t.Fatal(err)
	}
	first := b.run(t, c, nil).Steps[0]
	if first.Name != selfcheck.StepWorkflow || !first.OK || first.DurationMs < 90_000 {
		t.Errorf("%+v", first)
	}
}

func TestAStepThatRecoversInTimePasses(t *testing.T) {
	b := newBench(t)
	b.events.after = 3
	if c := b.run(t, b.request(t), nil); c.Status != selfcheck.Passed {
		t.Errorf("%+v", c)
	}
}

func TestAFailedStepSaysWhyAndWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(*bench)
		step    int
		code    string
	}{
		"events are not delivered": {func(b *bench) { b.events.after = 1 << 30 }, 2, "event_not_delivered"},
		"secrets engine unavailable": {func(b *bench) {
			b.secrets.fail = fault.New(fault.Unavailable, "secrets_unavailable",
				"down")
		}, 3, "secrets_unavailable"},
		"secrets engine has two minds": {func(b *bench) { b.secrets.swap = true }, 3, "secret_changed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.breakIt(b)
			got := b.run(t, b.request(t), nil)
			if got.Status != selfcheck.Failed || len(got.Steps) != 4 {
				t.Fatalf("%+v", got)
			}
			if s := got.Steps[c.step]; s.OK || s.Code != c.code || s.Message == "" {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestACancelledCheckEndsAsCancelled(t *testing.T) {
	b := newBench(t)
	b.events.after = 1 << 30
	c := b.run(t, b.request(t), func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, 10*time.Second)
	})
	if c.Status != selfcheck.Cancelled {
		t.Errorf("%+v", c)
	}
}

// cancellations counts the cancellations that wait for Temporal.
func (b *bench) cancellations(t *testing.T) (n int) {
	t.Helper()
	err := b.db.QueryRow(t.Context(), "SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.cancel'").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCancelOfARunningCheckIsRecordedForItsWorkflow(t *testing.T) {
	b := newBench(t)
	c := b.request(t)
	a := &selfcheck.Activities{Commands: b.commands, Secrets: b.secrets, Events: b.events}
	if _, err := a.BeginSelfCheck(b.ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	now, err := b.commands.Cancel(b.ctx, c.ID, "takes too long")
	if err != nil || now.Status != selfcheck.Running || b.cancellations(t) != 1 {
		t.Errorf("%+v, %d cancellations, %v", now, b.cancellations(t), err)
	}
}

func TestCancelBeforeAWorkerTookItUp(t *testing.T) {
	b := newBench(t)
	c := b.request(t)
	now, err := b.commands.Cancel(b.ctx, c.ID, "changed my mind")
	if err != nil || now.Status != selfcheck.Cancelled || b.cancellations(t) != 0 {
		t.Fatalf("%+v %v", now, err)
	}
	if after := b.run(t, c, nil); after.Status != selfcheck.Cancelled || len(after.Steps) != 0 {
		t.Errorf("the workflow did not leave it alone: %+v", after)
	}
	if _, err := b.commands.Cancel(b.ctx, c.ID, "again"); fault.KindOf(err) != fault.Conflict {
		t.Errorf("got %v", err)
	}
}

// Workers repeat activities after a crash, so each must be harmless the second
// time.
func TestEveryActivityMayBeRepeated(t *testing.T) {
	b := newBench(t)
	c := b.request(t)
	a := &selfcheck.Activities{Commands: b.commands, Secrets: b.secrets, Events: b.events}
	steps := []selfcheck.Step{{Name: selfcheck.StepDatabase, OK: true}}
	for range 2 {
		if proceed, err := a.BeginSelfCheck(b.ctx, c.ID); err != nil || !proceed {
			t.Fatal(proceed, err)
		}
	}
	for _, s := range []string{selfcheck.StepDatabase, selfcheck.StepSecrets} {
		for range 2 {
			if err := a.RunSelfCheckStep(b.ctx, c.ID, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		if err := a.FinishSelfCheck(b.ctx, c.ID, selfcheck.Pass, steps); err != nil {
			t.Fatal(err)
		}
	}
	var finished int
	err := b.db.QueryRow(t.Context(), "SELECT count(*) FROM outbox_events WHERE event_type = 'self_check.finished'").Scan(
		&finished)
	if err != nil || finished != 1 {
		t.Errorf("announced %d times, %v", finished, err)
	}
}

// Whoever reaches Temporal can ask for a step of a check that never existed or
// is over.
func TestAttackAStepOfACheckThatDoesNotRun(t *testing.T) {
	b := newBench(t)
	a := &selfcheck.Activities{Commands: b.commands, Secrets: b.secrets, Events: b.events}
	for what, check := range map[string]id.SelfCheck{"pending": b.request(t).ID, "none": id.New[id.SelfCheck]()} {
		if err := a.RunSelfCheckStep(b.ctx, check, selfcheck.StepSecrets); fault.CodeOf(err) != "self_check_not_running" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLifecycleIsSound(t *testing.T) {
	for _, err := range selfcheck.Lifecycle.Validate() {
		t.Error(err)
	}
}
