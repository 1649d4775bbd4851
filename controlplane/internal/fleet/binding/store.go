package binding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/binding/internal/bindingdb"
)

func bindingFrom(r bindingdb.NodeMaasState) Binding {
	return Binding{
		Node: r.NodeID, Site: r.SiteID, Profile: r.ProfileID, SystemID: r.MaasSystemID, IPMIIP: r.IpmiIp, PXEMAC: r.PxeMac,
		Status: r.LastMaasStatus, Power: r.LastMaasPowerState, IPs: r.LastMaasIps, SeenAt: r.LastReconciledAt,
		Tried:        r.LastTriedAt,
		Installation: r.InstallationID,
		Drifted:      r.DriftDetected, Drift: r.DriftDetails, DriftEndedAt: r.DriftResolvedAt, BoundAt: r.BoundAt,
		LastChangedAt: r.UpdatedAt,
	}
}

// read turns a missing row into binding_not_found.
func read(row bindingdb.NodeMaasState, err error) (Binding, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Binding{}, notFound()
	}
	if err != nil {
		return Binding{}, fmt.Errorf("read binding: %w", err)
	}
	return bindingFrom(row), nil
}

// OfNode reads what a node is bound to, through a pool or a transaction.
func OfNode(ctx context.Context, db bindingdb.DBTX, node id.Node) (Binding, error) {
	return read(bindingdb.New(db).OfNode(ctx, node))
}

// ByMachine reads which node a machine of MAAS is bound to.
func ByMachine(ctx context.Context, db bindingdb.DBTX, site id.Site, systemID string) (Binding, error) {
	return read(bindingdb.New(db).ByMachine(ctx, bindingdb.ByMachineParams{SiteID: site, MaasSystemID: systemID}))
}

// ByMachines reads which nodes of a site are bound to machines of MAAS. It leaves
// out nodes of other sites with the same MAAS; Shared finds those.
func ByMachines(ctx context.Context, db bindingdb.DBTX, site id.Site, systemIDs []string) ([]Binding, error) {
	return readAll(bindingdb.New(db).ByMachines(ctx, bindingdb.ByMachinesParams{SiteID: site, Machines: systemIDs}))
}

// ForSweep reads the bindings of a site whose machines nobody has looked at since a
// time. The one that waits longest comes first.
func ForSweep(ctx context.Context, db bindingdb.DBTX, site id.Site, before time.Time, limit int32) ([]Binding, error) {
	return readAll(bindingdb.New(db).ForSweep(ctx, bindingdb.ForSweepParams{SiteID: site, Before: before, Most: limit}))
}

// Shared reads the machines of a site's MAAS that more than one node is bound to,
// by their ids in MAAS.
func Shared(ctx context.Context, db bindingdb.DBTX, site id.Site) (map[string][]id.Node, error) {
	rows, err := bindingdb.New(db).Shared(ctx, site)
	if err != nil {
		return nil, fmt.Errorf("list shared machines: %w", err)
	}
	shared := make(map[string][]id.Node, len(rows))
	for _, r := range rows {
		for _, text := range r.Nodes {
			node, err := id.Parse[id.Node](text)
			if err != nil {
				return nil, fmt.Errorf("read shared machine %s: %w", r.MaasSystemID, err)
			}
			shared[r.MaasSystemID] = append(shared[r.MaasSystemID], node)
		}
	}
	return shared, nil
}

func readAll(rows []bindingdb.NodeMaasState, err error) ([]Binding, error) {
	if err != nil {
		return nil, fmt.Errorf("list bindings: %w", err)
	}
	out := make([]Binding, len(rows))
	for i, r := range rows {
		out[i] = bindingFrom(r)
	}
	return out, nil
}
