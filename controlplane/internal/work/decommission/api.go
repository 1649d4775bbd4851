package decommission

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

const (
	pathNode   = "/api/v1/admin/nodes/{node_id}"
	pathAll    = "/api/v1/admin/decommissions"
	pathOne    = pathAll + "/{decommission_id}"
	pathStages = "/api/v1/admin/decommission-stages"
	tag        = "AdminMaasLifecycle"
)

// Register adds the operations of the package to an API. The feed is where
// live progress comes from.
func (s *Service) Register(api *httpapi.API, feed job.Feed) {
	api.Extend("x-gpuaas-modes", from) // the console uses it to offer the modes that a node's status allows
	s.registerRequests(api)
	s.registerLifecycle(api)
	s.registerReads(api)
	s.registerActions(api)
	s.registerBatches(api)
	registerFeed(api, feed)
	s.registerStages(api)
}

// Path names a decommission in the path. It is exported because the framework
// reads only exported embedded parameters.
type Path struct {
	DecommissionID id.Decommission `path:"decommission_id" doc:"Id of the decommission."`
}

// ObservedView is the machine as MAAS last showed it.
type ObservedView bringup.ObservedView

// FailureView says why a decommission is parked, or why it last failed.
type FailureView job.FailureView[Class]

// Class is a class of failures that decommissions have.
type Class job.FailureClass

// Schema implements huma.SchemaProvider.
func (Class) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(bringup.FailureClasses) }

// EventView is one entry of the ledger of a decommission.
type EventView job.EventView

// Schema implements huma.SchemaProvider.
func (Mode) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(Modes()) }

// Schema implements huma.SchemaProvider.
func (Outcome) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(Outcomes()) }

// Schema implements huma.SchemaProvider.
func (Cleanup) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(cleanups) }

// View is a decommission as the API shows it.
type View struct {
	DecommissionID    id.Decommission       `json:"decommission_id" doc:"Id of the decommission."`
	BatchID           *id.DecommissionBatch `json:"batch_id,omitempty" doc:"The batch it was asked for with; absent: it is on its own."`
	NodeID            id.Node               `json:"node_id" doc:"The node it is about."`
	Hostname          string                `json:"hostname" example:"c07u43"`
	Mode              Mode                  `json:"mode" doc:"What is done to the node."`
	Erase             Erase                 `json:"erase" doc:"What the release in MAAS is to do to disks."`
	StorageCleanup    Cleanup               `json:"storage_cleanup" doc:"What the agent removes of what tenants left on disks."`
	Reason            string                `json:"reason" doc:"Why it was asked for."`
	PlanHash          string                `json:"plan_hash" doc:"Of the plan that is carried out."`
	NodeStatusBefore  node.Status           `json:"node_status_before" doc:"State of the node when this was asked for."`
	SiteID            *id.Site              `json:"site_id,omitempty" doc:"Id of the site; absent: the node is not a machine of MAAS."`
	ProfileID         *id.Profile           `json:"profile_id,omitempty" doc:"Id of the profile whose policy holds."`
	MAASSystemID      string                `json:"maas_system_id,omitempty" doc:"Id of the machine in MAAS." example:"4y3h7n"`
	Status            job.Status            `json:"status" doc:"How it stands."`
	Outcome           Outcome               `json:"outcome,omitempty" doc:"Of one that reached its goal: with_gaps says that less was done than was asked for, or that something is left to be done. Absent: it has not, or it has no gaps and was not to clean anything (drain, remove)."`
	CurrentStage      string                `json:"current_stage" doc:"The stage it is at." example:"release_maas_node"`
	StageNumber       int                   `json:"stage_number" doc:"Which of the stages of its mode that is, from 1; 0: none of them, such as compensate."`
	StageTotal        int                   `json:"stage_total" doc:"How many stages its mode has."`
	CurrentAttempt    int                   `json:"current_attempt" doc:"Which attempt at the stage it is."`
	Epoch             int64                 `json:"epoch" doc:"Grows with every action of an operator; what an earlier epoch began can have no effect any more."`
	PendingAction     job.Trigger           `json:"pending_action,omitempty" doc:"What an operator asked for and is not finished yet."`
	Adopted           bool                  `json:"adopted" doc:"Whether an observed state was adopted on the way."`
	Failure           *FailureView          `json:"failure,omitempty" doc:"Why it is parked; absent when it is not."`
	RecommendedAction job.Trigger           `json:"recommended_action,omitempty" doc:"What an operator does best now; absent when there is nothing to do."`
	LegalActions      []job.Trigger         `json:"legal_actions" nullable:"false" doc:"What an operator may do now, the best first."`
	Overrides         []Override            `json:"overrides" nullable:"false" doc:"Stages that an operator decided to go on without, and the risk that leaves."`
	FollowUps         []FollowUp            `json:"follow_ups" nullable:"false" doc:"What was not done and is left to somebody."`
	Observed          ObservedView          `json:"observed" doc:"The machine as MAAS last showed it."`
	WorkflowID        string                `json:"workflow_id" doc:"Id of its workflow in Temporal."`
	WorkflowRunID     string                `json:"workflow_run_id,omitempty" doc:"The run of the workflow, once started."`
	RequestedBy       string                `json:"requested_by" doc:"Id of the principal who asked for it."`
	CorrelationID     string                `json:"correlation_id" doc:"Ties it to log lines, events and audit entries."`
	RequestedAt       time.Time             `json:"requested_at"`
	AdmittedAt        *time.Time            `json:"admitted_at,omitempty" doc:"When it was given a place within its batch."`
	StartedAt         *time.Time            `json:"started_at,omitempty"`
	StageStartedAt    *time.Time            `json:"stage_started_at,omitempty" doc:"When the stage began, over all its attempts."`
	ParkedAt          *time.Time            `json:"parked_at,omitempty" doc:"Since when it waits for an operator."`
	CompletedAt       *time.Time            `json:"completed_at,omitempty" doc:"When it ended."`
	UpdatedAt         time.Time             `json:"updated_at"`
}

