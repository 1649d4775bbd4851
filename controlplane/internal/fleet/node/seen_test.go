package node_test

import (
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

func TestNodesAreToldFromThoseThatWereSeen(t *testing.T) {
	w := newWorld(t)
	var all []id.Node
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		n, _ := w.make(t, name)
		all = append(all, n.ID)
	}
	a, b := all[0], all[1]
	unknown := id.New[id.Node]()
	for name, c := range map[string]struct {
		seen, now []id.Node
		want      string
	}{
		"nothing at all":  {nil, nil, ""},
		"the same":        {[]id.Node{a, b}, []id.Node{b, a}, ""},
		"named twice":     {[]id.Node{a, b, a}, []id.Node{a, b, b}, ""},
		"came":            {[]id.Node{a}, []id.Node{b, a, b}, "1 came (b)"},
		"went":            {[]id.Node{a, b}, []id.Node{b}, "1 went (a)"},
		"as many others":  {[]id.Node{a}, []id.Node{b}, "1 came (b), 1 went (a)"},
		"is not a node":   {[]id.Node{unknown}, nil, "1 went (" + unknown.String() + ")"},
		"more than a few": {nil, all, "7 came (a, b, c, d, e and 2 more)"},
	} {
		if got, err := node.SinceSeen(t.Context(), w.db, c.seen, c.now); err != nil || got != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, c.want, err)
		}
	}
}
