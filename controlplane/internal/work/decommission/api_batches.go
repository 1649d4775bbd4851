package decommission

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// SelectorBody names the nodes of a batch: those that match every given field.
// At least one field must be given.
type SelectorBody struct {
	NodeIDs        []id.Node      `json:"node_ids,omitempty" nullable:"false" maxItems:"1000" doc:"These nodes; all of them must be there."`
	SiteID         *id.Site       `json:"site_id,omitempty" doc:"Nodes of this site: they have a machine of it, or are being onboarded there."`
	RegionCode     string         `json:"region_code,omitempty" maxLength:"63" doc:"Nodes of this region."`
	SKUID          string         `json:"sku_id,omitempty" maxLength:"63" doc:"Nodes of this kind."`
	HostnamePrefix string         `json:"hostname_prefix,omitempty" maxLength:"253" doc:"Nodes whose name starts so."`
	Statuses       []node.Present `json:"statuses,omitempty" nullable:"false" maxItems:"10" doc:"Nodes in one of these states."`
}

func (b SelectorBody) selector() Selector {
	sel := Selector{
		Nodes: b.NodeIDs, RegionCode: b.RegionCode, SKU: b.SKUID, HostnamePrefix: b.HostnamePrefix,
		Statuses: as[node.Status](b.Statuses),
	}
	if b.SiteID != nil {
		sel.Site = *b.SiteID
	}
	return sel
}

// as converts a list of words to another string type.
func as[To, From ~string](words []From) (out []To) {
	for _, w := range words {
		out = append(out, To(w))
	}
	return out
}

func showSelector(sel Selector) SelectorBody {
	b := SelectorBody{
		NodeIDs: sel.Nodes, RegionCode: sel.RegionCode, SKUID: sel.SKU, HostnamePrefix: sel.HostnamePrefix,
		Statuses: as[node.Present](sel.Statuses),
	}
	if !sel.Site.IsZero() {
		b.SiteID = &sel.Site
	}
	return b
}

// NewBatchBody asks for the same operation on many nodes.
type NewBatchBody struct {
	Mode             Mode         `json:"mode" doc:"What is done to each node."`
	Erase            Erase        `json:"erase,omitempty" doc:"What the release in MAAS is to do to disks; quick when left out."`
	StorageCleanup   Cleanup      `json:"storage_cleanup,omitempty" doc:"What the agent removes of what tenants left on disks; local when left out, where the mode cleans storage."`
	ProfileID        *id.Profile  `json:"profile_id,omitempty" doc:"Only with reimage: install by this profile, to which each node belongs once it is done. Nodes of other sites are not eligible. Left out: the profile that each belongs to now."`
	Reason           string       `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log." example:"row 7 is returned to the vendor"`
	Selector         SelectorBody `json:"selector" doc:"Which nodes."`
	ExpectedIDs      []id.Node    `json:"expected_node_ids,omitempty" nullable:"false" maxItems:"20000" doc:"The nodes that the selector was seen to name, those that skip_ineligible leaves out included; refused with 409 selection_changed when it names others. Left out: whatever it names now."`
	MaxParallel      int          `json:"max_parallel,omitempty" minimum:"0" maximum:"1000" doc:"How many at once; 10 when left out."`
	MaxFailures      int          `json:"max_failures,omitempty" minimum:"0" maximum:"1000" doc:"When more than so many have failed or were cancelled, the batch is halted: no further one is begun until an operator resumes it; 0 when left out."`
	KeepOut          bool         `json:"keep_out_of_service,omitempty" doc:"Only with reimage: keep the nodes out of service."`
	MatchHardware    bool         `json:"require_hardware_match,omitempty" doc:"Only with reimage: accept a machine only if its hardware is that of its SKU."`
	EndAllocation    bool         `json:"end_allocation,omitempty" doc:"End what tenants have on the nodes: their work is DESTROYED. Left out: a node that a tenant works on cannot be operated on."`
	UnderMaintenance bool         `json:"under_maintenance,omitempty" doc:"Only with no end_allocation: end what tenants have on the nodes as announced maintenance of kind release permits: from its due_at on, and with their consent where that was asked for. A node without that cannot be operated on."`
	SkipIneligible   bool         `json:"skip_ineligible,omitempty" doc:"Leave nodes out that cannot be operated on now; otherwise nothing is begun when there is one."`
}

// BatchView is a batch as the API shows it.
type BatchView struct {
	job.BatchStanding
	MaxFailures int          `json:"max_failures" doc:"When more than so many have failed or were cancelled, the batch is halted."`
	Mode        Mode         `json:"mode"`
	Selector    SelectorBody `json:"selector" doc:"Which nodes were asked for."`
}

// NewBatchView is the answer to a request for a batch.
type NewBatchView struct {
	Batch   BatchView `json:"batch"`
	LeftOut []LeftOut `json:"left_out" nullable:"false" doc:"Nodes of the selector that cannot be operated on now, and why."`
}

func showBatch(b Batch) BatchView {
	v := BatchView{BatchStanding: job.ShowBatch(b.Batch), Mode: b.Mode, Selector: showSelector(b.Selector)}
	if b.MaxFailures != nil {
		v.MaxFailures = *b.MaxFailures
	}
	return v
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
			Request: Request{
				Mode: b.Mode, Erase: b.Erase, StorageCleanup: b.StorageCleanup, Reason: b.Reason,
				ProfileID: b.ProfileID, KeepOut: b.KeepOut, MatchHardware: b.MatchHardware,
				EndAllocation:    b.EndAllocation,
				UnderMaintenance: b.UnderMaintenance,
			},
			Selector: b.Selector.selector(), Expected: b.ExpectedIDs, MaxParallel: b.MaxParallel, MaxFailures: b.MaxFailures,
			SkipIneligible: b.SkipIneligible,
		})
		if err != nil {
			return nil, err
		}
		return &httpapi.Plain[NewBatchView]{Body: NewBatchView{
			Batch: showBatch(made), LeftOut: append([]LeftOut{}, left...),
		}}, nil
	})
	job.BatchOperations[Decommission, *bringup.Work, BatchView]{
		Batches: s.batches, Jobs: "decommissions",
		Read: httpapi.Operation{
			Path: "/api/v1/admin/decommission-batches", Tag: tag, Access: httpapi.Platform(auth.DecommissionRead),
		},
		Manage:  httpapi.Platform(auth.DecommissionManage),
		Cancels: "Those that are running or parked let go of their nodes where that is possible.",
		Show: func(ctx context.Context, batches []job.Batch) ([]BatchView, error) {
			list, err := s.withOwn(ctx, batches)
			out := make([]BatchView, len(list))
			for i, b := range list {
				out[i] = showBatch(b)
			}
			return out, err
		},
	}.Register(api)
}
