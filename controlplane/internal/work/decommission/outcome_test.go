package decommission_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

var noGPU = agentwire.GPUScrubOutput{
	Outcome: "not_applicable", Reason: "this machine has no GPU", GPUs: []agentwire.GPUScrubbed{},
}

// passes lets nodes of the yard's site pass on which no GPU is seen.
func (y *yard) passes(tb testing.TB) {
	tb.Helper()
	y.exec(tb, `UPDATE maas_site_profiles SET gpu_scrub = $1`, string(site.ScrubIfPresent))
}

// A job that reached its goal with less than was asked for is completed, and says
// so: in its row, in its event, in lists and in the document that is signed.
func TestDowngradesAreNotGreen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode       decommission.Mode
		let        func(*yard)
		override   string
		want       decommission.Outcome
		downgrades []string
	}{
		"all was done": {mode: decommission.SoftReset, want: decommission.Clean},
		"released without erasing": {mode: decommission.Reimage, want: decommission.WithGaps, let: func(y *yard) {
			y.script.on(bringup.ReleaseMAASNode, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
				f := released(w)
				f.FellBack, f.Achieved, f.FallbackReason, f.DecidedBy = true, "none", "a disk refused", bringup.DecidedByPolicy
				w.Facts.Release = &f
				return job.Result{Evidence: []job.Evidence{{Kind: bringup.EvidenceRelease, Value: f}}}, nil
			})
		}, downgrades: []string{"quick → none: " + bringup.DecidedByPolicy}},
		"no GPU was seen": {mode: decommission.SoftReset, want: decommission.WithGaps, let: func(y *yard) {
			y.agent.on(agentwire.TypeGPUScrub, succeeds(noGPU))
		}, downgrades: []string{"overwrite → none: policy gpu_scrub"}},
		"gone on without a stage": {
			mode: decommission.SoftReset, want: decommission.WithGaps, override: decommission.StageScrub,
			let: func(y *yard) {
				y.agent.on(agentwire.TypeGPUScrub, fails("gpu_helper_crashed", "the helper crashed"))
			}, downgrades: []string{"done → passed over: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			y.shows(t, n, 0)
			y.passes(t)
			if c.let != nil {
				c.let(y)
			}
			d := y.request(t, n, c.mode)
			var visits []func(*testsuite.TestWorkflowEnvironment)
			if c.override != "" {
				visits = append(visits, y.override(t, d.ID, c.override))
			}
			d = y.run(t, d.ID, visits...)
			wants(t, d, job.Completed, decommission.StageEnable, "")
			if d.Outcome != c.want {
				t.Errorf("its outcome is %q, want %q", d.Outcome, c.want)
			}
			told := y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'node.decommission.completed'
				AND envelope #>> '{payload,outcome}' = $1`, string(c.want))
			if told != 1 {
				t.Errorf("%d events tell the outcome", told)
			}
			for _, o := range decommission.Outcomes() {
				if got := y.listed(t, o); slices.Contains(got, d.ID) != (o == c.want) {
					t.Errorf("those that are %s: %v", o, got)
				}
			}
			y.downgraded(t, d.ID, c.downgrades)
		})
	}
}

// A drain leaves disks and GPUs as they are, so its end is not called clean.
func TestWhatCleansNothingIsNotCalledClean(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.Drain)
	if _, err := y.service.Override(y.ctx, d.ID, decommission.StageDrain, "dead", "accounts"); err == nil ||
		!strings.Contains(err.Error(), "override is not possible now") {
		t.Errorf("an override of what is not parked: %v", err)
	}
	if d = y.run(t, d.ID); d.Status != job.Completed || d.Outcome != "" {
		t.Errorf("%s, outcome %q", d.Status, d.Outcome)
	}
	if got := y.listed(t, decommission.Clean); len(got) != 0 {
		t.Errorf("clean are %v", got)
	}
}

func (y *yard) listed(tb testing.TB, o decommission.Outcome) (out []id.Decommission) {
	tb.Helper()
	all, err := y.service.List(y.ctx, decommission.Filter{Outcome: o}, postgres.Slice[id.Decommission]{Limit: 10})
	if err != nil {
		tb.Fatal(err)
	}
	for _, d := range all {
		out = append(out, d.ID)
	}
	return out
}

