package operation

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/postgres"
)

func slice(after, limit int32) postgres.Slice[int32] {
	return postgres.Slice[int32]{After: after, Limit: limit}
}

// verb is something that callers do to a run, with a reason and nothing else.
type verb struct {
	name, summary, description string
	// role says that not whoever runs it does it, but somebody with a role: the
	// command checks that itself.
	role bool
	// stops says that it only holds a run up: operators may do that to anybody's.
	stops bool
	do    func(ctx context.Context, o Operation, reason string) (Operation, error)
}

func (s *Service) verbs() []verb {
	return []verb{
		{
			name: "cancel", stops: true, summary: "Stop a run at a safe point",
			description: "What waits is not begun. A node stops between steps, or in the middle of one that can be interrupted.",
			do: func(ctx context.Context, o Operation, reason string) (Operation, error) {
				return s.Cancel(ctx, o.ID, reason)
			},
		},
		{
			name: "pause", stops: true, summary: "Hand out nothing more of a run; nodes finish what they have",
			do: func(ctx context.Context, o Operation, reason string) (Operation, error) {
				return s.Pause(ctx, o.ID, reason)
			},
		},
		{
			name: "unpause", summary: "Let a paused run go on",
			do: func(ctx context.Context, o Operation, reason string) (Operation, error) {
				return s.Unpause(ctx, o.ID, reason)
			},
		},
		{
			name: "again", summary: "Run the same again from the start, as a new run that is linked to this one",
			do: func(ctx context.Context, o Operation, reason string) (Operation, error) {
				return s.Again(ctx, o, reason)
			},
		},
		{
			name: "approve", summary: "Approve a run that must be approved", role: true,
			description: "Needs the role that the definition names. Only people approve, and nobody approves a run that they asked for or resumed.",
			do: func(ctx context.Context, o Operation, reason string) (Operation, error) {
				return s.Approve(ctx, o.ID, reason)
			},
		},
	}
}

func (s *Service) registerProjectActs(api *httpapi.API) {
	for _, v := range s.verbs() {
		httpapi.Register(api, httpapi.Operation{
			ID: v.name + "-operation", Method: http.MethodPost, Path: pathProject + "/{operation_id}/" + v.name, Tag: tag,
			Status: http.StatusAccepted, Summary: v.summary, Description: v.description,
			Access: httpapi.Project(auth.OperationRun),
		}, func(ctx context.Context, in *struct {
			ProjectPath
			Body ActBody
		},
		) (*httpapi.Plain[View], error) {
			read := s.mine
			if v.role {
				read = s.of
			}
			o, err := read(ctx, in.OperationID, in.ProjectID)
			if err != nil {
				return nil, err
			}
			return answer(v.do(ctx, o, in.Body.Reason))
		})
	}
	httpapi.Register(api, httpapi.Operation{
		ID: "retry-operation", Method: http.MethodPost, Path: pathProject + "/{operation_id}/retry", Tag: tag,
		Status: http.StatusAccepted, Summary: "Resume a run where it stopped",
		Description: "Targets that failed, were stopped, skipped or never reached go on, each at its failed step. Nothing that " +
			"succeeded is done again, unless the definition says so.",
		Access: httpapi.Project(auth.OperationRun),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body RetryBody
	},
	) (*httpapi.Plain[View], error) {
		if _, err := s.mine(ctx, in.OperationID, in.ProjectID); err != nil {
			return nil, err
		}
		return answer(s.Retry(ctx, in.OperationID, in.Body.Targets, in.Body.Reason))
	})
}

