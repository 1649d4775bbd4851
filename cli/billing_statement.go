package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

func (a *app) statementColumns() []table.Column[apiclient.StatementView] {
	type statement = apiclient.StatementView
	return []table.Column[statement]{
		{Title: "STATEMENT", Text: func(v statement) string { return v.Label }},
		{Title: "MONTH", Text: func(v statement) string { return v.PeriodStart.UTC().Format("2006-01") }},
		{Title: "LEFT BEFORE", Text: func(v statement) string { return currency.Format(v.OpeningMinor, v.Currency) }},
		{Title: "USAGE", Text: func(v statement) string { return currency.Format(v.UsageMinor, v.Currency) }},
		{Title: "GIVEN BACK", Text: func(v statement) string { return currency.Format(v.ReliefMinor, v.Currency) }},
		{Title: "CORRECTIONS", Wide: true, Text: func(v statement) string {
			return currency.Format(v.CorrectionsMinor, v.Currency)
		}},
		{Title: "MONEY IN", Text: func(v statement) string { return currency.Format(v.MoneyInMinor, v.Currency) }},
		{Title: "LEFT", Text: func(v statement) string { return currency.Format(v.ClosingMinor, v.Currency) }},
		{Title: "LATE", Wide: true, Text: func(v statement) string { return strconv.FormatInt(v.LateEntries, 10) }},
		at(a, "ISSUED", func(v statement) time.Time { return v.IssuedAt }),
	}
}

// documentColumns are what people see of a statement.
func (a *app) documentColumns() []table.Column[apiclient.StatementDocument] {
	type document = apiclient.StatementDocument
	money := func(title string, of func(document) int64) table.Column[document] {
		return table.Column[document]{Title: title, Text: func(v document) string {
			return currency.Format(of(v), v.Currency)
		}}
	}
	return []table.Column[document]{
		{Title: "STATEMENT", Text: func(v document) string { return v.Label }},
		{Title: "TENANT", Text: func(v document) string { return v.TenantName }},
		{Title: "MONTH", Text: func(v document) string { return v.PeriodStart.UTC().Format("2006-01") }},
		money("LEFT BEFORE", func(v document) int64 { return v.OpeningMinor }),
		money("USAGE", func(v document) int64 { return v.UsageMinor }),
		{Title: "OF IT RESERVED", Text: func(v document) string {
			if v.UnusedMinor == nil {
				return ""
			}
			return currency.Format(*v.UnusedMinor, v.Currency)
		}},
		money("GIVEN BACK", func(v document) int64 { return v.ReliefMinor }),
		money("CORRECTIONS", func(v document) int64 { return v.CorrectionsMinor }),
		money("MONEY IN", func(v document) int64 { return v.MoneyInMinor }),
		money("LEFT", func(v document) int64 { return v.ClosingMinor }),
		{Title: "LATE ENTRIES", Text: func(v document) string { return strconv.FormatInt(v.LateEntries, 10) }},
		at(a, "ISSUED", func(v document) time.Time { return v.IssuedAt }),
	}
}

func (s *session) statementsOf(org types.UUID) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListStatementsWithResponse(s.Ctx, org,
			&apiclient.ListStatementsParams{Cursor: p.Cursor, PageSize: p.Size})
	}
}

// statementID resolves a statement named by id, label, number or month.
func (s *session) statementID(org types.UUID, name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	v, ok, err := listing.Find(s.statementsOf(org), func(v apiclient.StatementView) bool {
		return strings.EqualFold(v.Label, name) || strconv.Itoa(int(v.Number)) == name ||
			v.PeriodStart.UTC().Format("2006-01") == name
	})
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, failure.Missing("list them: gpuaas billing statement list",
			"the tenant has no statement %q", name)
	}
	return v.StatementId, nil
}

func (a *app) statementCommand() *cobra.Command {
	return a.noun(noun{
		use: "statement", short: "What tenants were charged, month by month",
		long: "A month is closed some hours after its end: what was booked in it is frozen and numbered. What is\n" +
			"booked later goes to the next statement, which says so.",
	}, a.statementListCommand(), a.statementShowCommand(), a.statementCloseCommand())
}

func (a *app) statementListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List the statements of a tenant, the newest first", aliases: []string{"ls"},
		operations: []string{"list-statements"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.StatementView]{
					Columns: a.statementColumns(), Fetch: s.statementsOf(org),
				})
			}
		},
	})
}

func (a *app) statementShowCommand() *cobra.Command {
	forms := []string{"html", "csv", "focus"}
	return a.verb(verb{
		use: "show STATEMENT", short: "Show a statement, or print it as a page or for programs",
		args: frame.Exactly("STATEMENT"),
		operations: []string{
			"get-statement", "get-statement-csv", "get-statement-focus", "get-statement-html", "list-statements",
			"get-open-statement", "get-open-statement-csv", "get-open-statement-focus", "get-open-statement-html",
		},
		long: "STATEMENT is a label such as ACME-0007, a number, a month such as 2026-03 or an id; open is what the\n" +
			"month that is not closed yet has until now. -o json has every line. --as focus prints the columns of\n" +
			"the FinOps FOCUS specification.",
		example: "  gpuaas billing statement show open --tenant acme\n" +
			"  gpuaas billing statement show 2026-03 --tenant acme --as html >march.html",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			as := cmd.Flags().String("as", "", "print the whole statement: html, csv or focus")
			frame.Complete(cmd, "as", forms...)
			return func(s *session, args []string) error {
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				if args[0] == openMonth {
					return a.showOpen(s, org, *as)
				}
				id, err := s.statementID(org, args[0])
				if err != nil {
					return err
				}
				switch *as {
				case "html":
					return s.printed(s.API.GetStatementHtmlWithResponse(s.Ctx, org, id))
				case "csv":
					return s.printed(s.API.GetStatementCsvWithResponse(s.Ctx, org, id))
				case "focus":
					return s.printed(s.API.GetStatementFocusWithResponse(s.Ctx, org, id))
				}
				return frame.Show(s.Session, a.documentColumns())(s.API.GetStatementWithResponse(s.Ctx, org, id))
			}
		},
	})
}

