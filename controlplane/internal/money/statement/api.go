package statement

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag         = "Billing"
	pathTenant  = "/api/v1/tenants/{org_id}"
	pathProject = "/api/v1/projects/{project_id}"
)

// Schema implements huma.SchemaProvider.
func (By) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(bys) }

// Asked is a question about usage. It is exported because the framework reads
// embedded parameters only from exported types.
type Asked struct {
	From  time.Time `query:"from" doc:"Beginning of the time. Left out: that of this month, in UTC."`
	To    time.Time `query:"to" doc:"Its end, which does not belong to it; at most 366 days later. Left out: now."`
	By    []By      `query:"by" maxItems:"7" nullable:"false" doc:"What to sum up by. Left out: everything together."`
	Label string    `query:"label" maxLength:"63" doc:"The label of allocations that by=label goes by."`
}

func (a Asked) question() Question { return Question{From: a.From, To: a.To, By: a.By, Label: a.Label} }

// UsageView is a report on usage, as the API shows it.
type UsageView struct {
	From   time.Time   `json:"from"`
	To     time.Time   `json:"to" doc:"End of the time, which does not belong to it."`
	MadeAt time.Time   `json:"made_at" doc:"What goes on is counted until then."`
	By     []By        `json:"by" nullable:"false"`
	Label  string      `json:"label,omitempty" doc:"The label that it goes by."`
	Lines  []UsageLine `json:"lines" nullable:"false"`
}

// UsageLine is a line of a report on usage, as the API shows it.
type UsageLine struct {
	OrgID            *id.Org     `json:"org_id,omitempty" doc:"Id of the tenant."`
	Tenant           string      `json:"tenant,omitempty" doc:"Its slug."`
	ProjectID        *id.Project `json:"project_id,omitempty" doc:"Id of the project."`
	Project          string      `json:"project,omitempty" doc:"Its slug."`
	SKU              string      `json:"sku,omitempty"`
	NodeID           *id.Node    `json:"node_id,omitempty" doc:"Id of the node."`
	Hostname         string      `json:"hostname,omitempty" doc:"Its name, as the allocations show it."`
	RequestedBy      string      `json:"requested_by,omitempty" doc:"Id of who asked for the allocations."`
	RequestedByName  string      `json:"requested_by_name,omitempty"`
	Label            string      `json:"label,omitempty" doc:"Value of the label. Left out: without such a label."`
	Day              string      `json:"day,omitempty" format:"date" doc:"The day, in UTC."`
	Currency         string      `json:"currency,omitempty" doc:"Left out: the tenant had no billing account, and nothing is charged." example:"USD"`
	Allocations      int64       `json:"allocations" doc:"How many allocations it is about."`
	Seconds          int64       `json:"seconds" doc:"How long they were held, together."`
	UnitSeconds      int64       `json:"unit_seconds" doc:"The same times their units: GPUs, or one for a machine without."`
	CostMinor        int64       `json:"cost_minor" doc:"What that costs, in minor units, with what is not charged yet, and with nodes that were reserved and not used."`
	NotChargedMinor  int64       `json:"not_charged_minor" doc:"What of it is not charged yet."`
	UnusedMinor      int64       `json:"unused_minor,omitempty" doc:"What of the cost is for nodes that were reserved and not used. They belong to no node, nobody and no label; what is reserved for a whole tenant belongs to no project."`
	UnusedSeconds    int64       `json:"unused_node_seconds,omitempty" doc:"How long such nodes were not used, together."`
	ReliefMinor      int64       `json:"relief_minor" doc:"What was given back because nodes could not be used."`
	CorrectionsMinor int64       `json:"corrections_minor" doc:"What corrections gave back; negative: what they charged."`
	NetMinor         int64       `json:"net_minor" doc:"The cost less what was given back."`
}

func given[noun any](of id.Of[noun]) *id.Of[noun] {
	if of.IsZero() {
		return nil
	}
	return &of
}

func showLine(g Group) UsageLine {
	v := UsageLine{
		OrgID: given(g.Org), Tenant: g.Tenant, ProjectID: given(g.Project), Project: g.ProjectSlug, SKU: g.SKU,
		NodeID: given(g.Node), Hostname: g.Hostname, RequestedBy: g.User, RequestedByName: g.UserName, Label: g.Label,
		Currency: g.Currency, Allocations: g.Allocations, Seconds: g.Seconds, UnitSeconds: g.UnitSeconds, CostMinor: g.Cost,
		NotChargedMinor: g.NotCharged, ReliefMinor: g.Relief, CorrectionsMinor: g.Mend, NetMinor: g.Net(),
		UnusedMinor: g.Unused, UnusedSeconds: g.UnusedSeconds,
	}
	if !g.Day.IsZero() {
		v.Day = g.Day.Format(time.DateOnly)
	}
	return v
}

func showUsage(r Report, err error) (*httpapi.Plain[UsageView], error) {
	if err != nil {
		return nil, err
	}
	v := UsageView{
		From: r.From, To: r.To, MadeAt: r.At.UTC(), By: r.By, Label: r.Label, Lines: make([]UsageLine, len(r.Groups)),
	}
	if v.By == nil {
		v.By = []By{}
	}
	for i, g := range r.Groups {
		v.Lines[i] = showLine(g)
	}
	return &httpapi.Plain[UsageView]{Body: v}, nil
}

// TenantPath names a tenant in the path.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// ProjectPath names a project in the path.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

const closedForm = "Computed from the times and the terms of allocations, with what is not charged yet."

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerStatements(api)
	s.registerChecks(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-tenant-usage", Method: http.MethodGet, Path: pathTenant + "/usage", Tag: tag,
		Summary: "Read what a tenant used and what that costs", Description: closedForm,
		Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Asked
	},
	) (*httpapi.Plain[UsageView], error) {
		q := in.question()
		q.Org = in.OrgID
		return showUsage(s.Usage(ctx, q))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-project-usage", Method: http.MethodGet, Path: pathProject + "/usage", Tag: tag,
		Summary: "Read what a project used and what that costs", Description: closedForm,
		Access: httpapi.Project(auth.UsageRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Asked
	},
	) (*httpapi.Plain[UsageView], error) {
		q := in.question()
		q.Project = in.ProjectID
		return showUsage(s.Usage(ctx, q))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-usage", Method: http.MethodGet, Path: "/api/v1/admin/usage", Tag: tag,
		Summary: "Read what all tenants used and what that costs", Description: closedForm,
		Access: httpapi.Platform(auth.BillingRead),
	}, func(ctx context.Context, in *Asked) (*httpapi.Plain[UsageView], error) {
		return showUsage(s.Usage(ctx, in.question()))
	})
}
