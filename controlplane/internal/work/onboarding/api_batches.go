package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// BatchView is a batch as the API shows it.
type BatchView struct {
	job.BatchStanding
	MaxFailures *int       `json:"max_failures,omitempty" doc:"When more than so many have failed or were cancelled, the batch is halted; absent: it never is."`
	SiteID      id.Site    `json:"site_id" doc:"Id of the site."`
	ProfileID   id.Profile `json:"profile_id" doc:"Id of the profile."`
	SKUID       string     `json:"sku_id" doc:"Which kind of machines they are."`
}

func (s *Service) registerBatches(api *httpapi.API) {
	job.BatchOperations[Onboarding, *bringup.Work, BatchView]{
		Batches: s.batches, Jobs: "onboardings",
		Read: httpapi.Operation{
			Path: "/api/v1/admin/onboarding-batches", Tag: tag, Access: httpapi.Platform(auth.OnboardingRead),
		},
		Manage:  httpapi.Platform(auth.OnboardingManage),
		Cancels: "Those that are running or parked undo what can be undone.",
		Show: func(ctx context.Context, batches []job.Batch) ([]BatchView, error) {
			list, err := s.withOwn(ctx, batches)
			out := make([]BatchView, len(list))
			for i, b := range list {
				out[i] = BatchView{
					BatchStanding: job.ShowBatch(b.Batch), MaxFailures: b.MaxFailures, SiteID: b.Site, ProfileID: b.Profile,
					SKUID: b.SKU,
				}
			}
			return out, err
		},
	}.Register(api)
}
