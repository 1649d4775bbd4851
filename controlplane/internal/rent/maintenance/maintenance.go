package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Kind is what a maintenance needs of the tenant.
type Kind string

// The kinds.
const (
	Release Kind = "release" // the allocation ends at the deadline
	Reboot  Kind = "reboot"  // the node restarts; the tenant keeps it
	Pause   Kind = "pause"   // the node is away for a while; the tenant keeps it
)

var kinds = []Kind{Release, Reboot, Pause}

// Maintenance is what was announced to the tenant of one allocation.
type Maintenance struct {
	ID           id.Maintenance
	Announcement id.Announcement
	Allocation   id.Allocation
	Node         id.Node
	Hostname     string
	Org          id.Org
	Project      id.Project
	Status       Status
	Kind         Kind
	ConsentAsked bool
	NotBefore    time.Time
	DueAt        time.Time
	Reason       string // for the tenant
	By, ByName   string // who announced it
	BeginsNow    bool   // the tenant agreed to it at once
	Answer       Answer // zero: none was given
	EndedBecause string
	CreatedAt    time.Time
	ChangedAt    time.Time
	EndedAt      *time.Time
	Version      int64
}

// Answer is what a tenant said to a maintenance.
type Answer struct {
	At       *time.Time
	By, Name string // who gave it
	Text     string
}

// stays says whether the tenant keeps the allocation.
func (k Kind) stays() bool { return k != Release }

// ended says whether nothing more becomes of a maintenance.
func (m Maintenance) ended() bool { return m.EndedAt != nil }

// waits says whether a maintenance has neither begun nor ended.
func (m Maintenance) waits() bool { return !m.ended() && m.Status != UnderWay }

// agreed says whether the tenant need not be asked, or has agreed.
func (m Maintenance) agreed() bool {
	return m.Status == Consented || m.Status == Announced && !m.ConsentAsked
}

// told says in words what the tenant is told.
func (m Maintenance) told() string {
	var what string
	switch m.Kind {
	case Release:
		what = fmt.Sprintf("the allocation ends at %s", stamp(m.DueAt))
	case Reboot:
		what = fmt.Sprintf("the node restarts between %s and %s", stamp(m.NotBefore), stamp(m.DueAt))
	case Pause:
		what = fmt.Sprintf("the node is away for a while between %s and %s", stamp(m.NotBefore), stamp(m.DueAt))
	}
	if m.ConsentAsked {
		what += ", if you agree"
	}
	return what + ": " + m.Reason
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Plan is what operators announce.
type Plan struct {
	Nodes        []id.Node // these nodes
	Where        Where     // or those that are so
	Kind         Kind
	ConsentAsked bool
	NotBefore    time.Time // zero: at the deadline
	DueAt        time.Time
	Reason       string
}

// Where chooses rented nodes; a zero field chooses all.
type Where struct {
	Region, Rack, Pool, SKU string
	Labels                  map[string]string
}

func (w Where) empty() bool {
	return w.Region == "" && w.Rack == "" && w.Pool == "" && w.SKU == "" && len(w.Labels) == 0
}

// furthest is how far ahead maintenance can be announced.
const furthest = 90 * 24 * time.Hour

// checked refuses what cannot be announced, and fills in what was left out.
func (p Plan) checked(now time.Time) (Plan, error) {
	p.Reason = strings.TrimSpace(p.Reason)
	if p.NotBefore.IsZero() {
		p.NotBefore = p.DueAt
	}
	var bad []fault.Field
	refuse := func(field, format string, args ...any) {
		bad = append(bad, fault.Field{Path: "body." + field, Message: fmt.Sprintf(format, args...)})
	}
	if !slices.Contains(kinds, p.Kind) {
		refuse("kind", "must be one of %v", kinds)
	}
	if len(p.Nodes) == 0 == p.Where.empty() {
		refuse("node_ids", "either node_ids or selector must name nodes, not both")
	}
	if len(p.Reason) < 3 || len(p.Reason) > 500 {
		refuse("reason", "must be 3 to 500 bytes long")
	}
	if p.DueAt.Before(now) || p.DueAt.After(now.Add(furthest)) {
		refuse("due_at", "must be within 90 days from now")
	}
	if p.NotBefore.After(p.DueAt) {
		refuse("not_before", "must not be after due_at")
	}
	if len(bad) > 0 {
		return p, fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(bad...)
	}
	return p, nil
}

func notFound() error {
	return fault.New(fault.NotFound, "maintenance_not_found", "there is no such maintenance").
		WithRemedy("see which there are: gpuaas maintenance list")
}

// notNow refuses to carry out a maintenance outside its window or without consent.
func (m Maintenance) notNow() error {
	why := fmt.Sprintf("its tenant was told that it is between %s and %s", stamp(m.NotBefore), stamp(m.DueAt))
	if !m.agreed() {
		why = "its tenant has not agreed to it"
	}
	return fault.New(fault.Conflict, "maintenance_not_open", "the maintenance of %s may not begin now: %s", m.Hostname,
		why).
		WithRemedy("wait; or cancel it and announce another one, without asking for consent where it cannot wait")
}
