package site

import (
	"context"
	"fmt"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

// UpsertAssignments writes all rows or none. A row replaces the one of the same
// host and interface.
func (s *Service) UpsertAssignments(ctx context.Context, site id.Site, rows []AssignmentRow) (Upserted, error) {
	rows, err := checkAssignments(rows)
	if err != nil {
		return Upserted{}, err
	}
	p := sitedb.UpsertAssignmentsParams{SiteID: site.String()}
	var addresses []string
	for _, row := range rows {
		p.Ids = append(p.Ids, id.New[id.RoCEAssignment]().String())
		p.Hostnames, p.Interfaces = append(p.Hostnames, row.Hostname), append(p.Interfaces, row.Interface)
		p.Cidrs, p.Mtus = append(p.Cidrs, row.IPv4CIDR), append(p.Mtus, row.MTU)
		addresses = append(addresses, row.address())
	}
	var done Upserted
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, err := c.lock(ctx, site) // one at a time, so that no address is given twice
		if err != nil {
			return err
		}
		changed, err := c.UpsertAssignments(ctx, p)
		if err != nil {
			return fmt.Errorf("write RoCE assignments: %w", err)
		}
		done = Upserted{Unchanged: len(rows) - len(changed)}
		for _, created := range changed {
			if created {
				done.Created++
			} else {
				done.Updated++
			}
		}
		if err := c.refuseShared(ctx, site, rows, addresses); err != nil {
			return err
		}
		return c.recordRoCE(ctx, "roce_assignment.upsert", owner, map[string]any{
			"created": done.Created, "updated": done.Updated, "unchanged": done.Unchanged,
		})
	})
	return done, err
}

// refuseShared finds addresses that would now belong to two interfaces. It
// looks after the rows are written, so that addresses can be exchanged.
func (c change) refuseShared(ctx context.Context, site id.Site, rows []AssignmentRow, addresses []string) error {
	shared, err := c.SharedAddresses(ctx, sitedb.SharedAddressesParams{SiteID: site.String(), Addresses: addresses})
	if err != nil {
		return fmt.Errorf("look for shared addresses: %w", err)
	}
	index := map[AssignmentKey]int{}
	for i, row := range rows {
		index[AssignmentKey{row.Hostname, row.Interface}] = i
	}
	var fields []fault.Field
	for _, x := range shared {
		if i, ok := index[AssignmentKey{x.Hostname, x.Interface}]; ok {
			fields = append(fields, fault.Field{
				Path:    fmt.Sprintf("body.items[%d].ipv4_cidr", i),
				Message: fmt.Sprintf("%s belongs to %s on %s", x.Address, x.OtherInterface, x.OtherHostname),
			})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "roce_address_taken",
		"addresses belong to other interfaces already; nothing was written").
		WithRemedy("correct the rows, or remove the assignments that are outdated").WithFields(fields...)
}

func (c change) recordRoCE(ctx context.Context, action string, site Site, more map[string]any) error {
	return c.record(ctx, eventwire.SiteUpdated, site, partRoCE, siteEntry(action, site, more))
}

// DeleteAssignment removes one row.
func (s *Service) DeleteAssignment(ctx context.Context, site id.Site, assignment id.RoCEAssignment) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		owner, err := c.lock(ctx, site)
		if err != nil {
			return err
		}
		row, err := c.DeleteAssignment(ctx, sitedb.DeleteAssignmentParams{SiteID: site, ID: assignment})
		if err != nil {
			return orNotFound("RoCE assignment", err)
		}
		return c.recordRoCE(ctx, "roce_assignment.delete", owner, map[string]any{
			"hostname": row.Hostname, "interface": row.Interface, "ipv4_cidr": row.Ipv4Cidr,
		})
	})
}

// Assignments lists the RoCE assignments of a site by host and interface.
func (s *Service) Assignments(ctx context.Context, site id.Site, f AssignmentFilter,
	page postgres.Slice[AssignmentKey],
) ([]Assignment, error) {
	if _, err := s.Site(ctx, site); err != nil {
		return nil, err
	}
	rows, err := s.reads.ListAssignments(ctx, sitedb.ListAssignmentsParams{
		SiteID: site, AfterHostname: page.After.Hostname, AfterInterface: page.After.Interface,
		Hostname: f.Hostname, Interface: f.Interface, PageSize: page.Limit,
	})
	if err != nil {
		return nil, fmt.Errorf("list RoCE assignments: %w", err)
	}
	return converted(rows, assignmentFrom), nil
}
