package onboarding

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/job"
)

const (
	pathBatches = "/api/v1/admin/onboarding-batches"
	pathBatch   = pathBatches + "/{batch_id}"
)

// CountsView says how many onboardings of a batch stand how.
type CountsView struct {
	Pending                  int `json:"pending"`
	Running                  int `json:"running"`
	Compensating             int `json:"compensating"`
	Completed                int `json:"completed"`
	Reconciled               int `json:"reconciled"`
	Cancelled                int `json:"cancelled"`
	FailedRetryable          int `json:"failed_retryable"`
	FailedManualIntervention int `json:"failed_manual_intervention"`
}

// BatchView is a batch as the API shows it.
type BatchView struct {
	BatchID     id.OnboardingBatch `json:"batch_id" doc:"Id of the batch."`
	SiteID      id.Site            `json:"site_id" doc:"Id of the site."`
	ProfileID   id.Profile         `json:"profile_id" doc:"Id of the profile."`
	SKUID       string             `json:"sku_id" doc:"Which kind of machines they are."`
	State       BatchState         `json:"state" enum:"running,paused,cancelled,settled" doc:"How it is getting on; settled: each onboarding has ended or is parked."`
	Total       int                `json:"total" doc:"How many machines it is about."`
	Succeeded   int                `json:"succeeded" doc:"How many became nodes."`
	Failed      int                `json:"failed" doc:"How many are parked and wait for an operator."`
	Counts      CountsView         `json:"counts" doc:"How many stand how."`
	RequestedBy string             `json:"requested_by" doc:"Id of the principal who asked for it."`
	RequestedAt time.Time          `json:"requested_at"`
	PausedAt    *time.Time         `json:"paused_at,omitempty" doc:"Since when no further machine is begun."`
	CancelledAt *time.Time         `json:"cancelled_at,omitempty"`
}

func showBatch(b Batch) BatchView {
	n := b.Counts
	return BatchView{
		BatchID: b.ID, SiteID: b.Site, ProfileID: b.Profile, SKUID: b.SKU, State: b.State(), Total: b.Total,
		Succeeded: n[job.Completed] + n[job.Reconciled],
		Failed:    n[job.FailedRetryable] + n[job.FailedManualIntervention],
		Counts: CountsView{
			Pending: n[job.Pending], Running: n[job.Running], Compensating: n[job.Compensating],
			Completed: n[job.Completed], Reconciled: n[job.Reconciled], Cancelled: n[job.Cancelled],
			FailedRetryable: n[job.FailedRetryable], FailedManualIntervention: n[job.FailedManualIntervention],
		},
		RequestedBy: b.RequestedBy, RequestedAt: b.RequestedAt.UTC(), PausedAt: job.UTC(b.PausedAt), CancelledAt: job.UTC(b.CancelledAt),
	}
}

// BatchPath names a batch in the path. It is exported because the framework
// reads embedded parameters only then.
type BatchPath struct {
	BatchID id.OnboardingBatch `path:"batch_id" doc:"Id of the batch."`
}

func (s *Service) registerBatches(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-onboarding-batches", Method: http.MethodGet, Path: pathBatches, Tag: tag,
		Summary: "List batches of onboardings, newest first", Access: httpapi.Platform(auth.OnboardingRead),
	}, func(ctx context.Context, in *httpapi.Page) (*httpapi.Listed[BatchView], error) {
		page, err := httpapi.SliceOf[id.OnboardingBatch](*in)
		if err != nil {
			return nil, err
		}
		rows, err := s.Batches(ctx, page)
		return httpapi.ListOf(*in, rows, err, showBatch, func(v BatchView) any { return v.BatchID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-onboarding-batch", Method: http.MethodGet, Path: pathBatch, Tag: tag,
		Summary: "Read how a batch of onboardings stands", Access: httpapi.Platform(auth.OnboardingRead),
	}, func(ctx context.Context, in *BatchPath) (*httpapi.Plain[BatchView], error) {
		b, err := s.Batch(ctx, in.BatchID)
		return &httpapi.Plain[BatchView]{Body: showBatch(b)}, err
	})
	for _, v := range []struct {
		path, summary, note string
		do                  func(context.Context, id.OnboardingBatch, string) (Batch, error)
	}{
		{"pause", "Begin no further machine of a batch", "Those that are running go on.", s.PauseBatch},
		{"resume", "Go on with a batch that was paused", "", s.ResumeBatch},
		{
			"cancel", "Stop all onboardings of a batch",
			"Those that have not begun are cancelled at once; those that are running undo what can be undone. Parked ones stay as they are.", s.CancelBatch,
		},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: v.path + "-onboarding-batch", Method: http.MethodPost, Path: pathBatch + "/" + v.path, Tag: tag,
			Summary: v.summary, Description: v.note, Access: httpapi.Platform(auth.OnboardingManage), Status: http.StatusAccepted,
		}, func(ctx context.Context, in *struct {
			BatchPath
			Body ActionBody
		},
		) (*httpapi.Plain[BatchView], error) {
			b, err := v.do(ctx, in.BatchID, in.Body.Reason)
			return &httpapi.Plain[BatchView]{Body: showBatch(b)}, err
		})
	}
}
