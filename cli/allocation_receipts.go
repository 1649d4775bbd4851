package cli

import (
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) allocationReceipts() *cobra.Command {
	type receipt = apiclient.AllocationReceiptView
	columns := []table.Column[receipt]{
		{Title: "MOMENT", Text: func(r receipt) string { return string(r.Moment) }},
		{Title: "KIND", Text: func(r receipt) string { return string(r.Kind) }},
		{Title: "OUTCOME", Text: func(r receipt) string { return string(r.Outcome) }},
		ago(a, "ISSUED", func(r receipt) time.Time { return r.IssuedAt }),
		{Title: "ID", Text: func(r receipt) string { return r.CertificateId.String() }},
	}
	return a.verb(verb{
		use: "receipts ALLOCATION", short: "List what proves that its node was clean before and after",
		args: frame.Exactly("ALLOCATION"), operations: []string{"get-allocation-flat", "list-allocation-receipts"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, args []string) error {
				o, err := s.allocation(*c, args[0])
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[receipt]{
					Columns: columns,
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListAllocationReceiptsWithResponse(s.Ctx, o.Value.ProjectId, o.Value.AllocationId,
							&apiclient.ListAllocationReceiptsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			}
		},
	})
}

func (a *app) allocationReceipt() *cobra.Command {
	return a.verb(verb{
		use: "receipt ALLOCATION ID", short: "Show one of its receipts, or get the signed file",
		args: frame.Exactly("ALLOCATION", "ID"), operations: []string{"get-allocation-flat", "get-allocation-receipt"},
		long: "Text and HTML are for people and are not signed. JSON is the signed file itself, byte by byte: keep it, and\n" +
			"verify it with gpuaas certificate verify.",
		example: "  gpuaas allocation receipt train 0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c --format json > receipt.json",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			format := cmd.Flags().String("format", "",
				"how to show it: text, html or json (default: text, or what --output says)")
			frame.Complete(cmd, "format", formatText, formatHTML, output.JSON)
			return func(s *session, args []string) error {
				as, err := s.certificateFormat(*format)
				if err != nil {
					return err
				}
				o, err := s.allocation(*c, args[0])
				if err != nil {
					return err
				}
				receiptID, err := s.IDOf("a receipt", args[1])
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.API.GetAllocationReceiptWithResponse(s.Ctx, o.Value.ProjectId, o.Value.AllocationId,
					receiptID))
				if err != nil {
					return err
				}
				return s.showCertificate(as, raw)
			}
		},
	})
}
