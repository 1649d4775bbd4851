package allocation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
)

// Tenants read our own words, by the class of what happened. What agents, jobs and
// operators wrote is for those who run the platform, and so is which node is out of
// service for which reason.

// insider says whether the caller is one of those.
func insider(ctx context.Context) bool {
	return auth.From(ctx).Decide(auth.NodeRead, auth.Target{}) == auth.Allowed
}

// outOfOrder nodes are out of service for reasons that are no business of a tenant.
var outOfOrder = []Reason{"joining", "quarantined", "offline", "leaving", "on_hold", "silent", "drifted"}

// notInService is what tenants read of these.
const notInService Reason = "not_in_service"

// forTenant counts nodes that are out of service together. What it costs is the tenant's to know.
func (c Capacity) forTenant() Capacity {
	out := Capacity{SKU: c.SKU, Nodes: c.Nodes, Free: c.Free, Cost: c.Cost, Filters: make([]Filter, 0, len(c.Filters))}
	together, left := int32(0), c.Nodes
	add := func(reason Reason, text string, n int32) {
		out.Filters = append(out.Filters, Filter{Reason: reason, Text: text, Before: left, After: left - n})
		left -= n
	}
	last := slices.IndexFunc(c.Filters, func(f Filter) bool { return f.Reason == outOfOrder[len(outOfOrder)-1] })
	for i, f := range c.Filters {
		n := f.Before - f.After
		if slices.Contains(outOfOrder, f.Reason) {
			together += n
		} else {
			add(f.Reason, f.Text, n)
		}
		if i == last {
			add(notInService, "are not in service", together)
		}
	}
	return out
}

// seenBy is what somebody may know of the capacity.
func (c Capacity) seenBy(ctx context.Context) Capacity {
	if insider(ctx) {
		return c
	}
	return c.forTenant()
}

// ownFacts is what the capabilities begin with that agents say of themselves: tenants
// ask for the others only.
const ownFacts = "agent."

// askable refuses selectors that are not for the caller: whoever could count nodes by
// words of operators could guess them.
func (a Ask) askable(ctx context.Context) error {
	if insider(ctx) {
		return nil
	}
	var bad []fault.Field
	for _, key := range slices.Sorted(maps.Keys(a.Wish.Labels)) {
		if !strings.HasPrefix(key, node.PublicLabels) {
			bad = append(bad, fault.Field{Path: "body.node_labels", Message: fmt.Sprintf(
				"has %.63q: nodes can be asked for by labels that begin with %s", key, node.PublicLabels)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.Wish.Capabilities)) {
		if strings.HasPrefix(key, ownFacts) {
			bad = append(bad, fault.Field{Path: "body.capabilities", Message: fmt.Sprintf(
				"has %.63q: what begins with %s is not offered", key, ownFacts)})
		}
	}
	if len(bad) > 0 {
		return rejected(bad...)
	}
	return nil
}

const (
	codeByOperation       = "ended_by_operation"
	codeForced            = "forced"
	codeStoppedByOperator = "cleanup_stopped_by_operator"
)

const (
	askAgain   = "ask again; an operator looks at the node"
	askAnother = "ask for another one"
	stopped    = "cleaning the node stopped; an operator looks at it, and nothing is charged meanwhile"
)

// failures are what tenants read of a failure, by its code.
var failures = map[string]Failure{
	CodeCancelled:   {Reason: "its end was asked for before it was active"},
	codeByOperation: {Reason: "an operation on the node ended it", Remedy: askAnother},
	codeForced:      {Reason: "an administrator gave it up", Remedy: askAnother},
	codeNotReady:    {Reason: "its node was not fit for work", Remedy: askAgain},
	codeNoLogin:     {Reason: "nobody could log in to the account that was made", Remedy: askAgain},

	agenttask.CodeNotFetched: {Reason: "its node did not answer", Remedy: askAgain},
	agenttask.CodeSilent:     {Reason: "its node did not answer", Remedy: askAgain},
	agenttask.CodeOverran:    {Reason: "its node did not answer in time", Remedy: askAgain},
}

// forTenant is a failure in our own words.
func (f Failure) forTenant() Failure {
	if f.Code == "" {
		return Failure{}
	}
	told, known := failures[f.Code]
	if !known {
		told = Failure{Reason: "its node could not do what it takes to hand it over", Remedy: askAgain}
	}
	told.Code = f.Code
	return told
}

// forTenant is an allocation as its tenant may read it.
func (a Allocation) forTenant() Allocation {
	a.Failure = a.Failure.forTenant()
	if a.Release.Failed != "" {
		a.Release.Failed = stopped
	}
	if a.Release.Cause != ByTenant {
		a.Release.Reason = ""
	}
	return a
}

// seenBy is what somebody may know of an allocation.
func (a Allocation) seenBy(ctx context.Context) Allocation {
	if insider(ctx) {
		return a
	}
	return a.forTenant()
}

// ownRefusals are the codes with which allocations refuse terminals themselves.
var ownRefusals = []string{"allocation_state_conflict", "allocation_repairing"}

// noTerminal is why somebody gets no terminal. What a node or an operation on it says is
// for operators.
func (a Allocation) noTerminal(ctx context.Context, why error) error {
	kind := fault.KindOf(why)
	if kind != fault.Conflict && kind != fault.NotFound || slices.Contains(ownRefusals, fault.CodeOf(why)) ||
		insider(ctx) {
		return why
	}
	return fault.New(fault.Conflict, "allocation_unreachable", "the node of allocation %s opens no terminal now",
		a.called()).WithRemedy("try again in a few minutes, or see how it stands: gpuaas allocation show %s", a.ID)
}

// forTenant is an entry of the timeline as a tenant may read it.
func (m Moment) forTenant() Moment {
	switch m.Event {
	case string(Fail):
		code, _ := m.Details["code"].(string)
		f := Failure{Code: code}.forTenant()
		m.Message, m.Details = f.Reason, map[string]any{"code": f.Code, "remedy": f.Remedy}
	case string(Park):
		m.Message = stopped
	case string(Cleaned):
		m.Message = "the node is proven clean, or has left the fleet"
	case placeAgain:
		m.Message = "its node was not fit for work; it was placed on another one"
	case string(Release):
		if said, _, more := strings.Cut(m.Message, ": "); more && said != endings[ByTenant] {
			m.Message = said
		}
	}
	return m
}
