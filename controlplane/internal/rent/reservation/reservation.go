package reservation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Owner is whom capacity is kept for: a tenant with all its projects, or one project.
type Owner struct {
	Org     id.Org
	Project id.Project // zero: all projects of the tenant
}

// covers reports whether a project may use what is kept for the owner.
func (o Owner) covers(org id.Org, project id.Project) bool {
	return o.Org == org && (o.Project.IsZero() || o.Project == project)
}

// Selector says which nodes of the SKU will do; what is empty asks for nothing, but
// the empty pool is the general one.
type Selector struct {
	Region, Rack, Pool string
	Labels             map[string]string
}

// Wish is what is to be reserved.
type Wish struct {
	Owner
	SKU   string
	Nodes int32
	Selector
	StartsAt time.Time // zero: now
	EndsAt   time.Time
	Reason   string
	Force    bool // also more than the fleet has
	Charge   bool // the owner pays for what it does not use of it
}

// State is where a reservation is in its window. It follows from the time.
type State string

// The states.
const (
	Upcoming  State = "upcoming"
	Active    State = "active"
	Ended     State = "ended"
	Cancelled State = "cancelled"
)

// Reservation is capacity kept for an owner in a time window.
type Reservation struct {
	ID id.Reservation
	Wish
	State        State
	CreatedAt    time.Time
	By, ByName   string
	CancelledAt  *time.Time
	CancelledBy  string
	CancelReason string
	// Usage is how it is used now; zero unless it is active.
	Usage Usage
	// Cost is what was agreed for what is not used of it; nil: nothing is charged.
	Cost *Cost
}

// Cost is what nodes of a reservation cost that are not used.
type Cost struct {
	Currency    string
	Minor       int64 // of a unit of a node for an hour
	Paid, Units int32 // the share of it that is paid, in ten-thousandths, and the GPUs of a node
	Unused      int64 // how many nodes are charged now
	Hour        int64 // what an hour costs now
	Until       int64 // what it has cost until now
}

// Usage is how a reservation is used now. What is missing to its number is short.
type Usage struct {
	Used int32 // nodes that its owner rents
	Held int32 // free nodes that are kept for it
}

// short is how many nodes an active reservation lacks.
func (r Reservation) short() int32 {
	if r.State != Active {
		return 0
	}
	return r.Nodes - r.Usage.Used - r.Usage.Held
}

const (
	mostNodes  = 10_000
	mostLabels = 16
	longest    = 3 * 366 * 24 * time.Hour
)

// checked gives a wish its defaults, or says what makes no sense about it.
func (w Wish) checked(now time.Time) (Wish, error) {
	if w.StartsAt.Before(now) {
		w.StartsAt = now
	}
	if w.Labels == nil {
		w.Labels = map[string]string{}
	}
	var bad []fault.Field
	reject := func(ok bool, path, format string, args ...any) {
		if !ok {
			bad = append(bad, fault.Field{Path: "body." + path, Message: fmt.Sprintf(format, args...)})
		}
	}
	reject(w.Nodes >= 1 && w.Nodes <= mostNodes, "nodes", "must be 1 to %d", mostNodes)
	reject(w.EndsAt.After(w.StartsAt), "ends_at", "must be in the future, and after starts_at")
	reject(w.EndsAt.Sub(now) <= longest, "ends_at", "must be within three years")
	reject(!w.Charge || !w.Force, "charge", "must not be given with force: nobody pays for nodes that there may never be")
	reject(len(w.Labels) <= mostLabels, "labels", "must be at most %d", mostLabels)
	for _, k := range slices.Sorted(maps.Keys(w.Labels)) {
		reject(len(k) >= 1 && len(k) <= 63 && len(w.Labels[k]) <= 200, "labels",
			"has a key or a value that is empty or too long: %.63q", k)
	}
	if len(bad) > 0 {
		return w, fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(bad...)
	}
	return w, nil
}

func notFound() error {
	return fault.New(fault.NotFound, "reservation_not_found", "there is no such reservation").
		WithRemedy("see which there are: gpuaas reservation list")
}

func noOwner() error {
	return fault.New(fault.NotFound, "not_found", "there is no such tenant, or it has no such project").
		WithRemedy("see which there are: gpuaas tenant list; gpuaas project list --tenant TENANT")
}

func tooMany(w Wish, fit, free int32, at time.Time) error {
	return fault.New(fault.Conflict, "reservation_exceeds_fleet",
		"%d nodes of %s can be reserved at %s, %d were asked for: %d nodes fit, and others have reserved the rest", free,
		w.SKU, at.UTC().Format(time.RFC3339), w.Nodes, fit).
		WithFields(fault.Field{
			Path:    "body.nodes",
			Message: fmt.Sprintf("fit %d, reserved by others %d, asked %d", fit, fit-free, w.Nodes),
		}).
		WithRemedy("reserve fewer, or at another time; with force it is made all the same and may fall short")
}
