package decommission

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
)

const (
	pathBatches = "/api/v1/admin/decommission-batches"
	pathBatch   = pathBatches + "/{batch_id}"
)

// SelectorBody names the nodes of a batch: those that have everything that is
// given. Something must be given.
type SelectorBody struct {
	NodeIDs        []id.Node     `json:"node_ids,omitempty" nullable:"false" maxItems:"1000" doc:"These nodes; all of them must be there."`
	SiteID         *id.Site      `json:"site_id,omitempty" doc:"Nodes of this site: they have a machine of it, or are being onboarded there."`
	RegionCode     string        `json:"region_code,omitempty" maxLength:"63" doc:"Nodes of this region."`
	SKUID          string        `json:"sku_id,omitempty" maxLength:"63" doc:"Nodes of this kind."`
	HostnamePrefix string        `json:"hostname_prefix,omitempty" maxLength:"253" doc:"Nodes whose name starts so."`
	Statuses       []node.Status `json:"statuses,omitempty" nullable:"false" maxItems:"10" enum:"bootstrap_issued,enrolling,active,offline,quarantined,draining,retired,removing" doc:"Nodes in one of these states."`
}

func (b SelectorBody) selector() Selector {
	sel := Selector{Nodes: b.NodeIDs, RegionCode: b.RegionCode, SKU: b.SKUID, HostnamePrefix: b.HostnamePrefix, Statuses: b.Statuses}
	if b.SiteID != nil {
		sel.Site = *b.SiteID
	}
	return sel
}

func showSelector(sel Selector) SelectorBody {
	b := SelectorBody{NodeIDs: sel.Nodes, RegionCode: sel.RegionCode, SKUID: sel.SKU, HostnamePrefix: sel.HostnamePrefix, Statuses: sel.Statuses}
	if !sel.Site.IsZero() {
		b.SiteID = &sel.Site
	}
	return b
}

// NewBatchBody asks for the same operation on many nodes.
type NewBatchBody struct {
	Mode           Mode         `json:"mode" doc:"What is done to each node."`
	Erase          Erase        `json:"erase,omitempty" doc:"What the release in MAAS is to do to disks; quick when left out."`
	StorageCleanup Cleanup      `json:"storage_cleanup,omitempty" doc:"What the agent removes of what tenants left on disks; local when left out, where the mode cleans storage."`
	ProfileID      *id.Profile  `json:"profile_id,omitempty" doc:"Only with reimage: install by this profile, to which each node belongs once it is done. Nodes of other sites are not eligible. Left out: the profile that each belongs to now."`
	Reason         string       `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log." example:"row 7 is returned to the vendor"`
	Selector       SelectorBody `json:"selector" doc:"Which nodes."`
	ExpectedIDs    []id.Node    `json:"expected_node_ids,omitempty" nullable:"false" maxItems:"20000" doc:"The nodes that the selector was seen to name, those that skip_ineligible leaves out included; refused with 409 selection_changed when it names others. Left out: whatever it names now."`
	MaxParallel    int          `json:"max_parallel,omitempty" minimum:"0" maximum:"1000" doc:"How many at once; 10 when left out."`
	MaxFailures    int          `json:"max_failures,omitempty" minimum:"0" maximum:"1000" doc:"When more than so many have failed or were cancelled, no further one is begun; 0 when left out."`
	SkipIneligible bool         `json:"skip_ineligible,omitempty" doc:"Leave nodes out that cannot be operated on now; otherwise nothing is begun when there is one."`
}

// CountsView says how many decommissions of a batch stand how.
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
	BatchID     id.DecommissionBatch `json:"batch_id" doc:"Id of the batch."`
	Mode        Mode                 `json:"mode"`
	Selector    SelectorBody         `json:"selector" doc:"Which nodes were asked for."`
	State       BatchState           `json:"state" enum:"running,halted,cancelled,settled" doc:"How it is getting on; halted: too many have failed, so no further one is begun; settled: each has ended or is parked."`
	Total       int                  `json:"total" doc:"How many nodes it is about."`
	MaxParallel int                  `json:"max_parallel" doc:"How many run at once."`
	MaxFailures int                  `json:"max_failures" doc:"How many may fail."`
	Succeeded   int                  `json:"succeeded" doc:"How many reached their goal."`
	Failed      int                  `json:"failed" doc:"How many are parked and wait for an operator."`
	Counts      CountsView           `json:"counts" doc:"How many stand how."`
	Reason      string               `json:"reason" doc:"Why it was asked for."`
	RequestedBy string               `json:"requested_by" doc:"Id of the principal who asked for it."`
	RequestedAt time.Time            `json:"requested_at"`
	CancelledAt *time.Time           `json:"cancelled_at,omitempty"`
}

