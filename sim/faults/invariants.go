package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gpuaas/contract/apiclient"
)

// timeOf reads a time among facts. It is zero if there is none.
func timeOf(fact any) time.Time {
	text, _ := fact.(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// acted records that an operator has taken the job over. Until the job begins
// again, what MAAS recorded about the machine from this job must not grow.
func (r *run) acted(ctx context.Context) {
	newest, seen := r.newest(), ""
	if r.reached != nil {
		seen = r.seen(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mark == 0 { // otherwise nothing has begun since
		r.mark, r.unchanged = newest, seen
	}
}

func (r *run) newest() int {
	if events := r.events(); len(events) > 0 {
		return events[0].ID
	}
	return -1
}

// seen returns everything about the machine and its node that a stage could
// change. A machine that is at work changes by itself.
func (r *run) seen(ctx context.Context) string {
	if r.Stage == waitReady || r.Stage == waitDeployed {
		return ""
	}
	now := r.nodeNow(ctx)
	node := fmt.Sprintf("node %s held by %q, schedulable %t, tasks %d", now.Status, now.HeldBy, now.Schedulable,
		len(r.tasks(ctx)))
	id, err := r.id()
	if err != nil {
		return node + ", no machine"
	}
	doc, err := r.world.Lab.Machine(admin, id)
	if err != nil {
		return node + ", no machine"
	}
	text, err := changed(doc, nil)
	if err != nil {
		r.trouble(err)
	}
	var m struct {
		Status      string            `json:"status_name"`
		Hostname    string            `json:"hostname"`
		PowerType   string            `json:"power_type"`
		Annotations map[string]string `json:"workload_annotations"`
		LastSync    string            `json:"last_sync"`
		Interfaces  []struct {
			Name  string `json:"name"`
			Links []any  `json:"links"`
		} `json:"interface_set"`
		Disks []struct {
			Name       string `json:"name"`
			Partitions []any  `json:"partitions"`
		} `json:"blockdevice_set"`
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		r.trouble(err)
	}
	if r.Stage != seedSync { // a machine reports by itself once it can
		m.LastSync = ""
	}
	return fmt.Sprintf("%s, machine %+v", node, m)
}

// checkTakeover looks for effects between a takeover and the first stage after
// it: they can only come from before.
func (r *run) checkTakeover(ctx context.Context) {
	r.mu.Lock()
	mark, seen := r.mark, r.unchanged
	r.mark, r.unchanged = 0, ""
	r.mu.Unlock()
	if mark == 0 {
		return
	}
	for _, e := range r.events() {
		if e.ID > mark && strings.HasPrefix(e.Type, "User ") &&
			(strings.Contains(e.Description, r.job.String()) || e.Type == "User starting node commissioning") {
			r.violate("effect after a takeover: %s %s", e.Type, e.Description)
		}
	}
	if now := r.seen(ctx); seen != "" && now != seen {
		r.violate("effect after a takeover: it was %s, and is %s", seen, now)
	}
}

// checkStop checks what must hold whenever a job is parked.
func (r *run) checkStop(ctx context.Context, v *standing) {
	e := v.Explanation
	if len(e.Actions) == 0 || !e.Actions[0].Legal || e.Actions[0].Rank != 1 {
		r.violate("parked at %s without a legal action", v.Stage)
	}
	for i, a := range e.Actions {
		if a.Legal != (a.Rank != 0) || a.Legal && a.Rank != i+1 {
			r.violate("the actions of %s are not ranked", v.Stage)
			break
		}
	}
	for what, said := range map[string]string{
		"summary": e.Summary, "stage": e.StageTitle, "expected": e.Expected,
		"observed": e.Observed,
	} {
		if strings.TrimSpace(said) == "" {
			r.violate("the explanation of %s does not say: %s", v.Stage, what)
		}
	}
	if e.FailureClass == "" || e.ErrorCode == "" || e.LikelyCause == "" {
		r.violate("the explanation of %s does not say why", v.Stage)
	}
	r.checkTold(v)
	switch n := r.nodeNow(ctx); {
	case r.doing == Onboarding && string(n.Status) == active:
		r.violate("node is active while its onboarding is parked at %s", v.Stage)
	case r.doing == Decommission && n.Schedulable && v.Stage != disable: // it is still in service
		r.violate("node is schedulable while its decommission is parked at %s", v.Stage)
	}
}

const active = "active"

// nodeNow reads the node. It is empty while there is no node.
func (r *run) nodeNow(ctx context.Context) apiclient.NodeDetailView {
	r.mu.Lock()
	node := r.node
	r.mu.Unlock()
	answer, err := r.world.api.GetNodeWithResponse(ctx, node)
	if _, err := apiclient.Read(answer, err); err != nil || answer.JSON == nil {
		return apiclient.NodeDetailView{}
	}
	return *answer.JSON
}

// checkEnd checks what must hold for a job that has ended.
func (r *run) checkEnd(ctx context.Context, v *standing) {
	if r.Family == Allocation {
		r.checkRental(ctx)
		return
	}
	if r.Family == Decommission {
		r.checkDecommissioned(ctx, v)
		r.checkOutcome(v)
	}
	if r.Family == Onboarding || r.Mode == reimage {
		r.checkServing(ctx, v)
		r.checkDeployments(v)
	}
	if r.proof != nil {
		if err := r.proof(r); err != nil {
			r.violate("the %s ended, and %v", r.doing, err)
		}
	}
}

// checkServing checks what must hold for a machine that became a node.
func (r *run) checkServing(ctx context.Context, v *standing) {
	if got := r.nodeNow(ctx).Status; string(got) != active {
		r.violate("the %s ended, and its node is %q", r.doing, got)
	}
	if !r.world.boots.polling(r.hostname) {
		r.violate("node is active, and no agent of its machine polls")
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
	if b.Status != "Deployed" {
		r.violate("node is active, and its machine is %s in MAAS", b.Status)
	}
	// MAAS shows milliseconds
	if before := timeOf(v.Facts["sync_before"]); b.LastSync == nil || !b.LastSync.After(before.Add(time.Millisecond)) {
		r.violate("node is active, and MAAS has not heard of its hardware since it was deployed")
	}
}

// checkDeployments checks that a machine is deployed as often as it must be.
func (r *run) checkDeployments(v *standing) {
	redeploys, _ := v.Facts["redeploys"].(float64)
	r.mu.Lock()
	allowed, gone := 1+int(redeploys)+r.actions, r.gone
	r.mu.Unlock()
	if sent := gone + r.deployments(); sent < 1 || sent > allowed {
		r.violate("MAAS accepted %d deployments of the machine, and %d are allowed", sent, allowed)
	}
}
