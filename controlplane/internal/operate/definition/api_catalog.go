package definition

import (
	"context"
	"encoding/json"
	"net/http"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// CatalogView is a version as those see it who may run it: what it asks for and what
// it does, without the parameters of its steps and without commands.
type CatalogView struct {
	DefinitionID  string              `json:"definition_id" example:"node.health.check@v1"`
	OperationType string              `json:"operation_type" example:"node.health.check"`
	Version       string              `json:"version" example:"v1"`
	Title         string              `json:"title"`
	Description   string              `json:"description,omitempty"`
	Status        Status              `json:"status"`
	StatusReason  string              `json:"status_reason,omitempty" doc:"Of a deprecated one: what to use instead."`
	Risk          Risk                `json:"risk" enum:"low,medium,high"`
	RiskText      string              `json:"risk_text" doc:"What can go wrong, in words."`
	Impact        string              `json:"impact" enum:"none,read,mutate,disrupt" doc:"What it does to a node."`
	Inputs        json.RawMessage     `json:"inputs" doc:"What it takes: a JSON schema, draft 2020-12."`
	Targets       []TargetKind        `json:"targets" nullable:"false" doc:"What it can be run on."`
	Requires      map[string]Accepted `json:"requires,omitempty" doc:"Facts that a node must report: name to accepted values."`
	Rented        Rented              `json:"rented" enum:"none,project,any" doc:"Who may have the node meanwhile."`
	Approval      string              `json:"approval" enum:"none,project_admin,tenant_admin,operator,platform_admin" doc:"The role that must approve it."`
	MaxDuration   int                 `json:"max_duration_seconds"`
	Steps         []StepView          `json:"steps" nullable:"false"`
	Digest        string              `json:"digest"`
}

// StepView is a step as those see it who may run the definition.
type StepView struct {
	ID     string `json:"id"`
	Kind   string `json:"kind" example:"package.install"`
	Title  string `json:"title,omitempty"`
	Impact string `json:"impact" enum:"none,read,mutate,disrupt"`
}

func showCatalog(v Version) CatalogView {
	out := CatalogView{
		DefinitionID: v.Ref().String(), OperationType: v.Type, Version: v.Version, Title: v.Title,
		Description: v.Description, Status: v.Status, StatusReason: v.StatusReason, Risk: v.Risk, RiskText: v.RiskText,
		Impact: v.Impact().String(), Inputs: v.Inputs, Targets: v.Targets, Requires: v.Requires, Rented: v.Safety.Rented,
		Approval: v.Approval, MaxDuration: v.MaxDurationSeconds, Digest: v.Digest, Steps: make([]StepView, len(v.Steps)),
	}
	for i, s := range v.Steps {
		kind, _ := agentwire.LookupStep(s.Kind)
		out.Steps[i] = StepView{ID: s.ID, Kind: s.Kind, Title: s.Title, Impact: impactOf(s.Kind).String()}
		if s.Title == "" {
			out.Steps[i].Title = kind.Title
		}
	}
	return out
}

// Everybody who may run operations reads the catalog, so the caller needs the
// permission in any tenant or project, not on the platform.
func (s *Service) registerCatalog(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-operation-catalog", Method: http.MethodGet, Path: pathCatalog, Tag: tag,
		Summary:     "List the operations that can be run",
		Description: "Active and deprecated versions, without the parameters of their steps.",
		Access:      httpapi.Anywhere(auth.OperationDefinitionRead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
		Type string `query:"type" maxLength:"200" doc:"Only versions of this type." example:"node.health.check"`
	},
	) (*httpapi.Listed[CatalogView], error) {
		page, err := httpapi.SliceOf[position](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, filter{operation: in.Type, runnable: true}, page)
		return httpapi.ListOf(in.Page, rows, err, showCatalog, func(v CatalogView) any {
			return position{v.OperationType, number(v.Version)}
		})
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-operation-catalog-entry", Method: http.MethodGet, Path: pathCatalog + "/{definition_id}", Tag: tag,
		Summary: "Read an operation that can be run: its inputs, steps and risk",
		Access:  httpapi.Anywhere(auth.OperationDefinitionRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[CatalogView], error) {
		name, err := in.ref()
		if err != nil {
			return nil, err
		}
		found, err := s.Get(ctx, name)
		if err == nil && found.Status == Draft {
			err = notFound(name) // nobody but the platform knows drafts
		}
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[CatalogView]{Body: showCatalog(found)}, nil
	})
}

