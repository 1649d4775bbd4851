package cli

import (
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) allocationRepairCommand() *cobra.Command {
	return a.noun(noun{
		use: "repair", short: "Repairs of a rented node that its tenant keeps",
		long: "While it is repaired the allocation stays active and shows repairing; terminals are refused. The node\n" +
			"does not go to others before the repair was ended, even if the tenant leaves.",
	}, a.allocationRepairBeginCommand(), a.allocationRepairEndCommand(), a.allocationRepairListCommand())
}

func (a *app) allocationRepairBeginCommand() *cobra.Command {
	return a.verb(verb{
		use: "begin ALLOCATION", short: "Say that the node of an allocation is being repaired, for operators",
		args: frame.Exactly("ALLOCATION"), operations: []string{"begin-allocation-repair"},
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "why, for the tenant")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := s.IDOf("an allocation", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.allocationColumns())(s.API.BeginAllocationRepairWithResponse(s.Ctx, id,
					&apiclient.BeginAllocationRepairParams{}, apiclient.AllocationRepairBody{Reason: *reason}))
			}
		},
	})
}

func (a *app) allocationRepairEndCommand() *cobra.Command {
	return a.verb(verb{
		use: "end ALLOCATION", short: "Say that the node of an allocation is repaired, for operators",
		args: frame.Exactly("ALLOCATION"), operations: []string{"end-allocation-repair"},
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "what was done, for the tenant")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := s.IDOf("an allocation", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.allocationColumns())(s.API.EndAllocationRepairWithResponse(s.Ctx, id,
					&apiclient.EndAllocationRepairParams{}, apiclient.AllocationRepairBody{Reason: *reason}))
			}
		},
	})
}

func (a *app) allocationRepairListCommand() *cobra.Command {
	type repair = apiclient.AllocationRepairView
	columns := []table.Column[repair]{
		ago(a, "BEGAN", func(r repair) time.Time { return r.BeganAt }),
		ago(a, "ENDED", func(r repair) *time.Time { return r.EndedAt }),
		{Title: "REASON", Text: func(r repair) string { return r.Reason }},
		{Title: "OUTCOME", Text: func(r repair) string { return text(r.EndedBecause) }},
	}
	return a.verb(verb{
		use: "list ALLOCATION", short: "List when the node of an allocation was repaired", aliases: []string{"ls"},
		args: frame.Exactly("ALLOCATION"), operations: []string{"get-allocation-flat", "list-allocation-repairs"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			f := listing.AddFlags(cmd, 50)
			return func(s *session, args []string) error {
				o, err := s.allocation(*c, args[0])
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[repair]{
					Columns: columns,
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListAllocationRepairsWithResponse(s.Ctx, o.Value.ProjectId, o.Value.AllocationId,
							&apiclient.ListAllocationRepairsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			}
		},
	})
}
