package maintenance

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

const (
	tag         = "Maintenance"
	pathAdmin   = "/api/v1/admin/maintenances"
	pathProject = "/api/v1/projects/{project_id}/maintenances"
)

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// View is a maintenance as the API shows it.
type View struct {
	MaintenanceID  id.Maintenance  `json:"maintenance_id"`
	AnnouncementID id.Announcement `json:"announcement_id" doc:"Those that were announced together share it."`
	AllocationID   id.Allocation   `json:"allocation_id"`
	ProjectID      id.Project      `json:"project_id"`
	NodeID         id.Node         `json:"node_id"`
	Hostname       string          `json:"hostname"`
	Status         Status          `json:"status"`
	Kind           Kind            `json:"kind" enum:"release,reboot,pause" doc:"What it needs. release: the allocation ends at due_at; reboot, pause: the tenant keeps it."`
	ConsentAsked   bool            `json:"consent_asked" doc:"Whether nothing happens without the consent of the tenant."`
	NotBefore      time.Time       `json:"not_before"`
	DueAt          time.Time       `json:"due_at"`
	Reason         string          `json:"reason" doc:"Why, for the tenant."`
	BeginsNow      bool            `json:"begins_now,omitempty" doc:"Whether the tenant agreed to it at once, whatever the window."`
	AnsweredAt     *time.Time      `json:"answered_at,omitempty" doc:"Absent: the tenant has not answered."`
	AnsweredBy     string          `json:"answered_by,omitempty"`
	AnsweredByName string          `json:"answered_by_name,omitempty"`
	Answer         string          `json:"answer,omitempty" doc:"What the tenant said with the answer."`
	EndedBecause   string          `json:"ended_because,omitempty"`
	AnnouncedBy    string          `json:"announced_by,omitempty" doc:"Only people with a role on the platform see it."`
	CreatedAt      time.Time       `json:"created_at"`
	ChangedAt      time.Time       `json:"status_changed_at"`
	EndedAt        *time.Time      `json:"ended_at,omitempty"`
}

func show(m Maintenance) View {
	return View{
		MaintenanceID: m.ID, AnnouncementID: m.Announcement, AllocationID: m.Allocation, ProjectID: m.Project, NodeID: m.Node,
		Hostname: m.Hostname, Status: m.Status, Kind: m.Kind, ConsentAsked: m.ConsentAsked, NotBefore: m.NotBefore.UTC(),
		DueAt: m.DueAt.UTC(), Reason: m.Reason, BeginsNow: m.BeginsNow, AnsweredAt: m.Answer.At, AnsweredBy: m.Answer.By,
		AnsweredByName: m.Answer.Name, Answer: m.Answer.Text, EndedBecause: m.EndedBecause, CreatedAt: m.CreatedAt.UTC(),
		ChangedAt: m.ChangedAt.UTC(), EndedAt: m.EndedAt,
	}
}

// showAll shows operators what tenants do not see, too.
func showAll(m Maintenance) View {
	v := show(m)
	if v.AnnouncedBy = m.ByName; v.AnnouncedBy == "" {
		v.AnnouncedBy = m.By
	}
	return v
}

// Path names a maintenance in the path. It is exported because the framework reads
// embedded parameters only from exported types.
type Path struct {
	MaintenanceID id.Maintenance `path:"maintenance_id" doc:"Id of the maintenance."`
}

// ProjectPath names a maintenance of a project in the path.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
	Path
}

func (s *Service) listed(ctx context.Context, of Selection, page httpapi.Page, show func(Maintenance) View) (
	*httpapi.Listed[View], error,
) {
	slice, err := httpapi.SliceOf[id.Maintenance](page)
	if err != nil {
		return nil, err
	}
	rows, err := s.List(ctx, of, slice)
	return httpapi.ListOf(page, rows, err, show, func(v View) any { return v.MaintenanceID })
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerTenant(api)
	s.registerOperator(api)
}

