package budget

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
	pathTenant  = "/api/v1/tenants/{org_id}/budgets"
	pathProject = "/api/v1/projects/{project_id}/budget"
)

// Schema implements huma.SchemaProvider.
func (Period) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(periods) }

// AlertView is a percentage that was told, as the API shows it.
type AlertView struct {
	Percent int32     `json:"percent"`
	ToldAt  time.Time `json:"told_at"`
}

// View is a budget as the API shows it.
type View struct {
	ProjectID     id.Project  `json:"project_id" doc:"Id of the project."`
	OrgID         id.Org      `json:"org_id" doc:"Id of the tenant."`
	Currency      string      `json:"currency" example:"USD"`
	AmountMinor   int64       `json:"amount_minor" doc:"What the project means to spend in a period, in minor units."`
	Period        Period      `json:"period" doc:"month: a month of the calendar, in UTC."`
	PeriodStart   time.Time   `json:"period_start" doc:"Beginning of this period."`
	PeriodEnd     time.Time   `json:"period_end" doc:"End of this period, when the next one begins."`
	SpentMinor    int64       `json:"spent_minor" doc:"What was used in this period, also what is not booked yet, less what was given back."`
	SpentPercent  int64       `json:"spent_percent" doc:"That in percent of the amount, cut off."`
	AsideMinor    int64       `json:"aside_minor" doc:"What was just rented counts with its first window: this much more than what was used of it."`
	ForecastMinor int64       `json:"forecast_minor" doc:"What will be spent at the end of the period, if what is rented now goes on until its expiry."`
	Alerts        []int32     `json:"alerts" nullable:"false" doc:"At which percentages of the amount the project is told."`
	Told          []AlertView `json:"told" nullable:"false" doc:"Those that were told in this period."`
	HardStop      bool        `json:"hard_stop" doc:"Whether new requests are refused that go beyond the amount. What runs goes on."`
	Version       int64       `json:"version" doc:"Grows with every change."`
	UpdatedAt     time.Time   `json:"updated_at"`
	UpdatedBy     string      `json:"updated_by" doc:"Id of who set it last."`
}

func show(b Budget) View {
	v := View{
		ProjectID: b.Project, OrgID: b.Org, Currency: b.Currency, AmountMinor: b.Minor, Period: b.Period,
		PeriodStart: b.Now.From, PeriodEnd: b.Now.To, SpentMinor: b.Spent, AsideMinor: b.Aside, ForecastMinor: b.Forecast,
		Alerts: append([]int32{}, b.Alerts...), Told: make([]AlertView, len(b.Told)), HardStop: b.HardStop,
		Version: b.Version, UpdatedAt: b.UpdatedAt.UTC(), UpdatedBy: b.UpdatedBy,
	}
	if b.Minor > 0 {
		v.SpentPercent = b.Percent()
	}
	for i, a := range b.Told {
		v.Told[i] = AlertView{Percent: a.Percent, ToldAt: a.At.UTC()}
	}
	return v
}

// Body is what a budget is set to.
type Body struct {
	AmountMinor int64    `json:"amount_minor" minimum:"1" maximum:"1000000000000000" doc:"What the project means to spend in a period, in minor units."`
	Currency    string   `json:"currency" pattern:"^[A-Z]{3}$" doc:"In what: the currency of the tenant." example:"USD"`
	Period      Period   `json:"period,omitempty" doc:"Left out: month."`
	Alerts      *[]int32 `json:"alerts,omitempty" nullable:"false" minItems:"0" maxItems:"10" doc:"At which percentages of the amount, 1 to 1000, the project is told. Left out: 50, 80 and 100."`
	HardStop    bool     `json:"hard_stop,omitempty" doc:"Refuse new requests that go beyond the amount. What runs goes on."`
}

func (b Body) wish() Wish {
	w := Wish{
		Minor: b.AmountMinor, Currency: b.Currency, Period: b.Period, Alerts: []int32{50, 80, 100}, HardStop: b.HardStop,
	}
	if w.Period == "" {
		w.Period = Month
	}
	if b.Alerts != nil {
		w.Alerts = *b.Alerts
	}
	return w
}

// TenantPath names a tenant in the path.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// ProjectPath names a project in the path.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-budgets", Method: http.MethodGet, Path: pathTenant, Tag: tag,
		Summary: "List the budgets of the projects of a tenant", Description: "A project that is not listed has none.",
		Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.Project](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.OrgID, page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return v.ProjectID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-budget", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary:     "Read the budget of a project, and how far it has come",
		Description: "Computed at this moment from what is rented.",
		Access:      httpapi.Project(auth.UsageRead),
	}, func(ctx context.Context, in *ProjectPath) (*httpapi.Plain[View], error) {
		b, err := s.Of(ctx, in.ProjectID)
		return &httpapi.Plain[View]{Body: show(b)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-budget", Method: http.MethodPut, Path: pathProject, Tag: tag,
		Summary: "Set the budget of a project",
		Description: "Replaces the one before. Each percentage is told once in a period, as the event billing.budget_reached; " +
			"if the amount is raised, those that are not reached any more are told again. With a hard stop, requests are " +
			"refused whose first window goes beyond the amount; what runs goes on.",
		Access: httpapi.Project(auth.BudgetManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body Body
	},
	) (*httpapi.Plain[View], error) {
		b, err := s.Set(ctx, in.ProjectID, in.Body.wish())
		return &httpapi.Plain[View]{Body: show(b)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-budget", Method: http.MethodDelete, Path: pathProject, Tag: tag,
		Summary: "Remove the budget of a project", Description: "Nothing is told any more, and nothing is stopped.",
		Access: httpapi.Project(auth.BudgetManage),
	}, func(ctx context.Context, in *ProjectPath) (*httpapi.Nothing, error) {
		return nil, s.Remove(ctx, in.ProjectID)
	})
}
