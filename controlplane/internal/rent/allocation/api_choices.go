package allocation

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

func (s *Service) registerChoices(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-allocation-choices", Method: http.MethodGet, Tag: tag,
		Path:    "/api/v1/projects/{project_id}/allocation-choices",
		Summary: "See which regions, labels and capabilities can be asked for",
		Description: "Those of the nodes in service that anybody can rent. Whether one of them can be had at this moment, " +
			"`POST …/allocations/explain` says.",
		Access: httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, _ *struct{ ProjectPath }) (*httpapi.Plain[Choices], error) {
		c, err := s.Choices(ctx)
		return &httpapi.Plain[Choices]{Body: c}, err
	})
}
