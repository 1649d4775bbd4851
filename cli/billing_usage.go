package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

// hours writes seconds as hours with two digits, cut off.
func hours(seconds int64) string { return fmt.Sprintf("%d.%02d", seconds/3600, seconds%3600/36) }

// amountIn writes an amount; where there is no currency, nothing is charged.
func amountIn(minor int64, code *string) string {
	if code == nil || *code == "" {
		return ""
	}
	return currency.Format(minor, *code)
}

// usageColumns are what a report by something shows.
func usageColumns(by []string) []table.Column[apiclient.StatementUsageLine] {
	type line = apiclient.StatementUsageLine
	all := map[string]table.Column[line]{
		"tenant": {Title: "TENANT", Long: true, Text: func(v line) string { return text(v.Tenant) }},
		"project": {Title: "PROJECT", Long: true, Text: func(v line) string {
			return text(v.Tenant) + "/" + text(v.Project)
		}},
		"sku":  {Title: "SKU", Long: true, Text: func(v line) string { return text(v.Sku) }},
		"node": {Title: "NODE", Long: true, Text: func(v line) string { return text(v.Hostname) }},
		"user": {Title: "USER", Long: true, Text: func(v line) string {
			if name := text(v.RequestedByName); name != "" {
				return name
			}
			return text(v.RequestedBy)
		}},
		"label": {Title: "LABEL", Long: true, Text: func(v line) string { return text(v.Label) }},
		"day": {Title: "DAY", Text: func(v line) string {
			if v.Day == nil {
				return ""
			}
			return v.Day.Format(time.DateOnly)
		}},
	}
	var out []table.Column[line]
	for _, b := range by {
		out = append(out, all[b])
	}
	return append(out,
		table.Column[line]{Title: "ALLOCATIONS", Wide: true, Text: func(v line) string {
			return strconv.FormatInt(v.Allocations, 10)
		}},
		table.Column[line]{Title: "HOURS", Text: func(v line) string { return hours(v.Seconds) }},
		table.Column[line]{Title: "UNIT-HOURS", Wide: true, Text: func(v line) string { return hours(v.UnitSeconds) }},
		table.Column[line]{Title: "COST", Text: func(v line) string { return amountIn(v.CostMinor, v.Currency) }},
		table.Column[line]{Title: "OF IT RESERVED", Wide: true, Text: func(v line) string {
			if v.UnusedMinor == nil {
				return ""
			}
			return amountIn(*v.UnusedMinor, v.Currency)
		}},
		table.Column[line]{Title: "GIVEN BACK", Wide: true, Text: func(v line) string {
			return amountIn(v.ReliefMinor+v.CorrectionsMinor, v.Currency)
		}},
		table.Column[line]{Title: "NET", Text: func(v line) string { return amountIn(v.NetMinor, v.Currency) }},
		table.Column[line]{Title: "NOT CHARGED YET", Wide: true, Text: func(v line) string {
			return amountIn(v.NotChargedMinor, v.Currency)
		}},
	)
}

// usageFlags are what a report on usage is asked for with.
type usageFlags struct {
	by              []string
	from, to, label string
	csv             bool
}

func (f usageFlags) params(s *session) (*apiclient.GetUsageParams, error) {
	p := &apiclient.GetUsageParams{Label: frame.Given(s.Session, "label", &f.label)}
	for flag, bound := range map[string]struct {
		text string
		into **time.Time
	}{"from": {f.from, &p.From}, "to": {f.to, &p.To}} {
		if bound.text == "" {
			continue
		}
		at, err := moment.Parse(bound.text, s.Now().UTC()) // as statements do: a month is one of UTC
		if err != nil {
			return nil, s.ofFlag(flag, err)
		}
		*bound.into = &at
	}
	by := make([]apiclient.GetUsageParamsBy, len(f.by))
	for i, b := range f.by {
		by[i] = apiclient.GetUsageParamsBy(b)
	}
	if len(by) > 0 {
		p.By = &by
	}
	return p, nil
}

