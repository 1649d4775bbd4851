package quota

import (
	"fmt"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Quota is what a tenant or a project may hold.
type Quota struct {
	ID id.Quota
	Owner
	SKU string // empty: whatever the SKU
	Limits
	Used      Holding
	Version   int64
	UpdatedAt time.Time
	UpdatedBy string
}

// Owner is whose quota it is: a tenant's, or with a project the project's.
type Owner struct {
	Org     id.Org
	Project id.Project
}

// Limits are the numbers of a quota. One that is nil does not limit.
type Limits struct{ GPUs, Nodes *int32 }

// Holding is what is held, or waited for, of what a quota is about.
type Holding struct{ GPUs, Nodes int32 }

// Ask is what a request would add.
type Ask struct {
	Org         id.Org
	Project     id.Project
	SKU         string
	GPUs, Nodes int32
	Waits       bool // it begins to wait: what is waited for already counts, too
}

// whose names the owner in messages to members of the tenant.
func (q Quota) whose() string {
	if q.Project.IsZero() {
		return "tenant"
	}
	return "project"
}

// of names what the quota is about, such as "GPUs of the SKU h100".
func (q Quota) of(unit string) string {
	if q.SKU == "" {
		return unit
	}
	return unit + " of the SKU " + q.SKU
}

// exceeded lists the limits of a quota that an ask would exceed, given what is held
// and what is waited for.
func (q Quota) exceeded(a Ask, held, awaited Holding) []fault.Field {
	var out []fault.Field
	check := func(unit string, limit *int32, used, waits, asked int32) {
		if limit == nil || asked == 0 || int64(used)+int64(waits)+int64(asked) <= int64(*limit) {
			return
		}
		waiting := ""
		if waits > 0 {
			waiting = fmt.Sprintf("waited for %d, ", waits)
		}
		path := q.whose() + "." + strings.ToLower(unit)
		if q.SKU != "" {
			path += "." + q.SKU
		}
		out = append(out, fault.Field{Path: path, Message: fmt.Sprintf("the %s may hold %d %s: used %d, %sasked %d, limit %d",
			q.whose(), *limit, q.of(unit), used, waiting, asked, *limit)})
	}
	check("GPUs", q.GPUs, held.GPUs, awaited.GPUs, a.GPUs)
	check("nodes", q.Nodes, held.Nodes, awaited.Nodes, a.Nodes)
	return out
}

// above lists the limits of a project's quota that are above those of its tenant.
func (l Limits) above(tenant Quota) []fault.Field {
	var out []fault.Field
	check := func(unit string, ours, theirs *int32) {
		if ours != nil && theirs != nil && *ours > *theirs {
			out = append(out, fault.Field{Path: "body." + strings.ToLower(unit), Message: fmt.Sprintf(
				"%d is more than the tenant itself may hold: its quota is %d %s", *ours, *theirs, tenant.of(unit))})
		}
	}
	check("GPUs", l.GPUs, tenant.GPUs)
	check("nodes", l.Nodes, tenant.Nodes)
	return out
}

func (l Limits) check() error {
	if l.GPUs == nil && l.Nodes == nil {
		return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fault.Field{Path: "body", Message: "must limit gpus, nodes or both; to lift a quota, remove it"})
	}
	for path, n := range map[string]*int32{"body.gpus": l.GPUs, "body.nodes": l.Nodes} {
		if n != nil && *n < 0 {
			return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
				WithFields(fault.Field{Path: path, Message: "must not be negative"})
		}
	}
	return nil
}

func notFound() error {
	return fault.New(fault.NotFound, "quota_not_found", "there is no such quota").
		WithRemedy("see which there are: gpuaas quota list")
}

func noTenant() error {
	return fault.New(fault.NotFound, "not_found", "there is no such tenant").
		WithRemedy("see which there are: gpuaas tenant list")
}
