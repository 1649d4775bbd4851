package reconciliation

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathDrift   = pathRoot + "/drift"
	pathDrifted = pathDrift + "/{node_id}"
)

// NodePath names a node in the path. It is exported because the framework reads
// embedded parameters only from exported types.
type NodePath struct {
	NodeID id.Node `path:"node_id" doc:"Id of the node."`
}

// ListDriftInput filters the listing of nodes that drift.
type ListDriftInput struct {
	httpapi.Page
	SiteID   string   `query:"site_id" format:"uuid" doc:"Only nodes of this site."`
	Severity Severity `query:"severity" doc:"Only nodes with a finding that matters so much."`
	Type     string   `query:"type" maxLength:"63" doc:"Only nodes with a finding of this kind."`
	Repeated bool     `query:"repeated" doc:"Only nodes with a finding that came back three times or more within a month."`
}

// ResolveBody is what an operator decides about a node that drifts.
type ResolveBody struct {
	Resolution Resolution `json:"resolution" doc:"acknowledge: it is known, and nothing changes; adopt_observed: what is there is right; quarantine: out of scheduling; return_to_service: after a look that proves it healthy; reimage: release the machine and reinstall it."`
	Reason     string     `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log and the history of the node." example:"board was replaced"`
}

// ResolveInput is a decision about a node.
type ResolveInput struct {
	NodePath
	Body ResolveBody
}

func (s *Service) registerDrift(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-drift", Method: http.MethodGet, Path: pathDrift, Tag: tag,
		Summary: "List the nodes that are not as expected, worst first",
		Access:  httpapi.Platform(auth.ReconciliationRead),
	}, s.listDrift)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-node-drift", Method: http.MethodGet, Path: pathDrifted, Tag: tag,
		Summary: "Say what is not as it should be about a node, and what was",
		Access:  httpapi.Platform(auth.ReconciliationRead),
	}, func(ctx context.Context, in *NodePath) (*httpapi.Plain[DriftDetailView], error) {
		d, err := s.DriftOf(ctx, in.NodeID)
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[DriftDetailView]{Body: DriftDetailView{
			DriftView: showDrift(d),
			History:   showFindings(d.History),
		}}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "resolve-node-drift", Method: http.MethodPost, Path: pathDrifted + "/resolve", Tag: tag,
		Status:  http.StatusAccepted,
		Summary: "Settle what is wrong with a node",
		Description: "acknowledge and quarantine have ended when this answers. The others look at the machine first: read " +
			"the run that is " +
			"answered until it has an outcome.",
		Access: httpapi.Platform(auth.ReconciliationManage),
	}, func(ctx context.Context, in *ResolveInput) (*httpapi.Plain[RunView], error) {
		run, err := s.Resolve(ctx, in.NodeID, in.Body.Resolution, in.Body.Reason)
		return s.answerRun(ctx, run, err)
	})
}

func (s *Service) listDrift(ctx context.Context, in *ListDriftInput) (*httpapi.Listed[DriftView], error) {
	page, err := httpapi.SliceOf[DriftPosition](in.Page)
	if err != nil {
		return nil, err
	}
	f := DriftFilter{Severity: in.Severity, Type: Type(in.Type), Repeated: in.Repeated}
	var parse ids
	parse.read("query.site_id", in.SiteID, &f.Site)
	if err := parse.refused(); err != nil {
		return nil, err
	}
	rows, err := s.Drifted(ctx, f, page)
	if err != nil {
		return nil, err
	}
	list := httpapi.NewList(in.Page, rows, func(
		d Drift,
	) any {
		return DriftPosition{Worst: d.worst, Hostname: d.Hostname, Node: d.Node}
	})
	out := httpapi.List[DriftView]{NextCursor: list.NextCursor, Items: make([]DriftView, len(list.Items))}
	for i, d := range list.Items {
		out.Items[i] = showDrift(d)
	}
	return &httpapi.Listed[DriftView]{Body: out}, nil
}

// ListFindingsInput filters the listing of findings.
type ListFindingsInput struct {
	httpapi.Page
	SiteID   string    `query:"site_id" format:"uuid" doc:"Only those of this site."`
	NodeID   string    `query:"node_id" format:"uuid" doc:"Only those about this node."`
	Type     string    `query:"type" maxLength:"63" doc:"Only those of this kind."`
	Severity Severity  `query:"severity" doc:"Only those that matter so much."`
	Status   string    `query:"status" enum:"open,confirmed,acted,closed,present" doc:"Only those that stand so; present: all that are not over."`
	Since    time.Time `query:"since" doc:"Only those that were found at or after this time."`
}

// AcknowledgeBody is what somebody says about a finding.
type AcknowledgeBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"What is known about it; it goes into the audit log." example:"the vendor was called"`
}

// AcknowledgeInput is what somebody says about a finding.
type AcknowledgeInput struct {
	FindingID id.Finding `path:"finding_id" doc:"Id of the finding."`
	Body      AcknowledgeBody
}

func (s *Service) registerFindings(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-findings", Method: http.MethodGet, Path: pathRoot + "/findings", Tag: tag,
		Summary:     "List what was found, newest first",
		Description: "All findings, also those that are over and those that are not about nodes.",
		Access:      httpapi.Platform(auth.ReconciliationRead),
	}, func(ctx context.Context, in *ListFindingsInput) (*httpapi.Listed[FindingView], error) {
		page, err := httpapi.SliceOf[FindingPosition](in.Page)
		if err != nil {
			return nil, err
		}
		f := FindingFilter{Type: Type(in.Type), Severity: in.Severity, Status: in.Status, Since: in.Since}
		var parse ids
		parse.read("query.site_id", in.SiteID, &f.Site)
		parse.read("query.node_id", in.NodeID, &f.Node)
		if err := parse.refused(); err != nil {
			return nil, err
		}
		rows, err := s.Findings(ctx, f, page)
		return httpapi.ListOf(in.Page, rows, err, showFinding,
			func(v FindingView) any { return FindingPosition{At: v.OpenedAt, ID: v.FindingID} })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "acknowledge-finding", Method: http.MethodPost, Path: pathRoot + "/findings/{finding_id}/acknowledge", Tag: tag,
		Summary: "Say that a finding is known", Description: "Nothing else changes: it stays until it is over.",
		Access: httpapi.Platform(auth.ReconciliationManage),
	}, func(ctx context.Context, in *AcknowledgeInput) (*httpapi.Plain[FindingView], error) {
		if _, err := s.AcknowledgeFinding(ctx, in.FindingID, in.Body.Reason); err != nil {
			return nil, err
		}
		f, err := s.FindingOf(ctx, in.FindingID)
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[FindingView]{Body: showFinding(f)}, nil
	})
}
