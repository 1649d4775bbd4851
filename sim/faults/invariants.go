package faults

import (
	"context"
	"strings"

	"gpuaas/contract/apiclient"
)

// acted notes that an operator has taken the job over: what the machine has on
// record from this job must not grow until the job begins anew.
func (r *run) acted() {
	newest := r.newest()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mark == 0 { // or nothing has begun since
		r.mark = newest
	}
}

func (r *run) newest() int {
	if events := r.events(); len(events) > 0 {
		return events[0].ID
	}
	return 0
}

// checkTakeover looks for effects between a takeover and the first stage after
// it: they can only come from before.
func (r *run) checkTakeover() {
	r.mu.Lock()
	mark := r.mark
	r.mark = 0
	r.mu.Unlock()
	if mark == 0 {
		return
	}
	for _, e := range r.events() {
		if e.ID > mark && strings.HasPrefix(e.Type, "User ") && (strings.Contains(e.Description, r.job.String()) || e.Type == "User starting node commissioning") {
			r.violate("effect after a takeover: %s %s", e.Type, e.Description)
		}
	}
}

// checkStop is what must hold whenever a job is parked.
func (r *run) checkStop(ctx context.Context, v *apiclient.OnboardingDetailView) {
	e := v.Explanation
	if len(e.Actions) == 0 || !e.Actions[0].Legal || e.Actions[0].Rank == nil || *e.Actions[0].Rank != 1 {
		r.violate("parked at %s without a legal action", v.CurrentStage)
	}
	for i, a := range e.Actions {
		if a.Legal != (a.Rank != nil) || a.Legal && int(*a.Rank) != i+1 {
			r.violate("the actions of %s are not ranked", v.CurrentStage)
			break
		}
	}
	for what, said := range map[string]string{"summary": e.Summary, "stage": e.StageTitle, "expected": e.Expected, "observed": e.Observed} {
		if strings.TrimSpace(said) == "" {
			r.violate("the explanation of %s does not say: %s", v.CurrentStage, what)
		}
	}
	if e.FailureClass == nil || *e.FailureClass == "" || e.ErrorCode == nil || *e.ErrorCode == "" || e.LikelyCause == nil || *e.LikelyCause == "" {
		r.violate("the explanation of %s does not say why", v.CurrentStage)
	}
	if r.nodeStatus(ctx, v) == active {
		r.violate("node is active while its onboarding is parked at %s", v.CurrentStage)
	}
}

const active = "active"

// nodeStatus is empty while there is no node.
func (r *run) nodeStatus(ctx context.Context, v *apiclient.OnboardingDetailView) string {
	answer, err := r.world.api.GetNodeWithResponse(ctx, v.NodeId)
	if _, err := apiclient.Read(answer, err); err != nil || answer.JSON200 == nil {
		return ""
	}
	return string(answer.JSON200.Status)
}

// checkEnd is what must hold of a machine that became a node.
func (r *run) checkEnd(ctx context.Context, v *apiclient.OnboardingDetailView) {
	if got := r.nodeStatus(ctx, v); got != active {
		r.violate("the onboarding ended, and its node is %q", got)
	}
	if !r.world.boots.came(r.hostname) {
		r.violate("node is active, and no agent of its machine has enrolled")
	}
	if v.Facts["sync_healthy_at"] == nil {
		r.violate("node is active, and its hardware sync was not seen healthy")
	}
	id, err := r.id()
	if err != nil {
		r.violate("node is active, and MAAS does not know its machine")
		return
	}
	b, _ := r.world.Lab.Brief(id)
	if b.Status != "Deployed" || b.LastSync == nil {
		r.violate("node is active, and its machine is %s in MAAS", b.Status)
	}
	redeploys, _ := v.Facts["redeploys"].(float64)
	r.mu.Lock()
	allowed, gone := 1+int(redeploys)+r.actions, r.gone
	r.mu.Unlock()
	if sent := gone + r.deployments(); sent < 1 || sent > allowed {
		r.violate("MAAS accepted %d deployments of the machine, and %d are allowed", sent, allowed)
	}
}