func (s *Service) registerAdminActs(api *httpapi.API) {
	for _, v := range s.verbs() {
		httpapi.Register(api, httpapi.Operation{
			ID: v.name + "-fleet-operation", Method: http.MethodPost, Path: pathAdmin + "/{operation_id}/" + v.name, Tag: tag,
			Status: http.StatusAccepted, Summary: v.summary + ", as an operator", Description: v.description,
			Access: httpapi.Platform(auth.OperationRunOnFleet),
		}, func(ctx context.Context, in *struct {
			Path
			Body ActBody
		},
		) (*httpapi.Plain[View], error) {
			o, err := s.fleets(ctx, in.OperationID, v.stops)
			if err != nil {
				return nil, err
			}
			return answer(v.do(ctx, o, in.Body.Reason))
		})
	}
	httpapi.Register(api, httpapi.Operation{
		ID: "retry-fleet-operation", Method: http.MethodPost, Path: pathAdmin + "/{operation_id}/retry", Tag: tag,
		Status: http.StatusAccepted, Summary: "Resume a run where it stopped, as an operator",
		Access: httpapi.Platform(auth.OperationRunOnFleet),
	}, func(ctx context.Context, in *struct {
		Path
		Body RetryBody
	},
	) (*httpapi.Plain[View], error) {
		if _, err := s.fleets(ctx, in.OperationID, false); err != nil {
			return nil, err
		}
		return answer(s.Retry(ctx, in.OperationID, in.Body.Targets, in.Body.Reason))
	})
}

func (s *Service) registerAdmin(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "submit-fleet-operation", Method: http.MethodPost, Path: pathAdmin, Tag: tag, Status: http.StatusAccepted,
		Summary: "Run an operation on nodes of the fleet", Access: httpapi.Platform(auth.OperationRunOnFleet),
	}, func(ctx context.Context, in *struct{ Body SubmitBody }) (*httpapi.Plain[View], error) {
		ask, err := in.Body.ask(Owner{}, ByAdmin)
		if err != nil {
			return nil, err
		}
		return answer(s.Submit(ctx, ask))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "plan-fleet-operation", Method: http.MethodPost, Path: pathAdmin + "/plan", Tag: tag, Status: http.StatusOK,
		Summary: "Say what a run on nodes of the fleet would do, and do nothing",
		Access:  httpapi.Platform(auth.OperationRunOnFleet),
	}, func(ctx context.Context, in *struct{ Body SubmitBody }) (*httpapi.Plain[PlanView], error) {
		ask, err := in.Body.ask(Owner{}, ByAdmin)
		if err != nil {
			return nil, err
		}
		return s.planned(ctx, ask)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-fleet-operations", Method: http.MethodGet, Path: pathAdmin, Tag: tag,
		Summary: "List the runs of the platform and of all projects, newest first",
		Access:  httpapi.Platform(auth.OperationRead),
	}, func(ctx context.Context, in *struct {
		ProjectID id.Project `query:"project_id" doc:"Only those of this project."`
		Filter
	},
	) (*httpapi.Listed[View], error) {
		return s.listed(ctx, Selection{Project: in.ProjectID, Statuses: in.Status, Type: in.Type, Node: in.NodeID}, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-fleet-operation", Method: http.MethodGet, Path: pathAdmin + "/{operation_id}", Tag: tag,
		Summary: "Read a run, whoever's it is", Access: httpapi.Platform(auth.OperationRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[View], error) {
		return answer(s.of(ctx, in.OperationID, id.Project{}))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-fleet-operation-targets", Method: http.MethodGet, Path: pathAdmin + "/{operation_id}/targets", Tag: tag,
		Summary: "List the targets of a run, in their order, whoever's it is", Access: httpapi.Platform(auth.OperationRead),
	}, func(ctx context.Context, in *struct {
		Path
		TargetFilter
	},
	) (*httpapi.Listed[TargetView], error) {
		if _, err := s.of(ctx, in.OperationID, id.Project{}); err != nil {
			return nil, err
		}
		return s.listedTargets(ctx, in.OperationID, in.TargetFilter)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-fleet-operation-steps", Method: http.MethodGet, Path: pathAdmin + "/{operation_id}/steps", Tag: tag,
		Summary: "List what became of the steps of a run, whoever's it is", Access: httpapi.Platform(auth.OperationRead),
	}, func(ctx context.Context, in *struct {
		Path
		StepFilter
	},
	) (*httpapi.Listed[StepView], error) {
		if _, err := s.of(ctx, in.OperationID, id.Project{}); err != nil {
			return nil, err
		}
		return s.listedSteps(ctx, in.OperationID, in.StepFilter)
	})
}