// of reads a maintenance that the caller may see.
func (s *Service) of(ctx context.Context, which id.Maintenance) (Maintenance, error) {
	m, err := Get(ctx, s.db, which)
	if err != nil {
		return m, err
	}
	if auth.From(ctx).Decide(auth.AllocationRead, auth.Target{Org: m.Org, Project: m.Project}) != auth.Allowed {
		return Maintenance{}, notFound()
	}
	return m, nil
}

// ConsentBody is how a tenant agrees.
type ConsentBody struct {
	Now  bool   `json:"now,omitempty" doc:"At once, whatever the window. Of one of kind release that ENDS the allocation now."`
	Note string `json:"note,omitempty" maxLength:"500" doc:"What operators should mind."`
}

// DeclineBody is why a tenant does not agree.
type DeclineBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"Operators read it." example:"our training ends on Sunday"`
}

func (s *Service) registerTenant(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-maintenances", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary: "List the maintenances that were announced to a project, newest first",
		Access:  httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		ProjectID id.Project `path:"project_id" doc:"Id of the project."`
		Status    []Status   `query:"status" nullable:"false" doc:"Only in these states."`
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		return s.listed(ctx, Selection{Project: in.ProjectID, Statuses: in.Status}, in.Page, show)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-maintenance", Method: http.MethodGet, Path: "/api/v1/maintenances/{maintenance_id}", Tag: tag,
		Summary: "Read an announced maintenance", Access: httpapi.Anywhere(auth.AllocationRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[View], error) {
		m, err := s.of(ctx, in.MaintenanceID)
		if err != nil {
			return nil, err
		}
		if auth.From(ctx).SeesAll(auth.AllocationRead) {
			return &httpapi.Plain[View]{Body: showAll(m)}, nil
		}
		return &httpapi.Plain[View]{Body: show(m)}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "consent-to-maintenance", Method: http.MethodPost, Path: pathProject + "/{maintenance_id}/consent", Tag: tag,
		WhileDisabled: true,
		Summary:       "Agree to announced maintenance",
		Description: "It may be carried out at its time then; with `now` at once, which of one of kind release ENDS " +
			"the allocation. Whoever asked for the allocation may answer, and administrators of the project; roles on the " +
			"platform do not count.",
		Access: httpapi.Project(auth.AllocationUse),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body ConsentBody
	},
	) (*httpapi.Plain[View], error) {
		return s.answer(ctx, in.ProjectPath, Reply{Agrees: true, Now: in.Body.Now, Text: in.Body.Note})
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "decline-maintenance", Method: http.MethodPost, Path: pathProject + "/{maintenance_id}/decline", Tag: tag,
		WhileDisabled: true,
		Summary:       "Decline announced maintenance",
		Description:   "Only where consent was asked for: otherwise refused with consent_not_asked. It can be agreed to later.",
		Access:        httpapi.Project(auth.AllocationUse),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body DeclineBody
	},
	) (*httpapi.Plain[View], error) {
		return s.answer(ctx, in.ProjectPath, Reply{Text: in.Body.Reason})
	})
}

// answer takes the answer of whoever may change the allocation.
func (s *Service) answer(ctx context.Context, in ProjectPath, r Reply) (*httpapi.Plain[View], error) {
	m, err := s.of(ctx, in.MaintenanceID)
	if err != nil {
		return nil, err
	}
	_, err = s.allocations.Mine(ctx, m.Allocation, in.ProjectID)
	switch {
	case fault.KindOf(err) == fault.NotFound && m.Project == in.ProjectID: // only a role on the platform shows it
		return nil, fault.New(fault.Forbidden, "tenant_answers",
			"only people of the project or its tenant answer what is announced for %s", m.Hostname).
			WithRemedy("ask them; where it cannot wait, cancel it and announce another one without asking for consent")
	case fault.KindOf(err) == fault.NotFound:
		return nil, notFound()
	case err != nil:
		return nil, err
	}
	m, err = s.Answer(ctx, m.ID, r)
	return answered(m, err, show)
}

func answered(m Maintenance, err error, show func(Maintenance) View) (*httpapi.Plain[View], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[View]{Body: show(m)}, nil
}