// NewBatchView is what a request for a batch is answered with.
type NewBatchView struct {
	Batch   BatchView `json:"batch"`
	LeftOut []LeftOut `json:"left_out" nullable:"false" doc:"Nodes of the selector that cannot be operated on now, and why."`
}

func showBatch(b Batch) BatchView {
	n := b.Counts
	return BatchView{
		BatchID: b.ID, Mode: b.Mode, Selector: showSelector(b.Selector), State: b.State(), Total: b.Total, MaxParallel: b.MaxParallel, MaxFailures: b.MaxFailures,
		Succeeded: n[job.Completed] + n[job.Reconciled],
		Failed:    n[job.FailedRetryable] + n[job.FailedManualIntervention],
		Counts: CountsView{
			Pending: n[job.Pending], Running: n[job.Running], Compensating: n[job.Compensating],
			Completed: n[job.Completed], Reconciled: n[job.Reconciled], Cancelled: n[job.Cancelled],
			FailedRetryable: n[job.FailedRetryable], FailedManualIntervention: n[job.FailedManualIntervention],
		},
		Reason: b.Reason, RequestedBy: b.RequestedBy, RequestedAt: b.RequestedAt.UTC(), CancelledAt: job.UTC(b.CancelledAt),
	}
}

// BatchPath names a batch in the path. It is exported because the framework
// reads embedded parameters only then.
type BatchPath struct {
	BatchID id.DecommissionBatch `path:"batch_id" doc:"Id of the batch."`
}

func (s *Service) registerBatches(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-decommission-batch", Method: http.MethodPost, Path: pathAll + "/batch", Tag: tag,
		Summary: "Do the same to many nodes",
		Description: "A few at a time, until all are done or too many have failed. DESTROYS what the mode destroys, on each of them. " +
			"Which nodes the selector names is asked when the request comes: whoever has seen them names them in expected_node_ids, so that no others are concerned.",
		Access: httpapi.Platform(auth.DecommissionManage), Status: http.StatusAccepted,
	}, func(ctx context.Context, in *struct{ Body NewBatchBody }) (*httpapi.Plain[NewBatchView], error) {
		b := in.Body
		made, left, err := s.RequestBatch(ctx, NewBatch{
			Request:  Request{Mode: b.Mode, Erase: b.Erase, StorageCleanup: b.StorageCleanup, Reason: b.Reason, ProfileID: b.ProfileID},
			Selector: b.Selector.selector(), Expected: b.ExpectedIDs, MaxParallel: b.MaxParallel, MaxFailures: b.MaxFailures, SkipIneligible: b.SkipIneligible,
		})
		return &httpapi.Plain[NewBatchView]{Body: NewBatchView{Batch: showBatch(made), LeftOut: append([]LeftOut{}, left...)}}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-decommission-batches", Method: http.MethodGet, Path: pathBatches, Tag: tag,
		Summary: "List batches of decommissions, newest first", Access: httpapi.Platform(auth.DecommissionRead),
	}, func(ctx context.Context, in *httpapi.Page) (*httpapi.Listed[BatchView], error) {
		page, err := httpapi.SliceOf[id.DecommissionBatch](*in)
		if err != nil {
			return nil, err
		}
		rows, err := s.Batches(ctx, page)
		return httpapi.ListOf(*in, rows, err, showBatch, func(v BatchView) any { return v.BatchID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-decommission-batch", Method: http.MethodGet, Path: pathBatch, Tag: tag,
		Summary: "Read how a batch of decommissions stands", Access: httpapi.Platform(auth.DecommissionRead),
	}, func(ctx context.Context, in *BatchPath) (*httpapi.Plain[BatchView], error) {
		b, err := s.Batch(ctx, in.BatchID)
		return &httpapi.Plain[BatchView]{Body: showBatch(b)}, err
	})
	s.registerBatchActions(api)
}

func (s *Service) registerBatchActions(api *httpapi.API) {
	for _, v := range []struct {
		path, summary, note string
		do                  func(context.Context, id.DecommissionBatch, string) (Batch, error)
	}{
		{
			"resume", "Begin more of a batch",
			"For one that is halted: it goes on in spite of what has failed so far, and halts again when more than that fails. Who decided so, and why, is recorded.", s.ResumeBatch,
		},
		{
			"cancel", "Stop all decommissions of a batch",
			"Those that have not begun are cancelled at once; those that are running or parked let go of their nodes where that is possible.", s.CancelBatch,
		},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: v.path + "-decommission-batch", Method: http.MethodPost, Path: pathBatch + "/" + v.path, Tag: tag,
			Summary: v.summary, Description: v.note, Access: httpapi.Platform(auth.DecommissionManage), Status: http.StatusAccepted,
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