// Report is what a document is worth.
type Report struct {
	Valid    bool            `json:"valid"`
	Problems []ProblemView   `json:"problems" nullable:"false" doc:"Everything that is wrong, each with its path."`
	ID       string          `json:"definition_id,omitempty" doc:"What the document is about; absent: it cannot be read."`
	Digest   string          `json:"digest,omitempty" doc:"Of a valid document."`
	Document json.RawMessage `json:"document,omitempty" doc:"The document as it would be kept."`
	Kept     *Status         `json:"kept,omitempty" doc:"State of the version of this name that there is; absent: there is none."`
	Revision int64           `json:"revision,omitempty" doc:"Its revision."`
	Changes  []ChangeView    `json:"changes,omitempty" doc:"What the document would change of it."`
}

// ProblemView is one problem of a document.
type ProblemView struct {
	Path    string `json:"path,omitempty" example:"steps.0.with.path"`
	Message string `json:"message"`
}

// ChangeView is one difference between two documents.
type ChangeView struct {
	Path string          `json:"path" example:"steps.install.timeout_seconds"`
	From json.RawMessage `json:"from,omitempty" doc:"Absent: it was not there."`
	To   json.RawMessage `json:"to,omitempty" doc:"Absent: it is not there any more."`
}

// DiffView is what differs between two versions.
type DiffView struct {
	From    string       `json:"from" example:"node.health.check@v1"`
	To      string       `json:"to" example:"node.health.check@v2"`
	Changes []ChangeView `json:"changes" nullable:"false"`
}

func (s *Service) registerChecks(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "validate-operation-definition", Method: http.MethodPost, Path: pathAdmin + "/validate", Tag: tag,
		Summary:     "Check a definition without keeping it",
		Description: "Says everything that is wrong, and what it would change of the version of its name that there is.",
		Access:      httpapi.Platform(auth.OperationDefinitionRead),
	}, func(ctx context.Context, in *struct{ Body SourceBody }) (*httpapi.Plain[Report], error) {
		r, err := s.judge(ctx, in.Body.Source)
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[Report]{Body: r}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "diff-operation-definition", Method: http.MethodGet, Path: pathVersion + "/diff", Tag: tag,
		Summary: "Show what differs between two versions", Access: httpapi.Platform(auth.OperationDefinitionRead),
	}, func(ctx context.Context, in *struct {
		Path
		To string `query:"to" required:"true" maxLength:"200" doc:"The other version." example:"node.health.check@v2"`
	},
	) (*httpapi.Plain[DiffView], error) {
		from, err := in.ref()
		if err != nil {
			return nil, err
		}
		a, err := s.Get(ctx, from)
		if err != nil {
			return nil, err
		}
		to, err := ParseRef(in.To)
		if err != nil {
			return nil, err
		}
		b, err := s.Get(ctx, to)
		if err != nil {
			return nil, err
		}
		changes, err := showChanges(a.Document, b.Document)
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[DiffView]{Body: DiffView{From: from.String(), To: to.String(), Changes: changes}}, nil
	})
}

// judge checks a document and compares it with what is kept.
func (s *Service) judge(ctx context.Context, source string) (Report, error) {
	d, problems := checked(source)
	r := Report{Valid: len(problems) == 0, Problems: make([]ProblemView, len(problems))}
	for i, p := range problems {
		r.Problems[i] = ProblemView(p)
	}
	if !r.Valid {
		return r, nil
	}
	document, err := d.Canonical()
	if err != nil {
		return Report{}, err
	}
	r.ID, r.Digest, r.Document = d.Ref().String(), digest(document), document
	kept, err := s.Get(ctx, d.Ref())
	if isMissing(err) {
		return r, nil
	}
	if err != nil {
		return Report{}, err
	}
	r.Kept, r.Revision = &kept.Status, kept.Revision
	r.Changes, err = showChanges(kept.Document, document)
	return r, err
}

func showChanges(from, to json.RawMessage) ([]ChangeView, error) {
	changes, err := Diff(from, to)
	if err != nil {
		return nil, err
	}
	out := make([]ChangeView, len(changes))
	for i, c := range changes {
		out[i] = ChangeView(c)
	}
	return out, nil
}