// DetailView is a decommission with its details.
type DetailView struct {
	View
	Facts       job.Details `json:"facts" doc:"What stages found out and later stages go by. Fields come and go with the stages."`
	Events      []EventView `json:"events" nullable:"false" doc:"The newest entries of its ledger, the oldest of them first."`
	Explanation Explanation `json:"explanation" doc:"What it waits for, what was seen, and what may be done."`
}

func (s *Service) show(d Decommission) View {
	number, total := tables[d.Mode].Number(d.Stage)
	v := View{
		DecommissionID: d.ID, NodeID: d.Node, Hostname: d.Hostname, Mode: d.Mode, Erase: d.Erase,
		StorageCleanup: d.StorageCleanup, Reason: d.Reason,
		PlanHash: d.PlanHash, NodeStatusBefore: d.Origin, MAASSystemID: d.SystemID, Status: d.Status, CurrentStage: d.Stage,
		StageNumber: number, StageTotal: total, CurrentAttempt: d.Attempt, Epoch: d.Epoch, PendingAction: d.Action,
		Adopted:   d.Adopted,
		Overrides: append([]Override{}, d.Overrides...), FollowUps: append([]FollowUp{}, d.FollowUps...),
		Observed: ObservedView(bringup.ShowObserved(d.Machine)), WorkflowID: d.WorkflowID, WorkflowRunID: d.WorkflowRunID,
		RequestedBy: d.RequestedBy, CorrelationID: d.CorrelationID, RequestedAt: d.RequestedAt.UTC(),
		AdmittedAt: job.UTC(d.AdmittedAt),
		StartedAt:  job.UTC(d.StartedAt), StageStartedAt: job.UTC(d.StageStartedAt), ParkedAt: job.UTC(d.ParkedAt),
		CompletedAt: job.UTC(d.CompletedAt),
		UpdatedAt:   d.UpdatedAt.UTC(),
	}
	if !d.Batch.IsZero() {
		v.BatchID = &d.Batch
	}
	if !d.Site.IsZero() {
		v.SiteID, v.ProfileID = &d.Site, &d.Profile
	}
	if f := job.ShowFailure[Class](d.Common()); f != nil {
		failure := FailureView(*f)
		v.Failure = &failure
	}
	v.Outcome = d.Outcome
	v.LegalActions, v.RecommendedAction = s.family.ActionsOf(d)
	return v
}

func showEvent(e job.Event) EventView { return EventView(job.ShowEvent(e)) }

