package allocation

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

func repairFrom(r allocationdb.AllocationRepair) Repair {
	return Repair{
		ID: r.ID, Allocation: r.AllocationID, Node: r.NodeID, Maintenance: r.MaintenanceID, Reason: r.Reason,
		BeganAt: r.BeganAt, EndedAt: r.EndedAt, Because: r.EndedBecause,
	}
}

// Repairs gives the times in which the node of an allocation was repaired, in their
// order.
func (s *Service) Repairs(ctx context.Context, of id.Allocation, page postgres.Slice[id.Repair]) ([]Repair, error) {
	rows, err := allocationdb.New(s.db).Repairs(ctx, allocationdb.RepairsParams{
		AllocationID: of, After: textOf(page.After), PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list repairs of allocation %s: %w", of, err)
	}
	out := make([]Repair, len(rows))
	for i, r := range rows {
		out[i] = repairFrom(r)
	}
	return out, nil
}

// conditions reads what holds of allocations besides their states.
func conditions(ctx context.Context, db allocationdb.DBTX, of ...id.Allocation) (map[id.Allocation]Conditions, error) {
	ids, out := make([]string, len(of)), map[id.Allocation]Conditions{}
	for i, a := range of {
		ids[i] = a.String()
	}
	repairs, err := allocationdb.New(db).RepairsUnderWay(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("list repairs: %w", err)
	}
	for _, row := range repairs {
		r := repairFrom(row)
		out[r.Allocation] = Conditions{Repair: &r}
	}
	rows, err := allocationdb.New(db).Announced(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("list announced maintenance: %w", err)
	}
	for _, row := range rows {
		m := Announced{
			Status: row.Status, Kind: row.Kind, ConsentAsked: row.ConsentAsked, NotBefore: row.NotBefore, DueAt: row.DueAt,
			Reason: row.Reason, MayBegin: row.MayBegin,
		}
		if m.ID, err = id.Parse[id.Maintenance](row.ID); err != nil {
			return nil, fmt.Errorf("read id of maintenance: %w", err)
		}
		of := out[row.AllocationID]
		of.Announced = &m
		out[row.AllocationID] = of
	}
	return out, nil
}
