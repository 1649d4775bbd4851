package allocation

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const pathRequests = "/api/v1/allocation-requests"

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (RequestStatus) Schema(huma.Registry) *huma.Schema {
	return httpapi.StatesOf(RequestLifecycle.Describe())
}

// RequestView is a request that waits for capacity, as the API shows it.
type RequestView struct {
	RequestID       id.AllocationRequest `json:"request_id"`
	ProjectID       id.Project           `json:"project_id"`
	Status          RequestStatus        `json:"status"`
	Position        int32                `json:"position,omitempty" doc:"In the queue of the SKU, from 1. Tenants and projects take turns, so it can grow. Absent: it does not wait any more."`
	SKU             string               `json:"sku"`
	Count           int32                `json:"count" doc:"Nodes that it asks for."`
	Region          string               `json:"region,omitempty" doc:"Absent: any."`
	Name            string               `json:"name,omitempty"`
	Access          Access               `json:"access" enum:"user,root"`
	NodeLabels      map[string]string    `json:"node_labels,omitempty"`
	Capabilities    map[string]string    `json:"capabilities,omitempty"`
	ExpiresIn       int64                `json:"expires_in_seconds,omitempty" doc:"How long its allocations last from their placement on; absent: as the project has settled it then, or for ever."`
	NeverExpires    bool                 `json:"never_expires,omitempty" doc:"Its allocations are to last for ever."`
	RequestedBy     string               `json:"requested_by"`
	RequestedByName string               `json:"requested_by_name,omitempty"`
	CreatedAt       time.Time            `json:"created_at"`
	WaitUntil       time.Time            `json:"wait_until" doc:"When it stops waiting."`
	EndedAt         *time.Time           `json:"ended_at,omitempty"`
	AllocationIDs   []id.Allocation      `json:"allocation_ids" nullable:"false" doc:"What it became."`
	Code            string               `json:"code,omitempty" doc:"Why it ended without allocations."`
	Reason          string               `json:"reason,omitempty"`
	Remedy          string               `json:"remedy,omitempty"`
	Capacity        *Capacity            `json:"capacity,omitempty" doc:"Why it still waits; only where one request is read."`
}

func showRequest(r Request) RequestView {
	made := r.Allocations
	if made == nil {
		made = []id.Allocation{}
	}
	return RequestView{
		RequestID: r.ID, ProjectID: r.Project, Status: r.Status, Position: r.Position, SKU: r.Ask.SKU, Count: r.Ask.Count,
		Region: r.Ask.Wish.Region, Name: r.Ask.Name, Access: r.Ask.Access, NodeLabels: r.Ask.Wish.Labels,
		Capabilities: r.Ask.Wish.Capabilities, ExpiresIn: int64(r.Ask.ExpiresIn.Seconds()), NeverExpires: r.Ask.Never,
		RequestedBy:     r.By.ID,
		RequestedByName: r.By.Name, CreatedAt: r.CreatedAt.UTC(), WaitUntil: r.WaitUntil.UTC(), EndedAt: r.EndedAt,
		AllocationIDs: made, Code: r.Failure.Code, Reason: r.Failure.Reason, Remedy: r.Failure.Remedy,
	}
}

// RequestPath names a request in the path.
type RequestPath struct {
	RequestID id.AllocationRequest `path:"request_id" doc:"Id of the request."`
}

// ChosenRequests chooses requests of a list.
type ChosenRequests struct {
	Status []RequestStatus `query:"status" nullable:"false" doc:"Only in these states."`
}

func (s *Service) registerRequests(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-allocation-requests", Method: http.MethodGet, Path: "/api/v1/projects/{project_id}/allocation-requests",
		Tag: tag, Summary: "List the requests of a project that wait or waited for capacity, newest first",
		Access: httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		ChosenRequests
		httpapi.Page
	},
	) (*httpapi.Listed[RequestView], error) {
		return s.listedRequests(ctx, in.ProjectID, in.Status, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-all-allocation-requests", Method: http.MethodGet, Path: "/api/v1/admin/allocation-requests", Tag: tag,
		Summary: "List the requests of all tenants that wait or waited for capacity, newest first",
		Access:  httpapi.Platform(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		ChosenRequests
		httpapi.Page
	},
	) (*httpapi.Listed[RequestView], error) {
		return s.listedRequests(ctx, id.Project{}, in.Status, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-allocation-request", Method: http.MethodGet, Path: pathRequests + "/{request_id}", Tag: tag,
		Summary: "Read a request for capacity, its position, and why it still waits",
		Access:  httpapi.Anywhere(auth.AllocationRead),
	}, func(ctx context.Context, in *RequestPath) (*httpapi.Plain[RequestView], error) {
		r, why, err := s.GetRequest(ctx, in.RequestID)
		if err == nil {
			err = seen(ctx, r, auth.AllocationRead)
		}
		if err != nil {
			return nil, err
		}
		v := showRequest(r)
		v.Capacity = why
		return &httpapi.Plain[RequestView]{Body: v}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "cancel-allocation-request", Method: http.MethodPost, Path: pathRequests + "/{request_id}/cancel", Tag: tag,
		Summary:     "Take a request back that waits for capacity",
		Description: "One that was placed meanwhile is refused: its allocations are released instead.",
		Access:      httpapi.Anywhere(auth.AllocationUse),
	}, func(ctx context.Context, in *RequestPath) (*httpapi.Plain[RequestView], error) {
		if err := s.mineToCancel(ctx, in.RequestID); err != nil {
			return nil, err
		}
		r, err := s.Cancel(ctx, in.RequestID)
		return &httpapi.Plain[RequestView]{Body: showRequest(r)}, err
	})
}

func (s *Service) listedRequests(ctx context.Context, of id.Project, in []RequestStatus, page httpapi.Page) (
	*httpapi.Listed[RequestView], error,
) {
	slice, err := httpapi.SliceOf[id.AllocationRequest](page)
	if err != nil {
		return nil, err
	}
	rows, err := s.Requests(ctx, of, in, slice)
	return httpapi.ListOf(page, rows, err, showRequest, func(v RequestView) any { return v.RequestID })
}

// seen hides a request from callers who may not know of it.
func seen(ctx context.Context, r Request, want auth.Permission) error {
	switch auth.From(ctx).Decide(want, auth.Target{Org: r.Org, Project: r.Project}) {
	case auth.Allowed:
		return nil
	case auth.Denied:
		return fault.New(fault.Forbidden, "insufficient_permissions", "this needs the permission %s in the project", want).
			WithRemedy("ask an administrator of the project")
	case auth.Hidden:
	}
	return requestNotFound()
}

// mineToCancel refuses to take back what somebody else asked for, unless the caller
// manages those of others too.
func (s *Service) mineToCancel(ctx context.Context, of id.AllocationRequest) error {
	r, _, err := s.GetRequest(ctx, of)
	if err == nil {
		err = seen(ctx, r, auth.AllocationUse)
	}
	if err != nil || r.By.ID == auth.From(ctx).ID {
		return err
	}
	if seen(ctx, r, auth.AllocationManage) != nil {
		return fault.New(fault.Forbidden, "ownership_required", "the request belongs to somebody else of the project").
			WithRemedy("ask whoever made it, or an administrator of the project")
	}
	return nil
}
