package reconciliation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation/internal/reconciliationdb"
)

// pinAgain is how long to wait before asking a node again that did not confirm
// the pin: its agent may have been updated since.
const pinAgain = 24 * time.Hour

// pinnable are the statuses of nodes that are asked, as for their deploy login.
var pinnable = node.Lifecycle.Having(node.Steady)

// pinMachines gives nodes whose machines were deployed without it the digest of the
// program that reports hardware: root on them runs whatever plain HTTP brings.
func (c *cycle) pinMachines(ctx context.Context) error {
	untouched := c.run.DryRun || c.settings.DryRun || c.trip || c.state.TrippedAt != nil
	if !c.heard || untouched || !c.site.Settings.GivesPin() {
		return nil
	}
	rows, err := c.reads.UnpinnedNodes(ctx, reconciliationdb.UnpinnedNodesParams{
		SiteID: c.run.Site, Type: agentwire.TypeHWSyncReseed, Since: c.now().Add(-pinAgain), Most: maxReseedsPerRun,
	})
	if err != nil || len(rows) == 0 {
		return wrap("list nodes without a pin", err)
	}
	pin, err := c.programPin(ctx)
	if err != nil { // the check of the site says so to people
		c.logger.WarnContext(ctx, "machines are not pinned", "site_id", c.run.Site, "error", err)
		return nil
	}
	for _, r := range rows { // a node that cannot be asked stops neither the others nor the run
		if err := c.pinMachine(ctx, r, pin); err != nil {
			c.logger.WarnContext(ctx, "a machine is not pinned", "site_id", c.run.Site, "node_id", r.ID, "error", err)
		}
	}
	return ctx.Err()
}

func (c *cycle) pinMachine(ctx context.Context, r reconciliationdb.UnpinnedNodesRow, pin string) error {
	return c.inChange(ctx, func(ctx context.Context, tx change) error {
		n, err := node.Lock(ctx, tx.tx, r.ID)
		if err != nil || !slices.Contains(pinnable, n.Status) || n.HeldBy != "" {
			return err
		}
		_, err = c.cfg.Tasks.Enqueue(ctx, tx.tx, agenttask.Request{
			Node: r.ID, Type: agentwire.TypeHWSyncReseed,
			IdempotencyKey: fmt.Sprintf("hw-sync-pin/%d/%s/%s", n.Generation, pin, c.now().UTC().Format(time.DateOnly)),
			Reason:         "its machine was deployed before the program that reports hardware was pinned",
			Params: agentwire.HWSyncParams{
				MAASURL: c.site.Settings.APIBaseURL, SystemID: r.MaasSystemID, Interval: r.HardwareSyncInterval, RunScripts: pin,
			},
		})
		return err
	})
}

// programPin is the digest of the program that MAAS hands out now, read once in a run.
func (c *cycle) programPin(ctx context.Context) (pin string, err error) {
	if c.syncPin == "" {
		c.syncPin, err = c.region.RunScriptsSHA256(ctx)
	}
	return c.syncPin, err
}
