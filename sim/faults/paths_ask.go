package faults

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gpuaas/contract/apiclient"
)

// onboardAsLarger onboards the machine as one of a SKU with more memory than any
// simulated machine has.
func (r *run) onboardAsLarger(ctx context.Context) error {
	r.skuID = "faults-" + strconv.Itoa(r.number)
	most := int32(1 << 20)
	made, err := r.world.api.CreateSkuWithResponse(ctx, &apiclient.CreateSkuParams{}, apiclient.SkuNewBody{
		SkuId: r.skuID, DisplayName: "More memory than there is", GpuModel: "H200", GpusTotal: 8,
		GpuVendor: apiclient.SkuNewBodyGpuVendorNvidia, CapacityShape: apiclient.SkuNewBodyCapacityShapeNode,
		AllowedCounts: []int32{1}, PriceCurrency: "USD", Hardware: &apiclient.SkuHardware{MemoryGib: &most},
	})
	if _, err := apiclient.Read(made, err); err != nil {
		return fmt.Errorf("create SKU: %w", err)
	}
	return r.onboard(ctx)
}

// asksFor makes the SKU of the machine ask for less memory.
func (r *run) asksFor(ctx context.Context, gib int32) error {
	now, err := r.world.api.GetSkuWithResponse(ctx, r.skuID)
	if _, err := apiclient.Read(now, err); err != nil {
		return fmt.Errorf("read SKU: %w", err)
	}
	match := strconv.Quote(strconv.FormatInt(now.JSON.Version, 10))
	if _, err := apiclient.Read(r.world.api.UpdateSkuWithResponse(ctx, r.skuID, &apiclient.UpdateSkuParams{IfMatch: match},
		apiclient.SkuChange{Hardware: &apiclient.SkuHardware{MemoryGib: &gib}})); err != nil {
		return fmt.Errorf("change SKU: %w", err)
	}
	return nil
}

// takeShortWay asks for what the plan of a dead node offers.
func (r *run) takeShortWay(ctx context.Context) error {
	if err := r.happen("power_off"); err != nil {
		return err
	}
	if err := r.world.Silence(ctx, r.node.String()); err != nil {
		return err
	}
	end, without, risk := true, true, "what was in the memory of the machine"
	plan := func(body apiclient.DecommissionPlanBody) (*apiclient.DecommissionPlan, error) {
		body.Mode, body.EndAllocation = reimage, &end
		answer, err := r.world.api.PlanNodeDecommissionWithResponse(ctx, r.node,
			&apiclient.PlanNodeDecommissionParams{}, body)
		if _, err := apiclient.Read(answer, err); err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		return answer.JSON, nil
	}
	offered, err := plan(apiclient.DecommissionPlanBody{})
	if err != nil {
		return err
	}
	if offered.ShortWay == nil {
		return errors.New("the plan of a dead node does not offer the short way")
	}
	chosen, err := plan(apiclient.DecommissionPlanBody{WithoutAgent: &without, ResidualRisk: &risk})
	if err != nil {
		return err
	}
	made, err := r.world.api.DecommissionNodeWithResponse(ctx, r.node, &apiclient.DecommissionNodeParams{},
		apiclient.DecommissionNewBody{
			Mode: reimage, Reason: "its machine is dead", EndAllocation: &end, WithoutAgent: &without, ResidualRisk: &risk,
			PlanHash: &chosen.PlanHash,
		})
	if _, err := apiclient.Read(made, err); err != nil {
		return fmt.Errorf("ask for %s: %w", r.Mode, err)
	}
	r.job, r.doing = made.JSON.DecommissionId, Decommission
	return nil
}

// releasedUnasked has somebody release the machine of a node in service, looks at
// the site, and does what is advised.
func (r *run) releasedUnasked(ctx context.Context) error {
	if err := r.happen("release"); err != nil {
		return err
	}
	if err := r.reconcile(ctx); err != nil {
		return err
	}
	unscheduled := func(ctx context.Context) (bool, error) { return !r.nodeNow(ctx).Schedulable, nil }
	if err := r.await(ctx, "the node to leave scheduling", unscheduled); err != nil {
		return err
	}
	if err := r.world.Silence(ctx, r.node.String()); err != nil {
		return err
	}
	drift, err := r.world.api.GetNodeDriftWithResponse(ctx, r.node)
	if _, err := apiclient.Read(drift, err); err != nil {
		return fmt.Errorf("read drift: %w", err)
	}
	advised := ""
	for _, a := range drift.JSON.Advice {
		if command := text(a.Command); advised == "" && strings.HasPrefix(command, "gpuaas drift resolve") {
			advised = command
		}
	}
	if !strings.Contains(advised, " reimage ") {
		return fmt.Errorf("what is advised does not install the machine anew: %+v", drift.JSON.Advice)
	}
	made, err := r.world.api.ResolveNodeDriftWithResponse(ctx, r.node, &apiclient.ResolveNodeDriftParams{},
		apiclient.ReconciliationResolveBody{
			Resolution: apiclient.ReconciliationResolveBodyResolutionReimage, Reason: "somebody released its machine",
		})
	if _, err := apiclient.Read(made, err); err != nil {
		return fmt.Errorf("resolve drift: %w", err)
	}
	jobs := made.JSON.Report.LeftToJobs
	if len(jobs) == 0 {
		return errors.New("no job installs the machine anew")
	}
	name := jobs[0].Job // such as "decommission ID"
	if err := r.job.UnmarshalText([]byte(name[strings.LastIndexByte(name, ' ')+1:])); err != nil {
		return fmt.Errorf("read id of the job %q: %w", name, err)
	}
	r.doing = Decommission
	return nil
}

// reconcile has the site of the run compared with the inventory.
func (r *run) reconcile(ctx context.Context) error {
	full := true
	asked, err := r.world.api.RunReconciliationWithResponse(ctx, &apiclient.RunReconciliationParams{},
		apiclient.ReconciliationNewRunBody{SiteId: r.site, Full: &full})
	if _, err := apiclient.Read(asked, err); err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	return r.await(ctx, "the reconciliation to end", func(ctx context.Context) (bool, error) {
		now, err := r.world.api.GetReconciliationRunWithResponse(ctx, asked.JSON.RunId)
		_, err = apiclient.Read(now, err)
		return err == nil && now.JSON.Outcome != nil, err
	})
}
