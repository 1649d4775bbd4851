package reconciliation

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
	"gpuaas/controlplane/internal/work/job"
)

const (
	pathRoot = "/api/v1/admin/reconciliation"
	tag      = "Reconciliation"
)

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerStatus(api)
	s.registerDrift(api)
	s.registerFindings(api)
	s.registerRuns(api)
}

// Schema is the enum of the contract: the states of the lifecycle. It implements
// huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// Schema implements huma.SchemaProvider.
func (Severity) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(severities) }

// Schema implements huma.SchemaProvider.
func (Trigger) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(triggers) }

// Schema implements huma.SchemaProvider.
func (Outcome) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(outcomes) }

// Schema implements huma.SchemaProvider.
func (Resolution) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(Resolutions) }

// FindingView is a finding as the API shows it.
type FindingView struct {
	FindingID       id.Finding  `json:"finding_id"`
	SiteID          id.Site     `json:"site_id"`
	SiteName        string      `json:"site_name" example:"dc1"`
	NodeID          *id.Node    `json:"node_id,omitempty" doc:"Absent: it is not about a node."`
	Hostname        string      `json:"hostname,omitempty" doc:"Of the node, or else of the machine."`
	MAASSystemID    string      `json:"maas_system_id,omitempty" doc:"The machine of MAAS; absent: it is not about a machine."`
	Type            Type        `json:"type" doc:"What kind of finding it is. Kinds are added with releases." example:"released"`
	Title           string      `json:"title" doc:"What kind that is, in a few words."`
	Means           string      `json:"means" doc:"What it means to those on the node."`
	Severity        Severity    `json:"severity"`
	Status          Status      `json:"status" doc:"open: one check has shown it; confirmed: enough checks have shown it; acted: reconciliation did what it does about it; closed: it is over."`
	Expected        string      `json:"expected" example:"Deployed"`
	Observed        string      `json:"observed" example:"Ready"`
	Message         string      `json:"message" doc:"What happened, for people."`
	Details         job.Details `json:"details,omitempty" doc:"What was seen. Fields come and go with the kinds."`
	Looks           int32       `json:"looks" doc:"How many looks have shown it."`
	Occurrence      int32       `json:"occurrence" doc:"The how manieth of its kind this is for its subject, within a month."`
	Action          Action      `json:"action,omitempty" enum:"quarantine,mark_offline,update_host,reseed_hw_sync,release_machine,power_off_machine" doc:"What reconciliation does about it by itself; absent: nothing."`
	Withheld        string      `json:"withheld,omitempty" doc:"Why it does not; absent: nothing is in the way."`
	ActionNote      string      `json:"action_note,omitempty" doc:"What came of it."`
	Advice          []Advice    `json:"advice" nullable:"false" doc:"What an operator does best now, the best first."`
	OpenedAt        time.Time   `json:"opened_at"`
	LastSeenAt      time.Time   `json:"last_seen_at"`
	ConfirmedAt     *time.Time  `json:"confirmed_at,omitempty"`
	ActedAt         *time.Time  `json:"acted_at,omitempty"`
	AcknowledgedAt  *time.Time  `json:"acknowledged_at,omitempty" doc:"When somebody said that it is known; absent: nobody did."`
	AcknowledgedBy  string      `json:"acknowledged_by,omitempty"`
	Acknowledgement string      `json:"acknowledgement,omitempty" doc:"What they said."`
	ClosedAt        *time.Time  `json:"closed_at,omitempty"`
	ClosedBecause   string      `json:"closed_because,omitempty"`
}

func showFinding(f FindingShown) FindingView {
	v := FindingView{
		FindingID: f.ID, SiteID: f.Site, SiteName: f.SiteName, Hostname: f.Hostname, MAASSystemID: f.SystemID, Type: f.Type,
		Title:    string(f.Type),
		Severity: f.Severity, Status: f.Status, Expected: f.Expected, Observed: f.Observed, Message: f.Message,
		Details: job.DetailsOf(f.Details),
		Looks:   f.Looks, Occurrence: f.Occurrence, Action: f.Action, Withheld: f.Withheld, ActionNote: f.ActionNote,
		Advice:   f.Advised(),
		OpenedAt: f.OpenedAt.UTC(), LastSeenAt: f.LastSeenAt.UTC(), ConfirmedAt: utc(f.ConfirmedAt), ActedAt: utc(f.ActedAt),
		AcknowledgedAt: utc(f.AcknowledgedAt), AcknowledgedBy: f.AcknowledgedBy, Acknowledgement: f.Acknowledgement,
		ClosedAt: utc(f.ClosedAt), ClosedBecause: f.ClosedBecause,
	}
	if !f.Node.IsZero() {
		v.NodeID = &f.Node
	}
	if rule, known := RuleOf(f.Type); known {
		v.Title, v.Means = rule.Title, rule.Means
	}
	return v
}

func showFindings(list []FindingShown) []FindingView {
	out := make([]FindingView, len(list))
	for i, f := range list {
		out[i] = showFinding(f)
	}
	return out
}

