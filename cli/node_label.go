package cli

import (
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

// groupingFlags are those that say which groups a node belongs to.
type groupingFlags struct {
	rack, pool string
	labels     map[string]string
}

func addGroupingFlags(cmd *cobra.Command) *groupingFlags {
	g := &groupingFlags{}
	cmd.Flags().StringVar(&g.rack, "rack", "", "the rack that it stands in")
	cmd.Flags().StringVar(&g.pool, "pool", "", "what it is kept for (default the general pool)")
	cmd.Flags().StringToStringVar(&g.labels, "label", nil, "a label, as `KEY=VALUE`; may be repeated")
	return g
}

// grouping is what the flags say, as far as they are given.
func (s *session) grouping(g *groupingFlags) (rack, pool *string, labels *map[string]string) {
	return frame.Given(s.Session, "rack", &g.rack), frame.Given(s.Session, "pool", &g.pool),
		frame.Given(s.Session, "label", &g.labels)
}

func (a *app) nodeLabelCommand() *cobra.Command {
	return a.verb(verb{
		use: "label NODE KEY=VALUE|KEY-...", short: "Set labels of a node, or take them away",
		args: cobra.MinimumNArgs(2), operations: []string{"get-node", "update-node"},
		long: "Nodes are selected by labels: gpuaas node list --label KEY=VALUE. KEY- takes a label away; other labels\n" +
			"stay as they are.",
		example: "  gpuaas node label c07u31 fabric=ib0 burn-in-",
		run: func(s *session, args []string) error {
			id, err := s.nodeID(args[0])
			if err != nil {
				return err
			}
			now, err := frame.Fetch[apiclient.NodeDetailView](s.API.GetNodeWithResponse(s.Ctx, id))
			if err != nil {
				return err
			}
			labels := maps.Clone(now.Labels)
			for _, word := range args[1:] {
				key, value, set := strings.Cut(word, "=")
				switch name, away := strings.CutSuffix(word, "-"); {
				case set:
					labels[key] = value
				case away:
					delete(labels, name)
				default:
					return failure.Misuse(s.Cmd, "%q is neither KEY=VALUE nor KEY-", word)
				}
			}
			return frame.Show(s.Session, a.nodeColumns())(s.API.UpdateNodeWithResponse(s.Ctx, id,
				&apiclient.UpdateNodeParams{IfMatch: frame.ETag(now.Version)}, apiclient.NodeChangeBody{Labels: &labels}))
		},
	})
}
