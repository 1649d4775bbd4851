package faults

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/apiclient"
)

// wayOf are the states that may follow each other, and so all there are. The page of
// the lifecycle is compared with them.
var wayOf = map[string][]string{
	"": {requested}, requested: {provisioning, failed}, provisioning: {active, failed}, active: {releasing},
	releasing: {released, releaseFailed}, releaseFailed: {releasing}, released: nil, failed: nil,
}

// ending says in which state the allocation ended. It is empty for jobs.
func (r *run) ending() string {
	if r.doing != Allocation {
		return ""
	}
	if code := text(r.rental.now.FailureCode); code != "" {
		return fmt.Sprintf("%s (%s), the node free again", r.rental.now.Status, code)
	}
	return string(r.rental.now.Status)
}

// checkRental checks what must hold for an allocation that has ended, gives back one
// that the tenant has, and checks what is left.
func (r *run) checkRental(ctx context.Context) {
	want := cmp.Or(r.ends, map[string]string{provisionMode: active, releaseMode: released}[r.Mode])
	a := r.rental.now
	if string(a.Status) != want {
		r.violate("the allocation ended as %s, not %s: %s", a.Status, want, text(a.FailureReason))
	}
	if string(a.Status) == active {
		r.checkHandedOver(ctx)
		if err := r.leave(ctx); err != nil {
			r.trouble(err)
			return
		}
		if err := r.rentalBecomes(ctx, released); err != nil {
			r.trouble(err)
			return
		}
	}
	if left, err := r.claims(ctx); err != nil || left != 0 {
		r.violate("the allocation ended, and %d claims are left, %v", left, err)
	}
	r.checkTimeline(ctx)
	for i, node := range r.rental.nodes {
		r.node = node
		state := active
		if i == 0 {
			state = cmp.Or(r.left, active)
		}
		r.checkLeft(ctx, node, state)
		r.checkHistory(ctx)
		r.checkErrands(ctx)
	}
	if string(r.rental.now.Status) == released {
		r.checkPapers(ctx)
	}
}

// checkHandedOver checks that exactly one node is the tenant's.
func (r *run) checkHandedOver(ctx context.Context) {
	a := r.rental.now
	if held, err := r.claims(ctx); err != nil || held != 1 {
		r.violate("the allocation is active with %d claims, %v", held, err)
	}
	r.node = a.NodeId
	if n := r.nodeNow(ctx); string(n.Status) != active || !n.Tainted {
		r.violate("the allocation is active, and its node is %s, tainted: %t", n.Status, n.Tainted)
	}
	if text(a.Host) == "" || a.ActiveAt == nil {
		r.violate("the allocation is active, and does not say where and since when")
	}
}

// checkLeft waits until a node is what it must be when nobody has it.
func (r *run) checkLeft(ctx context.Context, node types.UUID, state string) {
	var n apiclient.NodeDetailView
	err := r.await(ctx, "the node to be let go", func(ctx context.Context) (bool, error) {
		n = r.nodeNow(ctx)
		return n.HeldBy == "", nil
	})
	if err != nil {
		r.violate("node %s is still held by %s", node, n.HeldBy)
	}
	if string(n.Status) != state || n.Tainted || state == active && !n.Schedulable {
		r.violate("node %s was left %s, schedulable: %t, tainted: %t, not %s", n.Hostname, n.Status, n.Schedulable, n.Tainted,
			state)
	}
}

// checkTimeline looks for states that do not follow each other.
func (r *run) checkTimeline(ctx context.Context) {
	size := int64(100)
	page, err := r.world.tenant.ListAllocationEventsWithResponse(ctx, r.world.project, r.job,
		&apiclient.ListAllocationEventsParams{PageSize: &size})
	if _, err := apiclient.Read(page, err); err != nil {
		r.trouble(fmt.Errorf("read timeline: %w", err))
		return
	}
	status := ""
	for _, m := range page.JSON.Items {
		if next := string(m.Status); next != status {
			if !slices.Contains(wayOf[status], next) {
				r.violate("the timeline has a gap: the allocation was %q, and then %s", status, next)
			}
			status = next
		}
	}
}

// checkErrands looks for tasks that the allocation gave the node twice, or after its
// end.
func (r *run) checkErrands(ctx context.Context) {
	a := r.rental.now
	given := map[string]int{}
	for _, t := range r.allTasks(ctx) {
		if !strings.Contains(t.Reason, r.job.String()) || t.Type != agentwire.TypeHealthProbe &&
			t.Type != agentwire.TypeProvisionUser {
			continue
		}
		given[t.Type]++
		if ended := since(a.FailedAt, a.ReleaseRequestedAt); ended != nil && t.CreatedAt.After(*ended) {
			r.violate("the task %s was given after the allocation had ended", t.Type)
		}
		if given[t.Type] > 1 {
			r.violate("the task %s was given %d times", t.Type, given[t.Type])
		}
	}
}

// since is the earlier of two times.
func since(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// checkPapers checks that the tenant holds proof that its data is gone.
func (r *run) checkPapers(ctx context.Context) {
	papers, err := r.world.tenant.ListAllocationReceiptsWithResponse(ctx, r.world.project, r.job,
		&apiclient.ListAllocationReceiptsParams{})
	if _, err := apiclient.Read(papers, err); err != nil {
		r.trouble(fmt.Errorf("list receipts: %w", err))
		return
	}
	for _, p := range papers.JSON.Items {
		if string(p.Moment) == releaseMode {
			return
		}
	}
	r.violate("the allocation is released, and there is no receipt of it")
}
