package binding

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/binding/internal/bindingdb"
)

// Seen is how MAAS showed the machine of a node.
type Seen struct {
	Node         id.Node
	Status       string
	Power        string
	IPs          []string
	Installation int64 // 0: MAAS does not say
	At           time.Time
}

// Looked notes how MAAS shows machines that it showed differently before, and
// returns how many these are. It takes an installation over only if none was seen
// before: a later difference is drift until Rebase accepts it.
func Looked(ctx context.Context, tx pgx.Tx, seen []Seen) (changed int64, err error) {
	if len(seen) == 0 {
		return 0, nil
	}
	p := bindingdb.LookedParams{}
	for _, s := range seen {
		p.Nodes = append(p.Nodes, s.Node.String())
		p.Statuses = append(p.Statuses, s.Status)
		p.Powers = append(p.Powers, s.Power)
		p.Addresses = append(p.Addresses, strings.Join(s.IPs, ","))
		p.Installations = append(p.Installations, s.Installation)
		p.Times = append(p.Times, s.At)
	}
	changed, err = bindingdb.New(tx).Looked(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("note how machines were seen: %w", err)
	}
	return changed, nil
}

// Touch notes when the machines of nodes were last looked at, and nothing else.
func Touch(ctx context.Context, tx pgx.Tx, nodes []id.Node, at time.Time) error {
	if len(nodes) == 0 {
		return nil
	}
	if err := bindingdb.New(tx).Touch(ctx, bindingdb.TouchParams{At: at, Nodes: texts(nodes)}); err != nil {
		return fmt.Errorf("note when machines were seen: %w", err)
	}
	return nil
}

// Tried notes that reading the machines of nodes failed, so that the sweep looks
// at other machines first.
func Tried(ctx context.Context, tx pgx.Tx, nodes []id.Node, at time.Time) error {
	if len(nodes) == 0 {
		return nil
	}
	if err := bindingdb.New(tx).Tried(ctx, bindingdb.TriedParams{At: at, Nodes: texts(nodes)}); err != nil {
		return fmt.Errorf("note that machines could not be read: %w", err)
	}
	return nil
}

// Drift notes how a node and its machine disagree, as a JSON object. Without
// details it notes that they agree again from now on.
func Drift(ctx context.Context, tx pgx.Tx, node id.Node, details json.RawMessage, at time.Time) error {
	q := bindingdb.New(tx)
	if details == nil {
		if err := q.EndDrift(ctx, bindingdb.EndDriftParams{NodeID: node, At: at}); err != nil {
			return fmt.Errorf("note end of drift: %w", err)
		}
		return nil
	}
	if err := q.SetDrift(ctx, bindingdb.SetDriftParams{NodeID: node, Details: details}); err != nil {
		return fmt.Errorf("note drift: %w", err)
	}
	return nil
}

// Rebase accepts the installation that was observed: the node runs on it now.
func Rebase(ctx context.Context, tx pgx.Tx, node id.Node, installation int64) error {
	n, err := bindingdb.New(tx).Rebase(ctx, bindingdb.RebaseParams{NodeID: node, InstallationID: installation})
	if err != nil {
		return fmt.Errorf("accept installation: %w", err)
	}
	if n == 0 {
		return notFound()
	}
	return record(ctx, tx, "node.rebase", node, map[string]any{"installation": installation})
}

// SetProfile makes a node belong to another profile of its site: it was installed by
// that one.
func SetProfile(ctx context.Context, tx pgx.Tx, node id.Node, profile id.Profile) error {
	q := bindingdb.New(tx)
	before, err := read(q.LockOfNode(ctx, node))
	if err != nil || before.Profile == profile {
		return err
	}
	if err := q.SetProfile(ctx, bindingdb.SetProfileParams{NodeID: node, ProfileID: profile}); err != nil {
		return fmt.Errorf("set profile of node: %w", err)
	}
	return record(ctx, tx, "node.set_profile", node, map[string]any{
		"profile_id": profile, "prior_profile_id": before.Profile,
	})
}

// Rebind binds a node to the same server under another id of MAAS. A machine
// that another node has is refused with machine_bound.
func Rebind(ctx context.Context, tx pgx.Tx, node id.Node, systemID string, installation int64) error {
	q := bindingdb.New(tx)
	before, err := read(q.LockOfNode(ctx, node))
	if err != nil {
		return err
	}
	if err := q.UnbindDeleted(ctx, bindingdb.UnbindDeletedParams{
		SiteID: before.Site, MaasSystemID: systemID,
		NodeID: node,
	}); err != nil {
		return fmt.Errorf("unbind deleted nodes: %w", err)
	}
	err = q.Rebind(ctx, bindingdb.RebindParams{NodeID: node, MaasSystemID: systemID, InstallationID: installation})
	if postgres.Violates(err, "node_maas_state_machine") {
		return taken(systemID)
	}
	if err != nil {
		return fmt.Errorf("bind node to another id of its machine: %w", err)
	}
	return record(ctx, tx, "node.rebind", node, map[string]any{
		"site_id": before.Site, "maas_system_id": systemID, "prior_maas_system_id": before.SystemID,
	})
}

func texts(nodes []id.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.String()
	}
	return out
}
