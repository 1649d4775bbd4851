package onboarding

import (
	"encoding/json"
	"net/http"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/job"
)

// feedTypes is the prefix of all event types about onboardings.
const feedTypes = "node.onboarding."

// FeedInput says which onboardings to follow.
type FeedInput struct {
	httpapi.LastEventID
	BatchID      string `query:"batch_id" format:"uuid" doc:"Only those of this batch."`
	OnboardingID string `query:"onboarding_id" format:"uuid" doc:"Only this one."`
}

// Wants implements job.Following: it says whether the follower asked for this
// event.
func (in FeedInput) Wants(e eventwire.Envelope) bool {
	if in.BatchID == "" && in.OnboardingID == "" {
		return true
	}
	var about eventwire.Onboarding
	if json.Unmarshal(e.Payload, &about) != nil {
		return false
	}
	return (in.BatchID == "" || in.BatchID == about.BatchID) &&
		(in.OnboardingID == "" || in.OnboardingID == about.OnboardingID)
}

func registerFeed(api *httpapi.API, feed job.Feed) {
	job.RegisterFeed[FeedInput](api, httpapi.Operation{
		ID: "stream-onboardings", Method: http.MethodGet, Path: pathAll + "/feed", Tag: tag,
		Summary: "Follow the progress of onboardings, as server-sent events",
		Description: "Each event is an envelope of the event stream whose payload is about one onboarding: its stage, status and what happened. " +
			"Resume with Last-Event-ID, as with the feed of all events; the first event is gap when something was missed meanwhile, otherwise position. " +
			"The server ends the stream from time to time; resume then.",
		Access: httpapi.Platform(auth.OnboardingRead),
	}, feed, feedTypes)
}
