package allocation

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// RepairingView says that the node of an allocation is being repaired.
type RepairingView struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// AnnouncedView is maintenance that the tenant of an allocation was told of.
type AnnouncedView struct {
	MaintenanceID id.Maintenance `json:"maintenance_id"`
	Status        string         `json:"status" enum:"announced,consented,declined,under_way"`
	Kind          string         `json:"kind" enum:"release,reboot,pause" doc:"What it needs. release: the allocation ends at due_at; reboot, pause: the tenant keeps it."`
	ConsentAsked  bool           `json:"consent_asked" doc:"Whether nothing happens without the consent of the tenant."`
	NotBefore     time.Time      `json:"not_before"`
	DueAt         time.Time      `json:"due_at"`
	Reason        string         `json:"reason"`
	MayBegin      bool           `json:"may_begin" doc:"Whether it may be carried out now."`
}

// RepairView is a time in which the node of an allocation was repaired.
type RepairView struct {
	RepairID      id.Repair       `json:"repair_id"`
	AllocationID  id.Allocation   `json:"allocation_id"`
	NodeID        id.Node         `json:"node_id"`
	MaintenanceID *id.Maintenance `json:"maintenance_id,omitempty" doc:"The maintenance that announced it; absent: none did."`
	Reason        string          `json:"reason"`
	BeganAt       time.Time       `json:"began_at"`
	EndedAt       *time.Time      `json:"ended_at,omitempty" doc:"Absent: it goes on."`
	EndedBecause  string          `json:"ended_because,omitempty"`
}

func showRepair(r Repair) RepairView {
	return RepairView{
		RepairID: r.ID, AllocationID: r.Allocation, NodeID: r.Node, MaintenanceID: optional(r.Maintenance), Reason: r.Reason,
		BeganAt: r.BeganAt.UTC(), EndedAt: r.EndedAt, EndedBecause: r.Because,
	}
}

// allConditioned shows allocations with what holds of them besides their states.
func (s *Service) allConditioned(ctx context.Context, views []View) ([]View, error) {
	var ids []id.Allocation
	for _, v := range views {
		if v.Status.live() {
			ids = append(ids, v.AllocationID)
		}
	}
	if len(ids) == 0 {
		return views, nil
	}
	all, err := conditions(ctx, s.db, ids...)
	if err != nil {
		return nil, err
	}
	for i := range views {
		of := all[views[i].AllocationID]
		if r := of.Repair; r != nil {
			views[i].Repairing = &RepairingView{Since: r.BeganAt.UTC(), Reason: r.Reason}
		}
		if m := of.Announced; m != nil {
			views[i].Maintenance = &AnnouncedView{
				MaintenanceID: m.ID, Status: m.Status, Kind: m.Kind, ConsentAsked: m.ConsentAsked, NotBefore: m.NotBefore.UTC(),
				DueAt: m.DueAt.UTC(), Reason: m.Reason, MayBegin: m.MayBegin,
			}
		}
	}
	return views, nil
}

// RepairBody is why the node of an allocation is repaired, or what came of it.
type RepairBody struct {
	Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"In words for the tenant, who reads it." example:"a fan is replaced; your files stay"`
}

func (s *Service) registerRepairs(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-allocation-repairs", Method: http.MethodGet, Path: pathOne + "/repairs", Tag: tag,
		Summary: "List the times in which the node of an allocation was repaired, in their order",
		Access:  httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		Both
		httpapi.Page
	},
	) (*httpapi.Listed[RepairView], error) {
		if _, err := s.of(ctx, in.AllocationID, in.ProjectID, auth.AllocationRead); err != nil {
			return nil, err
		}
		slice, err := httpapi.SliceOf[id.Repair](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Repairs(ctx, in.AllocationID, slice)
		return httpapi.ListOf(in.Page, rows, err, showRepair, func(v RepairView) any { return v.RepairID })
	})
	for _, v := range []struct {
		id, path, summary, note string
		do                      func(context.Context, id.Allocation, string) (Allocation, error)
	}{
		{
			"begin-allocation-repair", "/repair/begin", "Say that the node of an allocation is being repaired",
			"The tenant keeps the allocation, which shows `repairing`; terminals end and are refused until it is over. The " +
				"node does not go to others before the repair was ended, even if the tenant leaves.", s.BeginRepair,
		},
		{
			"end-allocation-repair", "/repair/end", "Say that the node of an allocation is repaired",
			"Where the tenant has left meanwhile, the node may go back into service.", s.EndRepair,
		},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: v.id, Method: http.MethodPost, Path: pathAdmin + "/{allocation_id}" + v.path, Tag: tag, Summary: v.summary,
			Description: v.note, Access: httpapi.Platform(auth.AllocationForce),
		}, func(ctx context.Context, in *struct {
			Path
			Body RepairBody
		},
		) (*httpapi.Plain[View], error) {
			a, err := v.do(ctx, in.AllocationID, in.Body.Reason)
			return s.detail(ctx, a, err)
		})
	}
}
