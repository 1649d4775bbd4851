package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
)

// Doubt asks for an early look at the machine of a node, because of a change.
// Call it in the transaction that records the change.
func (s *Service) Doubt(ctx context.Context, tx pgx.Tx, n id.Node, reason string) error {
	return s.onDoubt(ctx, tx, n, reason)
}

// doubtReport raises a doubt when the addresses that an agent reports no longer
// include the one by which the node is reached. Call it before the report is
// stored.
func (s *Service) doubtReport(ctx context.Context, c change, n Node, reported []string) error {
	addresses := reachable(reported)
	if !strays(n.Host, addresses) {
		return nil
	}
	row, err := c.Inspection(ctx, n.ID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read inspection of node: %w", err)
	}
	var known agentwire.Capabilities
	if len(row.Found) > 0 {
		if err := json.Unmarshal(row.Found, &known); err != nil {
			return fmt.Errorf("decode inspection of node %s: %w", n.ID, err)
		}
	}
	if slices.Equal(reachable(known.Addresses), addresses) {
		return nil // the doubt was raised when this began
	}
	return s.onDoubt(ctx, c.tx, n.ID, fmt.Sprintf("its agent reports the addresses %s, and it is reached by %s",
		listed(addresses), n.Host))
}

// reachable returns the addresses of a report by which others may reach the
// machine, sorted.
func reachable(reported []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range reported {
		if a, err := netip.ParseAddr(text); err == nil && a.Unmap().IsGlobalUnicast() && a.Zone() == "" {
			out = append(out, a.Unmap())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// strays reports whether a machine has addresses, but not the one by which its
// node is reached. If the node is reached by a name, it reports false.
func strays(host string, addresses []netip.Addr) bool {
	at, err := netip.ParseAddr(host)
	return err == nil && len(addresses) > 0 && !slices.Contains(addresses, at.Unmap())
}

func listed(addresses []netip.Addr) string {
	const most = 8
	parts := make([]string, 0, most+1)
	for _, a := range addresses[:min(len(addresses), most)] {
		parts = append(parts, a.String())
	}
	if more := len(addresses) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
