package maintenance

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// SelectorBody chooses rented nodes.
type SelectorBody struct {
	Region string            `json:"region,omitempty" maxLength:"63"`
	Rack   string            `json:"rack,omitempty" maxLength:"63"`
	Pool   string            `json:"pool,omitempty" maxLength:"63"`
	SKU    string            `json:"sku,omitempty" maxLength:"63"`
	Labels map[string]string `json:"labels,omitempty" doc:"Labels that a node has."`
}

// PlanBody is what operators announce.
type PlanBody struct {
	NodeIDs    []id.Node     `json:"node_ids,omitempty" maxItems:"1000" nullable:"false" doc:"Only with no selector: these nodes."`
	Selector   *SelectorBody `json:"selector,omitempty" doc:"Rented nodes that are so. Left out: node_ids names them."`
	Kind       Kind          `json:"kind" enum:"release,reboot,pause" doc:"What it needs. release: the allocation ends at due_at; reboot, pause: the tenant keeps it, which is repairing while it is under way."`
	AskConsent bool          `json:"ask_consent,omitempty" doc:"Whether nothing happens without the consent of the tenant. Left out: the tenant is told."`
	NotBefore  time.Time     `json:"not_before,omitempty" doc:"When the window opens. Left out: at due_at. Of kind release nothing happens before due_at all the same."`
	DueAt      time.Time     `json:"due_at" doc:"When the window closes; of kind release: when the allocation ends."`
	Reason     string        `json:"reason" minLength:"3" maxLength:"500" doc:"In words for the tenants, who read it." example:"a power supply is replaced"`
}

func (b PlanBody) plan() Plan {
	p := Plan{
		Nodes: b.NodeIDs, Kind: b.Kind, ConsentAsked: b.AskConsent, NotBefore: b.NotBefore, DueAt: b.DueAt, Reason: b.Reason,
	}
	if w := b.Selector; w != nil {
		p.Where = Where{Region: w.Region, Rack: w.Rack, Pool: w.Pool, SKU: w.SKU, Labels: w.Labels}
	}
	return p
}

// LeftOutView is a node that nothing was announced for.
type LeftOutView struct {
	NodeID   id.Node `json:"node_id"`
	Hostname string  `json:"hostname"`
	Reason   string  `json:"reason"`
}

// MadeView is what an announcement became.
type MadeView struct {
	AnnouncementID id.Announcement `json:"announcement_id"`
	Maintenances   []View          `json:"maintenances" nullable:"false" doc:"One per tenant."`
	LeftOut        []LeftOutView   `json:"left_out" nullable:"false" doc:"Nodes that nothing was announced for, and why."`
}

// ReasonBody is why a maintenance is taken back, or what came of it.
type ReasonBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"In words for the tenant, who reads it."`
}

func (s *Service) announced(ctx context.Context, p Plan) (*httpapi.Plain[MadeView], error) {
	made, left, err := s.Announce(ctx, p)
	if err != nil {
		return nil, err
	}
	out := MadeView{
		AnnouncementID: made[0].Announcement, Maintenances: make([]View, len(made)), LeftOut: make([]LeftOutView, len(left)),
	}
	for i, m := range made {
		out.Maintenances[i] = showAll(m)
	}
	for i, l := range left {
		out.LeftOut[i] = LeftOutView{NodeID: l.Node, Hostname: l.Hostname, Reason: l.Reason}
	}
	return &httpapi.Plain[MadeView]{Body: out}, nil
}

// Chosen chooses maintenances of a list.
type Chosen struct {
	Status       []Status `query:"status" nullable:"false" doc:"Only in these states."`
	Node         string   `query:"node_id" format:"uuid" doc:"Only of this node."`
	Announcement string   `query:"announcement_id" format:"uuid" doc:"Only of this announcement."`
}

func (c Chosen) selection() (Selection, error) {
	of := Selection{Statuses: c.Status}
	var err error
	if c.Node != "" {
		if of.Node, err = id.Parse[id.Node](c.Node); err != nil {
			return of, noID("node_id")
		}
	}
	if c.Announcement != "" {
		if of.Announcement, err = id.Parse[id.Announcement](c.Announcement); err != nil {
			return of, noID("announcement_id")
		}
	}
	return of, nil
}

func noID(param string) error {
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fault.Field{Path: "query." + param, Message: "is no id"})
}

func (s *Service) registerOperator(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "announce-maintenance", Method: http.MethodPost, Path: pathAdmin, Tag: tag, Status: http.StatusCreated,
		Summary: "Announce maintenance of nodes to the tenants on them",
		Description: "Tenants are told by the event allocation.maintenance_announced, by their webhooks and on the " +
			"allocation. One of kind release ends the allocation at due_at: never before, unless the tenant agrees to that. " +
			"The node goes to nobody then until finish-maintenance.",
		Access: httpapi.Platform(auth.AllocationForce),
	}, func(ctx context.Context, in *struct{ Body PlanBody }) (*httpapi.Plain[MadeView], error) {
		return s.announced(ctx, in.Body.plan())
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-all-maintenances", Method: http.MethodGet, Path: pathAdmin, Tag: tag,
		Summary: "List announced maintenances of all tenants, newest first, with their answers",
		Access:  httpapi.Platform(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		Chosen
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		of, err := in.selection()
		if err != nil {
			return nil, err
		}
		return s.listed(ctx, of, in.Page, showAll)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "begin-maintenance", Method: http.MethodPost, Path: pathAdmin + "/{maintenance_id}/begin", Tag: tag,
		Summary: "Begin maintenance that the tenant keeps the node through",
		Description: "Refused with maintenance_not_open before its time, and without consent where that was asked for. The " +
			"allocation is repairing until finish-maintenance.",
		Access: httpapi.Platform(auth.AllocationForce),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[View], error) {
		m, err := s.Begin(ctx, in.MaintenanceID)
		return answered(m, err, showAll)
	})
	for _, v := range []struct {
		id, path, summary string
		do                func(context.Context, id.Maintenance, string) (Maintenance, error)
	}{
		{"finish-maintenance", "finish", "End maintenance that is under way: the node can be used again", s.Finish},
		{"cancel-maintenance", "cancel", "Take back announced maintenance that has not begun", s.Cancel},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: v.id, Method: http.MethodPost, Path: pathAdmin + "/{maintenance_id}/" + v.path, Tag: tag, Summary: v.summary,
			Access: httpapi.Platform(auth.AllocationForce),
		}, func(ctx context.Context, in *struct {
			Path
			Body ReasonBody
		},
		) (*httpapi.Plain[View], error) {
			m, err := v.do(ctx, in.MaintenanceID, in.Body.Reason)
			return answered(m, err, showAll)
		})
	}
}
