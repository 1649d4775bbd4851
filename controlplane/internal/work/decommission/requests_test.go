package decommission_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

func wantCode(tb testing.TB, err error, kind fault.Kind, code string, says ...string) {
	tb.Helper()
	f, _ := fault.As(err)
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code {
		tb.Errorf("failure is %v, want %s %s", err, kind, code)
		return
	}
	for _, text := range says {
		if !strings.Contains(f.Message+" "+f.Remedy+" "+fmt.Sprint(f.Fields), text) {
			tb.Errorf("%q with remedy %q and %v does not say %q", f.Message, f.Remedy, f.Fields, text)
		}
	}
}

// Combinations that make no sense are refused with the reason.
func TestRequestsThatMakeNoSense(t *testing.T) {
	for name, c := range map[string]struct {
		request decommission.Request
		field   string
	}{
		"no reason":    {decommission.Request{Mode: decommission.Drain}, "body.reason"},
		"blank reason": {decommission.Request{Mode: decommission.Drain, Reason: " \n"}, "body.reason"},
		"endless reason": {
			decommission.Request{Mode: decommission.Drain, Reason: strings.Repeat("x", 501)},
			"body.reason",
		},
		"no mode":      {decommission.Request{Reason: "r"}, "body.mode"},
		"unknown mode": {decommission.Request{Mode: "burn", Reason: "r"}, "body.mode"},
		"unknown erase": {
			decommission.Request{Mode: decommission.Reimage, Erase: "shred", Reason: "r"},
			"body.erase",
		},
		"unknown cleanup": {decommission.Request{
			Mode: decommission.SoftReset, StorageCleanup: "some",
			Reason: "r",
		}, "body.storage_cleanup"},
		"soft reset with erase": {decommission.Request{
			Mode: decommission.SoftReset, Erase: decommission.EraseQuick,
			Reason: "r",
		}, "body.erase"},
		"storage cleanup with erase": {decommission.Request{
			Mode:  decommission.StorageCleanup,
			Erase: decommission.EraseSecure, Reason: "r",
		}, "body.erase"},
		"drain with erase": {decommission.Request{
			Mode: decommission.Drain, Erase: decommission.EraseQuick,
			Reason: "r",
		}, "body.erase"},
		"retire with erase": {decommission.Request{
			Mode: decommission.Retire, Erase: decommission.EraseQuick,
			Reason: "r",
		}, "body.erase"},
		"reactivate with erase": {decommission.Request{
			Mode: decommission.Reactivate, Erase: decommission.EraseQuick,
			Reason: "r",
		}, "body.erase"},
		"remove with erase": {decommission.Request{
			Mode: decommission.Remove, Erase: decommission.EraseQuick,
			Reason: "r",
		}, "body.erase"},
		"full with cleanup": {decommission.Request{
			Mode:           decommission.FullDecommission,
			StorageCleanup: decommission.CleanupLocal, Reason: "r",
		}, "body.storage_cleanup"},
		"drain with cleanup": {decommission.Request{
			Mode: decommission.Drain, StorageCleanup: decommission.CleanupAll,
			Reason: "r",
		}, "body.storage_cleanup"},
		"reactivate with cleanup": {decommission.Request{
			Mode:           decommission.Reactivate,
			StorageCleanup: decommission.CleanupWeka, Reason: "r",
		}, "body.storage_cleanup"},
		"remove with cleanup": {decommission.Request{
			Mode: decommission.Remove, StorageCleanup: decommission.CleanupLocal,
			Reason: "r",
		}, "body.storage_cleanup"},
		"cleanup of nothing": {decommission.Request{
			Mode:           decommission.StorageCleanup,
			StorageCleanup: decommission.CleanupNone, Reason: "r",
		}, "body.storage_cleanup"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.request.Checked()
			wantCode(t, err, fault.Invalid, "validation_error", c.field)
		})
	}
}

