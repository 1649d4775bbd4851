package account

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
	pathAccount = "/api/v1/tenants/{org_id}/billing-account"
	pathFree    = "/api/v1/projects/{project_id}/free-of-charge"
)

// Schema implements huma.SchemaProvider.
func (Basis) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(bases) }

// Schema implements huma.SchemaProvider.
func (Pricing) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(pricings) }

// View is a billing account as the API shows it.
type View struct {
	OrgID     id.Org    `json:"org_id" doc:"Id of the tenant."`
	Currency  string    `json:"currency" doc:"What the tenant pays in, for ever." example:"USD"`
	PaidShare int32     `json:"paid_share" doc:"What it pays of a price, in ten-thousandths: 8500 is a discount of 15 %." example:"10000"`
	Pricing   Pricing   `json:"pricing" doc:"What is rented keeps the price of then (fixed), or takes each price of the list when it begins (follows_list)."`
	Version   int64     `json:"version" doc:"Grows with every change."`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by" doc:"Id of who set it last."`
}

func show(a Account) View {
	return View{
		OrgID: a.Org, Currency: a.Currency, PaidShare: a.Paid, Pricing: a.Pricing, Version: a.Version,
		CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(), UpdatedBy: a.UpdatedBy,
	}
}

// Body is what an account is set to.
type Body struct {
	Currency  string   `json:"currency" pattern:"^[A-Z]{3}$" doc:"What the tenant pays in. It can be set once." example:"USD"`
	PaidShare *int32   `json:"paid_share,omitempty" minimum:"0" maximum:"10000" doc:"What it pays of a price, in ten-thousandths. Left out: as it is; of a new account all of it."`
	Pricing   *Pricing `json:"pricing,omitempty" doc:"Whether what is rented keeps the price of then, or takes each price of the list when it begins. Left out: as it is; of a new account fixed."`
	Version   *int64   `json:"version,omitempty" minimum:"1" doc:"The version of the account that the change is based on: if it has another by now, nothing is changed. Left out: whichever it has."`
}

// FreeView is a project that pays nothing, as the API shows it.
type FreeView struct {
	ProjectID id.Project `json:"project_id" doc:"Id of the project."`
	Reason    string     `json:"reason" doc:"Why it pays nothing."`
	Since     time.Time  `json:"since"`
	SetBy     string     `json:"set_by" doc:"Id of who declared it."`
}

func showFree(f FreeProject) FreeView {
	return FreeView{ProjectID: f.Project, Reason: f.Reason, Since: f.Since.UTC(), SetBy: f.SetBy}
}

// FreeBody says why a project pays nothing.
type FreeBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why it pays nothing."`
}

// TermsView is what was agreed for an allocation, as the API shows it.
type TermsView struct {
	AllocationID id.Allocation `json:"allocation_id" doc:"Id of the allocation."`
	SKU          string        `json:"sku"`
	Basis        Basis         `json:"basis" doc:"priced: it is charged; free_project: the project was declared free; placed_by_operator: an operator placed it for a project that did not ask for it; no_account: the tenant had no billing account."`
	Currency     string        `json:"currency,omitempty" doc:"Left out: there was no account."`
	PriceID      *id.Price     `json:"price_id,omitempty" doc:"Id of the price that was in force."`
	PriceMinor   int64         `json:"price_minor" doc:"Price of a unit for one hour when it was made, in minor units."`
	PaidShare    int32         `json:"paid_share" doc:"The share of it that is paid, in ten-thousandths."`
	Units        int32         `json:"units" doc:"GPUs; one for a machine without."`
	FreeBecause  string        `json:"free_because,omitempty" doc:"Why nothing is charged."`
	Pricing      Pricing       `json:"pricing" doc:"fixed: the price stays; follows_list: each price of the list counts while it is in force."`
	Prices       []ListedPrice `json:"prices,omitempty" doc:"Of terms that follow the list: the prices that count, those to come included, by their times."`
	FrozenAt     time.Time     `json:"frozen_at"`
}

