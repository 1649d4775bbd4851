package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Filter filters a listing. A zero field filters nothing. Without a status,
// deleted nodes are left out.
type Filter struct {
	Statuses       []Status
	SKU            string
	RegionCode     string
	Rack, Pool     *string           // nil filters nothing; empty: those without one
	Labels         map[string]string // that a node must have
	HostnamePrefix string
	// Search is a part of hostname, host or address, the beginning of the id, or either end of a serial, MAC address or
	// system UUID; lower case.
	Search       string
	Site         id.Site
	Schedulable  *bool
	Mode         Mode
	Drift        Drift
	AgentVersion string
	AgentChannel Channel
	Agent        AgentState
	Held         *bool
	Tainted      *bool
}

// Sort is the column that a listing is sorted by.
type Sort string

// The columns. Nodes with equal values, and all nodes if no column is given,
// are in the order of their ids, which is the order of creation.
const (
	Unsorted          Sort = ""
	ByHostname        Sort = "hostname"
	ByStatus          Sort = "status"
	ByStatusChangedAt Sort = "status_changed_at"
	ByLastContactAt   Sort = "last_agent_contact_at"
	BySKU             Sort = "sku"
	ByRegion          Sort = "region_code"
	ByCreatedAt       Sort = "created_at"
)

// sorts lists the columns that callers may name.
var sorts = []Sort{ByHostname, ByStatus, ByStatusChangedAt, ByLastContactAt, BySKU, ByRegion, ByCreatedAt}

// Order is how a listing is sorted.
type Order struct {
	By         Sort
	Descending bool
}

// plain reports whether nodes come in the order of their ids, the oldest first.
func (o Order) plain() bool { return o == Order{} }

// Position is where a listing goes on: the values of the last node shown by
// which the listing is sorted.
type Position struct {
	Order  Order
	Words  string
	Moment time.Time
	AsOf   time.Time // the moment whose contacts are sorted; only by last contact
	Node   id.Node   // zero: at the beginning
}

// place is where a node stands in a listing by last contact: heard of at a moment, as it was known
// at another one. Agents call all the time; nodes would move from page to page otherwise.
type place struct{ heard, asOf time.Time }

// never stands for a time that is not set. It sorts before all others.
var never = time.Unix(0, 0).UTC()

// position returns where a listing goes on after a node.
func (o Order) position(v View) Position {
	p := Position{Order: o, Moment: never, Node: v.NodeID}
	switch o.By {
	case ByHostname:
		p.Words = v.Hostname
	case ByStatus:
		p.Words = string(v.Status)
	case BySKU:
		p.Words = v.SKU
	case ByRegion:
		p.Words = v.RegionCode
	case ByStatusChangedAt:
		p.Moment = v.StatusChangedAt
	case ByCreatedAt:
		p.Moment = v.CreatedAt
	case ByLastContactAt:
		p.Moment, p.AsOf = v.place.heard, v.place.asOf
	case Unsorted:
	}
	return p
}

// positionWire is a position in the form that a cursor carries.
type positionWire struct {
	By         Sort      `json:"s"`
	Descending bool      `json:"d,omitempty"`
	Words      string    `json:"w,omitempty"`
	Moment     time.Time `json:"m,omitzero"`
	AsOf       time.Time `json:"t,omitzero"`
	Node       id.Node   `json:"n"`
}

// MarshalJSON writes only the id of the node where that is enough.
func (p Position) MarshalJSON() ([]byte, error) {
	if p.Order.plain() {
		return json.Marshal(p.Node)
	}
	return json.Marshal(positionWire{
		By: p.Order.By, Descending: p.Order.Descending, Words: p.Words, Moment: p.Moment,
		AsOf: p.AsOf, Node: p.Node,
	})
}

// UnmarshalJSON reads a position for the order that is set already. It refuses
// a position of another order.
func (p *Position) UnmarshalJSON(b []byte) error {
	if p.Order.plain() {
		return json.Unmarshal(b, &p.Node)
	}
	var w positionWire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	if (Order{By: w.By, Descending: w.Descending}) != p.Order || w.Node.IsZero() ||
		w.AsOf.IsZero() == (w.By == ByLastContactAt) {
		return errors.New("is of another order")
	}
	p.Words, p.Moment, p.AsOf, p.Node = w.Words, w.Moment, w.AsOf, w.Node
	return nil
}

// planned makes the database plan a query for its actual values. A generic plan
// would sort the whole fleet even where an index has the order.
type planned struct{ *postgres.DB }

// Query runs a query.
func (p planned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.DB.Query(ctx, sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
}

// Nodes lists nodes, in the order that the position of the page names.
func (s *Service) Nodes(ctx context.Context, f Filter, page postgres.Slice[Position]) ([]Node, error) {
	after := page.After
	params := nodedb.ListNodesParams{
		Sort: string(after.Order.By), Descending: after.Order.Descending, Continued: !after.Node.IsZero(),
		Floor: id.Node{}.String(), AfterWords: after.Words, AfterMoment: after.Moment, AfterID: after.Node.String(),
		Statuses: make([]string, len(f.Statuses)), SkuID: optional(f.SKU), RegionCode: optional(f.RegionCode),
		Rack: f.Rack, Pool: f.Pool, HostnamePrefix: optional(f.HostnamePrefix),
		Search: optional(f.Search), Hardware: SoughtHardware(f.Search),
		Schedulable:    f.Schedulable,
		OnboardingMode: optional(f.Mode),
		Drift:          optional(f.Drift), Agent: optional(f.Agent), Held: f.Held, Tainted: f.Tainted, Now: s.now(),
		AgentVersion: optional(f.AgentVersion), AgentChannel: optional(f.AgentChannel),
		SettledSeconds: s.settings.settled().Seconds(), GapSeconds: s.settings.gap().Seconds(),
		PageSize: page.Limit,
	}
	if !after.AsOf.IsZero() {
		params.AsOf = &after.AsOf
	}
	if len(f.Labels) > 0 {
		labels, err := labelsOf(f.Labels)
		if err != nil {
			return nil, err
		}
		params.Labels = labels
	}
	for i, status := range f.Statuses {
		params.Statuses[i] = string(status)
	}
	if !f.Site.IsZero() {
		params.SiteID = optional(f.Site.String())
	}
	if after.Order.plain() {
		params.Floor, params.Continued = after.Node.String(), false
	}
	rows, err := nodedb.New(planned{s.db}).ListNodes(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := make([]Node, len(rows))
	for i, r := range rows {
		out[i] = nodeFrom(r.Node)
		out[i].verifiersWanted, out[i].channelWants = r.VerifiersWanted, r.ChannelWants
		out[i].place = place{heard: r.Moment, asOf: r.AsOf}
		if !r.LastContactAt.Equal(never) {
			out[i].LastContactAt = &rows[i].LastContactAt
		}
	}
	return out, readHolds(ctx, s.reads, out)
}

// leastHardware is from how many characters on a search looks at hardware: a
// shorter one, such as a rack, would be part of somebody's MAC address.
const leastHardware = 4

// SoughtHardware returns a search as the hardware of nodes is compared with it:
// as it is read from a label, with colons, dashes and dots or without. It returns
// nil if the search is too short to mean hardware.
func SoughtHardware(search string) *string {
	words := strings.NewReplacer(":", "", "-", "", ".", "").Replace(search)
	if len(words) < leastHardware {
		return nil
	}
	return &words
}
