package cli

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) allocationChoicesCommand() *cobra.Command {
	type choice = apiclient.AllocationChoice
	columns := []table.Column[choice]{
		{Title: "SKU", Text: func(c choice) string { return c.Sku }},
		{Title: "REGION", Text: func(c choice) string { return c.Region }},
		{Title: "NODE LABELS", Text: func(c choice) string { return choicesText(c.NodeLabels) }},
		{Title: "CAPABILITIES", Text: func(c choice) string { return choicesText(c.Capabilities) }},
	}
	return a.verb(verb{
		use: "choices", short: "See which regions, labels and capabilities can be asked for",
		operations: []string{"get-allocation-choices"},
		long:       "Those of the nodes in service. Whether one of them can be had now, gpuaas allocation explain says.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			return func(s *session, _ []string) error {
				project, err := s.projectID(*c)
				if err != nil {
					return err
				}
				found, err := frame.Fetch[struct {
					Choices []json.RawMessage `json:"choices"`
				}](s.API.GetAllocationChoicesWithResponse(s.Ctx, project))
				if err != nil {
					return err
				}
				return frame.PrintList(s.App, columns, found.Choices)
			}
		},
	})
}

// choicesText writes keys with the values that there are.
func choicesText(of []apiclient.AllocationOption) string {
	out := make([]string, len(of))
	for i, o := range of {
		out[i] = o.Key + "=" + strings.Join(o.Values, "|")
	}
	return strings.Join(out, ", ")
}
