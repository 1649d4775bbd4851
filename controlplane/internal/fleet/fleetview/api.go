package fleetview

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
)

const (
	path = "/api/v1/admin/fleet"
	tag  = "Fleet"
)

// Place says where to look.
type Place struct {
	RegionCode string `query:"region_code" maxLength:"63" doc:"Only nodes of this region, and what is about them; what is about no node goes by the region of its site."`
	SiteID     string `query:"site_id" format:"uuid" doc:"Only nodes of this site: they have a machine of it, or are being onboarded there."`
}

func (p Place) filter() (Filter, error) {
	f := Filter{RegionCode: p.RegionCode}
	if p.SiteID == "" {
		return f, nil
	}
	if err := f.Site.UnmarshalText([]byte(p.SiteID)); err != nil {
		return f, fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fault.Field{Path: "query.site_id", Message: "must be an id"})
	}
	return f, nil
}

// Sought says which nodes are searched for.
type Sought struct {
	Q string `query:"q" maxLength:"253" doc:"Only nodes that have this in their hostname, host or an address, whatever the case, whose id starts so, or of which a serial, a MAC address or the system UUID starts or ends so, from four characters on."`
}

// MapInput says which nodes a map shows.
type MapInput struct {
	Place
	Sought
	Limit int32 `query:"limit" minimum:"1" maximum:"20000" default:"20000" doc:"How many nodes at most."`
}

// SummaryInput filters a summary like a listing of nodes.
type SummaryInput struct {
	Place
	Sought
	SKU   string     `query:"sku" maxLength:"63" doc:"Only nodes of this kind."`
	Drift node.Drift `query:"drift_state" doc:"Only nodes whose agent is so."`
	node.Narrowed
}

// Map is the whole fleet, node by node.
type Map struct {
	AsOf      time.Time `json:"as_of" doc:"When it was so; nothing here is older."`
	Truncated bool      `json:"truncated" doc:"Whether there are more nodes than these."`
	Nodes     []Spot    `json:"nodes" nullable:"false" doc:"The nodes that are not deleted, at most 20000, in the order of region and hostname."`
}

// Spot is a node on the map.
type Spot struct {
	NodeID      id.Node      `json:"node_id"`
	Hostname    string       `json:"hostname" example:"c07u31"`
	Status      node.Present `json:"status"`
	Drift       node.Drift   `json:"drift_state" doc:"Whether its agent is what it should be."`
	Schedulable bool         `json:"schedulable"`
	RegionCode  string       `json:"region_code" example:"eu-1"`
	Rack        string       `json:"rack,omitempty" doc:"The rack that it stands in; absent: nobody said." example:"c07"`
	SiteID      id.Site      `json:"site_id,omitzero" doc:"The site that it has a machine of, or is being onboarded at; absent: none."`
	Severity    string       `json:"severity,omitempty" enum:"debug,info,warning,critical" doc:"Of its worst finding that is not over; absent: it has none."`
	Job         *SpotJob     `json:"job,omitempty" doc:"The job that works on it; absent: none does."`
}

// SpotJob is the job that works on a node.
type SpotJob struct {
	Kind   Kind   `json:"kind"`
	JobID  string `json:"job_id" format:"uuid" doc:"Id of the onboarding or decommission."`
	Status string `json:"status"`
}

// Schema is an object with a number for every state of a node but the terminal
// ones. It implements huma.SchemaProvider.
func (StatusCounts) Schema(r huma.Registry) *huma.Schema {
	const name = "FleetviewStatusCounts"
	s := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
	for _, state := range node.Lifecycle.Lasting() {
		s.Properties[string(state)] = r.Schema(reflect.TypeFor[int64](), true, "")
		s.Required = append(s.Required, string(state))
	}
	s.PrecomputeMessages()
	r.Map()[name] = s
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// countsOfJobs is the name of the schema of JobCounts.
const countsOfJobs = "FleetviewJobCounts"

// Schema is an object to which list adds the fields. It implements
// huma.SchemaProvider.
func (JobCounts) Schema(r huma.Registry) *huma.Schema {
	r.Map()[countsOfJobs] = &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{},
	}
	return &huma.Schema{Ref: "#/components/schemas/" + countsOfJobs}
}

// list adds what the contract says of the kinds of jobs that the service shows:
// their names, the statuses that their jobs have, and the fields that count them.
func (s *Service) list(r huma.Registry) {
	of, counts := r.Map()["FleetviewSpotJob"], r.Map()[countsOfJobs]
	kind, status := of.Properties["kind"], of.Properties["status"]
	count := func(field, doc string) {
		number := *r.Schema(reflect.TypeFor[int64](), true, "")
		number.Description = doc
		counts.Properties[field], counts.Required = &number, append(counts.Required, field)
	}
	for _, f := range s.families {
		kind.Enum = append(kind.Enum, string(f.Noun))
		for _, word := range f.Statuses {
			if !slices.Contains(status.Enum, any(word)) {
				status.Enum = append(status.Enum, word)
			}
		}
		count(f.Noun.running(), "Those that wait for nobody but their turn.")
		count(f.Noun.parked(), "Those that wait for an operator.")
	}
	counts.PrecomputeMessages()
}

func showSpot(n Node) Spot {
	v := Spot{
		NodeID: n.ID, Hostname: n.Hostname, Status: node.Present(n.Status), Drift: n.Drift, Schedulable: n.Schedulable,
		RegionCode: n.RegionCode, Rack: n.Rack,
		SiteID: n.Site, Severity: n.Severity,
	}
	if n.Job != nil {
		v.Job = &SpotJob{Kind: n.Job.Kind, JobID: n.Job.ID, Status: n.Job.Status}
	}
	return v
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-fleet-summary", Method: http.MethodGet, Path: path, Tag: tag,
		Summary: "Count the nodes of the fleet by how they are", Access: httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *SummaryInput) (*httpapi.Plain[Summary], error) {
		f, err := in.filter()
		if err != nil {
			return nil, err
		}
		f.SKU, f.Search, f.Drift = in.SKU, strings.ToLower(in.Q), in.Drift
		f.Agent, f.Held, f.Tainted = in.Agent, node.Wanted(in.Held), node.Wanted(in.Tainted)
		found, err := s.Summary(ctx, f)
		return &httpapi.Plain[Summary]{Body: found}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-fleet-map", Method: http.MethodGet, Path: path + "/map", Tag: tag,
		Summary:     "Show every node with what tells at a glance how it is",
		Description: "One answer without pages, for an overview of a whole site or fleet, or of what a search finds.",
		Access:      httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *MapInput) (*httpapi.Plain[Map], error) {
		f, err := in.filter()
		if err != nil {
			return nil, err
		}
		f.Search = strings.ToLower(in.Q)
		nodes, asOf, more, err := s.Look(ctx, f, in.Limit)
		if err != nil {
			return nil, err
		}
		m := Map{AsOf: asOf.UTC(), Truncated: more, Nodes: make([]Spot, len(nodes))}
		for i, n := range nodes {
			m.Nodes[i] = showSpot(n)
		}
		return &httpapi.Plain[Map]{Body: m}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-fleet-agents", Method: http.MethodGet, Path: path + "/agents", Tag: tag,
		Summary: "Count the nodes in service by version, channel and drift of their agents",
		Access:  httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, _ *struct{}) (*httpapi.Plain[Agents], error) {
		found, err := s.Agents(ctx)
		return &httpapi.Plain[Agents]{Body: found}, err
	})
	s.list(api.OpenAPI().Components.Schemas)
}
