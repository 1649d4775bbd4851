package onboarding

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/auth"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/httpapi"
	"gpuaas/controlplane/internal/outbox"
)

// Feed reads the event stream; outbox.Feed does.
type Feed interface {
	Read(ctx context.Context, r outbox.FeedRequest, tell func(outbox.FeedItem) error) error
}

// feedTypes is the beginning of the types of all events about onboardings.
const feedTypes = "node.onboarding."

// FeedInput says which onboardings to follow.
type FeedInput struct {
	httpapi.LastEventID
	BatchID      string `query:"batch_id" format:"uuid" doc:"Only those of this batch."`
	OnboardingID string `query:"onboarding_id" format:"uuid" doc:"Only this one."`
}

// wants says whether an event is about what is followed.
func (in FeedInput) wants(e eventwire.Envelope) bool {
	if in.BatchID == "" && in.OnboardingID == "" {
		return true
	}
	var about eventwire.Onboarding
	if json.Unmarshal(e.Payload, &about) != nil {
		return false
	}
	return (in.BatchID == "" || in.BatchID == about.BatchID) && (in.OnboardingID == "" || in.OnboardingID == about.OnboardingID)
}

func (in FeedInput) request(reader *auth.Principal) (outbox.FeedRequest, error) {
	request := outbox.FeedRequest{Type: feedTypes, Reader: reader}
	last := in.Last()
	if last == "" {
		return request, nil
	}
	after, err := strconv.ParseUint(last, 10, 63)
	if err != nil {
		return request, fault.Wrap(err, fault.Invalid, "last_event_id_invalid", "Last-Event-ID is not an id that this feed gave out").
			WithRemedy("use the id of the last event as it was given, or leave it out").
			WithFields(fault.Field{Path: "header.Last-Event-ID", Message: "not a position of the event stream"})
	}
	request.Resume, request.After = true, after
	return request, nil
}

func (s *Service) registerFeed(api *httpapi.API, feed Feed) {
	httpapi.RegisterStream(api, httpapi.Operation{
		ID: "stream-onboardings", Method: http.MethodGet, Path: pathAll + "/feed", Tag: tag,
		Summary: "Follow the progress of onboardings, as server-sent events",
		Description: "Each event is an envelope of the event stream whose payload is about one onboarding: its stage, status and what happened. " +
			"Resume with Last-Event-ID, as with the feed of all events; the first event is gap when something was missed meanwhile, otherwise position. " +
			"The server ends the stream from time to time; resume then.",
		Access: httpapi.Platform(auth.OnboardingRead),
	}, map[string]any{"event": eventwire.Envelope{}, "gap": outbox.Gap{}, "position": outbox.Mark{}},
		func(ctx context.Context, in *FeedInput, send func(httpapi.Event) error) error {
			request, err := in.request(auth.From(ctx))
			if err != nil {
				return err
			}
			return feed.Read(ctx, request, func(item outbox.FeedItem) error {
				event := httpapi.Event{ID: strconv.FormatUint(item.Position, 10)}
				switch {
				case item.Event != nil && !in.wants(*item.Event):
					return nil
				case item.Event != nil:
					event.Name, event.Data = "event", item.Event
				case item.Gap != nil:
					event.Name, event.Data = "gap", item.Gap
				default:
					event.Name, event.Data = "position", item.Mark
				}
				return send(event)
			})
		})
}