// ListInput narrows the listing of decommissions.
type ListInput struct {
	httpapi.Page
	NodeID   string   `query:"node_id" format:"uuid" doc:"Only those of this node."`
	SiteID   string   `query:"site_id" format:"uuid" doc:"Only those of machines of this site."`
	BatchID  string   `query:"batch_id" format:"uuid" doc:"Only those of this batch."`
	Hostname string   `query:"hostname" maxLength:"253" doc:"Only those of nodes whose name starts so."`
	Mode     Mode     `query:"mode" doc:"Only those of this mode."`
	Outcome  Outcome  `query:"outcome" doc:"Only those that reached their goal with this outcome."`
	Status   []string `query:"status,explode" maxItems:"20" doc:"Only those of these statuses: repeated, or divided by commas. failed means both failed ones."`
}

func (in ListInput) filter() (Filter, error) {
	f := Filter{Mode: in.Mode, Hostname: in.Hostname, Outcome: in.Outcome}
	var bad []fault.Field
	note := func(path string, err error) {
		if err != nil {
			bad = append(bad, fault.Field{Path: path, Message: "must be an id"})
		}
	}
	if in.NodeID != "" {
		note("query.node_id", f.Node.UnmarshalText([]byte(in.NodeID)))
	}
	if in.SiteID != "" {
		note("query.site_id", f.Site.UnmarshalText([]byte(in.SiteID)))
	}
	if in.BatchID != "" {
		note("query.batch_id", f.Batch.UnmarshalText([]byte(in.BatchID)))
	}
	statuses, unknown := job.Parking.Statuses(in.Status)
	f.Statuses, bad = statuses, append(bad, unknown...)
	if len(bad) > 0 {
		return f, fault.New(fault.Invalid, "validation_error",
			"the request has fields that cannot be accepted").WithFields(bad...)
	}
	return f, nil
}

func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-decommissions", Method: http.MethodGet, Path: pathAll, Tag: tag,
		Summary:     "List decommissions, newest first",
		Description: "All operations that clean nodes, put them aside or remove them.",
		Access:      httpapi.Platform(auth.DecommissionRead),
	}, func(ctx context.Context, in *ListInput) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.Decommission](in.Page)
		if err != nil {
			return nil, err
		}
		filter, err := in.filter()
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, filter, page)
		return httpapi.ListOf(in.Page, rows, err, s.show, func(v View) any { return v.DecommissionID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-decommission", Method: http.MethodGet, Path: pathOne, Tag: tag,
		Summary: "Read a decommission, its newest events and what they mean", Access: httpapi.Platform(auth.DecommissionRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[DetailView], error) {
		d, events, explanation, err := s.explained(ctx, in.DecommissionID)
		if err != nil {
			return nil, err
		}
		v := DetailView{
			View: s.show(d), Facts: bringup.FactsOf(d.Facts), Events: make([]EventView, len(events)),
			Explanation: explanation,
		}
		for i, e := range events {
			v.Events[i] = showEvent(e)
		}
		return &httpapi.Plain[DetailView]{Body: v}, nil
	})
	s.registerHistory(api)
	s.registerEvidence(api)
}

func (s *Service) registerHistory(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-decommission-events", Method: http.MethodGet, Path: pathOne + "/events", Tag: tag,
		Summary: "Read the ledger of a decommission, oldest first", Access: httpapi.Platform(auth.DecommissionRead),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.Page
	},
	) (*httpapi.Listed[EventView], error) {
		page, err := httpapi.SliceOf[int64](in.Page)
		if err != nil {
			return nil, err
		}
		if _, err := s.Get(ctx, in.DecommissionID); err != nil {
			return nil, err
		}
		rows, err := s.Events(ctx, in.DecommissionID, page.After, page.Limit)
		return httpapi.ListOf(in.Page, rows, err, showEvent, func(v EventView) any { return v.Seq })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-decommission-explanation", Method: http.MethodGet, Path: pathOne + "/explain", Tag: tag,
		Summary:     "Explain how a decommission stands, and what may be done",
		Description: "The same facts always get the same explanation.",
		Access:      httpapi.Platform(auth.DecommissionRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[Explanation], error) {
		_, _, explanation, err := s.explained(ctx, in.DecommissionID)
		return &httpapi.Plain[Explanation]{Body: explanation}, err
	})
}
