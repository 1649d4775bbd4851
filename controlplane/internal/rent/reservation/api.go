package reservation

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
)

const (
	tag  = "Reservations"
	root = "/api/v1/reservations"
)

// View is a reservation as the API shows it.
type View struct {
	ReservationID id.Reservation    `json:"reservation_id"`
	OrgID         id.Org            `json:"org_id" doc:"Id of the tenant that it is kept for."`
	ProjectID     *id.Project       `json:"project_id,omitempty" doc:"Id of the project that it is kept for. Left out: for all projects of the tenant."`
	State         State             `json:"state" enum:"upcoming,active,ended,cancelled" doc:"Follows from the time."`
	SKU           string            `json:"sku"`
	Nodes         int32             `json:"nodes" doc:"How many nodes are kept."`
	Used          int32             `json:"used" doc:"Nodes of it that its owner rents now; 0 unless it is active."`
	Held          int32             `json:"held" doc:"Free nodes that are kept for it now; 0 unless it is active."`
	ShortBy       int32             `json:"short_by" doc:"Nodes that it lacks now, because there are not enough that fit and are free. They are kept as they come."`
	Region        string            `json:"region,omitempty" doc:"Left out: any."`
	Rack          string            `json:"rack,omitempty" doc:"Left out: any. Only for people who may see nodes."`
	Pool          string            `json:"pool,omitempty" doc:"Left out: the general pool. Only for people who may see nodes."`
	NodeLabels    map[string]string `json:"node_labels,omitempty" doc:"Labels that its nodes have. Those that do not begin with public/ are only for people who may see nodes."`
	StartsAt      time.Time         `json:"starts_at"`
	EndsAt        time.Time         `json:"ends_at"`
	Reason        string            `json:"reason,omitempty"`
	Forced        bool              `json:"forced,omitempty" doc:"It was made although the fleet is too small for all that is reserved."`
	Charge        *ChargeView       `json:"charge,omitempty" doc:"What its owner pays for nodes of it that it does not use. Left out: nothing is charged for it."`
	CreatedAt     time.Time         `json:"created_at"`
	CreatedBy     string            `json:"created_by,omitempty" doc:"Id of who made it; only for people with a role on the platform."`
	CreatedByName string            `json:"created_by_name,omitempty"`
	CancelledAt   *time.Time        `json:"cancelled_at,omitempty"`
	CancelReason  string            `json:"cancel_reason,omitempty"`
}

// ChargeView is what nodes of a reservation cost that are not used, as the API shows it.
type ChargeView struct {
	Currency         string `json:"currency" example:"USD"`
	PriceMinor       int64  `json:"price_minor" doc:"Price of a unit for one hour, in minor units, agreed when it was made."`
	PaidShare        int32  `json:"paid_share" doc:"The share of it that is paid, in ten-thousandths."`
	Units            int32  `json:"units" doc:"GPUs of a node; one for a node without."`
	UnusedNodes      int64  `json:"unused_nodes" doc:"How many nodes are charged now: what is not used of it, less what it lacks."`
	BurnMinorPerHour int64  `json:"burn_minor_per_hour" doc:"What an hour costs now, rounded up."`
	CostMinor        int64  `json:"cost_minor" doc:"What it has cost until now, with what is not booked yet."`
}

func showCharge(c *Cost) *ChargeView {
	if c == nil {
		return nil
	}
	return &ChargeView{
		Currency: c.Currency, PriceMinor: c.Minor, PaidShare: c.Paid, Units: c.Units, UnusedNodes: c.Unused,
		BurnMinorPerHour: c.Hour, CostMinor: c.Until,
	}
}

// forTenant is a selector as tenants may read it: without the words of operators, and
// without where nodes stand.
func (s Selector) forTenant() Selector {
	out := Selector{Region: s.Region, Labels: maps.Clone(s.Labels)}
	maps.DeleteFunc(out.Labels, func(key, _ string) bool { return !strings.HasPrefix(key, node.PublicLabels) })
	return out
}

// show shows a reservation; who made it only to people of the platform.
func show(ctx context.Context) func(Reservation) View {
	who := auth.From(ctx)
	platform, insider := who.SeesAll(auth.ReservationRead), who.SeesAll(auth.NodeRead)
	return func(r Reservation) View {
		if !insider {
			r.Selector = r.forTenant()
		}
		v := View{
			ReservationID: r.ID, OrgID: r.Org, State: r.State, SKU: r.SKU, Nodes: r.Nodes, Used: r.Usage.Used,
			Held: r.Usage.Held, ShortBy: r.short(), Region: r.Region, Rack: r.Rack, Pool: r.Pool, NodeLabels: r.Labels,
			StartsAt: r.StartsAt.UTC(), EndsAt: r.EndsAt.UTC(), Reason: r.Reason, Forced: r.Force,
			CreatedAt: r.CreatedAt.UTC(), CancelledAt: r.CancelledAt, CancelReason: r.CancelReason,
			Charge: showCharge(r.Cost),
		}
		if !r.Project.IsZero() {
			v.ProjectID = &r.Project
		}
		if platform {
			v.CreatedBy, v.CreatedByName = r.By, r.ByName
		}
		return v
	}
}

