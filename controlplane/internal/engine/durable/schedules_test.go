package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// calendar is a test's own part of Temporal's schedules.
type calendar struct {
	t      *testing.T
	access stacktest.TemporalAccess
	raw    client.Client
	prefix string
	ours   *durable.Client
}

func newCalendar(t *testing.T) *calendar {
	t.Helper()
	c := &calendar{t: t, access: stacktest.Temporal(t)}
	options := c.access.Options(t)
	options.Logger = nothing{}
	raw, err := client.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	c.raw = raw
	return c.beside()
}

// beside is another part of the same schedules.
func (c *calendar) beside() *calendar {
	c.t.Helper()
	other := &calendar{
		t: c.t, access: c.access, raw: c.raw, prefix: "test/" + id.NewString() + "/", ours: c.replica(),
	}
	c.t.Cleanup(func() {
		if err := c.replica().KeepSchedules(context.WithoutCancel(c.t.Context()), other.prefix, nil); err != nil {
			c.t.Errorf("remove the schedules of the test: %v", err)
		}
	})
	return other
}

// replica is another process of the control plane, which remembers nothing.
func (c *calendar) replica() *durable.Client {
	c.t.Helper()
	replica, err := durable.Open(durable.Config(c.access), slog.New(slog.DiscardHandler))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(replica.Close)
	return replica
}

// nothing is a logger of Temporal that says nothing.
type nothing struct{}

func (nothing) Debug(string, ...any) {}
func (nothing) Info(string, ...any)  {}
func (nothing) Warn(string, ...any)  {}
func (nothing) Error(string, ...any) {}

func (c *calendar) hourly(name string) durable.Schedule {
	return durable.Schedule{
		ID: c.prefix + name, Every: time.Hour, Offset: 7 * time.Minute, Jitter: time.Minute,
		Workflow: "nobody-runs-it", WorkflowID: c.prefix + name, Input: map[string]string{"site": name},
	}
}

func (c *calendar) keep(want ...durable.Schedule) {
	c.t.Helper()
	if err := c.ours.KeepSchedules(c.t.Context(), c.prefix, want); err != nil {
		c.t.Fatal(err)
	}
}

func (c *calendar) handle(name string) client.ScheduleHandle {
	return c.raw.ScheduleClient().GetHandle(c.t.Context(), c.prefix+name)
}

func (c *calendar) see(name string) *client.ScheduleDescription {
	c.t.Helper()
	d, err := c.handle(name).Describe(c.t.Context())
	if err != nil {
		c.t.Fatalf("describe %s: %v", name, err)
	}
	return d
}

func (c *calendar) exists(name string) bool {
	_, err := c.handle(name).Describe(c.t.Context())
	return err == nil
}

func shown(d *client.ScheduleDescription) string {
	s, a := d.Schedule, d.Schedule.Action.(*client.ScheduleWorkflowAction)
	spec := make([]string, 0, 1)
	for _, i := range s.Spec.Intervals {
		spec = append(spec, fmt.Sprintf("%v+%v", i.Every, i.Offset))
	}
	return fmt.Sprintf("every %s jitter %v; %s on %s with %s; %s, catch up %v; paused %v %q",
		strings.Join(spec, " "), s.Spec.Jitter, a.Workflow, a.TaskQueue, input(a), s.Policy.Overlap, s.Policy.CatchupWindow,
		s.State.Paused, s.State.Note)
}

func input(a *client.ScheduleWorkflowAction) string {
	var all []string
	for _, arg := range a.Args {
		all = append(all, string(arg.(interface{ GetData() []byte }).GetData()))
	}
	return strings.Join(all, ",")
}

