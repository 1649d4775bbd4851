package onboarding

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

const (
	pathAll    = "/api/v1/admin/onboardings"
	pathOne    = pathAll + "/{onboarding_id}"
	pathStages = "/api/v1/admin/onboarding-stages"
	tag        = "AdminMaasLifecycle"
)

// Register adds the operations of the package to an API. The feed is where
// live progress comes from.
func (s *Service) Register(api *httpapi.API, feed job.Feed) {
	s.registerRequests(api)
	s.registerReads(api)
	s.registerActions(api)
	s.registerBatches(api)
	registerFeed(api, feed)
	s.registerStages(api)
}

// Path names an onboarding in the path. It is exported because the framework
// reads only exported embedded parameters.
type Path struct {
	OnboardingID id.Onboarding `path:"onboarding_id" doc:"Id of the onboarding."`
}

// ObservedView is the machine as MAAS last showed it.
type ObservedView bringup.ObservedView

// FailureView says why an onboarding is parked, or why it last failed.
type FailureView job.FailureView[Class]

// Class is a class of failures that onboardings have.
type Class job.FailureClass

// Schema implements huma.SchemaProvider.
func (Class) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(classes()) }

// View is an onboarding as the API shows it.
type View struct {
	OnboardingID      id.Onboarding       `json:"onboarding_id" doc:"Id of the onboarding."`
	BatchID           *id.OnboardingBatch `json:"batch_id,omitempty" doc:"The batch it was asked for with; absent: it is on its own."`
	SiteID            id.Site             `json:"site_id" doc:"Id of the site."`
	ProfileID         id.Profile          `json:"profile_id" doc:"Id of the profile."`
	SKUID             string              `json:"sku_id" doc:"Which kind of machine it is." example:"h200-sxm-baremetal-8g"`
	Hostname          string              `json:"hostname" example:"c07u43"`
	IPMIIP            string              `json:"ipmi_ip" doc:"Address of its BMC." example:"10.176.16.128"`
	PXEMAC            string              `json:"pxe_mac,omitempty" doc:"MAC address of its PXE interface, once observed."`
	MAASSystemID      string              `json:"maas_system_id,omitempty" doc:"Id of the machine in MAAS, once known." example:"4y3h7n"`
	NodeID            id.Node             `json:"node_id" doc:"The id that the node has, or will have once it is made."`
	InitializeDisks   bool                `json:"initialize_disks" doc:"Whether the first boot DESTROYS the data on all disks but the root disk."`
	Status            job.Status          `json:"status" doc:"How it stands."`
	CurrentStage      string              `json:"current_stage" doc:"The stage it is at." example:"wait_for_deployed"`
	StageNumber       int                 `json:"stage_number" doc:"Which of the stages that is, from 1; 0: none of them, such as compensate."`
	StageTotal        int                 `json:"stage_total" doc:"How many stages there are."`
	CurrentAttempt    int                 `json:"current_attempt" doc:"Which attempt at the stage it is."`
	Epoch             int64               `json:"epoch" doc:"Grows with every action of an operator; what an earlier epoch began can have no effect any more."`
	PendingAction     job.Trigger         `json:"pending_action,omitempty" doc:"What an operator asked for and is not finished yet."`
	Adopted           bool                `json:"adopted" doc:"Whether an observed state was adopted on the way."`
	Failure           *FailureView        `json:"failure,omitempty" doc:"Why it is parked; absent when it is not."`
	RecommendedAction job.Trigger         `json:"recommended_action,omitempty" doc:"What an operator does best now; absent when there is nothing to do."`
	LegalActions      []job.Trigger       `json:"legal_actions" nullable:"false" doc:"What an operator may do now, the best first."`
	Observed          ObservedView        `json:"observed" doc:"The machine as MAAS last showed it."`
	WorkflowID        string              `json:"workflow_id" doc:"Id of its workflow in Temporal."`
	WorkflowRunID     string              `json:"workflow_run_id,omitempty" doc:"The run of the workflow, once started."`
	RequestedBy       string              `json:"requested_by" doc:"Id of the principal who asked for it."`
	CorrelationID     string              `json:"correlation_id" doc:"Ties it to log lines, events and audit entries."`
	RequestedAt       time.Time           `json:"requested_at"`
	AdmittedAt        *time.Time          `json:"admitted_at,omitempty" doc:"When it was given a place within the limits of its batch and site."`
	StartedAt         *time.Time          `json:"started_at,omitempty"`
	StageStartedAt    *time.Time          `json:"stage_started_at,omitempty" doc:"When the stage began, over all its attempts."`
	ParkedAt          *time.Time          `json:"parked_at,omitempty" doc:"Since when it waits for an operator."`
	CompletedAt       *time.Time          `json:"completed_at,omitempty" doc:"When it ended."`
	UpdatedAt         time.Time           `json:"updated_at"`
}

// EventView is one entry of the ledger of an onboarding.
type EventView struct {
	Seq        int64           `json:"seq" doc:"Grows with every entry of any onboarding."`
	Epoch      int64           `json:"epoch"`
	Stage      string          `json:"stage"`
	Attempt    int             `json:"attempt"`
	Status     job.EventStatus `json:"status" doc:"What the entry is about; action is something an operator did, note something worth knowing about a stage that goes on, observed what reconciliation saw."`
	Message    string          `json:"message,omitempty" doc:"What happened, for people."`
	Details    job.Details     `json:"details,omitempty" doc:"What was found, by its name."`
	OccurredAt time.Time       `json:"occurred_at"`
}

