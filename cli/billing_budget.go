package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

func (a *app) budgetColumns() []table.Column[apiclient.BudgetView] {
	type budget = apiclient.BudgetView
	amount := func(of func(budget) int64) func(budget) string {
		return func(v budget) string { return currency.Format(of(v), v.Currency) }
	}
	return []table.Column[budget]{
		{Title: "PROJECT", Text: func(v budget) string { return v.ProjectId.String() }},
		{Title: "BUDGET", Text: amount(func(v budget) int64 { return v.AmountMinor })},
		{Title: "SPENT", Text: func(v budget) string {
			return currency.Format(v.SpentMinor, v.Currency) + " (" + strconv.FormatInt(v.SpentPercent, 10) + " %)"
		}},
		{Title: "FORECAST", Text: amount(func(v budget) int64 { return v.ForecastMinor })},
		{Title: "ALERTS", Wide: true, Text: func(v budget) string { return percents(v.Alerts) }},
		{Title: "TOLD", Wide: true, Text: func(v budget) string {
			told := make([]int32, len(v.Told))
			for i, t := range v.Told {
				told[i] = t.Percent
			}
			return percents(told)
		}},
		{Title: "HARD STOP", Text: func(v budget) string { return yesNo(v.HardStop) }},
		at(a, "UNTIL", func(v budget) time.Time { return v.PeriodEnd }),
		{Title: "SET ASIDE", Text: amount(func(v budget) int64 { return v.AsideMinor }), Detail: true},
		{Title: "SINCE", Text: func(v budget) string { return a.When(v.PeriodStart) }, Detail: true},
		{Title: "SET", Text: func(v budget) string { return a.When(v.UpdatedAt) }, Detail: true},
		{Title: "SET BY", Text: func(v budget) string { return v.UpdatedBy }, Detail: true},
	}
}

// percents are percentages for people.
func percents(of []int32) string {
	if len(of) == 0 {
		return "none"
	}
	text := make([]string, len(of))
	for i, p := range of {
		text[i] = strconv.Itoa(int(p))
	}
	return strings.Join(text, ", ") + " %"
}

func (a *app) budgetCommand() *cobra.Command {
	return a.noun(noun{use: "budget", short: "What projects mean to spend in a month"},
		a.budgetSetCommand(), a.budgetShowCommand(), a.budgetListCommand(), a.budgetRemoveCommand())
}

// budgetFlags are what a budget is set to.
type budgetFlags struct {
	scope
	amount, period string
	alerts         []int32
	stop           bool
}

func (a *app) budgetSetCommand() *cobra.Command {
	return a.verb(verb{
		use: "set", short: "Set the budget of a project, for administrators of the tenant",
		operations: []string{"put-budget", "get-project", "get-billing-account"},
		long: "Each percentage is told once in a month, as an event. With --hard-stop, new requests are refused whose first\n" +
			"window goes beyond the amount; what runs goes on. What is not given is as at the beginning, not as it was.",
		example: "  gpuaas billing budget set --project acme/training --amount 5000.00 --alert 50,80,100 --hard-stop",
		flags: func(cmd *cobra.Command) action {
			f := &budgetFlags{}
			f.addProject(cmd)
			flags := cmd.Flags()
			flags.StringVar(&f.amount, "amount", "", "what the project means to spend, such as 5000.00, in the currency of the tenant")
			flags.StringVar(&f.period, "period", "month", "in what time: month, of the calendar in UTC")
			frame.Complete(cmd, "period", apiclient.Words("BudgetView.period")...)
			flags.Int32SliceVar(&f.alerts, "alert", []int32{50, 80, 100}, "at which percentages of it the project is told")
			flags.BoolVar(&f.stop, "hard-stop", false, "refuse new requests that go beyond it")
			return func(s *session, _ []string) error { return a.setBudget(s, f) }
		},
	})
}

func (a *app) setBudget(s *session, f *budgetFlags) error {
	if err := s.Require("project", "amount"); err != nil {
		return err
	}
	project, err := s.projectID(f.scope)
	if err != nil {
		return err
	}
	of, err := frame.Fetch[apiclient.IdentityProjectView](s.API.GetProjectWithResponse(s.Ctx, project))
	if err != nil {
		return err
	}
	account, err := frame.Fetch[apiclient.AccountView](s.API.GetBillingAccountWithResponse(s.Ctx, of.OrgId))
	if err != nil {
		return err
	}
	minor, err := currency.Parse(f.amount, account.Currency)
	if err != nil {
		return failure.Misuse(s.Cmd, "--amount: %s", err)
	}
	return frame.Show(s.Session, a.budgetColumns())(s.API.PutBudgetWithResponse(s.Ctx, project,
		&apiclient.PutBudgetParams{}, apiclient.BudgetBody{
			AmountMinor: minor, Currency: account.Currency, Period: frame.Ptr(apiclient.BudgetBodyPeriod(f.period)),
			Alerts: &f.alerts, HardStop: &f.stop,
		}))
}

func (a *app) budgetShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show", short: "Show the budget of a project, and how far it has come", operations: []string{"get-budget"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			return func(s *session, _ []string) error {
				if err := s.Require("project"); err != nil {
					return err
				}
				project, err := s.projectID(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.budgetColumns())(s.API.GetBudgetWithResponse(s.Ctx, project))
			}
		},
	})
}

func (a *app) budgetListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List the budgets of the projects of a tenant", operations: []string{"list-budgets"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.BudgetView]{
					Columns: a.budgetColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListBudgetsWithResponse(s.Ctx, org,
							&apiclient.ListBudgetsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			}
		},
	})
}

func (a *app) budgetRemoveCommand() *cobra.Command {
	return a.verb(verb{
		use: "remove", short: "Remove the budget of a project, for administrators of the tenant",
		operations: []string{"remove-budget"},
		long:       "Nothing is told any more, and nothing is stopped.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			return func(s *session, _ []string) error {
				if err := s.Require("project"); err != nil {
					return err
				}
				project, err := s.projectID(*c)
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "the project has no budget any more")(
					s.API.RemoveBudgetWithResponse(s.Ctx, project, &apiclient.RemoveBudgetParams{}))
			}
		},
	})
}
