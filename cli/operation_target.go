package cli

import (
	"github.com/oapi-codegen/runtime/types"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/contract/apiclient"
)

// runTarget resolves a target of a run that is named by its id or by the hostname of its
// node; nil: none is named.
func (s *session) runTarget(project *types.UUID, operation types.UUID, name string) (*types.UUID, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // any
	}
	if id, ok := frame.ParseID(name); ok {
		return &id, nil
	}
	t, ok, err := listing.Find(s.runTargets(project, operation),
		func(t apiclient.OperationTargetView) bool { return t.Hostname == name })
	if err != nil {
		return nil, err
	}
	if !ok {
		here := operation.String()
		if project != nil {
			here += " --project " + project.String()
		}
		return nil, failure.Missing("list them: gpuaas operation targets "+here,
			"the run has no node %q", name)
	}
	return &t.TargetId, nil
}

func (s *session) runTargets(project *types.UUID, operation types.UUID) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		if project != nil {
			return s.API.ListOperationTargetsWithResponse(s.Ctx, *project, operation,
				&apiclient.ListOperationTargetsParams{Cursor: p.Cursor, PageSize: p.Size})
		}
		return s.API.ListFleetOperationTargetsWithResponse(s.Ctx, operation,
			&apiclient.ListFleetOperationTargetsParams{Cursor: p.Cursor, PageSize: p.Size})
	}
}
