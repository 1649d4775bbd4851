package cli

import (
	"fmt"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

func (a *app) billingCommand() *cobra.Command {
	return a.noun(noun{use: "billing", short: "What renting costs, and what tenants have left", group: groupRent},
		a.pricesCommand(), a.billingAccountCommand(), a.creditCommand(), a.correctCommand(), a.ledgerCommand(),
		a.balanceCommand(), a.limitCommand(), a.usageCommand(), a.budgetCommand(), a.paymentCommand(), a.statementCommand(),
		a.billingCheckCommand())
}

// payer is the tenant that a command of billing is about.
func (s *session) payer(c scope) (types.UUID, error) {
	if c.tenant == "" {
		return types.UUID{}, failure.Misuse(s.Cmd, "name the tenant with --tenant")
	}
	return s.tenantID(c.tenant)
}

func (a *app) entryColumns() []table.Column[apiclient.LedgerView] {
	type entry = apiclient.LedgerView
	return []table.Column[entry]{
		at(a, "BOOKED", func(v entry) time.Time { return v.BookedAt }),
		{Title: "KIND", Text: func(v entry) string { return string(v.Kind) }},
		{Title: "AMOUNT", Text: func(v entry) string { return currency.Format(v.AmountMinor, v.Currency) }},
		{Title: "REFERENCE", Long: true, Text: func(v entry) string { return text(v.Reference) }},
		{Title: "REASON", Long: true, Text: func(v entry) string { return v.Reason }},
		{Title: "ENTRY", Text: func(v entry) string { return v.EntryId.String() }},
		{Title: "CORRECTED BY", Text: func(v entry) string { return idText(v.CorrectedBy) }, Detail: true},
		{Title: "CORRECTS", Text: func(v entry) string { return idText(v.CorrectsEntryId) }, Detail: true},
		{Title: "ALLOCATION", Text: func(v entry) string { return idText(v.AllocationId) }, Detail: true},
		{Title: "RESERVATION", Text: func(v entry) string { return idText(v.ReservationId) }, Detail: true},
		{Title: "FROM", Text: func(v entry) string { return a.Whenever(v.WindowStart) }, Detail: true},
		{Title: "UNTIL", Text: func(v entry) string { return a.Whenever(v.WindowEnd) }, Detail: true},
		{Title: "MADE BY", Text: func(v entry) string { return v.MadeBy }, Detail: true},
	}
}

func (a *app) creditCommand() *cobra.Command {
	return a.verb(verb{
		use: "credit", short: "Give a tenant money, for administrators", operations: []string{"create-credit"},
		long:    "A reference is used once per tenant: a second credit with it is refused.",
		example: "  gpuaas billing credit --tenant acme --amount 1000.00 --currency USD --reference \"invoice 17\" --reason prepaid",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			amount := cmd.Flags().String("amount", "", "how much, such as 1000.00")
			code := cmd.Flags().String("currency", "", "in what: the currency of the tenant")
			reference := cmd.Flags().String("reference", "", "your reference, such as an invoice number")
			reason := cmd.Flags().String("reason", "", "the reason, visible to the tenant")
			return func(s *session, _ []string) error {
				if err := s.Require("amount", "currency", "reference", "reason"); err != nil {
					return err
				}
				minor, err := currency.Parse(*amount, *code)
				if err != nil {
					return failure.Misuse(s.Cmd, "--amount: %s", err)
				}
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.entryColumns())(s.API.CreateCreditWithResponse(s.Ctx, org,
					&apiclient.CreateCreditParams{}, apiclient.LedgerCreditBody{
						AmountMinor: minor, Currency: *code, Reference: *reference, Reason: *reason,
					}))
			}
		},
	})
}

func (a *app) correctCommand() *cobra.Command {
	return a.verb(verb{
		use: "correct ENTRY", short: "Reverse an entry of a ledger, for administrators", args: frame.Exactly("ENTRY"),
		operations: []string{"correct-ledger-entry"},
		long:       "By another entry, which names it. Nothing that was booked is changed.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			reason := cmd.Flags().String("reason", "", "why the entry is wrong; the tenant reads it")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				entry, err := s.IDOf("an entry", args[0])
				if err != nil {
					return err
				}
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.entryColumns())(s.API.CorrectLedgerEntryWithResponse(s.Ctx, org, entry,
					&apiclient.CorrectLedgerEntryParams{}, apiclient.LedgerCorrectionBody{Reason: *reason}))
			}
		},
	})
}

func (a *app) ledgerCommand() *cobra.Command {
	return a.verb(verb{
		use: "ledger", short: "List what was booked for a tenant, the newest first", operations: []string{"list-ledger"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			kind := cmd.Flags().String("kind", "", "only of this kind: credit, usage, relief, correction, payment or refund")
			frame.Complete(cmd, "kind", apiclient.Words("LedgerView.kind")...)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.LedgerView]{
					Columns: a.entryColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListLedgerWithResponse(s.Ctx, org, &apiclient.ListLedgerParams{
							Cursor: p.Cursor, PageSize: p.Size, Kind: frame.GivenAs[apiclient.ListLedgerParamsKind](s.Session, "kind", kind),
						})
					},
				})
			}
		},
	})
}

// discountText is what is taken off a price.
func discountText(paid int32) string {
	if paid == 10_000 {
		return "none"
	}
	return fmt.Sprintf("%d.%02d %%", (10_000-paid)/100, (10_000-paid)%100)
}
