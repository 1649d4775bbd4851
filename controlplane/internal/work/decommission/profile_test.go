package decommission_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// another adds a profile to the site of the yard.
func (y *yard) another(tb testing.TB, name string, policy site.PolicyChange) id.Profile {
	tb.Helper()
	made, err := y.sites.CreateProfile(y.ctx, y.site.ID, site.ProfileChange{Name: &name, Policy: policy})
	if err != nil {
		tb.Fatal(err)
	}
	return made.ID
}

func (y *yard) profileOf(tb testing.TB, of id.Node) id.Profile {
	tb.Helper()
	b, err := binding.OfNode(y.ctx, y.db, of)
	if err != nil {
		tb.Fatal(err)
	}
	return b.Profile
}

// A reimage may name another profile: the node is installed by that one, and belongs
// to it once that is done, and not before.
func TestAReimageInstallsByAnotherProfileAndTheNodeThenBelongsToIt(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	image := "ubuntu/jammy"
	next := y.another(t, "next", site.PolicyChange{DistroSeries: &image})
	of := y.node(t, node.Active, true)
	r := asked(decommission.Reimage)
	plain, err := y.service.Plan(y.ctx, of, r)
	if err != nil {
		t.Fatal(err)
	}
	r.ProfileID = &next
	plan, err := y.service.Plan(y.ctx, of, r)
	if err != nil || plan.Hash == plain.Hash || plan.Profile != "next" || plain.Profile != site.DefaultProfile ||
		!slices.ContainsFunc(plan.Effects, func(e string) bool {
			return strings.Contains(e, "by the profile next instead of default")
		}) {
		t.Fatalf("plan is %+v, %v", plan, err)
	}
	r.PlanHash = plain.Hash
	_, _, err = y.service.Request(y.ctx, of, r)
	wantCode(t, err, fault.Conflict, "plan_stale")
	r.PlanHash = plan.Hash
	d, made, err := y.service.Request(y.ctx, of, r)
	if err != nil || !made || d.Profile != next || y.profileOf(t, of) != y.profile {
		t.Fatalf("request: %+v, %v", d, err)
	}
	if again, made, err := y.service.Request(y.ctx, of, r); err != nil || made || again.ID != d.ID {
		t.Errorf("asking again: made %t, %v", made, err)
	}
	_, _, err = y.service.Request(y.ctx, of, asked(decommission.Reimage))
	wantCode(t, err, fault.Conflict, "node_busy") // by the profile of the node, it would be another operation
	deployed := ""
	y.script.does[bringup.DeployViaMAAS] = func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		deployed = w.Profile.Policy.DistroSeries
		if y.profileOf(t, of) != y.profile {
			t.Error("the node belongs to the profile before it was installed by it")
		}
		w.Facts.Deploys++
		return job.Result{}, nil
	}
	ended := y.run(t, d.ID)
	if ended.Status != job.Completed || deployed != image {
		t.Fatalf("it is %s with %q: %s", ended.Status, deployed, ended.ErrorMessage)
	}
	if y.profileOf(t, of) != next || y.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'node.set_profile'`) != 1 {
		t.Error("the node does not belong to the profile that it was installed by")
	}
}

func TestAProfileThatAReimageCannotGoByIsRefused(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	of := y.node(t, node.Active, true)
	secure, no := site.EraseSecure, false
	strict := y.another(t, "strict", site.PolicyChange{MinimumErase: &secure, ReleaseFallbackNoErase: &no})
	lax := y.another(t, "lax", site.PolicyChange{})
	off := y.another(t, "off", site.PolicyChange{})
	y.exec(t, `UPDATE maas_site_profiles SET status = 'disabled' WHERE id = $1`, off)
	elsewhere := id.New[id.Profile]()
	refused := func(profile id.Profile, kind fault.Kind, code string) {
		t.Helper()
		r := asked(decommission.Reimage)
		r.ProfileID, r.Erase = &profile, decommission.EraseSecure
		_, _, err := y.service.Request(y.ctx, of, r)
		wantCode(t, err, kind, code)
		plan, err := y.service.Plan(y.ctx, of, r)
		if err != nil || len(plan.Blocks) == 0 || plan.Blocks[0].Code != code {
			t.Errorf("the plan says %+v, %v", plan.Blocks, err)
		}
		_, _, err = y.service.RequestBatch(y.ctx,
			decommission.NewBatch{Request: r, Selector: decommission.Selector{Nodes: []id.Node{of}}})
		wantCode(t, err, fault.Conflict, "batch_not_eligible")
	}
	refused(elsewhere, fault.Conflict, "profile_of_another_site")
	refused(off, fault.Conflict, "profile_disabled")
	y.exec(t, `UPDATE node_maas_state SET profile_id = $1`, strict)
	refused(lax, fault.Conflict, "profile_cleans_less")

	r := asked(decommission.SoftReset)
	r.ProfileID = &strict
	_, err := r.Checked()
	wantCode(t, err, fault.Invalid, "validation_error", "body.profile_id")
}

// A batch carries the profile to each of its operations.
func TestABatchOfReimagesCarriesTheProfile(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	next := y.another(t, "next", site.PolicyChange{})
	nodes := []id.Node{y.node(t, node.Active, true), y.node(t, node.Active, true)}
	r := asked(decommission.Reimage)
	r.ProfileID = &next
	_, left, err := y.service.RequestBatch(y.ctx,
		decommission.NewBatch{Request: r, Selector: decommission.Selector{Nodes: nodes}})
	if err != nil || len(left) > 0 || y.count(t, `SELECT count(*) FROM node_decommissions WHERE profile_id = $1`,
		next) != 2 {
		t.Errorf("left out %v, %v", left, err)
	}
}

// The profile says how long an agent is waited for before its node counts as
// unreachable.
func TestTheProfileSaysHowLongAnAgentIsWaitedFor(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	now, err := y.sites.Profile(y.ctx, y.site.ID, y.profile)
	if err != nil {
		t.Fatal(err)
	}
	seconds := int32(120)
	if _, err := y.sites.UpdateProfile(y.ctx, y.site.ID, y.profile, now.Version,
		site.ProfileChange{Policy: site.PolicyChange{AgentTimeoutSeconds: &seconds}}); err != nil {
		t.Fatal(err)
	}
	y.agent.set(true, false) // nobody fetches anything
	d := y.run(t, y.request(t, y.node(t, node.Active, true), decommission.SoftReset).ID)
	if d.ErrorCode != "agent_unreachable" || !strings.Contains(d.ErrorMessage, "within 2m0s") {
		t.Errorf("it is parked with %s: %s", d.ErrorCode, d.ErrorMessage)
	}
}

// What a first boot by the profile of the request does to data disks, the plan says;
// what one by the profile of the node would do, it does not.
func TestAPlanSaysWhatTheOtherProfileDoesToDataDisks(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	initialize, clean := site.DisksInitialize, site.DisksRequireClean
	making := y.another(t, "making", site.PolicyChange{DataDisks: &initialize})
	sparing := y.another(t, "sparing", site.PolicyChange{DataDisks: &clean})
	for name, c := range map[string]struct {
		own   site.DataDisks
		by    id.Profile
		makes bool
	}{
		"another that formats them":         {site.DisksRequireClean, making, true},
		"another that does not":             {site.DisksInitialize, sparing, false},
		"its own, which formats them":       {site.DisksInitialize, y.profile, true},
		"its own, which does no such thing": {site.DisksRequireClean, y.profile, false},
	} {
		t.Run(name, func(t *testing.T) {
			y.exec(t, `UPDATE maas_site_profiles SET data_disks = $2 WHERE id = $1`, y.profile, c.own)
			of := y.node(t, node.Active, true)
			r := asked(decommission.Reimage)
			r.ProfileID, r.StorageCleanup = &c.by, decommission.CleanupNone
			plan, err := y.service.Plan(y.ctx, of, r)
			if err != nil || len(plan.Blocks) > 0 {
				t.Fatalf("%+v, %v", plan.Blocks, err)
			}
			said := slices.ContainsFunc(plan.Effects, func(e string) bool {
				return strings.HasPrefix(e, "DESTROYS what is on all disks but the root disk")
			})
			rendered := false
			y.script.on(bringup.RenderCloudInit, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
				rendered = w.InitializeDisks
				return y.script.well(ctx, bringup.RenderCloudInit, w)
			})
			d, _, err := y.service.Request(y.ctx, of, r)
			if err != nil {
				t.Fatal(err)
			}
			y.run(t, d.ID)
			if said != c.makes || rendered != c.makes {
				t.Errorf("the plan says so: %t; it is done: %t", said, rendered)
			}
		})
	}
}

// What a request asked of the machine and the node holds for the operation, however
// often it begins again.
func TestAReimageThatBeginsAgainForgetsNothingOfItsRequest(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	of := y.node(t, node.Active, true)
	r := asked(decommission.Reimage)
	r.KeepOut, r.MatchHardware = true, true
	d, _, err := y.service.Request(y.ctx, of, r)
	if err != nil {
		t.Fatal(err)
	}
	f := failure(bringup.InputConfigError, "image_missing")
	f.Final = true
	y.script.fails(1, bringup.LoadSiteConfig, f)
	end := y.run(t, d.ID, y.act(t, d.ID, job.RestartClean))
	wants(t, end, job.Completed, decommission.StageEnable, "")
	n, err := node.Get(y.ctx, y.db, of)
	if err != nil || n.Status != node.Quarantined || end.Facts.Asked == nil || !end.Facts.Asked.MatchHardware {
		t.Errorf("the node is %s, %v; it remembers %+v", n.Status, err, end.Facts.Asked)
	}
}
