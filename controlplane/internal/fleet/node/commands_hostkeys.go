package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// KeepHostKeys stores by which keys people recognise a node over SSH. The first
// word of an installation is believed, and so is every later one, until somebody
// gets access to it. From then on other keys mean that somebody with root put them
// there: they are recorded and never taken over.
func (s *Service) KeepHostKeys(ctx context.Context, node id.Node, r agentwire.HostKeysRequest) error {
	if err := r.Validate(); err != nil {
		return rejected([]fault.Field{{Path: "body.keys", Message: err.Error()}})
	}
	known, err := s.reads.NewestHostKeys(ctx, node)
	if err == nil && slices.Equal(known.Reported, r.Keys) {
		return nil
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read host keys of node: %w", err)
	}
	return s.inChange(asAgent(ctx, node), func(ctx context.Context, c change) error {
		n, err := c.lock(ctx, node)
		if err != nil {
			return err
		}
		known, err := c.NewestHostKeys(ctx, node)
		if errors.Is(err, pgx.ErrNoRows) {
			known, err = c.OpenHostKeysOfBefore(ctx, node)
		}
		if err != nil {
			return fmt.Errorf("read host keys of node: %w", err)
		}
		if slices.Equal(known.Reported, r.Keys) {
			return nil
		}
		visited := n.Tainted() && !n.TaintedAt.Before(known.OpenedAt)
		switch {
		case len(known.Keys) > 0 && among(r.Keys, known.Keys):
			return c.sameHostKeys(ctx, n, known, r.Keys)
		case len(known.Keys) == 0 || !visited:
			return c.believeHostKeys(ctx, n, known, r.Keys)
		}
		return s.doubtHostKeys(ctx, c, n, known, r.Keys)
	})
}

func (c change) believeHostKeys(ctx context.Context, n Node, known nodedb.NodeHostKey, keys []string) error {
	if _, err := c.BelieveHostKeys(ctx, nodedb.BelieveHostKeysParams{
		NodeID: n.ID, Generation: known.Generation, Keys: keys,
	}); err != nil {
		return fmt.Errorf("keep host keys of node: %w", err)
	}
	return c.record(ctx, n, entry{
		kind: KindAgentReported, cause: "the agent reported the host keys of its installation", action: "node.host_keys",
		tell:     eventwire.NodeUpdated,
		metadata: map[string]any{"host_keys": fingerprints(keys), "replaces": fingerprints(known.Keys)},
	})
}

// sameHostKeys stores that a node shows no other keys than it had.
func (c change) sameHostKeys(ctx context.Context, n Node, known nodedb.NodeHostKey, keys []string) error {
	if _, err := c.DoubtHostKeys(ctx, nodedb.DoubtHostKeysParams{
		NodeID: n.ID, Generation: known.Generation, Reported: keys,
	}); err != nil {
		return fmt.Errorf("note host keys of node: %w", err)
	}
	if known.ChangedAt == nil {
		return nil
	}
	return c.record(ctx, n, entry{
		kind: KindAgentReported, cause: "the node shows the host keys again that it had", action: "node.host_keys",
		tell: eventwire.NodeUpdated, metadata: map[string]any{"host_keys": fingerprints(keys)},
	})
}

// doubtHostKeys records that a node shows other keys, although somebody had access
// to its installation and it was not reinstalled. Only root can change them.
func (s *Service) doubtHostKeys(ctx context.Context, c change, n Node, known nodedb.NodeHostKey, keys []string) error {
	row, err := c.DoubtHostKeys(ctx, nodedb.DoubtHostKeysParams{
		NodeID: n.ID, Generation: known.Generation, Reported: keys, Others: true,
	})
	if err != nil {
		return fmt.Errorf("note host keys of node: %w", err)
	}
	cause := "its SSH server shows other host keys than it had, and it was not reinstalled: " +
		strings.Join(fingerprints(keys), ", ")
	if err := c.record(ctx, n, entry{
		kind: KindAgentReported, event: "host_keys_changed", cause: cause, action: "node.host_keys", result: audit.Denied,
		tell:     eventwire.NodeHostKeysChanged,
		metadata: map[string]any{"host_keys": fingerprints(keys), "expected": fingerprints(known.Keys)},
	}); err != nil {
		return err
	}
	if err := c.taint(ctx, n.ID, RootFound,
		entry{event: "taint_root", cause: cause, metadata: map[string]any{"root_cause": RootFound}}); err != nil {
		return err
	}
	return s.onHostKeys(ctx, c.tx, n.ID, hostKeysFrom(row))
}

// openHostKeys begins to wait for the host keys of an installation, when it enrols
// for the first time. An enrolment with a recovery token keeps the earlier
// installation.
func (c change) openHostKeys(ctx context.Context, n Node, purpose Purpose) error {
	if purpose != Bootstrap {
		return nil
	}
	if err := c.OpenHostKeys(ctx, nodedb.OpenHostKeysParams{NodeID: n.ID, Generation: n.Generation}); err != nil {
		return fmt.Errorf("await host keys of node: %w", err)
	}
	return nil
}

// HostKeysOf reads the host keys of nodes, through a pool or a transaction. Nodes
// that nobody knows them of are left out.
func HostKeysOf(ctx context.Context, db nodedb.DBTX, nodes ...id.Node) (map[id.Node]HostKeys, error) {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.String()
	}
	rows, err := nodedb.New(db).HostKeysOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read host keys of nodes: %w", err)
	}
	out := map[id.Node]HostKeys{}
	for _, row := range rows {
		out[row.NodeID] = hostKeysFrom(row)
	}
	return out, nil
}

func hostKeysFrom(row nodedb.NodeHostKey) HostKeys {
	return HostKeys{Keys: hostKeys(row.Keys), ChangedAt: row.ChangedAt, Reported: hostKeys(row.Reported)}
}
