package definition

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag         = "Operation definitions"
	pathAdmin   = "/api/v1/admin/operation-definitions"
	pathVersion = pathAdmin + "/{definition_id}"
	pathCatalog = "/api/v1/operation-definitions"
)

// Schema implements huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// AdminView is a version as the platform sees it.
type AdminView struct {
	DefinitionID  string          `json:"definition_id" doc:"Type and version, which never name another." example:"node.health.check@v1"`
	OperationType string          `json:"operation_type" example:"node.health.check"`
	Version       string          `json:"version" example:"v1"`
	Title         string          `json:"title"`
	Status        Status          `json:"status"`
	StatusReason  string          `json:"status_reason,omitempty" doc:"What was said when it was last moved to another state."`
	Backend       Backend         `json:"backend" enum:"node_agent,k8s_adapter,slurm_adapter,ray_adapter"`
	Risk          Risk            `json:"risk" enum:"low,medium,high"`
	Impact        string          `json:"impact" enum:"none,read,mutate,disrupt" doc:"What it does to a node: the greatest of all steps."`
	Origin        Origin          `json:"origin" enum:"built_in,registered" doc:"Whether it was shipped with the program."`
	Digest        string          `json:"digest" doc:"SHA-256 of its document as canonical JSON. A run freezes it."`
	Steps         int             `json:"steps" doc:"How many steps it has."`
	Document      json.RawMessage `json:"document,omitempty" doc:"The whole definition; not in lists."`
	Revision      int64           `json:"revision" doc:"Grows with every change."`
	CreatedAt     time.Time       `json:"created_at"`
	CreatedBy     string          `json:"created_by"`
	UpdatedAt     time.Time       `json:"updated_at"`
	UpdatedBy     string          `json:"updated_by"`
	ActivatedAt   *time.Time      `json:"activated_at,omitempty" doc:"Since when its document is frozen; absent: it is a draft."`
}

func showLine(v Version) AdminView {
	out := AdminView{
		DefinitionID: v.Ref().String(), OperationType: v.Type, Version: v.Version, Title: v.Title,
		Status: v.Status, StatusReason: v.StatusReason, Backend: v.Backend, Risk: v.Risk, Impact: v.Impact().String(),
		Origin: v.Origin, Digest: v.Digest, Steps: len(v.Steps), Revision: v.Revision, CreatedAt: v.CreatedAt.UTC(),
		CreatedBy: v.CreatedBy, UpdatedAt: v.UpdatedAt.UTC(), UpdatedBy: v.UpdatedBy,
	}
	if v.ActivatedAt != nil {
		out.ActivatedAt = new(v.ActivatedAt.UTC())
	}
	return out
}

func show(v Version, err error) (*httpapi.Versioned[AdminView], error) {
	if err != nil {
		return nil, err
	}
	out := showLine(v)
	out.Document = v.Document
	return httpapi.AtVersion(v.Revision, out), nil
}

// Path names a version in the path.
type Path struct {
	DefinitionID string `path:"definition_id" maxLength:"200" doc:"Type and version." example:"node.health.check@v1"`
}

// ref reads the name; what has not the form of one does not exist.
func (p Path) ref() (Ref, error) {
	name, err := ParseRef(p.DefinitionID)
	if err != nil {
		return Ref{}, fault.New(fault.NotFound, "not_found", "%q is not the name of a version", p.DefinitionID).
			WithRemedy("write TYPE@VERSION, such as node.health.check@v1; see which there are: " +
				"gpuaas operation definition list")
	}
	return name, nil
}

// SourceBody is a document to read.
type SourceBody struct {
	Source string `json:"source" minLength:"1" maxLength:"262144" doc:"The definition as YAML or JSON, as it stands in a file."`
}

// NewBody is a version to register.
type NewBody struct {
	Source   string `json:"source" minLength:"1" maxLength:"262144" doc:"The definition as YAML or JSON, as it stands in a file."`
	Activate bool   `json:"activate,omitempty" doc:"Activate it at once; otherwise it is a draft."`
}

// ReasonBody says why a version is moved.
type ReasonBody struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why, for whoever runs it or reads the history."`
}

// RegisterAPI adds the operations of the package to an API.
func (s *Service) RegisterAPI(api *httpapi.API) {
	s.registerReads(api)
	s.registerCatalog(api)
	s.registerChecks(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-operation-definition", Method: http.MethodPost, Path: pathAdmin, Tag: tag,
		Summary: "Register a version of an operation definition",
		Description: "The document is checked as a whole; a refusal names the path of every problem. " +
			"It is a draft until it is activated, and never changes afterwards.",
		Access: httpapi.Platform(auth.OperationDefinitionManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*httpapi.Versioned[AdminView], error) {
		return show(s.Register(ctx, in.Body.Source, in.Body.Activate))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-operation-definition", Method: http.MethodPatch, Path: pathVersion, Tag: tag,
		Summary: "Replace the document of a draft", Access: httpapi.Platform(auth.OperationDefinitionManage),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.IfMatch
		Body SourceBody
	},
	) (*httpapi.Versioned[AdminView], error) {
		name, err := in.ref()
		if err != nil {
			return nil, err
		}
		revision, err := in.Version()
		if err != nil {
			return nil, err
		}
		return show(s.Replace(ctx, name, revision, in.Body.Source))
	})
	for _, move := range []struct {
		event   Event
		summary string
	}{
		{Activate, "Activate a draft: from then on it can be run and never changes"},
		{Deprecate, "Deprecate a version: it can be run, and whoever does is told to use another"},
		{Retire, "Retire a version for good: it cannot be run any more"},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: string(move.event) + "-operation-definition", Method: http.MethodPost,
			Path: pathVersion + "/" + string(move.event),
			Tag:  tag, Summary: move.summary, Access: httpapi.Platform(auth.OperationDefinitionManage),
		}, func(ctx context.Context, in *struct {
			Path
			Body ReasonBody
		},
		) (*httpapi.Versioned[AdminView], error) {
			name, err := in.ref()
			if err != nil {
				return nil, err
			}
			return show(s.Move(ctx, name, move.event, in.Body.Reason))
		})
	}
}

func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-operation-definitions", Method: http.MethodGet, Path: pathAdmin, Tag: tag,
		Summary: "List the versions of operation definitions", Description: "By type, of each the newest version first.",
		Access: httpapi.Platform(auth.OperationDefinitionRead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
		Type   string `query:"type" maxLength:"200" doc:"Only versions of this type." example:"node.health.check"`
		Status Status `query:"status" doc:"Only versions of this state."`
	},
	) (*httpapi.Listed[AdminView], error) {
		page, err := httpapi.SliceOf[position](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, filter{operation: in.Type, status: in.Status}, page)
		return httpapi.ListOf(in.Page, rows, err, showLine, func(v AdminView) any {
			return position{v.OperationType, number(v.Version)}
		})
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-operation-definition", Method: http.MethodGet, Path: pathVersion, Tag: tag,
		Summary: "Read a version of an operation definition, with its document",
		Access:  httpapi.Platform(auth.OperationDefinitionRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Versioned[AdminView], error) {
		name, err := in.ref()
		if err != nil {
			return nil, err
		}
		return show(s.Get(ctx, name))
	})
}