func TestSchedulesFollowWhatIsWanted(t *testing.T) {
	t.Parallel()
	c := newCalendar(t)
	base := c.hourly("a")
	for _, step := range []struct {
		what   string
		change func(*durable.Schedule)
		shown  string
	}{
		{
			"created", func(*durable.Schedule) {},
			`every 1h0m0s+7m0s jitter 1m0s; nobody-runs-it on gpuaas with {"site":"a"}; Skip, catch up 1h0m0s; paused false ""`,
		},
		{
			"another interval", func(s *durable.Schedule) { s.Every, s.Offset, s.Jitter = 5*time.Minute, 11*time.Second, 0 },
			`every 5m0s+11s jitter 0s; nobody-runs-it on gpuaas with {"site":"a"}; Skip, catch up 5m0s; paused false ""`,
		},
		{
			"paused", func(s *durable.Schedule) { s.Paused, s.PauseNote = true, "the site is disabled" },
			`every 5m0s+11s jitter 0s; nobody-runs-it on gpuaas with {"site":"a"}; Skip, catch up 5m0s; paused true "the site is disabled"`,
		},
		{
			"resumed", func(s *durable.Schedule) { s.Paused = false },
			`every 5m0s+11s jitter 0s; nobody-runs-it on gpuaas with {"site":"a"}; Skip, catch up 5m0s; paused false ""`,
		},
		{
			"another input", func(s *durable.Schedule) { s.Input = 7 },
			`every 5m0s+11s jitter 0s; nobody-runs-it on gpuaas with 7; Skip, catch up 5m0s; paused false ""`,
		},
		{
			"another workflow, no input", func(s *durable.Schedule) { s.Workflow, s.Input = "other", nil },
			`every 5m0s+11s jitter 0s; other on gpuaas with ; Skip, catch up 5m0s; paused false ""`,
		},
	} {
		step.change(&base)
		c.keep(base, c.hourly("b"))
		if got := shown(c.see("a")); got != step.shown {
			t.Errorf("%s:\n got %s\nwant %s", step.what, got, step.shown)
		}
	}
	untouched := c.see("b")
	if !untouched.Info.LastUpdateAt.Equal(time.Unix(0, 0)) && !untouched.Info.LastUpdateAt.IsZero() {
		t.Errorf("one that was wanted unchanged was written at %v", untouched.Info.LastUpdateAt)
	}
	c.keep(c.hourly("b"))
	if c.exists("a") || !c.exists("b") {
		t.Error("one that is not wanted any more stays, or another went with it")
	}
	if err := c.handle("b").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := c.hourly("b")
	b.Every = 2 * time.Hour
	c.keep(b)
	if !c.exists("b") {
		t.Error("one that was deleted in Temporal is not made anew by a change")
	}
}

func TestSchedulesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCalendar(t)
	other := c.beside()
	other.keep(other.hourly("a"))
	c.keep(c.hourly("a"))
	c.keep()
	if c.exists("a") || !other.exists("a") {
		t.Error("a prefix reached beyond itself")
	}
}

// While nothing new is wanted, Temporal is not asked, except every ten minutes:
// then changes that somebody made there are undone.
func TestWhatIsChangedInTemporalIsPutRight(t *testing.T) {
	t.Parallel()
	c := newCalendar(t)
	now := time.Now()
	c.ours.At(func() time.Time { return now })
	want := []durable.Schedule{c.hourly("paused"), c.hourly("deleted"), c.hourly("changed")}
	c.keep(want...)
	before := shown(c.see("changed"))
	ctx := t.Context()
	stray, err := c.raw.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: c.prefix + "stray", Spec: client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Hour}}},
		Action: &client.ScheduleWorkflowAction{Workflow: "nobody-runs-it", TaskQueue: "q"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.handle("paused").Pause(ctx, client.SchedulePauseOptions{Note: "by hand"}); err != nil {
		t.Fatal(err)
	}
	if err := c.handle("deleted").Delete(ctx); err != nil {
		t.Fatal(err)
	}
	err = c.handle("changed").Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (
		*client.ScheduleUpdate, error,
	) {
		in.Description.Schedule.Spec.Calendars = []client.ScheduleCalendarSpec{{}}
		return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the stray is listed", func() bool {
		found, err := c.raw.ScheduleClient().List(ctx, client.ScheduleListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for found.HasNext() {
			if entry, err := found.Next(); err != nil {
				t.Fatal(err)
			} else if entry.ID == stray.GetID() {
				return true
			}
		}
		return false
	})
	now = now.Add(10*time.Minute - time.Second)
	c.keep(want...)
	if !c.see("paused").Schedule.State.Paused || c.exists("deleted") || !c.exists("stray") {
		t.Error("Temporal was asked although nothing new was wanted")
	}
	now = now.Add(time.Second)
	c.keep(want...)
	if s := c.see("paused").Schedule.State; s.Paused || s.Note != "" {
		t.Errorf("a pause by hand stays: %+v", s)
	}
	if !c.exists("deleted") || c.exists("stray") {
		t.Error("one that was deleted is not back, or a stray one stays")
	}
	if d := c.see("changed"); shown(d) != before || len(d.Schedule.Spec.Calendars) != 0 {
		t.Errorf("a change by hand stays: %s %+v", shown(d), d.Schedule.Spec)
	}
}