// openMonth names what is not closed yet.
const openMonth = "open"

// showOpen shows what the open month of a tenant has until now.
func (a *app) showOpen(s *session, org types.UUID, as string) error {
	switch as {
	case "html":
		return s.printed(s.API.GetOpenStatementHtmlWithResponse(s.Ctx, org))
	case "csv":
		return s.printed(s.API.GetOpenStatementCsvWithResponse(s.Ctx, org))
	case "focus":
		return s.printed(s.API.GetOpenStatementFocusWithResponse(s.Ctx, org))
	}
	return frame.Show(s.Session, a.documentColumns())(s.API.GetOpenStatementWithResponse(s.Ctx, org))
}

// printed prints an answer that is text.
func (s *session) printed(resp interface{ GetBody() []byte }, err error) error {
	if err != nil {
		return err
	}
	return output.Write(s.Program.Out, output.HarmlessLines(string(resp.GetBody())))
}

func (a *app) statementCloseCommand() *cobra.Command {
	return a.verb(verb{
		use: "close", short: "Close a month that is over, for administrators", operations: []string{"close-period"},
		long: "It must be the first month of the tenant that is open. It happens by itself some hours after the\n" +
			"end of the month.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			month := cmd.Flags().String("month", "", "the month, such as 2026-03")
			return func(s *session, _ []string) error {
				if err := s.Require("month"); err != nil {
					return err
				}
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.documentColumns())(s.API.ClosePeriodWithResponse(s.Ctx, org,
					&apiclient.ClosePeriodParams{}, apiclient.StatementCloseBody{Month: *month}))
			}
		},
	})
}

func (a *app) billingCheckCommand() *cobra.Command {
	return a.verb(verb{
		use: "check", short: "Compare the ledger with rated usage, to the minor unit",
		operations: []string{"get-tenant-ledger-check", "get-ledger-check"},
		long: "Of a tenant it compares now. Of all tenants, for operators, it shows the last hourly comparison. It\n" +
			"ends with exit code 8 where they disagree. It also lists what is used and will never be charged, because\n" +
			"it was rented without terms, or before the tenant had a billing account: end it, or agree on a credit.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			return func(s *session, _ []string) error {
				if c.tenant == "" {
					return a.showCheck(s)(s.API.GetLedgerCheckWithResponse(s.Ctx))
				}
				org, err := s.tenantID(c.tenant)
				if err != nil {
					return err
				}
				return a.showCheck(s)(s.API.GetTenantLedgerCheckWithResponse(s.Ctx, org))
			}
		},
	})
}

func (a *app) showCheck(s *session) func(apiclient.Answer, error) error {
	type check = apiclient.StatementCheckView
	type found = apiclient.StatementDisagreement
	type unmetered = apiclient.StatementUnmetered
	return func(resp apiclient.Answer, err error) error {
		raw, err := apiclient.Read(resp, err)
		if err != nil {
			return err
		}
		if err := frame.PrintOne(a.App, []table.Column[check]{
			{Title: "AGREES", Text: func(v check) string { return strconv.FormatBool(v.Agrees) }},
			{Title: "ALLOCATIONS", Text: func(v check) string { return strconv.FormatInt(v.Allocations, 10) }},
			{Title: "TENANTS", Text: func(v check) string { return strconv.FormatInt(v.Tenants, 10) }},
			{Title: "DISAGREEMENTS", Text: func(v check) string { return strconv.FormatInt(v.Disagreements, 10) }},
			{Title: "NEVER CHARGED", Text: func(v check) string { return strconv.FormatInt(v.NeverCharged, 10) }},
			ago(a, "COMPARED", func(v check) *time.Time { return v.CheckedAt }),
		}, raw); err != nil {
			return err
		}
		v, err := output.Decode[check](raw)
		if err != nil {
			return err
		}
		if err := frame.PrintPart(s.Session, []table.Column[unmetered]{
			{Title: "TENANT", Text: func(v unmetered) string { return v.OrgId.String() }},
			{Title: "ALLOCATION", Text: func(v unmetered) string { return v.AllocationId.String() }},
			{Title: "SKU", Wide: true, Text: func(v unmetered) string { return v.Sku }},
			wide(ago(a, "SINCE", func(v unmetered) time.Time { return v.ActiveAt })),
			{Title: "NEVER CHARGED BECAUSE", Long: true, Text: func(v unmetered) string { return v.Message }},
		}, v.Value.Unmetered); err != nil {
			return err
		}
		if err := frame.PrintPart(s.Session, []table.Column[found]{
			{Title: "TENANT", Text: func(v found) string { return v.OrgId.String() }},
			{Title: "ALLOCATION", Text: func(v found) string { return idText(v.AllocationId) }},
			{Title: "WHAT", Long: true, Text: func(v found) string { return v.Message }},
		}, v.Value.Found); err != nil || v.Value.Agrees {
			return err
		}
		if v.Value.CheckedAt == nil {
			return failure.New(failure.Unsuccessful, "ledger_not_compared", "ask again later: it happens every hour, or as billing.compare_every says",
				"the ledgers have not been compared yet")
		}
		return failure.New(failure.Unsuccessful, "ledger_disagrees",
			"see docs/runbooks/ledger-disagrees.md; correct entries with gpuaas billing correct",
			"the ledger and the rated usage differ in %d places", v.Value.Disagreements)
	}
}
