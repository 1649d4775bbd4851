package decommission

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// NodePath names a node in the path. It is exported because the framework reads
// only exported embedded parameters.
type NodePath struct {
	NodeID id.Node `path:"node_id" doc:"Id of the node."`
}

// NewBody asks to soft-reset, reinstall or permanently remove a node.
type NewBody struct {
	Mode             Mode        `json:"mode" enum:"soft_reset,reimage,full_decommission" doc:"soft_reset cleans the node for the next tenant; reimage reinstalls it and keeps its id; full_decommission takes it out of the inventory for good."`
	Erase            Erase       `json:"erase,omitempty" doc:"What the release in MAAS is to do to disks; only with reimage and full_decommission, quick when left out."`
	StorageCleanup   Cleanup     `json:"storage_cleanup,omitempty" doc:"What the agent removes of what tenants left on disks; only with soft_reset and reimage, local when left out. local DESTROYS what is on the data disks."`
	Reason           string      `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log, the history of the node and the certificate." example:"tenant left"`
	PlanHash         string      `json:"plan_hash,omitempty" maxLength:"64" doc:"Of the plan to carry out: refused with plan_stale when anything that it depends on has changed since."`
	ProfileID        *id.Profile `json:"profile_id,omitempty" doc:"Only with reimage: install by this profile of the node's site, to which the node belongs once it is done. Left out: the profile that it belongs to now."`
	ResidualRisk     string      `json:"residual_risk,omitempty" maxLength:"2000" doc:"The risk that is accepted: with soft_reset, of a node that somebody had root on and no MAAS can reinstall; with without_agent, of what the agent could not clean. It stands in the receipt or certificate." example:"reinstalled by hand from our image; firmware was not checked"`
	KeepOut          bool        `json:"keep_out_of_service,omitempty" doc:"Only with reimage: keep the node out of service; it is quarantined when it is ready, until an operator returns it."`
	MatchHardware    bool        `json:"require_hardware_match,omitempty" doc:"Only with reimage: accept the machine only if its GPUs, memory, disks and interfaces are those of the SKU; otherwise the operation is parked and says in what it differs."`
	EndAllocation    bool        `json:"end_allocation,omitempty" doc:"End what a tenant has on the node: the tenant's work is DESTROYED. Left out: refused with node_allocated while a tenant works on it."`
	UnderMaintenance bool        `json:"under_maintenance,omitempty" doc:"Only with no end_allocation: end what a tenant has on the node as announced maintenance of kind release permits: from its due_at on, and with the tenant's consent where that was asked for. Otherwise refused with maintenance_not_open."`
	WithoutAgent     bool        `json:"without_agent,omitempty" doc:"Only with reimage and full_decommission, for a node whose agent is known to be gone: pass over what only the agent could carry out on the installation that goes. Needs residual_risk, which stands in the certificate."`
}

func (b NewBody) request() Request {
	return Request{
		Mode: b.Mode, Erase: b.Erase, StorageCleanup: b.StorageCleanup, Reason: b.Reason, PlanHash: b.PlanHash,
		ProfileID: b.ProfileID, ResidualRisk: b.ResidualRisk, KeepOut: b.KeepOut, MatchHardware: b.MatchHardware,
		WithoutAgent: b.WithoutAgent, EndAllocation: b.EndAllocation,
		UnderMaintenance: b.UnderMaintenance,
	}
}

// CleanupBody asks for the storage of a node to be cleaned.
type CleanupBody struct {
	Scope            Cleanup `json:"scope" enum:"local,weka,all" doc:"local DESTROYS what is in temporary and scratch folders and on the data disks; weka unmounts file systems of Weka and removes the containers of the client with their state and cache; all does both."`
	Reason           string  `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log and the history of the node." example:"scratch is full of old data"`
	PlanHash         string  `json:"plan_hash,omitempty" maxLength:"64" doc:"Of the plan to carry out."`
	EndAllocation    bool    `json:"end_allocation,omitempty" doc:"End what a tenant has on the node: the tenant's work is DESTROYED. Left out: refused with node_allocated while a tenant works on it."`
	UnderMaintenance bool    `json:"under_maintenance,omitempty" doc:"Only with no end_allocation: end what a tenant has on the node as announced maintenance of kind release permits: from its due_at on, and with the tenant's consent where that was asked for. Otherwise refused with maintenance_not_open."`
}

// PlanBody asks what an operation would do.
type PlanBody struct {
	Mode             Mode        `json:"mode" doc:"What would be done."`
	Erase            Erase       `json:"erase,omitempty" doc:"As in the request."`
	StorageCleanup   Cleanup     `json:"storage_cleanup,omitempty" doc:"As in the request; of a storage_cleanup its scope."`
	ProfileID        *id.Profile `json:"profile_id,omitempty" doc:"Only with reimage, as in the request."`
	ResidualRisk     string      `json:"residual_risk,omitempty" maxLength:"2000" doc:"As in the request."`
	KeepOut          bool        `json:"keep_out_of_service,omitempty" doc:"Only with reimage, as in the request."`
	MatchHardware    bool        `json:"require_hardware_match,omitempty" doc:"Only with reimage, as in the request."`
	WithoutAgent     bool        `json:"without_agent,omitempty" doc:"As in the request."`
	EndAllocation    bool        `json:"end_allocation,omitempty" doc:"As in the request."`
	UnderMaintenance bool        `json:"under_maintenance,omitempty" doc:"Only with no end_allocation, as in the request."`
}

