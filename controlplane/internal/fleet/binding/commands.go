package binding

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/binding/internal/bindingdb"
)

// Bind binds a node to a machine, within the transaction of a command, and
// notes how MAAS showed it. Binding the node again to the same machine changes
// nothing. If another node has the machine, Bind fails with machine_bound.
func Bind(ctx context.Context, tx pgx.Tx, b Binding) error {
	q := bindingdb.New(tx)
	if err := q.UnbindDeleted(ctx, bindingdb.UnbindDeletedParams{
		SiteID: b.Site, MaasSystemID: b.SystemID,
		NodeID: b.Node,
	}); err != nil {
		return fmt.Errorf("unbind deleted nodes: %w", err)
	}
	if b.IPs == nil {
		b.IPs = []string{}
	}
	_, err := q.Upsert(ctx, bindingdb.UpsertParams{
		NodeID: b.Node, SiteID: b.Site, ProfileID: b.Profile, MaasSystemID: b.SystemID, IpmiIp: b.IPMIIP, PxeMac: b.PXEMAC,
		LastMaasStatus: b.Status, LastMaasPowerState: b.Power, LastMaasIps: b.IPs, LastReconciledAt: b.SeenAt,
		InstallationID: b.Installation,
	})
	if postgres.Violates(err, "node_maas_state_machine") {
		return taken(b.SystemID)
	}
	if err != nil {
		return fmt.Errorf("bind node: %w", err)
	}
	return record(ctx, tx, "node.bind", b.Node, map[string]any{"site_id": b.Site, "maas_system_id": b.SystemID})
}

// Unbind forgets which machine a node runs on. It succeeds if there is none.
func Unbind(ctx context.Context, tx pgx.Tx, node id.Node) error {
	n, err := bindingdb.New(tx).Unbind(ctx, node)
	if err != nil {
		return fmt.Errorf("unbind node: %w", err)
	}
	if n == 0 {
		return nil
	}
	return record(ctx, tx, "node.unbind", node, map[string]any{})
}

func record(ctx context.Context, tx pgx.Tx, action string, node id.Node, metadata map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "node", TargetID: node.String(), Result: audit.Success, Metadata: metadata,
	})
}
