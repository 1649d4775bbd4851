package node

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// HoldView is one thing that keeps a node out of scheduling.
type HoldView struct {
	HoldID id.NodeHold `json:"hold_id"`
	Kind   HoldKind    `json:"kind" doc:"For what; it says what ends the hold."`
	Owner  string      `json:"owner" doc:"What it belongs to, such as the allocation that is repaired; empty: nothing but the node."`
	Reason string      `json:"reason"`
	Since  *time.Time  `json:"since,omitempty" doc:"Absent: nobody wrote it down."`
	By     string      `json:"by" doc:"Who set it; empty: it is older than such records."`
	ByName string      `json:"by_name" doc:"How they are called."`
}

func showHolds(holds []Holding) []HoldView {
	out := make([]HoldView, len(holds))
	for i, h := range holds {
		out[i] = HoldView{HoldID: h.ID, Kind: h.Kind, Owner: h.Owner, Reason: h.Reason, By: h.By, ByName: h.ByName}
		if !h.Since.IsZero() {
			out[i].Since = utc(&h.Since)
		}
	}
	return out
}

func (s *Service) registerHolds(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "add-node-hold", Method: http.MethodPost, Path: pathNode + "/holds", Tag: tag,
		Summary:     "Hold a node for a reason",
		Description: "Nothing new is placed on it until the hold is lifted. What else holds the node stays, and ends for itself.",
		Access:      httpapi.Platform(auth.NodeManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		Path
		Body ActionBody
	},
	) (*httpapi.Versioned[View], error) {
		after, err := s.AddHold(ctx, in.NodeID, in.Body.Reason)
		return httpapi.AtVersion(after.Version, s.show(after)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "lift-node-hold", Method: http.MethodPost, Path: pathNode + "/holds/{hold_id}/lift", Tag: tag,
		Summary: "Lift one hold of a node",
		Description: "Whatever else holds the node stays. An operation's own hold ends with the operation and cannot be lifted, and " +
			"neither can the hold of a node that is not proven clean.",
		Access: httpapi.Platform(auth.NodeManage),
	}, func(ctx context.Context, in *struct {
		Path
		HoldID id.NodeHold `path:"hold_id"`
		Body   ActionBody
	},
	) (*httpapi.Versioned[View], error) {
		after, err := s.LiftHold(ctx, in.NodeID, in.HoldID, in.Body.Reason)
		return httpapi.AtVersion(after.Version, s.show(after)), err
	})
}