// ReasonBody is the reason for a step of the life of a node.
type ReasonBody struct {
	Reason           string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log and the history of the node." example:"rack is moved"`
	EndAllocation    bool   `json:"end_allocation,omitempty" doc:"End what a tenant has on the node: the tenant's work is DESTROYED. Left out: refused with node_allocated while a tenant works on it."`
	UnderMaintenance bool   `json:"under_maintenance,omitempty" doc:"Only with no end_allocation: end what a tenant has on the node as announced maintenance of kind release permits: from its due_at on, and with the tenant's consent where that was asked for. Otherwise refused with maintenance_not_open."`
}

// NewView is the answer to a request.
type NewView struct {
	View
	Created bool `json:"created" doc:"Whether this request began it; false: it was already in progress."`
}

const refusals = " Asking for what is under way already is that operation. 409 names the operation that owns the node otherwise, or says which state the node would have to be in."

// asked answers a request with the operation.
func (s *Service) asked(d Decommission, made bool, err error) (*httpapi.Plain[NewView], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[NewView]{Body: NewView{View: s.show(d), Created: made}}, nil
}

func (s *Service) registerRequests(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "decommission-node", Method: http.MethodPost, Path: pathNode + "/decommission", Tag: tag,
		Summary: "Turn a node over, reinstall it, or take it out for good",
		Description: "DESTROYS data: see what with the plan. Combinations that make no sense are refused with the reason." +
			refusals,
		Access: httpapi.Platform(auth.DecommissionManage), Status: http.StatusAccepted,
	}, func(ctx context.Context, in *struct {
		NodePath
		Body NewBody
	},
	) (*httpapi.Plain[NewView], error) {
		return s.asked(s.Request(ctx, in.NodeID, in.Body.request()))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "plan-node-decommission", Method: http.MethodPost, Path: pathNode + "/decommission/plan", Tag: tag,
		Summary:     "Say what an operation would do to a node, and change nothing",
		Description: "What is destroyed, through which stages, how long it takes as a rule and what stands in its way.",
		Access:      httpapi.Platform(auth.DecommissionRead), Status: http.StatusOK,
	}, func(ctx context.Context, in *struct {
		NodePath
		Body PlanBody
	},
	) (*httpapi.Plain[Plan], error) {
		plan, err := s.Plan(ctx, in.NodeID, Request{
			Mode: in.Body.Mode, Erase: in.Body.Erase, StorageCleanup: in.Body.StorageCleanup, ProfileID: in.Body.ProfileID,
			ResidualRisk: in.Body.ResidualRisk, WithoutAgent: in.Body.WithoutAgent, EndAllocation: in.Body.EndAllocation,
			KeepOut: in.Body.KeepOut, MatchHardware: in.Body.MatchHardware,
			UnderMaintenance: in.Body.UnderMaintenance,
		})
		return &httpapi.Plain[Plan]{Body: plan}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "clean-node-storage", Method: http.MethodPost, Path: pathNode + "/storage-cleanup", Tag: tag,
		Summary:     "Clean the storage of a node",
		Description: "DESTROYS data on the node. The node is held meanwhile, and validated afterwards; one that is tainted stays out of scheduling until it is reset." + refusals,
		Access:      httpapi.Platform(auth.DecommissionManage), Status: http.StatusAccepted,
	}, func(ctx context.Context, in *struct {
		NodePath
		Body CleanupBody
	},
	) (*httpapi.Plain[NewView], error) {
		return s.asked(s.Request(ctx, in.NodeID, Request{
			Mode: StorageCleanup, StorageCleanup: in.Body.Scope, Reason: in.Body.Reason, PlanHash: in.Body.PlanHash,
			EndAllocation:    in.Body.EndAllocation,
			UnderMaintenance: in.Body.UnderMaintenance,
		}))
	})
}

const goesOn = " Idempotent: while it is under way, asking again is the same operation; one that is parked goes on from its last safe stage." +
	" 409 names the operation that owns the node otherwise, or says which state the node would have to be in."

// registerLifecycle adds the plain steps of the life of a node.
func (s *Service) registerLifecycle(api *httpapi.API) {
	for _, v := range []struct {
		mode          Mode
		summary, note string
	}{
		{
			Drain, "Take a node out of service, and clean nothing",
			"Sessions and accounts of tenants end; the node is retired.",
		},
		{
			Retire, "Take a node out of service, cleaned",
			"DESTROYS what tenants left on it; the node is retired and proven clean, with a certificate.",
		},
		{
			Reactivate, "Return a retired node to service",
			"It becomes schedulable once it is validated. One that is not proven clean is cleaned before, which DESTROYS what tenants left on it.",
		},
		{
			Remove, "Remove a retired node from the inventory",
			"The agent is uninstalled and the node deleted for good; its id is never used again. A machine of MAAS that is to be released is fully decommissioned instead.",
		},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: string(v.mode) + "-node", Method: http.MethodPost, Path: pathNode + "/" + string(v.mode), Tag: tag,
			Summary: v.summary, Description: v.note + goesOn, Access: httpapi.Platform(auth.DecommissionManage),
			Status: http.StatusAccepted,
		}, func(ctx context.Context, in *struct {
			NodePath
			Body ReasonBody
		},
		) (*httpapi.Plain[NewView], error) {
			return s.asked(s.Continue(ctx, in.NodeID, Request{
				Mode: v.mode, Reason: in.Body.Reason, EndAllocation: in.Body.EndAllocation,
				UnderMaintenance: in.Body.UnderMaintenance,
			}))
		})
	}
}