// DetailView is an onboarding with its details.
type DetailView struct {
	View
	Facts       job.Details `json:"facts" doc:"What stages found out and later stages go by. Fields come and go with the stages."`
	Events      []EventView `json:"events" nullable:"false" doc:"The newest entries of its ledger, the oldest of them first."`
	Explanation Explanation `json:"explanation" doc:"What it waits for, what was seen, and what may be done."`
}

func show(o Onboarding) View {
	number, total := table.Number(o.Stage)
	v := View{
		OnboardingID: o.ID, SiteID: o.Site, ProfileID: o.Profile, SKUID: o.SKU, Hostname: o.Hostname, IPMIIP: o.IPMIIP,
		PXEMAC:       o.PXEMAC,
		MAASSystemID: o.SystemID, NodeID: o.Node, InitializeDisks: o.InitializeDisks, Status: o.Status, CurrentStage: o.Stage,
		StageNumber: number, StageTotal: total, CurrentAttempt: o.Attempt, Epoch: o.Epoch, PendingAction: o.Action,
		Adopted:  o.Adopted,
		Observed: ObservedView(bringup.ShowObserved(o.Machine)), WorkflowID: o.WorkflowID, WorkflowRunID: o.WorkflowRunID,
		RequestedBy: o.RequestedBy, CorrelationID: o.CorrelationID, RequestedAt: o.RequestedAt.UTC(),
		AdmittedAt: job.UTC(o.AdmittedAt),
		StartedAt:  job.UTC(o.StartedAt), StageStartedAt: job.UTC(o.StageStartedAt), ParkedAt: job.UTC(o.ParkedAt),
		CompletedAt: job.UTC(o.CompletedAt),
		UpdatedAt:   o.UpdatedAt.UTC(),
	}
	if !o.Batch.IsZero() {
		v.BatchID = &o.Batch
	}
	if f := job.ShowFailure[Class](o.Common()); f != nil {
		failure := FailureView(*f)
		v.Failure = &failure
	}
	v.LegalActions, v.RecommendedAction = family.ActionsOf(o)
	return v
}

func showEvent(e job.Event) EventView { return EventView(job.ShowEvent(e)) }

// ListInput narrows the listing of onboardings.
type ListInput struct {
	httpapi.Page
	BatchID  string   `query:"batch_id" format:"uuid" doc:"Only those of this batch."`
	SiteID   string   `query:"site_id" format:"uuid" doc:"Only those of this site."`
	Hostname string   `query:"hostname" maxLength:"253" doc:"Only those of machines whose name starts so."`
	Status   []string `query:"status,explode" maxItems:"20" doc:"Only those of these statuses: repeated, or divided by commas. failed means both failed ones."`
}

func (in ListInput) filter() (Filter, error) {
	f := Filter{HostnamePrefix: strings.ToLower(in.Hostname)}
	var bad []fault.Field
	note := func(path string, err error) {
		if err != nil {
			bad = append(bad, fault.Field{Path: path, Message: "must be an id"})
		}
	}
	if in.BatchID != "" {
		note("query.batch_id", f.Batch.UnmarshalText([]byte(in.BatchID)))
	}
	if in.SiteID != "" {
		note("query.site_id", f.Site.UnmarshalText([]byte(in.SiteID)))
	}
	statuses, unknown := job.Parking.Statuses(in.Status)
	f.Statuses, bad = statuses, append(bad, unknown...)
	return f, rejected(bad)
}

func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-onboardings", Method: http.MethodGet, Path: pathAll, Tag: tag,
		Summary: "List onboardings, newest first", Access: httpapi.Platform(auth.OnboardingRead),
	}, func(ctx context.Context, in *ListInput) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.Onboarding](in.Page)
		if err != nil {
			return nil, err
		}
		filter, err := in.filter()
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, filter, page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return v.OnboardingID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-onboarding", Method: http.MethodGet, Path: pathOne, Tag: tag,
		Summary: "Read an onboarding, its newest events and what they mean", Access: httpapi.Platform(auth.OnboardingRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[DetailView], error) {
		o, events, explanation, err := s.explained(ctx, in.OnboardingID)
		if err != nil {
			return nil, err
		}
		v := DetailView{
			View: show(o), Facts: bringup.FactsOf(o.Facts), Events: make([]EventView, len(events)),
			Explanation: explanation,
		}
		for i, e := range events {
			v.Events[i] = showEvent(e)
		}
		return &httpapi.Plain[DetailView]{Body: v}, nil
	})
	s.registerHistory(api)
}

func (s *Service) registerHistory(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-onboarding-events", Method: http.MethodGet, Path: pathOne + "/events", Tag: tag,
		Summary: "Read the ledger of an onboarding, oldest first", Access: httpapi.Platform(auth.OnboardingRead),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.Page
	},
	) (*httpapi.Listed[EventView], error) {
		page, err := httpapi.SliceOf[int64](in.Page)
		if err != nil {
			return nil, err
		}
		if _, err := s.Get(ctx, in.OnboardingID); err != nil {
			return nil, err
		}
		rows, err := s.Events(ctx, in.OnboardingID, page.After, page.Limit)
		return httpapi.ListOf(in.Page, rows, err, showEvent, func(v EventView) any { return v.Seq })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-onboarding-explanation", Method: http.MethodGet, Path: pathOne + "/explain", Tag: tag,
		Summary:     "Explain how an onboarding stands, and what may be done",
		Description: "The same facts always get the same explanation.",
		Access:      httpapi.Platform(auth.OnboardingRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[Explanation], error) {
		_, _, explanation, err := s.explained(ctx, in.OnboardingID)
		return &httpapi.Plain[Explanation]{Body: explanation}, err
	})
}
