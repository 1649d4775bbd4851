package allocation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/rent/rentalsettings"
)

// Arrangement is how several nodes are to stand, and how those of a project stand
// to each other. It is a wish: capacity comes first.
type Arrangement string

// The arrangements.
const (
	Spread   Arrangement = "spread"
	Pack     Arrangement = "pack"
	SameRack Arrangement = "same_rack"
)

// Wish is what a node must have, and where it is to stand.
type Wish struct {
	Labels       map[string]string `json:"labels,omitempty"`
	Capabilities map[string]string `json:"capabilities,omitempty"`
	Region       string            `json:"region,omitempty"` // empty: any
	Pool         string            `json:"pool,omitempty"`   // empty: the general pool
	Node         id.Node           `json:"node,omitzero"`    // zero: any
	Arrangement  Arrangement       `json:"arrangement,omitempty"`
	// Passed are nodes that it was on, and that were not ready.
	Passed []id.Node `json:"passed,omitempty"`
}

// Ask is a request for allocations.
type Ask struct {
	Project   id.Project        `json:"project"`
	SKU       string            `json:"sku"`
	GPUs      int32             `json:"gpus,omitempty"`  // zero: what the SKU has
	Count     int32             `json:"count,omitempty"` // nodes; zero: one
	Wish      Wish              `json:"wish"`
	Name      string            `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Access    Access            `json:"access,omitempty"` // empty: user
	Keys      []id.SSHKey       `json:"keys,omitempty"`
	ExpiresIn time.Duration     `json:"expires_in,omitempty"` // zero: as the project has settled it
	Never     bool              `json:"never,omitempty"`      // it has no end, whatever the project has settled
	Protected bool              `json:"protected,omitempty"`
	Placed    bool              `json:"placed,omitempty"`    // an operator places it, and it is not charged to others
	HourMost  *int64            `json:"hour_most,omitempty"` // what a node may cost for an hour, in minor units; nil: whatever
	HourIn    string            `json:"hour_in,omitempty"`   // the currency of a limit that was named; empty: it is the price of then
	WaitUpTo  time.Duration     `json:"-"`                   // zero: it does not wait for capacity
}

const (
	maxCount     = 64
	maxSelectors = 16
	leastLife    = 5 * time.Minute
	mostLife     = 366 * 24 * time.Hour
	leastWait    = time.Minute
	mostWait     = 7 * 24 * time.Hour
)

// checked gives a request its defaults, or says what makes no sense about it.
func (a Ask) checked() (Ask, error) {
	var bad []fault.Field
	reject := func(ok bool, path, format string, args ...any) {
		if !ok {
			bad = append(bad, fault.Field{Path: "body." + path, Message: fmt.Sprintf(format, args...)})
		}
	}
	if a.Count == 0 {
		a.Count = 1
	}
	if a.Access == "" {
		a.Access = UserAccess
	}
	if a.Wish.Arrangement == "" {
		a.Wish.Arrangement = Spread
	}
	a.Name = strings.TrimSpace(a.Name)
	reject(a.SKU != "", "sku", "must name what to rent; gpuaas sku list shows what there is")
	reject(a.Count >= 1 && a.Count <= maxCount, "count", "must be 1 to %d nodes", maxCount)
	reject(a.GPUs >= 0, "gpus", "must not be negative")
	reject(len([]rune(a.Name)) <= 100, "name", "must be at most 100 characters long")
	reject(a.Count <= 1 || len([]rune(a.Name)) <= 97, "name",
		"must be at most 97 characters long where several are asked for: each gets a number")
	reject(a.Access == UserAccess || a.Access == RootAccess, "access", "must be user or root")
	reject(slices.Contains([]Arrangement{Spread, Pack, SameRack}, a.Wish.Arrangement), "arrangement",
		"must be spread, pack or same_rack")
	reject(a.Wish.Node.IsZero() || a.Count == 1, "node_id", "names one node: ask for one")
	reject(a.ExpiresIn == 0 || a.ExpiresIn >= leastLife && a.ExpiresIn <= mostLife, "expires_in",
		"must be %s to %s, or left out", "5 minutes", "366 days")
	reject(a.WaitUpTo == 0 || a.WaitUpTo >= leastWait && a.WaitUpTo <= mostWait, "wait_up_to_seconds",
		"must be %s to %s, or left out", "1 minute", "7 days")
	reject(a.WaitUpTo == 0 || a.Wish.Node.IsZero(), "wait_up_to_seconds", "cannot be had for a node that is named")
	reject(len(a.Keys) <= 100, "ssh_key_ids", "must be at most 100")
	for path, of := range map[string]map[string]string{
		"node_labels": a.Wish.Labels, "capabilities": a.Wish.Capabilities, "labels": a.Labels,
	} {
		bad = append(bad, unfit("body."+path, of)...)
	}
	if len(bad) > 0 {
		slices.SortFunc(bad, func(x, y fault.Field) int { return strings.Compare(x.Path, y.Path) })
		return a, rejected(bad...)
	}
	return a, nil
}

// unfit says what is wrong with labels.
func unfit(path string, labels map[string]string) (bad []fault.Field) {
	if len(labels) > maxSelectors {
		bad = append(bad, fault.Field{Path: path, Message: fmt.Sprintf("must be at most %d", maxSelectors)})
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if len(k) < 1 || len(k) > 63 || len(labels[k]) > 200 {
			bad = append(bad, fault.Field{
				Path: path, Message: fmt.Sprintf("has a key or a value that is empty or too long: %.63q", k),
			})
		}
	}
	return bad
}

// key is the same for requests that the same nodes fulfil.
func (a Ask) key() (string, error) {
	a.Wish.Arrangement = ""
	raw, err := json.Marshal(a.Wish)
	if err != nil {
		return "", fmt.Errorf("encode wish: %w", err)
	}
	return string(a.Access) + string(raw), nil
}

// within gives a request the end that its project has settled, and refuses what the
// rules of the project do not allow.
func (a Ask) within(r rentalsettings.Rules) (Ask, error) {
	if a.Access == RootAccess {
		if err := r.Roots(); err != nil {
			return a, err
		}
	}
	if a.ExpiresIn == 0 && !a.Never {
		a.ExpiresIn = r.DefaultExpiry
		return a, nil
	}
	return a, r.Lasts(a.ExpiresIn)
}

// fits refuses a request that the terms of a SKU do not allow.
func (a Ask) fits(s sku.SKU) error {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Conflict, CodeUnavailable, format, args...).
			WithRemedy("see what can be rented: gpuaas sku list")
	}
	switch {
	case s.Status != sku.Active:
		return refuse("%s is not rented out any more", s.ID)
	case s.CapacityShape != sku.WholeNode:
		return refuse("%s is rented by the GPU, which is not possible yet", s.ID)
	case a.GPUs != 0 && a.GPUs != s.GPUsTotal:
		return refuse("%s is rented whole, with %d GPUs: %d cannot be had; ask for nodes with count", s.ID, s.GPUsTotal,
			a.GPUs)
	case !s.Allows(1):
		return refuse("%s is rented in units of %v nodes, which one allocation cannot be", s.ID, s.AllowedCounts)
	case a.Access == RootAccess && s.UserAccessOnly:
		return refuse("%s is rented without root access", s.ID)
	}
	return nil
}