// ListedPrice is a price of the list, as the API shows it.
type ListedPrice struct {
	PriceID    id.Price  `json:"price_id" doc:"Id of the price."`
	PriceMinor int64     `json:"price_minor" doc:"Price of a unit for one hour, in minor units."`
	From       time.Time `json:"from" doc:"From when on it counts, until the next one."`
}

func showTerms(t Terms) TermsView {
	v := TermsView{
		AllocationID: t.Allocation, SKU: t.SKU, Basis: t.Basis, Currency: t.Currency, PriceMinor: t.Minor, PaidShare: t.Paid,
		Units: t.Units, FreeBecause: t.Because, FrozenAt: t.FrozenAt.UTC(), Pricing: t.Pricing,
	}
	if !t.Price.IsZero() {
		v.PriceID = &t.Price
	}
	for i, p := range t.List {
		if i+1 < len(t.List) && !t.List[i+1].From.After(t.FrozenAt) {
			continue // it was over when this was agreed
		}
		v.Prices = append(v.Prices, ListedPrice{PriceID: p.ID, PriceMinor: p.Minor, From: p.From.UTC()})
	}
	return v
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
	s.registerAccount(api)
	s.registerFree(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-allocation-terms", Method: http.MethodGet,
		Path: "/api/v1/projects/{project_id}/allocations/{allocation_id}/terms", Tag: tag,
		Summary:     "Read what was agreed for an allocation",
		Description: "As it was when the allocation was made. It never changes.",
		Access:      httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		ID id.Allocation `path:"allocation_id" doc:"Id of the allocation."`
	},
	) (*httpapi.Plain[TermsView], error) {
		t, err := s.TermsOf(ctx, in.ProjectID, in.ID)
		return &httpapi.Plain[TermsView]{Body: showTerms(t)}, err
	})
}

func (s *Service) registerAccount(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-billing-account", Method: http.MethodGet, Path: pathAccount, Tag: tag,
		Summary: "Read the billing account of a tenant", Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *TenantPath) (*httpapi.Plain[View], error) {
		a, err := Get(ctx, s.db, in.OrgID)
		return &httpapi.Plain[View]{Body: show(a)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-billing-account", Method: http.MethodPut, Path: pathAccount, Tag: tag,
		Summary: "Open the billing account of a tenant, or change what it pays of prices",
		Description: "The currency can be set once. What is rented already keeps its terms; what was rented without an account " +
			"stays free of charge.",
		Access: httpapi.Tenant(auth.BillingManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body Body
	},
	) (*httpapi.Plain[View], error) {
		a, err := s.Set(ctx, in.OrgID, Wish{
			Currency: in.Body.Currency, Paid: in.Body.PaidShare, Pricing: in.Body.Pricing, Version: in.Body.Version,
		})
		return &httpapi.Plain[View]{Body: show(a)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-free-projects", Method: http.MethodGet, Path: pathAccount + "/free-projects", Tag: tag,
		Summary: "List the projects of a tenant that pay nothing", Access: httpapi.Tenant(auth.BillingRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[FreeView], error) {
		page, err := httpapi.SliceOf[id.Project](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.FreeProjects(ctx, in.OrgID, page)
		return httpapi.ListOf(in.Page, rows, err, showFree, func(v FreeView) any { return v.ProjectID })
	})
}

func (s *Service) registerFree(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "put-free-project", Method: http.MethodPut, Path: pathFree, Tag: tag,
		Summary: "Declare that a project pays nothing", Description: "For what it rents from now on.",
		Access: httpapi.Project(auth.BillingManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body FreeBody
	},
	) (*httpapi.Plain[FreeView], error) {
		f, err := s.SetFree(ctx, in.ProjectID, in.Body.Reason)
		return &httpapi.Plain[FreeView]{Body: showFree(f)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-free-project", Method: http.MethodDelete, Path: pathFree, Tag: tag,
		Summary: "End that a project pays nothing", Description: "What it rents already stays free of charge.",
		Access: httpapi.Project(auth.BillingManage),
	}, func(ctx context.Context, in *ProjectPath) (*httpapi.Nothing, error) {
		return nil, s.EndFree(ctx, in.ProjectID)
	})
}
