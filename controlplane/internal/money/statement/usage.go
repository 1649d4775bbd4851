package statement

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/rating"
)

// By is what usage is summed up by.
type By string

// What there is to sum up by.
const (
	ByTenant  By = "tenant"
	ByProject By = "project"
	BySKU     By = "sku"
	ByNode    By = "node"
	ByUser    By = "user"
	ByLabel   By = "label"
	ByDay     By = "day"
)

var bys = []By{ByTenant, ByProject, BySKU, ByNode, ByUser, ByLabel, ByDay}

const (
	day = 24 * time.Hour
	// longestReport is the longest time that one report covers.
	longestReport = 366 * day
	// mostGroups is how many lines a report may have.
	mostGroups = 10_000
)

// Question is what somebody wants to know of usage.
type Question struct {
	Org      id.Org     // zero: all
	Project  id.Project // zero: all
	From, To time.Time  // half-open; a zero time: this month, or now
	By       []By
	Label    string // the label that ByLabel goes by
}

func (q Question) has(by By) bool { return slices.Contains(q.By, by) }

// settled fills in what was left out, and refuses what makes no sense.
func (q Question) settled(now time.Time) (Question, error) {
	now = now.UTC()
	if q.From.IsZero() {
		q.From = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	if q.To.IsZero() {
		q.To = now
		if !q.To.After(q.From) {
			return q, invalid("query.from", "must be before now, or before the end that is asked for")
		}
	}
	q.From, q.To = q.From.UTC(), q.To.UTC()
	switch {
	case !q.To.After(q.From):
		return q, invalid("query.to", "must be after the beginning")
	case q.To.Sub(q.From) > longestReport:
		return q, invalid("query.to", "must be at most 366 days after the beginning")
	case q.has(ByLabel) && q.Label == "":
		return q, invalid("query.label", "must name the label to sum up by")
	case !q.has(ByLabel) && q.Label != "":
		return q, invalid("query.label", "is for sums by label: ask by=label, too")
	}
	for i, by := range q.By {
		if slices.Contains(q.By[:i], by) {
			return q, invalid("query.by", "must not name anything twice")
		}
	}
	return q, nil
}

// Stay is the time in which an allocation could be used, with its terms.
type Stay struct {
	Allocation     id.Allocation
	Org            id.Org
	Tenant         string
	Project        id.Project
	ProjectSlug    string
	SKU            string
	Node           id.Node
	Hostname       string
	Name           string
	Labels         map[string]string
	User, UserName string
	Currency       string // empty: the tenant had no account, and nothing is charged
	Terms          rating.Terms
	Active         time.Time
	Ended          *time.Time // nil: it goes on
	Charged        *time.Time // until when it is charged; nil: not at all
}

// Unused is what was reserved and not used in a time, with what that comes to until each
// of some moments of it, in their order.
type Unused struct {
	Reservation  id.Reservation
	Org          id.Org
	Tenant       string
	Project      id.Project // zero: it is for all projects of the tenant
	ProjectSlug  string
	SKU          string
	Currency     string
	Units        int32
	Charged      time.Time // until when it is charged, within the time
	Moments      []time.Time
	Micros, Cost []int64 // node-microseconds and minor units until each moment
}

// Adjustment is what was given back of a charge, or a correction.
type Adjustment struct {
	Allocation  id.Allocation
	Reservation id.Reservation
	Relief      bool // otherwise a correction
	From, To    time.Time
	Minor       int64 // in the balance of the tenant
}

// Group is a line of a report: what usage has in common, and its sums.
type Group struct {
	Org                            id.Org
	Tenant                         string
	Project                        id.Project
	ProjectSlug                    string
	SKU                            string
	Node                           id.Node
	Hostname                       string
	User, UserName                 string
	Label                          string // empty: it has no such label
	Day                            time.Time
	Currency                       string
	Seconds, UnitSeconds           int64
	Cost, NotCharged, Relief, Mend int64 // in minor units; relief and corrections as they change the balance
	Unused, UnusedSeconds          int64 // of the cost: for reserved nodes that were not used, and their seconds
	Allocations                    int64
}

// Net is what it costs after what was given back and corrected.
func (g Group) Net() int64 { return g.Cost - g.Relief - g.Mend }

// key is what makes a group; the other fields of a group follow from it.
type key struct {
	org      id.Org
	project  id.Project
	sku      string
	node     id.Node
	hostname string
	user     string
	label    string
	day      time.Time
	currency string
}

// Report is the usage of a time.
type Report struct {
	Question
	At     time.Time // when it was made: what goes on is counted until then
	Groups []Group
}

// report sums usage up.
func report(q Question, now time.Time, stays []Stay, unused []Unused, adjustments []Adjustment) (Report, error) {
	r := &sums{q: q, now: now, groups: map[key]*Group{}}
	at := make(map[id.Allocation]*Stay, len(stays))
	for i := range stays {
		at[stays[i].Allocation] = &stays[i]
		if err := r.add(&stays[i]); err != nil {
			return Report{}, err
		}
	}
	reserved := make(map[id.Reservation]*Stay, len(unused))
	for _, u := range unused {
		s := u.stay()
		reserved[u.Reservation] = &s
		r.addUnused(u, &s)
	}
	for _, a := range adjustments {
		if s := cmp.Or(at[a.Allocation], reserved[a.Reservation]); s != nil { // otherwise it is of another project
			r.adjust(s, a)
		}
	}
	if len(r.groups) > mostGroups {
		return Report{}, fault.New(fault.Invalid, "usage_too_large", "the report would have %d lines, more than %d",
			len(r.groups), mostGroups).WithRemedy("ask for a shorter time, for one project, or by less")
	}
	return Report{Question: q, At: now, Groups: r.sorted()}, nil
}

type sums struct {
	q      Question
	now    time.Time
	groups map[key]*Group
}

// pieces cuts a time at the ends of days, where the report goes by days.
func (r *sums) pieces(from, to time.Time, each func(from, to time.Time) error) error {
	for from.Before(to) {
		end := to
		if r.q.has(ByDay) {
			if next := from.Truncate(day).Add(day); next.Before(end) {
				end = next
			}
		}
		if err := each(from, end); err != nil {
			return err
		}
		from = end
	}
	return nil
}

func (r *sums) add(s *Stay) error {
	end := r.now
	if s.Ended != nil && s.Ended.Before(end) {
		end = *s.Ended
	}
	charged := s.Active
	if s.Charged != nil {
		charged = *s.Charged
	}
	var before *Group
	return r.pieces(later(s.Active, r.q.From), earlier(end, r.q.To), func(from, to time.Time) error {
		cost, err := s.Terms.Between(s.Active, from, to)
		if err != nil {
			return err
		}
		g := r.group(s, from)
		g.Cost += cost
		if open := later(from, charged); s.Currency != "" && open.Before(to) {
			left, err := s.Terms.Between(s.Active, open, to)
			if err != nil {
				return err
			}
			g.NotCharged += left
		}
		n := rating.Seconds(s.Active, to) - rating.Seconds(s.Active, from)
		g.Seconds += n
		g.UnitSeconds += n * int64(s.Terms.Units)
		if g != before {
			g.Allocations++
		}
		before = g
		return nil
	})
}

// stay is where what is not used belongs: to its tenant, project and SKU, and to no node
// and nobody.
func (u Unused) stay() Stay {
	return Stay{
		Org: u.Org, Tenant: u.Tenant, Project: u.Project, ProjectSlug: u.ProjectSlug, SKU: u.SKU, Currency: u.Currency,
	}
}

func (r *sums) addUnused(u Unused, s *Stay) {
	for i := 1; i < len(u.Moments); i++ {
		g := r.group(s, u.Moments[i-1])
		cost := u.Cost[i] - u.Cost[i-1]
		g.Cost, g.Unused = g.Cost+cost, g.Unused+cost
		g.UnusedSeconds += u.Micros[i]/microsPerSecond - u.Micros[i-1]/microsPerSecond
		if !u.Moments[i-1].Before(u.Charged) {
			g.NotCharged += cost
		}
	}
}

// adjust spreads what was given back over its time, so that parts sum to the whole.
func (r *sums) adjust(s *Stay, a Adjustment) {
	_ = r.pieces(later(a.From, r.q.From), earlier(a.To, r.q.To), func(from, to time.Time) error {
		part := share(a, to) - share(a, from)
		if g := r.group(s, from); a.Relief {
			g.Relief += part
		} else {
			g.Mend += part
		}
		return nil
	})
}

// share is what of an adjustment belongs to its time until an instant.
func share(a Adjustment, at time.Time) int64 {
	whole, part := a.To.Sub(a.From), at.Sub(a.From)
	product := new(big.Int).Mul(big.NewInt(a.Minor), big.NewInt(int64(part)))
	return product.Quo(product, big.NewInt(int64(whole))).Int64()
}

// group is where the usage of a stay from a moment on belongs.
func (r *sums) group(s *Stay, from time.Time) *Group {
	k := key{currency: s.Currency}
	for _, by := range r.q.By {
		switch by {
		case ByTenant:
			k.org = s.Org
		case ByProject:
			k.org, k.project = s.Org, s.Project
		case BySKU:
			k.sku = s.SKU
		case ByNode:
			k.node, k.hostname = s.Node, s.Hostname
		case ByUser:
			k.user = s.User
		case ByLabel:
			k.label = s.Labels[r.q.Label]
		case ByDay:
			k.day = from.Truncate(day)
		}
	}
	g := r.groups[k]
	if g == nil {
		g = &Group{
			Org: k.org, Project: k.project, SKU: k.sku, Node: k.node, Hostname: k.hostname, User: k.user, Label: k.label,
			Day: k.day, Currency: k.currency,
		}
		if !k.org.IsZero() {
			g.Tenant = s.Tenant
		}
		if !k.project.IsZero() {
			g.ProjectSlug = s.ProjectSlug
		}
		r.groups[k] = g
	}
	if k.user != "" && g.UserName == "" {
		g.UserName = s.UserName
	}
	return g
}

func (r *sums) sorted() []Group {
	out := make([]Group, 0, len(r.groups))
	for _, g := range r.groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(a.Day.Compare(b.Day), strings.Compare(a.Tenant, b.Tenant),
			strings.Compare(a.ProjectSlug, b.ProjectSlug), strings.Compare(a.SKU, b.SKU),
			strings.Compare(a.Hostname, b.Hostname), strings.Compare(a.Node.String(), b.Node.String()),
			strings.Compare(a.UserName, b.UserName), strings.Compare(a.User, b.User), strings.Compare(a.Label, b.Label),
			strings.Compare(a.Currency, b.Currency))
	})
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func invalid(path, message string) error {
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fault.Field{Path: path, Message: message})
}

func noTenant() error {
	return fault.New(fault.NotFound, "not_found", "there is no such tenant").
		WithRemedy("see which there are: gpuaas tenant list")
}