// DriftView is a node with the findings about it.
type DriftView struct {
	NodeID           id.Node       `json:"node_id"`
	Hostname         string        `json:"hostname" example:"c07u43"`
	SiteID           id.Site       `json:"site_id"`
	SiteName         string        `json:"site_name" example:"dc1"`
	NodeStatus       node.Status   `json:"node_status"`
	Schedulable      bool          `json:"schedulable"`
	HoldReason       string        `json:"hold_reason,omitempty" doc:"Why nothing is scheduled on it."`
	HeldBy           string        `json:"held_by,omitempty" doc:"The job that works on it; what is found is left to that."`
	MAASSystemID     string        `json:"maas_system_id" doc:"The machine of MAAS."`
	MAASStatus       string        `json:"maas_status,omitempty" doc:"As MAAS last showed it." example:"Ready"`
	MAASPowerState   string        `json:"maas_power_state,omitempty" doc:"Likewise." example:"off"`
	LastReconciledAt *time.Time    `json:"last_reconciled_at,omitempty" doc:"When its machine was last looked at; absent: never."`
	Drifted          bool          `json:"drifted" doc:"Whether it is not as it should be."`
	Severity         Severity      `json:"severity,omitempty" doc:"Of the worst finding; absent: there is none."`
	Findings         []FindingView `json:"findings" nullable:"false" doc:"What is not as it should be, the worst first."`
	Advice           []Advice      `json:"advice" nullable:"false" doc:"What an operator does best now, the best first."`
}

// DriftDetailView adds the past findings about the node.
type DriftDetailView struct {
	DriftView
	History []FindingView `json:"history" nullable:"false" doc:"The newest findings about it that are over, the newest first."`
}

func showDrift(d Drift) DriftView {
	v := DriftView{
		NodeID: d.Node, Hostname: d.Hostname, SiteID: d.Site, SiteName: d.SiteName, NodeStatus: d.Status,
		Schedulable: d.Schedulable,
		HoldReason:  d.HoldReason, HeldBy: d.HeldBy, MAASSystemID: d.SystemID, MAASStatus: d.MAASStatus,
		MAASPowerState:   d.Power,
		LastReconciledAt: utc(d.ReadAt), Drifted: d.Drifted, Findings: showFindings(d.Findings), Advice: d.Advised(),
	}
	if len(v.Findings) > 0 {
		v.Severity = v.Findings[0].Severity
	}
	return v
}

func (s *Service) registerStatus(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-reconciliation-status", Method: http.MethodGet, Path: pathRoot + "/status", Tag: tag,
		Summary: "Say how well MAAS, the agents and the inventory agree, site by site",
		Access:  httpapi.Platform(auth.ReconciliationRead),
	}, func(ctx context.Context, _ *struct{}) (*httpapi.Plain[Overview], error) {
		o, err := s.Status(ctx)
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[Overview]{Body: o}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "decide-reconciliation-breaker", Method: http.MethodPost, Path: pathRoot + "/sites/{site_id}/breaker", Tag: tag,
		Summary: "Decide about nodes that were not quarantined because they are too many",
		Description: "confirm quarantines exactly the nodes that the status of the site lists; dismiss lets them be and " +
			"closes the breaker, " +
			"which opens again if that many are found again. Whoever has seen the list names its nodes in node_ids: when it " +
			"is another one by now, " +
			"nothing is done and the answer is 409 breaker_changed.",
		Access: httpapi.Platform(auth.ReconciliationManage),
	}, func(ctx context.Context, in *BreakerInput) (*httpapi.Plain[SiteOverview], error) {
		b := in.Body
		if err := s.DecideBreaker(ctx, BreakerDecision{
			Site: in.SiteID, Confirm: b.Decision == confirmed, Seen: b.NodeIDs,
			Reason: b.Reason,
		}); err != nil {
			return nil, err
		}
		o, err := s.statusOf(ctx, in.SiteID)
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[SiteOverview]{Body: o}, nil
	})
}

// Decision is what an operator decides about an open breaker.
type Decision string

const confirmed Decision = "confirm"

// BreakerBody is a decision, about which nodes, and why.
type BreakerBody struct {
	Decision Decision  `json:"decision" enum:"confirm,dismiss"`
	NodeIDs  []id.Node `json:"node_ids,omitempty" nullable:"false" maxItems:"20000" doc:"The nodes that whoever decides has seen; refused when the breaker holds back others. Left out: whatever it holds back now."`
	Reason   string    `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log." example:"rack 7 lost power, they are down indeed"`
}

// BreakerInput is a decision about a site.
type BreakerInput struct {
	SiteID id.Site `path:"site_id" doc:"Id of the site."`
	Body   BreakerBody
}

// ids parses the ids of a query and collects the fields whose text is no id.
type ids struct{ bad []fault.Field }

func (r *ids) read(path, text string, into interface{ UnmarshalText(b []byte) error }) {
	if text == "" {
		return
	}
	if err := into.UnmarshalText([]byte(text)); err != nil {
		r.bad = append(r.bad, fault.Field{Path: path, Message: "must be an id"})
	}
}

func (r *ids) refused() error {
	if len(r.bad) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error",
		"the request has fields that cannot be accepted").WithFields(r.bad...)
}
