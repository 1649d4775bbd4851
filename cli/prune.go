package cli

import (
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) prunedColumns() []table.Column[apiclient.PruningPruned] {
	type pruned = apiclient.PruningPruned
	return []table.Column[pruned]{
		{Title: "KIND", Text: func(p pruned) string { return p.Name }},
		{Title: "ROWS", Text: func(p pruned) string { return strconv.FormatInt(p.Rows, 10) }},
		{Title: "OLDER THAN", Text: func(p pruned) string {
			if p.Before == nil {
				return "kept for ever"
			}
			return a.When(*p.Before)
		}},
		{Title: "WHAT", Text: func(p pruned) string { return p.What }},
	}
}

// adminCommand holds what administrators ask a control plane for. What they do on its own
// machine is added to it by the server.
func (a *app) adminCommand() *cobra.Command {
	return a.noun(noun{use: "admin", short: "Look after a control plane", group: groupServer}, a.pruneCommand())
}

func (a *app) pruneCommand() *cobra.Command {
	return a.verb(verb{
		use: "prune", short: "Delete old rows now, as the settings prune.* say",
		operations: []string{"get-pruning", "run-pruning"},
		long: "Deletes what is old: finished messages of the outbox, replaced certificates of nodes, ended tasks, renewals of\n" +
			"certificates, and ledgers of jobs if the settings say so. Workers do the same by themselves every day.\n" +
			"Audit entries, certificates about the cleaning of nodes and the evidence that they rest on always stay.\n" +
			"With --dry-run it says how many rows of each kind would be deleted, and deletes nothing.",
		example: "  gpuaas admin prune --dry-run\n  gpuaas admin prune --yes",
		flags: func(cmd *cobra.Command) action {
			dry := cmd.Flags().Bool("dry-run", false, "only say how many rows would be deleted")
			yes := frame.AddYesFlag(cmd)
			return func(s *session, _ []string) error { return s.prune(*dry, *yes) }
		},
	})
}

func (s *session) prune(dry, yes bool) error {
	raw, err := apiclient.Read(s.API.GetPruningWithResponse(s.Ctx))
	if err != nil {
		return err
	}
	survey, err := output.Decode[apiclient.PruningSurvey](raw)
	if err != nil {
		return err
	}
	if dry {
		return s.showPruned(raw, survey.Value.Kinds)
	}
	var rows int64
	for _, k := range survey.Value.Kinds {
		rows += k.Rows
	}
	if rows > 0 {
		err := s.Confirm(yes, "This deletes %d old rows. They cannot be brought back; gpuaas admin prune --dry-run says which.", rows)
		if err != nil {
			return err
		}
	}
	var total apiclient.PruningOutcome
	gone := map[string]int64{}
	for again := true; again; again = !total.Complete && s.Flags.IdempotencyKey == "" { // a key repeats its answer
		raw, err := apiclient.Read(s.API.RunPruningWithResponse(s.Ctx, &apiclient.RunPruningParams{}))
		if err != nil {
			return err
		}
		part, err := output.Decode[apiclient.PruningOutcome](raw)
		if err != nil {
			return err
		}
		total = part.Value
		for i, k := range total.Kinds {
			gone[k.Name] += k.Rows
			total.Kinds[i].Rows = gone[k.Name]
		}
	}
	whole, err := json.Marshal(total)
	if err != nil {
		return err
	}
	return s.showPruned(whole, total.Kinds)
}

// showPruned prints how many rows of each kind there are, or the whole answer for programs.
func (s *session) showPruned(raw json.RawMessage, kinds []apiclient.PruningPruned) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	rows := make([]output.Object[apiclient.PruningPruned], len(kinds))
	for i, k := range kinds {
		rows[i].Value = k
	}
	return table.Print(s.Program.Out, s.app.prunedColumns(), rows, !s.Flags.NoHeaders, s.Wide())
}
