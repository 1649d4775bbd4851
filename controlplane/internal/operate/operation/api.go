package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/operate/definition"
)

const (
	tag         = "Operations"
	pathAdmin   = "/api/v1/admin/operations"
	pathProject = "/api/v1/projects/{project_id}/operations"
)

// WhereBody says what the nodes are like that are meant.
type WhereBody struct {
	Region string            `json:"region,omitempty" maxLength:"63"`
	Rack   string            `json:"rack,omitempty" maxLength:"63"`
	Pool   string            `json:"pool,omitempty" maxLength:"63"`
	SKU    string            `json:"sku,omitempty" maxLength:"63"`
	Labels map[string]string `json:"labels,omitempty" doc:"Of nodes; in a project, of allocations."`
}

// TargetsBody says which nodes are meant.
type TargetsBody struct {
	Nodes       []id.Node            `json:"nodes,omitempty" maxItems:"1000" nullable:"false"`
	Allocations []id.Allocation      `json:"allocations,omitempty" maxItems:"1000" nullable:"false"`
	Groups      []id.AllocationGroup `json:"groups,omitempty" maxItems:"100" nullable:"false" doc:"Allocations that were asked for together."`
	Where       *WhereBody           `json:"where,omitempty" doc:"All that are so; with names, those of them."`
}

// SubmitBody is a request for a run.
type SubmitBody struct {
	Operation          string         `json:"operation" minLength:"3" maxLength:"200" doc:"Type, or type@version. Without a version the newest is taken." example:"node.health.check@v1"`
	Inputs             map[string]any `json:"inputs,omitempty" doc:"What the definition asks for."`
	Targets            TargetsBody    `json:"targets"`
	MaxConcurrency     int32          `json:"max_concurrency,omitempty" minimum:"0" maximum:"1000" doc:"Targets at a time; 0: as the share says, or 10."`
	ConcurrencyPercent int32          `json:"max_concurrency_percent,omitempty" minimum:"0" maximum:"100"`
	MaxFailures        int32          `json:"max_failures,omitempty" minimum:"0" maximum:"1000" doc:"It pauses when more than this many targets have failed."`
	FailuresPercent    int32          `json:"max_failures_percent,omitempty" minimum:"0" maximum:"100"`
	NoRamp             bool           `json:"no_ramp,omitempty" doc:"As many targets at a time as allowed from the beginning, and not 1, 2, 4 …"`
	OnlyPlan           bool           `json:"only_plan,omitempty" doc:"Nodes only look and say what each step would change."`
	PlanHash           string         `json:"plan_hash,omitempty" maxLength:"100" doc:"Refuse the request if the plan is another one by now."`
	Reason             string         `json:"reason,omitempty" maxLength:"500"`
}

func (b SubmitBody) ask(owner Owner, by Trigger) (Ask, error) {
	a := Ask{
		Owner: owner, Trigger: by, OnlyPlan: b.OnlyPlan, PlanHash: b.PlanHash, Reason: strings.TrimSpace(b.Reason),
		Targets: Selector{Nodes: b.Targets.Nodes, Allocations: b.Targets.Allocations, Groups: b.Targets.Groups},
		Limits: Limits{
			MaxConcurrency: b.MaxConcurrency, ConcurrencyPercent: b.ConcurrencyPercent, MaxFailures: b.MaxFailures,
			FailuresPercent: b.FailuresPercent, NoRamp: b.NoRamp,
		},
	}
	if w := b.Targets.Where; w != nil {
		where := Where(*w)
		a.Targets.Where = &where
	}
	var err error
	if a.Ref, err = named(b.Operation); err != nil {
		return a, err
	}
	if b.Inputs == nil {
		b.Inputs = map[string]any{}
	}
	if a.Inputs, err = json.Marshal(b.Inputs); err != nil {
		return a, fmt.Errorf("encode inputs: %w", err)
	}
	return a, nil
}

