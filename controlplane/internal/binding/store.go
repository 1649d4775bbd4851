package binding

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/binding/internal/bindingdb"
	"gpuaas/controlplane/internal/id"
)

func bindingFrom(r bindingdb.NodeMaasState) Binding {
	return Binding{
		Node: r.NodeID, Site: r.SiteID, Profile: r.ProfileID, SystemID: r.MaasSystemID, IPMIIP: r.IpmiIp, PXEMAC: r.PxeMac,
		Status: r.LastMaasStatus, Power: r.LastMaasPowerState, IPs: r.LastMaasIps, SeenAt: r.LastReconciledAt,
		Drifted: r.DriftDetected, Drift: r.DriftDetails, DriftEndedAt: r.DriftResolvedAt, BoundAt: r.BoundAt, LastChangedAt: r.UpdatedAt,
	}
}

// read gives a missing row the meaning it has to a caller.
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

// ByIPMI reads which node has a BMC.
func ByIPMI(ctx context.Context, db bindingdb.DBTX, site id.Site, ip string) (Binding, error) {
	return read(bindingdb.New(db).ByIPMI(ctx, bindingdb.ByIPMIParams{SiteID: site, IpmiIp: ip}))
}