func TestDefaultsOfRequests(t *testing.T) {
	for mode, want := range map[decommission.Mode][2]string{
		decommission.SoftReset: {"none", "local"}, decommission.Reimage: {"quick", "local"},
		decommission.FullDecommission: {"quick", "none"},
		decommission.StorageCleanup:   {"none", "local"}, decommission.Drain: {"none", "none"},
		decommission.Retire:     {"none", "local"},
		decommission.Reactivate: {"none", "local"}, decommission.Remove: {"none", "none"},
	} {
		r, err := asked(mode).Checked()
		if err != nil || string(r.Erase) != want[0] || string(r.StorageCleanup) != want[1] {
			t.Errorf("%s: %s, %s, %v", mode, r.Erase, r.StorageCleanup, err)
		}
	}
}

// fits says which modes a node of a state may go through, in the order of the
// table of states.
var fits = map[decommission.Mode]string{
	//                             boot enr  act  off  qua  dra  ret  rem  del
	decommission.SoftReset:        "  -   -    +    +    +    -    -    -    - ",
	decommission.StorageCleanup:   "  -   -    +    +    +    -    -    -    - ",
	decommission.Reimage:          "  -   -    +    +    +    +    +    -    - ",
	decommission.FullDecommission: "  -   -    +    +    +    +    +    -    - ",
	decommission.Drain:            "  -   -    +    +    +    +    -    -    - ",
	decommission.Retire:           "  -   -    +    +    +    +    -    -    - ",
	decommission.Reactivate:       "  -   -    -    -    -    -    +    -    - ",
	decommission.Remove:           "  +   +    -    -    -    -    +    +    - ",
}

