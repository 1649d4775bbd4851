package node

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// HistoryView is one change of a node.
type HistoryView struct {
	Seq           int64     `json:"seq" doc:"Grows with every change of any node."`
	OccurredAt    time.Time `json:"occurred_at"`
	Kind          Kind      `json:"kind"`
	Event         string    `json:"event,omitempty" doc:"The event of the lifecycle, or what was noted: hold, unhold, keep_out, set_aside, let_back, taint, taint_root, accept_root, installed or clean; of a conflict, what it was about; of an observation, what was found." example:"lose_contact"`
	From          Status    `json:"from_status,omitempty" doc:"The state before; absent when it did not change."`
	To            Status    `json:"to_status,omitempty" doc:"The state after; absent when it did not change."`
	Source        Source    `json:"source" doc:"What sort of thing caused it: a person or a service account, a job, a disagreement that reconciliation found, the agent of the node, or the control plane by itself."`
	Cause         string    `json:"cause" doc:"Why, for people."`
	ActorKind     auth.Kind `json:"actor_kind" enum:"user,service_account,system,anonymous" doc:"What sort of actor did it."`
	ActorID       string    `json:"actor_id" doc:"Who did it: a principal, a part of the control plane, or the agent of the node."`
	CorrelationID string    `json:"correlation_id"`
}

// HistoryBody is a page of the history of a node.
type HistoryBody struct {
	Items      []HistoryView `json:"items" nullable:"false" doc:"The changes, newest first; with at, those until then."`
	NextCursor string        `json:"next_cursor,omitempty" doc:"Where the next page starts; absent on the last page."`
	AsOf       *KnownView    `json:"as_of,omitempty" doc:"The node as it was at the time asked for; absent without at. When it was last heard of is not known for the past."`
}

func showEntry(e HistoryEntry) HistoryView {
	return HistoryView{
		Seq: e.Seq, OccurredAt: e.OccurredAt.UTC(), Kind: e.Kind, Event: e.Event, From: e.From, To: e.To,
		Source: e.Source(), Cause: e.Cause, ActorKind: e.ActorKind, ActorID: e.ActorID, CorrelationID: e.CorrelationID,
	}
}

func showHistory(entries []HistoryEntry) []HistoryView {
	out := make([]HistoryView, len(entries))
	for i, e := range entries {
		out[i] = showEntry(e)
	}
	return out
}

// HistoryInput selects a page of the history of a node.
type HistoryInput struct {
	Path
	httpapi.Page
	At time.Time `query:"at" doc:"Show the node as it was at this time, and its history until then." example:"2026-03-01T12:00:00Z"`
}

func (s *Service) registerHistory(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-node-history", Method: http.MethodGet, Path: pathNode + "/history", Tag: tag,
		Summary: "Read the history of a node, or the node as it was", Access: httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *HistoryInput) (*httpapi.Plain[HistoryBody], error) {
		body, err := s.historyPage(ctx, in)
		return &httpapi.Plain[HistoryBody]{Body: body}, err
	})
}

func (s *Service) historyPage(ctx context.Context, in *HistoryInput) (HistoryBody, error) {
	page, err := httpapi.SliceOf[int64](in.Page)
	if err != nil {
		return HistoryBody{}, err
	}
	var body HistoryBody
	var until *time.Time
	if in.At.IsZero() {
		_, err = s.Node(ctx, in.NodeID)
	} else {
		until = &in.At
		var then Node
		then, err = s.NodeAt(ctx, in.NodeID, in.At)
		v := s.showAt(then, in.At)
		body.AsOf = &v
	}
	if err != nil {
		return HistoryBody{}, err
	}
	rows, err := s.History(ctx, in.NodeID, page.After, until, page.Limit)
	if err != nil {
		return HistoryBody{}, err
	}
	list := httpapi.NewList(in.Page, showHistory(rows), func(v HistoryView) any { return v.Seq })
	body.Items, body.NextCursor = list.Items, list.NextCursor
	return body, nil
}

// showAt judges the agent as of the time that was asked for, not as of today.
func (s *Service) showAt(n Node, at time.Time) KnownView {
	v := s.showKnown(n)
	v.Agent.Drift, v.Agent.Badge = n.Drift(at), n.build().Badge(at)
	v.Agent.UpdatePath, v.Agent.UpdatePathBecause = n.UpdatePath(at)
	return v
}