func (a *app) usageCommand() *cobra.Command {
	return a.verb(verb{
		use: "usage", short: "Show what was used, and what that costs",
		operations: []string{"get-usage", "get-tenant-usage", "get-project-usage"},
		long: "Of a project, of a tenant, or, for operators and administrators, of all. Without times it is about\n" +
			"this month until now. Days, and times without a zone, are in UTC. What is not charged yet is counted, too.\n" +
			"OF IT RESERVED is what of the cost is for nodes that were reserved and not used.",
		example: "  gpuaas billing usage --project acme/training --by sku,day --from 2026-03-01 --to 2026-04-01\n" +
			"  gpuaas billing usage --tenant acme --by label --label team --csv",
		flags: func(cmd *cobra.Command) action {
			c, f := &scope{}, &usageFlags{}
			c.addProject(cmd)
			cmd.Flags().StringSliceVar(&f.by, "by", nil, "what to sum up by: tenant, project, sku, node, user, label, day; several with commas")
			cmd.Flags().StringVar(&f.from, "from", "", "beginning: "+moment.Forms)
			cmd.Flags().StringVar(&f.to, "to", "", "end, which does not belong to it")
			cmd.Flags().StringVar(&f.label, "label", "", "the label of allocations that --by label goes by")
			cmd.Flags().BoolVar(&f.csv, "csv", false, "print comma-separated values, for spreadsheets")
			frame.Complete(cmd, "by", apiclient.Words("StatementUsageView.by")...)
			return func(s *session, _ []string) error { return a.usage(s, *c, *f) }
		},
	})
}

func (a *app) usage(s *session, c scope, f usageFlags) error {
	p, err := f.params(s)
	if err != nil {
		return err
	}
	raw, err := s.readUsage(c, p)
	if err != nil {
		return err
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	report, err := output.Decode[apiclient.StatementUsageView](raw)
	if err != nil {
		return err
	}
	columns := usageColumns(f.by)
	switch {
	case f.csv:
		return a.usageCSV(columns, report.Value.Lines)
	case format != output.Table:
		return output.Print(s.Program.Out, format, raw)
	case len(report.Value.Lines) == 0:
		s.Note("nothing was used from %s until %s", a.When(report.Value.From), a.When(report.Value.To))
		return nil
	}
	lines := make([]output.Object[apiclient.StatementUsageLine], len(report.Value.Lines))
	for i, l := range report.Value.Lines {
		lines[i].Value = l
	}
	return table.Print(s.Program.Out, columns, lines, !a.Flags.NoHeaders, a.Wide())
}

func (s *session) readUsage(c scope, p *apiclient.GetUsageParams) (json.RawMessage, error) {
	switch {
	case c.project != "":
		project, err := s.projectID(c)
		if err != nil {
			return nil, err
		}
		return apiclient.Read(s.API.GetProjectUsageWithResponse(s.Ctx, project, &apiclient.GetProjectUsageParams{
			From: p.From, To: p.To, Label: p.Label, By: sameWords[apiclient.GetProjectUsageParamsBy](p.By),
		}))
	case c.tenant != "":
		org, err := s.tenantID(c.tenant)
		if err != nil {
			return nil, err
		}
		return apiclient.Read(s.API.GetTenantUsageWithResponse(s.Ctx, org, &apiclient.GetTenantUsageParams{
			From: p.From, To: p.To, Label: p.Label, By: sameWords[apiclient.GetTenantUsageParamsBy](p.By),
		}))
	}
	return apiclient.Read(s.API.GetUsageWithResponse(s.Ctx, p))
}

// sameWords are words of one parameter for another that takes the same.
func sameWords[To, From ~string](from *[]From) *[]To {
	if from == nil {
		return nil
	}
	to := make([]To, len(*from))
	for i, w := range *from {
		to[i] = To(w)
	}
	return &to
}

// usageCSV prints a report for spreadsheets: the amounts without their currency, which
// has a column of its own.
func (a *app) usageCSV(
	columns []table.Column[apiclient.StatementUsageLine], lines []apiclient.StatementUsageLine,
) error {
	var b strings.Builder
	w := csv.NewWriter(&b)
	head := []string{}
	for _, c := range columns {
		head = append(head, strings.ReplaceAll(strings.ToLower(c.Title), " ", "_"))
	}
	rows := [][]string{append(head, "currency")}
	for _, l := range lines {
		row := []string{}
		for _, c := range columns {
			row = append(row, plainCell(strings.TrimSuffix(c.Text(l), " "+text(l.Currency))))
		}
		rows = append(rows, append(row, text(l.Currency)))
	}
	if err := w.WriteAll(rows); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return output.Write(a.Program.Out, b.String())
}

// plainCell keeps a spreadsheet from taking somebody's words for a formula.
func plainCell(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}