// downgraded compares what the document of an operation names as downgrades.
func (y *yard) downgraded(tb testing.TB, of id.Decommission, want []string) {
	tb.Helper()
	var got []string
	for _, w := range y.paper(tb, of).Document.Downgrades {
		got = append(got, w.Requested+" → "+w.Achieved+": "+w.DecidedBy)
	}
	if len(got) != len(want) || len(want) == 1 && got[0][:len(want[0])] != want[0] {
		tb.Errorf("downgrades are %q, want %q", got, want)
	}
}

// A node whose SKU has GPUs is parked if none is seen on it, unless its profile
// says otherwise; one whose SKU has none needs no scrub and has no gap.
func TestAScrubThatSeesNoGPUIsParkedByDefault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gpus, status, outcome string
		pass                  bool
	}{
		"by default":            {gpus: "8", status: "failed_manual_intervention"},
		"a SKU without GPUs":    {gpus: "0", status: "completed", outcome: "clean"},
		"the profile allows it": {gpus: "8", status: "completed", outcome: "with_gaps", pass: true},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			y.exec(t, `UPDATE nodes SET gpus_total = $2::text::integer WHERE id = $1`, n, c.gpus)
			y.shows(t, n, 0)
			if c.pass {
				y.passes(t)
			}
			y.agent.on(agentwire.TypeGPUScrub, succeeds(noGPU))
			d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
			if string(d.Status) != c.status || string(d.Outcome) != c.outcome {
				t.Errorf("it is %s %q (%s), want %s %q", d.Status, d.Outcome, d.ErrorMessage, c.status, c.outcome)
			}
			if c.outcome == "" {
				return
			}
			gaps := y.paper(t, d.ID).Document.NotCovered
			if !slices.ContainsFunc(gaps, func(g certificate.Gap) bool { return g.What == "memory of GPUs" }) {
				t.Errorf("gaps are %+v", gaps)
			}
		})
	}
}

// A node that is dead needs one decision: what only its agent could do is passed
// over with one stated risk, and the machine is installed anew.
func TestADeadNodeIsReimagedByOneDecision(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.Reimage)
	y.agent.set(true, false)
	var offered *decommission.OverrideOffer
	d = y.run(t, d.ID, func(env *testsuite.TestWorkflowEnvironment) {
		offered = decommission.OfferedOverride(y.read(t, d.ID))
		if offered == nil || len(offered.Also) != 2 {
			t.Fatalf("what is offered: %+v", offered)
		}
		if _, err := y.service.Override(y.ctx, d.ID, offered.Stage, "mainboard was replaced", "memory of GPUs",
			"validate_clean_node"); fault.CodeOf(err) != "stage_not_overridable" {
			t.Errorf("the proof is passed over: %v", err)
		}
		if _, err := y.service.Override(y.ctx, d.ID, offered.Stage, "mainboard was replaced", "memory of GPUs",
			offered.Also...); err != nil {
			t.Error(err)
		}
		y.agent.set(false, false)
		env.SignalWorkflow(durable.ActSignal, nil)
	})
	wants(t, d, job.Completed, decommission.StageEnable, "")
	if len(d.Overrides) != 3 || d.Outcome != decommission.WithGaps {
		t.Errorf("it is %s, and went on without %+v", d.Outcome, d.Overrides)
	}
}

// A virtual machine that was added by hand has no profile that could let it pass.
func TestAVirtualMachineAddedByHandIsCleanedWithGaps(t *testing.T) {
	for virtual, want := range map[bool]job.Status{true: job.Completed, false: job.FailedManualIntervention} {
		t.Run(strconv.FormatBool(virtual), func(t *testing.T) {
			y := newYard(t, func(c *decommission.Config) { c.WithoutGPUs = virtual })
			n := y.node(t, node.Active, false)
			y.shows(t, n, 0)
			y.agent.on(agentwire.TypeGPUScrub, succeeds(noGPU))
			d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
			if d.Status != want || virtual && d.Outcome != decommission.WithGaps {
				t.Errorf("%s, %s: %s", d.Status, d.Outcome, d.ErrorMessage)
			}
		})
	}
}
