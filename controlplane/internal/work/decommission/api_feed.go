package decommission

import (
	"encoding/json"
	"net/http"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/job"
)

// feedTypes is the prefix of all event types about decommissions.
const feedTypes = "node.decommission."

// FeedInput says which decommissions to follow.
type FeedInput struct {
	httpapi.LastEventID
	BatchID        string `query:"batch_id" format:"uuid" doc:"Only those of this batch."`
	NodeID         string `query:"node_id" format:"uuid" doc:"Only those of this node."`
	DecommissionID string `query:"decommission_id" format:"uuid" doc:"Only this one."`
}

// Wants implements job.Following: it says whether the follower asked for this
// event.
func (in FeedInput) Wants(e eventwire.Envelope) bool {
	if in.BatchID == "" && in.NodeID == "" && in.DecommissionID == "" {
		return true
	}
	var about eventwire.Decommission
	if json.Unmarshal(e.Payload, &about) != nil {
		return false
	}
	return (in.BatchID == "" || in.BatchID == about.BatchID) && (in.NodeID == "" || in.NodeID == about.NodeID) &&
		(in.DecommissionID == "" || in.DecommissionID == about.DecommissionID)
}

func registerFeed(api *httpapi.API, feed job.Feed) {
	job.RegisterFeed[FeedInput](api, httpapi.Operation{
		ID: "stream-decommissions", Method: http.MethodGet, Path: pathAll + "/feed", Tag: tag,
		Summary: "Follow the progress of decommissions, as server-sent events",
		Description: "Each event is an envelope of the event stream whose payload is about one decommission: its stage, status and what happened. " +
			"Resume with Last-Event-ID, as with the feed of all events; the first event is gap when something was missed meanwhile, otherwise position. " +
			"The server ends the stream from time to time; resume then.",
		Access: httpapi.Platform(auth.DecommissionRead),
	}, feed, feedTypes)
}
