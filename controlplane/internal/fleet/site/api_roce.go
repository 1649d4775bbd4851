package site

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const tagRoCE = "RoCE assignments"

// AssignmentView is a RoCE assignment as the API shows it.
type AssignmentView struct {
	AssignmentID id.RoCEAssignment `json:"assignment_id" doc:"Id of the assignment."`
	SiteID       id.Site           `json:"site_id" doc:"Id of its site."`
	AssignmentRow
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

func showAssignment(a Assignment) AssignmentView {
	return AssignmentView{
		AssignmentID: a.ID, SiteID: a.Site, AssignmentRow: a.AssignmentRow, CreatedAt: a.CreatedAt.UTC(),
		UpdatedAt: a.UpdatedAt.UTC(),
	}
}

// AssignmentsBody is rows to be written.
type AssignmentsBody struct {
	Items []AssignmentRow `json:"items" nullable:"false" minItems:"1" maxItems:"5000" doc:"All are written, or none. A row replaces the one of the same host and interface."`
}

// UpsertedView says what a bulk upsert did.
type UpsertedView struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
}

func (s *Service) registerRoCE(api *httpapi.API) {
	const all = pathSite + "/roce-assignments"
	httpapi.Register(api, httpapi.Operation{
		ID: "upsert-roce-assignments", Method: http.MethodPost, Path: all, Tag: tagRoCE,
		Summary:     "Write addresses of RoCE interfaces",
		Description: "All rows are checked first; errors name the row and the field.",
		Access:      httpapi.Platform(auth.SiteProfileManage), Status: http.StatusOK,
	}, func(ctx context.Context, in *struct {
		Path
		Body AssignmentsBody
	},
	) (*httpapi.Plain[UpsertedView], error) {
		done, err := s.UpsertAssignments(ctx, in.SiteID, in.Body.Items)
		return &httpapi.Plain[UpsertedView]{Body: UpsertedView(done)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-roce-assignments", Method: http.MethodGet, Path: all, Tag: tagRoCE,
		Summary: "List addresses of RoCE interfaces", Access: httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.Page
		Hostname  string `query:"hostname" maxLength:"253" doc:"Only those of this node."`
		Interface string `query:"interface" maxLength:"15" doc:"Only those of interfaces of this name."`
	},
	) (*httpapi.Listed[AssignmentView], error) {
		page, err := httpapi.SliceOf[AssignmentKey](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Assignments(ctx, in.SiteID,
			AssignmentFilter{Hostname: optional(in.Hostname), Interface: optional(in.Interface)}, page)
		return httpapi.ListOf(in.Page, rows, err, showAssignment,
			func(v AssignmentView) any { return AssignmentKey{v.Hostname, v.Interface} })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-roce-assignment", Method: http.MethodDelete, Path: all + "/{assignment_id}", Tag: tagRoCE,
		Summary: "Remove the address of a RoCE interface", Access: httpapi.Platform(auth.SiteProfileManage),
	}, func(ctx context.Context, in *struct {
		Path
		AssignmentID id.RoCEAssignment `path:"assignment_id" doc:"Id of the assignment."`
	},
	) (*httpapi.Nothing, error) {
		return nil, s.DeleteAssignment(ctx, in.SiteID, in.AssignmentID)
	})
}