// named reads type or type@version.
func named(text string) (definition.Ref, error) {
	if !strings.Contains(text, "@") {
		r, err := definition.ParseRef(text + "@v1")
		r.Version = ""
		return r, err
	}
	return definition.ParseRef(text)
}

// ActBody is why somebody does something to a run.
type ActBody struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"It goes into the audit log."`
}

// RetryBody says what of a run is resumed.
type RetryBody struct {
	Targets []id.OperationTarget `json:"targets,omitempty" maxItems:"1000" nullable:"false" doc:"Only these; none: all that did not succeed."`
	Reason  string               `json:"reason,omitempty" maxLength:"500"`
}

// Path names a run in the path. It is exported because the framework reads embedded
// parameters only from exported types.
type Path struct {
	OperationID id.Operation `path:"operation_id" doc:"Id of the run."`
}

// ProjectPath names a run of a project in the path.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
	Path
}

// Filter says which runs a list gives.
type Filter struct {
	Status []Status `query:"status" nullable:"false" doc:"Only in these states."`
	Type   string   `query:"type" maxLength:"200" doc:"Only of this type."`
	NodeID id.Node  `query:"node_id" doc:"Only those that have this node among their targets."`
	httpapi.Page
}

// TargetFilter says which targets a list gives.
type TargetFilter struct {
	Status []TargetStatus `query:"status" nullable:"false" doc:"Only in these states."`
	httpapi.Page
}

// StepFilter says which steps a list gives.
type StepFilter struct {
	Target id.OperationTarget `query:"target" doc:"Only those of this target."`
	Status string             `query:"status" enum:"succeeded,failed,canceled,not_reached,planned" doc:"Only those whose newest attempt stands so."`
	httpapi.Page
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerProject(api)
	s.registerProjectActs(api)
	s.registerAdmin(api)
	s.registerAdminActs(api)
	s.registerLogs(api)
	s.registerArtifacts(api)
}

// of reads a run of a project; a zero project is any.
func (s *Service) of(ctx context.Context, which id.Operation, project id.Project) (Operation, error) {
	o, err := Get(ctx, s.db, which)
	if err != nil {
		return o, err
	}
	if !project.IsZero() && o.Owner.Project != project {
		return Operation{}, notFound(which)
	}
	return o, nil
}

// mine reads a run of a project that the caller may steer: one that the caller asked
// for, or any with the permission for those of others.
func (s *Service) mine(ctx context.Context, which id.Operation, project id.Project) (Operation, error) {
	o, err := s.of(ctx, which, project)
	if err != nil {
		return o, err
	}
	who := auth.From(ctx)
	if o.By != who.ID && who.Decide(auth.OperationManage, o.on()) != auth.Allowed {
		return Operation{}, fault.New(fault.Forbidden, "ownership_required", "operation %s was asked for by somebody else",
			o.ID).WithRemedy("ask whoever did, or an administrator of the project")
	}
	return o, nil
}

func (s *Service) listed(ctx context.Context, of Selection, page httpapi.Page) (*httpapi.Listed[View], error) {
	slice, err := httpapi.SliceOf[id.Operation](page)
	if err != nil {
		return nil, err
	}
	rows, err := s.List(ctx, of, slice)
	return httpapi.ListOf(page, rows, err, show, func(v View) any { return v.OperationID })
}

// place is where a list of targets goes on.
type targetPosition struct {
	Position int32 `json:"p"`
}

func (s *Service) listedTargets(ctx context.Context, of id.Operation, in TargetFilter) (*httpapi.Listed[TargetView],
	error,
) {
	at, err := httpapi.SliceOf[targetPosition](in.Page)
	if err != nil {
		return nil, err
	}
	rows, err := s.Targets(ctx, of, in.Status, slice(at.After.Position, at.Limit))
	return httpapi.ListOf(in.Page, rows, err, showTarget, func(v TargetView) any { return targetPosition{v.Position} })
}

func (s *Service) listedSteps(ctx context.Context, of id.Operation, in StepFilter) (*httpapi.Listed[StepView], error) {
	at, err := httpapi.SliceOf[StepPosition](in.Page)
	if err != nil {
		return nil, err
	}
	rows, err := s.Steps(ctx, of, in.Target, in.Status, at.After, at.Limit)
	return httpapi.ListOf(in.Page, rows, err, showStep, func(v StepView) any {
		return StepPosition{Position: v.position, Attempt: v.AttemptNumber, Step: v.StepIndex}
	})
}

func answer(o Operation, err error) (*httpapi.Plain[View], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[View]{Body: show(o)}, nil
}

func (s *Service) registerProject(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "submit-operation", Method: http.MethodPost, Path: pathProject, Tag: tag, Status: http.StatusAccepted,
		Summary: "Run an operation on nodes that a project rents",
		Description: "Freezes the version, its inputs and the list of targets, and hands them out. Nodes that cannot do it are " +
			"skipped, and say why. See the plan first: plan-operation takes the same request.",
		Access: httpapi.Project(auth.OperationRun),
	}, func(ctx context.Context, in *struct {
		ProjectID id.Project `path:"project_id" doc:"Id of the project."`
		Body      SubmitBody
	},
	) (*httpapi.Plain[View], error) {
		ask, err := in.Body.ask(Owner{Project: in.ProjectID}, ByTenant)
		if err != nil {
			return nil, err
		}
		return answer(s.Submit(ctx, ask))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "plan-operation", Method: http.MethodPost, Path: pathProject + "/plan", Tag: tag, Status: http.StatusOK,
		Summary: "Say what a run would do, and do nothing", Access: httpapi.Project(auth.OperationRun),
	}, func(ctx context.Context, in *struct {
		ProjectID id.Project `path:"project_id" doc:"Id of the project."`
		Body      SubmitBody
	},
	) (*httpapi.Plain[PlanView], error) {
		ask, err := in.Body.ask(Owner{Project: in.ProjectID}, ByTenant)
		if err != nil {
			return nil, err
		}
		return s.planned(ctx, ask)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-operations", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary: "List the runs of a project, newest first", Access: httpapi.Project(auth.OperationRead),
	}, func(ctx context.Context, in *struct {
		ProjectID id.Project `path:"project_id" doc:"Id of the project."`
		Filter
	},
	) (*httpapi.Listed[View], error) {
		return s.listed(ctx, Selection{Project: in.ProjectID, Statuses: in.Status, Type: in.Type, Node: in.NodeID}, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-operation", Method: http.MethodGet, Path: pathProject + "/{operation_id}", Tag: tag,
		Summary: "Read a run", Access: httpapi.Project(auth.OperationRead),
	}, func(ctx context.Context, in *ProjectPath) (*httpapi.Plain[View], error) {
		return answer(s.of(ctx, in.OperationID, in.ProjectID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-operation-targets", Method: http.MethodGet, Path: pathProject + "/{operation_id}/targets", Tag: tag,
		Summary: "List the targets of a run, in their order", Access: httpapi.Project(auth.OperationRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		TargetFilter
	},
	) (*httpapi.Listed[TargetView], error) {
		if _, err := s.of(ctx, in.OperationID, in.ProjectID); err != nil {
			return nil, err
		}
		return s.listedTargets(ctx, in.OperationID, in.TargetFilter)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-operation-steps", Method: http.MethodGet, Path: pathProject + "/{operation_id}/steps", Tag: tag,
		Summary: "List what became of the steps of a run, by target and attempt", Access: httpapi.Project(auth.OperationRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		StepFilter
	},
	) (*httpapi.Listed[StepView], error) {
		if _, err := s.of(ctx, in.OperationID, in.ProjectID); err != nil {
			return nil, err
		}
		return s.listedSteps(ctx, in.OperationID, in.StepFilter)
	})
}
