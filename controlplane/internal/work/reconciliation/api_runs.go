package reconciliation

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// RunView is a run as the API shows it.
type RunView struct {
	RunID         id.ReconciliationRun `json:"run_id"`
	SiteID        id.Site              `json:"site_id"`
	SiteName      string               `json:"site_name" example:"dc1"`
	Trigger       Trigger              `json:"trigger" doc:"Why it happens."`
	Full          bool                 `json:"full" doc:"Whether all machines are read."`
	DryRun        bool                 `json:"dry_run" doc:"Whether nothing is done, only said."`
	NodeID        *id.Node             `json:"node_id,omitempty" doc:"The node that is settled; absent: it is a look at the site."`
	Hostname      string               `json:"hostname,omitempty" doc:"Of that node."`
	Resolution    Resolution           `json:"resolution,omitempty" doc:"How that node is settled."`
	Reason        string               `json:"reason,omitempty"`
	RequestedBy   string               `json:"requested_by,omitempty" doc:"Id of the principal who asked for it."`
	CorrelationID string               `json:"correlation_id,omitempty" doc:"Ties it to log lines, events and audit entries."`
	Outcome       Outcome              `json:"outcome,omitempty" doc:"How it ended; absent: it has not. Only informed means that MAAS answered all that was asked."`
	Error         *RunError            `json:"error,omitempty" doc:"What was in the way; absent: nothing was."`
	Report        Report               `json:"report" doc:"What was asked of MAAS, what was found, and what was done or would have been."`
	RequestedAt   time.Time            `json:"requested_at"`
	BeganAt       *time.Time           `json:"began_at,omitempty"`
	EndedAt       *time.Time           `json:"ended_at,omitempty"`
}

func showRun(r RunShown) RunView {
	v := RunView{
		RunID: r.ID, SiteID: r.Site, SiteName: r.SiteName, Trigger: r.Trigger, Full: r.Full, DryRun: r.DryRun,
		Hostname:   r.Hostname,
		Resolution: r.Resolution, Reason: r.Reason, RequestedBy: r.RequestedBy, CorrelationID: r.CorrelationID,
		Outcome: r.Outcome, Report: r.Report,
		RequestedAt: r.RequestedAt.UTC(), BeganAt: utc(r.BeganAt), EndedAt: utc(r.EndedAt),
	}
	if !r.Node.IsZero() {
		v.NodeID = &r.Node
	}
	if r.ErrorCode != "" {
		v.Error = &RunError{Code: r.ErrorCode, Message: r.ErrorMessage, Remedy: r.ErrorRemedy}
	}
	v.Report.Intended = append([]Intended{}, r.Report.Intended...)
	v.Report.Left = append([]LeftTo{}, r.Report.Left...)
	v.Report.Settled = append([]LeftTo{}, r.Report.Settled...)
	return v
}

// answerRun reads the run again before it answers, because the run may have
// ended already.
func (s *Service) answerRun(ctx context.Context, run Run, err error) (*httpapi.Plain[RunView], error) {
	if err != nil {
		return nil, err
	}
	shown, err := s.shownRun(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[RunView]{Body: showRun(shown)}, nil
}

// NewRunBody is a wish for a look at a site.
type NewRunBody struct {
	SiteID id.Site `json:"site_id"`
	DryRun bool    `json:"dry_run,omitempty" doc:"Say what would be done, and do nothing."`
	Full   bool    `json:"full,omitempty" doc:"Read all machines of the site, not only what changed; a minute per 1,000 or so."`
	Reason string  `json:"reason,omitempty" maxLength:"500" doc:"Why; it goes into the audit log."`
}

// NewRunInput is a wish for a look at a site.
type NewRunInput struct{ Body NewRunBody }

// ListRunsInput filters the listing of runs.
type ListRunsInput struct {
	httpapi.Page
	SiteID  string  `query:"site_id" format:"uuid" doc:"Only those of this site."`
	Trigger Trigger `query:"trigger" doc:"Only those that happened for this reason."`
}

// RunPath names a run in the path.
type RunPath struct {
	RunID id.ReconciliationRun `path:"run_id" doc:"Id of the run."`
}

func (s *Service) registerRuns(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "run-reconciliation", Method: http.MethodPost, Path: pathRoot + "/run", Tag: tag, Status: http.StatusAccepted,
		Summary:     "Compare a site with the inventory now",
		Description: "Records the wish and returns; a workflow carries it out. Read the run until it has an outcome.",
		Access:      httpapi.Platform(auth.ReconciliationManage),
	}, func(ctx context.Context, in *NewRunInput) (*httpapi.Plain[RunView], error) {
		run, err := s.RequestRun(ctx, RunRequest{
			Site: in.Body.SiteID, DryRun: in.Body.DryRun, Full: in.Body.Full,
			Reason: in.Body.Reason,
		})
		return s.answerRun(ctx, run, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-reconciliation-runs", Method: http.MethodGet, Path: pathRoot + "/runs", Tag: tag,
		Summary: "List runs, newest first", Description: "They are kept for a while.",
		Access: httpapi.Platform(auth.ReconciliationRead),
	}, func(ctx context.Context, in *ListRunsInput) (*httpapi.Listed[RunView], error) {
		page, err := httpapi.SliceOf[RunPosition](in.Page)
		if err != nil {
			return nil, err
		}
		f := RunFilter{Trigger: in.Trigger}
		var parse ids
		parse.read("query.site_id", in.SiteID, &f.Site)
		if err := parse.refused(); err != nil {
			return nil, err
		}
		rows, err := s.Runs(ctx, f, page)
		return httpapi.ListOf(in.Page, rows, err, showRun,
			func(v RunView) any { return RunPosition{At: v.RequestedAt, ID: v.RunID} })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-reconciliation-run", Method: http.MethodGet, Path: pathRoot + "/runs/{run_id}", Tag: tag,
		Summary: "Read a run and its report", Access: httpapi.Platform(auth.ReconciliationRead),
	}, func(ctx context.Context, in *RunPath) (*httpapi.Plain[RunView], error) {
		shown, err := s.shownRun(ctx, in.RunID)
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[RunView]{Body: showRun(shown)}, nil
	})
}
