package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// mostNamed limits how many added or missing nodes are named.
const mostNamed = 5

// SinceSeen says how a set of nodes differs from the one that somebody saw and
// decided about, and names a few. It returns an empty text if they are the
// same.
func SinceSeen(ctx context.Context, db nodedb.DBTX, seen, now []id.Node) (string, error) {
	var parts []string
	for _, change := range []struct {
		word  string
		nodes []id.Node
	}{{"came", without(now, seen)}, {"went", without(seen, now)}} {
		if len(change.nodes) == 0 {
			continue
		}
		names, err := named(ctx, db, change.nodes)
		if err != nil {
			return "", err
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s)", len(change.nodes), change.word, names))
	}
	return strings.Join(parts, ", "), nil
}

// without returns the nodes that are not among others, each once.
func without(nodes, others []id.Node) []id.Node {
	known := make(map[id.Node]bool, len(others))
	for _, n := range others {
		known[n] = true
	}
	var out []id.Node
	for _, n := range nodes {
		if !known[n] {
			known[n] = true
			out = append(out, n)
		}
	}
	return out
}

// named returns the names of the first few nodes. A node that does not exist is
// shown by its id.
func named(ctx context.Context, db nodedb.DBTX, nodes []id.Node) (string, error) {
	few := nodes[:min(len(nodes), mostNamed)]
	found, err := Many(ctx, db, few)
	if err != nil {
		return "", err
	}
	names := make([]string, len(few))
	for i, of := range few {
		names[i] = of.String()
		if at := slices.IndexFunc(found, func(n Node) bool { return n.ID == of }); at >= 0 {
			names[i] = found[at].Hostname
		}
	}
	slices.Sort(names)
	out := strings.Join(names, ", ")
	if more := len(nodes) - len(few); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out, nil
}
