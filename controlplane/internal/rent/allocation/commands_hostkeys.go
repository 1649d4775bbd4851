package allocation

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// HostKeysChanged tells the tenant of a node that its SSH server shows other keys
// than the tenant was told, in the transaction that records it and holds the node.
func (s *Service) HostKeysChanged(ctx context.Context, tx pgx.Tx, of id.Node, keys node.HostKeys) error {
	a, err := tenantOf(ctx, tx, of)
	if err != nil || a.ID.IsZero() || !a.Status.live() {
		return err
	}
	shown := make([]string, len(keys.Reported))
	for i, k := range keys.Reported {
		shown[i] = k.Algorithm + " " + k.Fingerprint
	}
	message := "the node shows other SSH host keys than you were told, and was not reinstalled, so somebody with root " +
		"changed them: " + strings.Join(shown, ", ")
	if err := note(ctx, tx, a, "host_keys_changed", message, map[string]any{"host_keys": shown}); err != nil {
		return err
	}
	return publish(ctx, tx, eventwire.AllocationHostKeysChanged, a, message)
}
