package webhook

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// DeliveryView is an entry of the log of a webhook.
type DeliveryView struct {
	DeliveryID  id.WebhookDelivery `json:"delivery_id"`
	Seq         int64              `json:"seq"`
	EventID     id.Event           `json:"event_id" doc:"Posted as webhook-id."`
	EventType   string             `json:"event_type" example:"provisioning.active"`
	Status      Progress           `json:"status" enum:"waiting,delivered,failed"`
	Attempts    int32              `json:"attempts"`
	NextAt      *time.Time         `json:"next_attempt_at,omitempty" doc:"When it is tried next; absent: it is over."`
	CreatedAt   time.Time          `json:"created_at"`
	AttemptedAt *time.Time         `json:"attempted_at,omitempty" doc:"When it was tried last."`
	FinishedAt  *time.Time         `json:"finished_at,omitempty"`
	AnswerCode  int32              `json:"answer_code,omitempty" doc:"Status of the last answer; absent: there was none."`
	DurationMS  int32              `json:"duration_ms,omitempty" doc:"How long the last attempt took."`
	AnswerText  string             `json:"answer_text,omitempty" doc:"How the last answer began, up to 1024 bytes."`
	Failure     string             `json:"failure,omitempty" doc:"Why the last attempt failed; absent: it did not."`
}

func showDelivery(d Delivery) DeliveryView {
	return DeliveryView{
		DeliveryID: d.ID, Seq: d.Seq, EventID: d.Event, EventType: d.EventType, Status: d.progress(), Attempts: d.Attempts,
		NextAt: d.NextAt, CreatedAt: d.CreatedAt.UTC(), AttemptedAt: d.AttemptedAt, FinishedAt: d.FinishedAt,
		AnswerCode: d.AnswerCode, DurationMS: d.AnswerMS, AnswerText: d.AnswerText, Failure: d.Failure,
	}
}

func added(d Delivery, err error) (*httpapi.Plain[DeliveryView], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[DeliveryView]{Body: showDelivery(d)}, nil
}

func (s *Service) registerLog(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "test-webhook", Method: http.MethodPost, Path: pathOne + "/test", Tag: tag, Status: http.StatusAccepted,
		Summary: "Post the event webhook.test to a webhook", Access: httpapi.Project(auth.WebhookManage),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[DeliveryView], error) {
		return added(s.Test(ctx, in.ProjectID, in.WebhookID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-webhook-deliveries", Method: http.MethodGet, Path: pathLog, Tag: tag,
		Summary: "List what a webhook was told, newest first", Access: httpapi.Project(auth.WebhookRead),
	}, func(ctx context.Context, in *struct {
		Path
		Status Progress `query:"status" enum:"waiting,delivered,failed" doc:"Only those that are so."`
		httpapi.Page
	},
	) (*httpapi.Listed[DeliveryView], error) {
		page, err := httpapi.SliceOf[int64](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Deliveries(ctx, in.ProjectID, in.WebhookID, in.Status, page)
		return httpapi.ListOf(in.Page, rows, err, showDelivery, func(v DeliveryView) any { return v.Seq })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "redeliver-webhook", Method: http.MethodPost, Path: pathLog + "/{delivery_id}/redeliver", Tag: tag,
		Status: http.StatusAccepted, Summary: "Post an event of the log once more",
		Access: httpapi.Project(auth.WebhookManage),
	}, func(ctx context.Context, in *struct {
		Path
		DeliveryID id.WebhookDelivery `path:"delivery_id" doc:"Id of the delivery."`
	},
	) (*httpapi.Plain[DeliveryView], error) {
		return added(s.Redeliver(ctx, in.ProjectID, in.WebhookID, in.DeliveryID))
	})
}