func TestVerifyingWritesNothingWhereNothingDiffers(t *testing.T) {
	t.Parallel()
	c := newCalendar(t)
	paused, plain := c.hourly("paused"), c.hourly("plain")
	paused.Paused, paused.PauseNote, plain.Input, plain.Jitter, plain.Offset = true, "why", nil, 0, 0
	for range 2 {
		c.ours = c.replica()
		c.keep(paused, plain)
	}
	for _, name := range []string{"paused", "plain"} {
		if at := c.see(name).Info.LastUpdateAt; !at.Equal(time.Unix(0, 0)) && !at.IsZero() {
			t.Errorf("%s was written again at %v", name, at)
		}
	}
}

func TestReplicasKeepSchedulesAtOnce(t *testing.T) {
	t.Parallel()
	c := newCalendar(t)
	replicas := []*durable.Client{c.replica(), c.replica(), c.replica()}
	everybody := func(want ...durable.Schedule) {
		t.Helper()
		var all sync.WaitGroup
		for _, r := range replicas {
			all.Go(func() {
				if err := r.KeepSchedules(t.Context(), c.prefix, want); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	a, b := c.hourly("a"), c.hourly("b")
	everybody(a, b)
	a.Every = 2 * time.Hour
	everybody(a, b)
	if got := c.see("a").Schedule.Spec.Intervals[0].Every; got != 2*time.Hour || !c.exists("b") {
		t.Errorf("every %v", got)
	}
	everybody(b)
	if c.exists("a") || !c.exists("b") {
		t.Error("what is there is not what all wanted")
	}
	// A replica that read the wanted schedules before a site was added deletes
	// the new schedule. It is back with that replica's next look.
	if err := c.replica().KeepSchedules(t.Context(), c.prefix, []durable.Schedule{b, c.hourly("new")}); err != nil {
		t.Fatal(err)
	}
	late := replicas[0]
	for _, want := range [][]durable.Schedule{{b, c.hourly("new")}, {b}, {b, c.hourly("new")}} {
		if err := late.KeepSchedules(t.Context(), c.prefix, want); err != nil {
			t.Fatal(err)
		}
	}
	if !c.exists("new") {
		t.Error("a replica that had read too early took a schedule away for good")
	}
}

func TestASchedulesOwnMistakesAreNamed(t *testing.T) {
	t.Parallel()
	c := newCalendar(t)
	outside, unwritable, never := c.hourly("a"), c.hourly("a"), c.hourly("a")
	outside.ID, unwritable.Input, never.Every = "elsewhere", func() {}, 0
	for what, tc := range map[string]struct {
		want []durable.Schedule
		code string
	}{
		"outside of the prefix":      {[]durable.Schedule{outside}, "schedule_malformed"},
		"twice":                      {[]durable.Schedule{c.hourly("a"), c.hourly("a")}, "schedule_malformed"},
		"an input without a writing": {[]durable.Schedule{unwritable}, "schedule_malformed"},
		"no interval":                {[]durable.Schedule{never, c.hourly("good")}, "schedule_refused"},
	} {
		if err := c.ours.KeepSchedules(t.Context(), c.prefix, tc.want); fault.CodeOf(err) != tc.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !c.exists("good") {
		t.Error("one that is refused kept another from being made")
	}
	c.keep(c.hourly("a"), c.hourly("good")) // an error is not remembered as done
	if !c.exists("a") {
		t.Error("not made after an error")
	}
}

func TestSchedulesOfATemporalThatIsNotThere(t *testing.T) {
	t.Parallel()
	c, err := durable.Open(durable.Config{Address: "127.0.0.1:1", Namespace: "x"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := c.KeepSchedules(ctx, "x/", nil); fault.CodeOf(err) != "temporal_unavailable" {
		t.Error(err)
	}
	access := stacktest.Temporal(t)
	access.Namespace = "missing"
	nowhere, err := durable.Open(durable.Config(access), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	if err := nowhere.KeepSchedules(t.Context(), "x/", nil); fault.CodeOf(err) != "temporal_namespace_missing" {
		t.Error(err)
	}
}

// patient does what its input names once, and then waits for a signal.
func patient(ctx workflow.Context, in map[string]string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	if err := workflow.ExecuteActivity(ctx, in["do"]).Get(ctx, nil); err != nil {
		return err
	}
	workflow.GetSignalChannel(ctx, "word").Receive(ctx, nil)
	return nil
}

func TestAScheduleStartsItsWorkflowNeverTwoAtOnce(t *testing.T) {
	t.Parallel()
	c, p, kind := newCalendar(t), &probe{}, "patient-"+id.NewString()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.ours.RunWorker(ctx, time.Second, func(w worker.Registry) {
			w.RegisterWorkflowWithOptions(patient, workflow.RegisterOptions{Name: kind})
			w.RegisterActivityWithOptions(p.Observe, activity.RegisterOptions{Name: kind})
		})
	}()
	s := c.hourly("a")
	s.Workflow, s.Input = kind, map[string]string{"do": kind}
	c.keep(s)
	trigger := func() {
		t.Helper()
		if err := c.handle("a").Trigger(t.Context(), client.ScheduleTriggerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	trigger()
	testkit.Eventually(t, "the workflow runs", func() bool { return p.runs.Load() == 1 })
	first := c.see("a").Info.RunningWorkflows
	if len(first) != 1 || !strings.HasPrefix(first[0].WorkflowID, s.WorkflowID) {
		t.Fatalf("running: %+v", first)
	}
	if got := p.correlation.Load(); got != first[0].FirstExecutionRunID {
		t.Errorf("correlation %v of run %s", got, first[0].FirstExecutionRunID)
	}
	if got := p.actor.Load(); got != "system:workflow:"+first[0].WorkflowID {
		t.Errorf("actor %v", got)
	}
	// It is triggered again while it runs, by hand and by the clock: nothing
	// starts, and nothing is kept for later.
	trigger()
	testkit.Eventually(t, "the trigger is skipped", func() bool { return c.see("a").Info.NumActionsSkippedOverlap == 1 })
	s.Every, s.Offset, s.Jitter = time.Second, 0, 0
	c.keep(s)
	testkit.Eventually(t, "two more are due", func() bool { return c.see("a").Info.NumActionsSkippedOverlap >= 3 })
	s.Every = time.Hour
	s.Paused, s.PauseNote = true, "so that nothing else is due"
	c.keep(s)
	if err := c.raw.SignalWorkflow(t.Context(), first[0].WorkflowID, "", "word", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.raw.GetWorkflow(t.Context(), first[0].WorkflowID, "").Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "none is running", func() bool { return len(c.see("a").Info.RunningWorkflows) == 0 })
	s.Paused = false
	c.keep(s)
	if n := c.see("a").Info.NumActions; n != 1 || p.runs.Load() != 1 {
		t.Errorf("%d starts, %d ran: what was missed was made up for", n, p.runs.Load())
	}
	trigger()
	testkit.Eventually(t, "it starts anew", func() bool { return p.runs.Load() == 2 })
	second := c.see("a").Info.RunningWorkflows
	if len(second) != 1 || second[0].WorkflowID == first[0].WorkflowID ||
		p.correlation.Load() == first[0].FirstExecutionRunID {
		t.Errorf("the second: %+v, correlation %v", second, p.correlation.Load())
	}
	if err := c.raw.SignalWorkflow(t.Context(), second[0].WorkflowID, "", "word", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.raw.GetWorkflow(t.Context(), second[0].WorkflowID, "").Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