// WishBody is what is to be reserved.
type WishBody struct {
	OrgID      id.Org            `json:"org_id" doc:"Id of the tenant that it is kept for."`
	ProjectID  *id.Project       `json:"project_id,omitempty" doc:"Only with a project of the tenant that alone may use it."`
	SKU        string            `json:"sku" minLength:"1" maxLength:"63" example:"h200-8"`
	Nodes      int32             `json:"nodes" minimum:"1" maximum:"10000" example:"4"`
	Region     string            `json:"region,omitempty" maxLength:"63" doc:"Left out: any."`
	Rack       string            `json:"rack,omitempty" maxLength:"63" doc:"Left out: any."`
	Pool       string            `json:"pool,omitempty" maxLength:"63" doc:"Left out: the general pool, the only one that tenants rent from by themselves."`
	NodeLabels map[string]string `json:"node_labels,omitempty" doc:"Labels that its nodes must have."`
	StartsAt   *time.Time        `json:"starts_at,omitempty" doc:"Left out, or in the past: now."`
	EndsAt     time.Time         `json:"ends_at"`
	Reason     string            `json:"reason,omitempty" maxLength:"500" doc:"Why; the owner reads it."`
	Force      bool              `json:"force,omitempty" doc:"Also if the fleet has too few nodes for all that is reserved."`
	Charge     bool              `json:"charge,omitempty" doc:"The owner pays for nodes of it that it does not use, by the price of the SKU for reserved nodes as it is now. Only for people who may take money of tenants, and not with force. Left out: it costs nothing."`
}

func (b WishBody) wish() Wish {
	w := Wish{
		Owner: Owner{Org: b.OrgID}, SKU: b.SKU, Nodes: b.Nodes, EndsAt: b.EndsAt, Reason: b.Reason,
		Force: b.Force, Charge: b.Charge,
		Selector: Selector{Region: b.Region, Rack: b.Rack, Pool: b.Pool, Labels: b.NodeLabels},
	}
	if b.ProjectID != nil {
		w.Project = *b.ProjectID
	}
	if b.StartsAt != nil {
		w.StartsAt = *b.StartsAt
	}
	return w
}

// Path names a reservation in the path. It is exported because the framework reads
// embedded parameters only from exported types.
type Path struct {
	ReservationID id.Reservation `path:"reservation_id" doc:"Id of the reservation."`
}

// Chosen chooses reservations of a list.
type Chosen struct {
	Org     string  `query:"org_id" format:"uuid" doc:"Only those of this tenant."`
	Project string  `query:"project_id" format:"uuid" doc:"Only those that this project may use: its own, and those for all of its tenant."`
	SKU     string  `query:"sku" maxLength:"63" doc:"Only of this SKU."`
	State   []State `query:"state" nullable:"false" enum:"upcoming,active,ended,cancelled" doc:"Only in these states."`
}

func (c Chosen) selection() (Selection, error) {
	of := Selection{SKU: c.SKU, States: c.State}
	var err error
	if c.Org != "" {
		of.Org, err = id.Parse[id.Org](c.Org)
	}
	if err == nil && c.Project != "" {
		of.Project, err = id.Parse[id.Project](c.Project)
	}
	if err != nil {
		return of, fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
			WithFields(fault.Field{Path: "query", Message: "org_id and project_id must be ids"})
	}
	return of, nil
}

// EndBody is why a reservation is cancelled.
type EndBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"Why; the owner reads it."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-reservation", Method: http.MethodPost, Path: root, Tag: tag, Status: http.StatusCreated,
		Summary: "Keep nodes for a tenant or a project in a time window",
		Description: "Nothing that is rented is taken away: nodes are kept as they become free (`short_by`). More than the " +
			"fleet has at any time of the window is refused with `reservation_exceeds_fleet`, unless it is forced. It costs " +
			"nothing, unless it is made to be charged: then its owner pays for what it does not use.",
		Access: httpapi.Platform(auth.ReservationManage),
	}, func(ctx context.Context, in *struct{ Body WishBody }) (*httpapi.Plain[View], error) {
		r, err := s.Create(ctx, in.Body.wish())
		return &httpapi.Plain[View]{Body: show(ctx)(r)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-reservations", Method: http.MethodGet, Path: root, Tag: tag,
		Summary:     "List reservations, newest first",
		Description: "Tenants see those that are kept for them.",
		Access:      httpapi.Anywhere(auth.ReservationRead),
	}, func(ctx context.Context, in *struct {
		Chosen
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		of, err := in.selection()
		if err != nil {
			return nil, err
		}
		page, err := httpapi.SliceOf[id.Reservation](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, of, page)
		return httpapi.ListOf(in.Page, rows, err, show(ctx), func(v View) any { return v.ReservationID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-reservation", Method: http.MethodGet, Path: root + "/{reservation_id}", Tag: tag,
		Summary: "Read a reservation, and how it is used", Access: httpapi.Anywhere(auth.ReservationRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[View], error) {
		r, err := s.Get(ctx, in.ReservationID)
		return &httpapi.Plain[View]{Body: show(ctx)(r)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "cancel-reservation", Method: http.MethodPost, Path: root + "/{reservation_id}/cancel", Tag: tag,
		Summary: "End a reservation before its time", Description: "What is rented stays rented.",
		Access: httpapi.Platform(auth.ReservationManage),
	}, func(ctx context.Context, in *struct {
		Path
		Body EndBody
	},
	) (*httpapi.Plain[View], error) {
		r, err := s.Cancel(ctx, in.ReservationID, in.Body.Reason)
		return &httpapi.Plain[View]{Body: show(ctx)(r)}, err
	})
}