func TestWhichStatesAModeNeeds(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for mode, row := range fits {
		columns := strings.Fields(row)
		if len(columns) != len(node.Lifecycle.States) {
			t.Fatalf("%s says whether it fits %d states, and a node has %d: add the state to each row of fits, where the table has it",
				mode, len(columns), len(node.Lifecycle.States))
		}
		for i, want := range columns {
			status := node.Lifecycle.States[i].Name
			n := y.node(t, status, mode == decommission.Reimage)
			plan, err := y.service.Plan(y.ctx, n, decommission.Request{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			_, made, err := y.service.Request(y.ctx, n, asked(mode))
			if made != (want == "+") || (len(plan.Blocks) == 0) != made {
				t.Errorf("%s of a node that is %s: made %t, %v; blocks %+v", mode, status, made, err, plan.Blocks)
			}
			if !made {
				wantCode(t, err, fault.Conflict, "node_state_conflict", string(status))
				if f, _ := fault.As(err); f.Remedy == "" {
					t.Errorf("%s of a node that is %s: no remedy", mode, status)
				}
			}
		}
	}
}

func TestWhatABeginningIsRefusedFor(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	_, _, err := y.service.Request(y.ctx, id.New[id.Node](), asked(decommission.Drain))
	wantCode(t, err, fault.NotFound, "node_not_found")

	_, _, err = y.service.Request(y.ctx, y.node(t, node.Active, false), asked(decommission.Reimage))
	wantCode(t, err, fault.Conflict, "node_not_in_maas")

	onboarded := y.node(t, node.Active, true)
	job := id.NewString()
	y.exec(t, `INSERT INTO node_onboardings (id, site_id, profile_id, hostname, ipmi_ip, sku_id, node_id, current_stage, workflow_id, requested_by, correlation_id)
		SELECT $1, $2, $3, hostname, '10.9.9.9', sku_id, id, 'load_site_config', 'w', 'somebody', 'c' FROM nodes WHERE id = $4`, job, y.site.ID, y.profile, onboarded)
	_, _, err = y.service.Request(y.ctx, onboarded, asked(decommission.SoftReset))
	wantCode(t, err, fault.Conflict, "node_busy", job, "gpuaas onboarding explain")

	busy := y.node(t, node.Active, true)
	first := y.request(t, busy, decommission.SoftReset)
	for _, mode := range decommission.Modes() {
		if mode == decommission.SoftReset {
			continue
		}
		_, _, err = y.service.Request(y.ctx, busy, asked(mode))
		wantCode(t, err, fault.Conflict, "node_busy", first.ID.String(), "gpuaas decommission explain")
	}
	other := asked(decommission.SoftReset)
	other.StorageCleanup = decommission.CleanupAll
	_, _, err = y.service.Request(y.ctx, busy, other)
	wantCode(t, err, fault.Conflict, "node_busy", first.ID.String())

	y.exec(t, `UPDATE maas_site_profiles SET minimum_erase = 'secure'`)
	_, _, err = y.service.Request(y.ctx, y.node(t, node.Active, true), asked(decommission.Reimage))
	wantCode(t, err, fault.Conflict, "erase_below_policy", "secure")
	y.exec(t, `UPDATE maas_site_profiles SET minimum_erase = 'none'`)
	y.exec(t, `UPDATE maas_sites SET status = 'disabled'`)
	for _, mode := range []decommission.Mode{decommission.Reimage, decommission.FullDecommission, decommission.SoftReset} {
		if _, made, err := y.service.Request(y.ctx, y.node(t, node.Active, true), asked(mode)); err != nil || !made {
			t.Errorf("a site that is disabled stands in the way of a %s: %v", mode, err)
		}
	}
}

func TestAskingTwiceIsOneOperation(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.Retire)
	again, made, err := y.service.Request(y.ctx, n, asked(decommission.Retire))
	if err != nil || made || again.ID != d.ID {
		t.Errorf("asked again: %s, made %t, %v", again.ID, made, err)
	}
	var group sync.WaitGroup
	other := y.node(t, node.Active, false)
	type outcome struct {
		id   id.Decommission
		made bool
		err  error
	}
	results := make([]outcome, 8)
	for i := range results {
		group.Go(func() {
			d, made, err := y.service.Request(y.ctx, other, asked(decommission.Retire))
			results[i] = outcome{d.ID, made, err}
		})
	}
	group.Wait()
	first := 0
	for _, r := range results {
		if r.err != nil || r.id != results[0].id {
			t.Errorf("one of many that asked at once got %+v", r)
		}
		if r.made {
			first++
		}
	}
	if rows := y.count(t, `SELECT count(*) FROM node_decommissions WHERE node_id = $1`, other); first != 1 || rows != 1 {
		t.Errorf("%d were made, %d rows", first, rows)
	}
	// Different ones at once: one wins, the others are told who.
	third, modes := y.node(t, node.Active, false),
		[]decommission.Mode{decommission.Retire, decommission.Drain, decommission.SoftReset, decommission.StorageCleanup}
	results = make([]outcome, len(modes))
	for i, mode := range modes {
		group.Go(func() {
			d, made, err := y.service.Request(y.ctx, third, asked(mode))
			results[i] = outcome{d.ID, made, err}
		})
	}
	group.Wait()
	won := 0
	for _, r := range results {
		if r.made {
			won++
		} else {
			wantCode(t, r.err, fault.Conflict, "node_busy")
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

// A plan that something was changed under is refused.
func TestAPlanIsStaleAfterEachChange(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	reason := func(sql string, args ...any) func(*testing.T, id.Node) {
		return func(t *testing.T, n id.Node) {
			t.Helper()
			y.exec(t, sql, append([]any{n}, args...)...)
		}
	}
	for name, change := range map[string]func(*testing.T, id.Node){
		"state":      reason(`UPDATE nodes SET status = 'quarantined', schedulable = false WHERE id = $1`),
		"generation": reason(`UPDATE nodes SET generation = generation + 1 WHERE id = $1`),
		"hostname":   reason(`UPDATE nodes SET hostname = hostname || 'x' WHERE id = $1`),
		"hold":       reason(`UPDATE nodes SET hold_reason = 'investigated', schedulable = false WHERE id = $1`),
		"taint":      reason(`UPDATE nodes SET clean_at = clock_timestamp() + interval '1 hour' WHERE id = $1`),
		"machine":    reason(`UPDATE node_maas_state SET maas_system_id = 'zzzzzz' WHERE node_id = $1`),
		"MAAS": func(t *testing.T, n id.Node) {
			t.Helper()
			y.exec(t, `UPDATE node_maas_state SET last_maas_status = 'Broken' WHERE node_id = $1`, n)
		},
		"site": func(t *testing.T, _ id.Node) {
			t.Helper()
			now, err := y.sites.Site(y.ctx, y.site.ID)
			if err != nil {
				t.Fatal(err)
			}
			name := now.Name + "x"
			if _, err := y.sites.UpdateSite(y.ctx, now.ID, now.Version, site.Change{Name: &name}); err != nil {
				t.Fatal(err)
			}
		},
		"profile": func(t *testing.T, _ id.Node) {
			t.Helper()
			now, err := y.sites.Profile(y.ctx, y.site.ID, y.profile)
			if err != nil {
				t.Fatal(err)
			}
			flip := !now.Policy.RemoveMAASRecord
			if _, err := y.sites.UpdateProfile(y.ctx, y.site.ID, y.profile, now.Version,
				site.ProfileChange{Policy: site.PolicyChange{RemoveMAASRecord: &flip}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := y.node(t, node.Active, true)
			r := asked(decommission.FullDecommission)
			before, err := y.service.Plan(y.ctx, n, r)
			if err != nil || before.Hash == "" || len(before.Blocks) > 0 {
				t.Fatalf("plan is %+v, %v", before, err)
			}
			again, err := y.service.Plan(y.ctx, n, r)
			if err != nil || again.Hash != before.Hash {
				t.Errorf("the same plan has another hash: %v", err)
			}
			change(t, n)
			r.PlanHash = before.Hash
			_, _, err = y.service.Request(y.ctx, n, r)
			wantCode(t, err, fault.Conflict, "plan_stale")
			after, err := y.service.Plan(y.ctx, n, asked(decommission.FullDecommission))
			if err != nil {
				t.Fatal(err)
			}
			r.PlanHash = after.Hash
			if _, made, err := y.service.Request(y.ctx, n, r); err != nil || !made {
				t.Errorf("the new plan: made %t, %v", made, err)
			}
		})
	}
}

func TestAPlanTellsOneRequestFromAnother(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	hashes := map[string]string{}
	for _, r := range []decommission.Request{
		{Mode: decommission.Reimage},
		{Mode: decommission.Reimage, Erase: decommission.EraseSecure},
		{Mode: decommission.Reimage, StorageCleanup: decommission.CleanupNone},
		{Mode: decommission.Reimage, KeepOut: true},
		{Mode: decommission.Reimage, MatchHardware: true},
		{Mode: decommission.Reimage, KeepOut: true, MatchHardware: true},
		{Mode: decommission.FullDecommission},
		{Mode: decommission.SoftReset},
		{Mode: decommission.Drain},
	} {
		plan, err := y.service.Plan(y.ctx, n, r)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := hashes[plan.Hash]; twice {
			t.Errorf("%+v has the hash of %s", r, other)
		}
		hashes[plan.Hash] = fmt.Sprintf("%+v", r)
		if len(plan.Stages) == 0 || plan.Ends == "" || plan.Usually == "" || len(plan.Effects) == 0 {
			t.Errorf("plan says little: %+v", plan)
		}
	}
	r := asked(decommission.Drain)
	plan, err := y.service.Plan(y.ctx, n, asked(decommission.Retire))
	if err != nil {
		t.Fatal(err)
	}
	r.PlanHash = plan.Hash
	_, _, err = y.service.Request(y.ctx, n, r)
	wantCode(t, err, fault.Conflict, "plan_stale")
	if rows := y.count(t, `SELECT count(*) FROM node_decommissions`); rows != 0 {
		t.Errorf("%d rows: planning changes nothing", rows)
	}
}

// A plan says what is asked of the machine before it serves again, and one that did
// not know of it is not carried out.
func TestAPlanShowsWhatTheMachineIsAcceptedBy(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	r := asked(decommission.Reimage)
	without, err := y.service.Plan(y.ctx, n, r)
	if err != nil || without.KeepOut || without.MatchHardware || strings.Contains(without.Ends, "quarantined") {
		t.Fatalf("plan is %+v, %v", without, err)
	}
	r.KeepOut, r.MatchHardware, r.PlanHash = true, true, without.Hash
	_, _, err = y.service.Request(y.ctx, n, r)
	wantCode(t, err, fault.Conflict, "plan_stale")
	plan, err := y.service.Plan(y.ctx, n, r)
	if err != nil || !plan.KeepOut || !plan.MatchHardware || !strings.HasPrefix(plan.Ends, "quarantined") {
		t.Fatalf("plan is %+v, %v", plan, err)
	}
	for _, setting := range []string{"keep_out_of_service", "require_hardware_match"} {
		if !strings.Contains(strings.Join(plan.Effects, "\n"), "("+setting+")") {
			t.Errorf("the plan does not tell of %s: %q", setting, plan.Effects)
		}
	}
	r.PlanHash = plan.Hash
	if d, made, err := y.service.Request(y.ctx, n, r); err != nil || !made || !d.Facts.KeepsOut() {
		t.Errorf("made %t, %v: %+v", made, err, d.Facts)
	}
}

// What must not be passed over is not.
func TestOverridesAreBounded(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, mode := range decommission.Modes() {
		for _, s := range decommission.TableOf(mode) {
			if s.Pseudo || s.Detour {
				continue
			}
			from := node.Active
			if mode == decommission.Reactivate || mode == decommission.Remove {
				from = node.Retired
			}
			d := y.request(t, y.node(t, from, true), mode)
			y.exec(t, `UPDATE node_decommissions SET status = 'failed_manual_intervention', parked_at = now(), started_at = now(), current_stage = $2 WHERE id = $1`, d.ID, s.Name)
			_, err := y.service.Override(y.ctx, d.ID, s.Name, "because", "some")
			may := s.Overridable && (mode != decommission.Reimage || s.Name != bringup.ReleaseMAASNode)
			if may != (err == nil) {
				t.Errorf("%s of %s: %v", s.Name, mode, err)
			}
			proof := slices.Contains([]string{
				decommission.StageValidate, decommission.StageCertificate,
				decommission.StageEnable, decommission.StageDisable,
			}, s.Name)
			if may && proof {
				t.Errorf("%s of %s can be passed over", s.Name, mode)
			}
		}
	}
	d := y.request(t, y.node(t, node.Active, true), decommission.SoftReset)
	_, err := y.service.Override(y.ctx, d.ID, decommission.StageDisable, "because", " ")
	wantCode(t, err, fault.Invalid, "residual_risk_missing")
	_, err = y.service.Override(y.ctx, d.ID, decommission.StageDrain, "because", "some")
	wantCode(t, err, fault.Conflict, "action_not_allowed")
	y.exec(t, `UPDATE node_decommissions SET status = 'failed_manual_intervention', parked_at = now(), started_at = now(), current_stage = 'drain_node' WHERE id = $1`, d.ID)
	_, err = y.service.Override(y.ctx, d.ID, decommission.StageStorage, "because", "some")
	wantCode(t, err, fault.Conflict, "override_of_other_stage")
	_, err = y.service.Act(y.ctx, d.ID, job.RetryStage, "because")
	_, late := y.service.Override(y.ctx, d.ID, decommission.StageDrain, "because", "some")
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, late, fault.Conflict, "action_not_allowed") // and is not taken for the retry
}
