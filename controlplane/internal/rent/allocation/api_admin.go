package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

const pathAdmin = "/api/v1/admin/allocations"

// FlatBody is a request that names its project.
type FlatBody struct {
	ProjectID id.Project `json:"project_id" doc:"The project to rent for."`
	AskBody
}

// registerFlat adds the paths without a project: the row says which it is.
func (s *Service) registerFlat(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-allocation-flat", Method: http.MethodPost, Path: pathFlat, Tag: tag, Status: http.StatusCreated,
		Summary: "Rent nodes, with the project in the body", Description: "As create-allocation.",
		Access: httpapi.Anywhere(auth.AllocationUse), Accepted: RequestView{},
	}, func(ctx context.Context, in *struct{ Body FlatBody }) (*httpapi.Branched[Made], error) {
		if err := s.mayUse(ctx, in.Body.ProjectID); err != nil {
			return nil, err
		}
		made, err := s.Request(ctx, in.Body.ask(in.Body.ProjectID))
		return answer(ctx, made, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-allocation-flat", Method: http.MethodGet, Path: pathFlat + "/{allocation_id}", Tag: tag,
		Summary: "Read an allocation by its id alone", Access: httpapi.Anywhere(auth.AllocationRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[View], error) {
		a, err := s.of(ctx, in.AllocationID, id.Project{}, auth.AllocationRead)
		return s.detail(ctx, a, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "release-allocation-flat", Method: http.MethodPost, Path: pathFlat + "/{allocation_id}/release", Tag: tag,
		Status: http.StatusAccepted, Summary: "Give an allocation back, by its id alone",
		Description: "As release-allocation.",
		Access:      httpapi.Anywhere(auth.AllocationUse),
	}, func(ctx context.Context, in *struct {
		Path
		Body LeaveBody
	},
	) (*httpapi.Plain[View], error) {
		return s.leave(ctx, in.AllocationID, id.Project{}, in.Body)
	})
}

// mayUse refuses a project that the caller may not rent for.
func (s *Service) mayUse(ctx context.Context, project id.Project) error {
	of, err := allocationdb.New(s.db).OrgOf(ctx, project)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read tenant of project: %w", err)
	}
	target := auth.Target{Org: of.OrgID, Project: project}
	if err != nil || auth.From(ctx).Decide(auth.AllocationUse, target) != auth.Allowed {
		return fault.New(fault.NotFound, "project_not_found", "there is no such project, or you may not rent for it").
			WithRemedy("see yours: gpuaas project list")
	}
	return nil
}

// ForceBody is why an administrator acts.
type ForceBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"why; it goes into the audit log"`
}

// CleanupBody is why an administrator gives an allocation up.
type CleanupBody struct {
	ForceBody
	RuntimeVerifiedAbsent bool `json:"runtime_verified_absent" doc:"That somebody looked, and nothing of the allocation runs on the node."`
}

// AdminAskBody is a request of an administrator, who may choose the node.
type AdminAskBody struct {
	FlatBody
	NodeID *id.Node `json:"node_id,omitempty" doc:"This node only."`
	Pool   string   `json:"pool,omitempty" maxLength:"63" doc:"Nodes that are kept for this; left out: the general pool."`
	Charge *bool    `json:"charge,omitempty" doc:"Whether the tenant pays for it. Left out: if you may give and take money of tenants, or may use allocations of the project. Nobody else can have it charged."`
}

// charged says whether what an administrator places is charged to the tenant.
func (b AdminAskBody) charged(ctx context.Context) (bool, error) {
	may := auth.From(ctx).Decide(auth.BillingManage, auth.Target{}) == auth.Allowed
	if b.Charge == nil || *b.Charge == may {
		return may, nil
	}
	if *b.Charge {
		return false, fault.New(fault.Forbidden, "insufficient_permissions",
			"you may place allocations for a project, and not have them charged to it").
			WithRemedy("leave charge out: it is then free of charge; or have somebody with billing:manage place it")
	}
	return false, nil
}

func (s *Service) registerAdmin(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-all-allocations", Method: http.MethodGet, Path: pathAdmin, Tag: tag,
		Summary: "List the allocations of all tenants, newest first", Access: httpapi.Platform(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		Chosen
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		of, err := in.selection(id.Project{})
		if err != nil {
			return nil, err
		}
		return s.listed(ctx, of, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "place-allocation", Method: http.MethodPost, Path: pathAdmin, Tag: tag, Status: http.StatusCreated,
		Summary: "Rent for a project on a node or out of a pool of your choice",
		Access:  httpapi.Platform(auth.AllocationForce), Accepted: RequestView{},
	}, func(ctx context.Context, in *struct{ Body AdminAskBody }) (*httpapi.Branched[Made], error) {
		ask := in.Body.ask(in.Body.ProjectID)
		charged, err := in.Body.charged(ctx)
		if err != nil {
			return nil, err
		}
		ask.Placed = !charged
		if in.Body.NodeID != nil {
			ask.Wish.Node = *in.Body.NodeID
		}
		ask.Wish.Pool = in.Body.Pool
		made, err := s.Request(ctx, ask)
		return answer(ctx, made, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "force-release-allocation", Method: http.MethodPost, Path: pathAdmin + "/{allocation_id}/force-release", Tag: tag,
		Status: http.StatusAccepted, Summary: "End an allocation whatever its tenant thinks, or have its node cleaned again",
		Access: httpapi.Platform(auth.AllocationForce),
	}, func(ctx context.Context, in *struct {
		Path
		Body ForceBody
	},
	) (*httpapi.Plain[View], error) {
		a, err := s.ForceRelease(ctx, in.AllocationID, in.Body.Reason)
		return s.detail(ctx, a, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "force-cleanup-allocation", Method: http.MethodPost, Path: pathAdmin + "/{allocation_id}/force-cleanup", Tag: tag,
		Status: http.StatusAccepted, Summary: "Give up an allocation that is stuck before it was active",
		Access: httpapi.Platform(auth.AllocationForce),
	}, func(ctx context.Context, in *struct {
		Path
		Body CleanupBody
	},
	) (*httpapi.Plain[View], error) {
		a, err := s.ForceCleanup(ctx, in.AllocationID, in.Body.RuntimeVerifiedAbsent, in.Body.Reason)
		return s.detail(ctx, a, err)
	})
}
