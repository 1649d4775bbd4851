package cli

import (
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

func (a *app) billingAccountColumns() []table.Column[apiclient.AccountView] {
	type account = apiclient.AccountView
	return []table.Column[account]{
		{Title: "TENANT", Text: func(v account) string { return v.OrgId.String() }},
		{Title: "PAYS IN", Text: func(v account) string { return v.Currency }},
		{Title: "DISCOUNT", Text: func(v account) string { return discountText(v.PaidShare) }},
		{Title: "PRICES", Text: func(v account) string { return pricingText(string(v.Pricing)) }},
		ago(a, "OPENED", func(v account) time.Time { return v.CreatedAt }),
		ago(a, "CHANGED", func(v account) time.Time { return v.UpdatedAt }),
		{Title: "CHANGED BY", Text: func(v account) string { return v.UpdatedBy }},
		{Title: "VERSION", Text: func(v account) string { return strconv.FormatInt(v.Version, 10) }},
	}
}

func (a *app) freeColumns() []table.Column[apiclient.AccountFreeView] {
	type free = apiclient.AccountFreeView
	return []table.Column[free]{
		{Title: "PROJECT", Text: func(v free) string { return v.ProjectId.String() }},
		{Title: "REASON", Long: true, Text: func(v free) string { return v.Reason }},
		ago(a, "SINCE", func(v free) time.Time { return v.Since }),
		{Title: "DECLARED BY", Text: func(v free) string { return v.SetBy }, Detail: true},
	}
}

func (a *app) billingAccountCommand() *cobra.Command {
	return a.noun(noun{
		use: "account", short: "What tenants pay with, and what was agreed",
		long: "A tenant has one billing account, and one currency for ever. What is rented keeps the terms of\n" +
			"the moment in which it was rented.",
	}, a.accountShowCommand(), a.accountSetCommand(), a.freeListCommand(), a.freeSetCommand(), a.freeEndCommand(),
		a.termsCommand())
}

func (a *app) accountShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show", short: "Show the billing account of a tenant", operations: []string{"get-billing-account"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			return func(s *session, _ []string) error {
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.billingAccountColumns())(s.API.GetBillingAccountWithResponse(s.Ctx, org))
			}
		},
	})
}

func (a *app) accountSetCommand() *cobra.Command {
	return a.verb(verb{
		use: "set", short: "Open the billing account of a tenant, or change its discount, for administrators",
		operations: []string{"put-billing-account", "get-billing-account"},
		long: "The currency can be set once. What is not given stays as it is. Discount and pricing take effect for\n" +
			"what is rented from now on: fixed keeps the price of then, follows_list takes each price of the\n" +
			"list when it begins.",
		example: "  gpuaas billing account set --tenant acme --currency USD --discount 15\n" +
			"  gpuaas billing account set --tenant acme --currency USD --pricing follows_list",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			code := cmd.Flags().String("currency", "", "what the tenant pays in")
			discount := cmd.Flags().Float64("discount", 0, "what is taken off every price, in percent with two digits at most")
			pricing := cmd.Flags().String("pricing", "", "fixed or follows_list")
			frame.Complete(cmd, "pricing", apiclient.Words("AccountBody.pricing")...)
			version := cmd.Flags().Int64("if-version", 0, "only if the account still has this version: gpuaas billing account show")
			return func(s *session, _ []string) error {
				off := math.Round(*discount * 100)
				if math.IsNaN(off) || off < 0 || off > 10_000 || math.Abs(off-*discount*100) > 1e-6 {
					return failure.Misuse(s.Cmd, "--discount: must be 0 to 100 percent, with two digits after the point at most")
				}
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				if *code == "" { // an account keeps the one that it has
					raw, err := apiclient.Read(s.API.GetBillingAccountWithResponse(s.Ctx, org))
					if err != nil {
						return err
					}
					now, err := output.Decode[apiclient.AccountView](raw)
					if err != nil {
						return err
					}
					*code = now.Value.Currency
				}
				body := apiclient.AccountBody{
					Currency: *code, Pricing: frame.GivenAs[apiclient.AccountBodyPricing](s.Session, "pricing", pricing),
					Version: frame.Given(s.Session, "if-version", version),
				}
				if s.Cmd.Flags().Changed("discount") {
					body.PaidShare = new(10_000 - int32(off))
				}
				return frame.Show(s.Session, a.billingAccountColumns())(s.API.PutBillingAccountWithResponse(s.Ctx, org,
					&apiclient.PutBillingAccountParams{}, body))
			}
		},
	})
}

func (a *app) freeListCommand() *cobra.Command {
	return a.verb(verb{
		use: "free-projects", short: "List the projects of a tenant that pay nothing",
		operations: []string{"list-free-projects"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.AccountFreeView]{
					Columns: a.freeColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListFreeProjectsWithResponse(s.Ctx, org,
							&apiclient.ListFreeProjectsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			}
		},
	})
}

func (a *app) freeSetCommand() *cobra.Command {
	return a.verb(verb{
		use: "free", short: "Declare that a project pays nothing, for administrators",
		operations: []string{"put-free-project"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			reason := cmd.Flags().String("reason", "", "why")
			return func(s *session, _ []string) error {
				if err := s.Require("project", "reason"); err != nil {
					return err
				}
				project, err := s.projectID(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.freeColumns())(s.API.PutFreeProjectWithResponse(s.Ctx, project,
					&apiclient.PutFreeProjectParams{}, apiclient.AccountFreeBody{Reason: *reason}))
			}
		},
	})
}

func (a *app) freeEndCommand() *cobra.Command {
	return a.verb(verb{
		use: "charge", short: "End that a project pays nothing, for administrators",
		operations: []string{"remove-free-project"},
		long:       "What it rents already stays free of charge.",
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
				return frame.Done(s.Session, "the project pays for what it rents from now on")(
					s.API.RemoveFreeProjectWithResponse(s.Ctx, project, &apiclient.RemoveFreeProjectParams{}))
			}
		},
	})
}

func (a *app) termsCommand() *cobra.Command {
	return a.verb(verb{
		use: "terms ALLOCATION", short: "Show what was agreed for an allocation", args: frame.Exactly("ALLOCATION"),
		operations: []string{"get-allocation-terms", "list-allocations"},
		long:       "The allocation is named by its name, or by its id.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("project"); err != nil {
					return err
				}
				project, err := s.projectID(*c)
				if err != nil {
					return err
				}
				allocation, isID := frame.ParseID(args[0])
				if !isID {
					if allocation, err = s.allocationNamed(*c, project, args[0]); err != nil {
						return err
					}
				}
				type terms = apiclient.AccountTermsView
				return frame.Show(s.Session, []table.Column[terms]{
					{Title: "ALLOCATION", Text: func(v terms) string { return v.AllocationId.String() }},
					{Title: "SKU", Text: func(v terms) string { return v.Sku }},
					{Title: "BASIS", Text: func(v terms) string { return string(v.Basis) }},
					{Title: "UNIT-HOUR", Text: func(v terms) string {
						now, _ := a.listed(v)
						return now
					}},
					{Title: "PRICES", Text: func(v terms) string { return pricingText(string(v.Pricing)) }},
					{Title: "NEXT PRICE", Text: func(v terms) string {
						_, next := a.listed(v)
						return next
					}},
					{Title: "DISCOUNT", Text: func(v terms) string { return discountText(v.PaidShare) }},
					{Title: "UNITS", Text: func(v terms) string { return strconv.Itoa(int(v.Units)) }},
					{Title: "FREE BECAUSE", Text: func(v terms) string { return text(v.FreeBecause) }},
					at(a, "AGREED", func(v terms) time.Time { return v.FrozenAt }),
				})(s.API.GetAllocationTermsWithResponse(s.Ctx, project, allocation))
			}
		},
	})
}

// pricingText says which prices count for what is rented.
func pricingText(pricing string) string {
	if pricing == "follows_list" {
		return "follow the list"
	}
	return "stay"
}

// listed is what a unit of an allocation costs now for an hour, and what it will cost
// next, if its terms follow a list on which there is a next price.
func (a *app) listed(v apiclient.AccountTermsView) (now, next string) {
	if v.Currency == nil {
		return "", ""
	}
	now = currency.Format(v.PriceMinor, *v.Currency)
	if v.Prices == nil {
		return now, ""
	}
	for _, p := range *v.Prices {
		if p.From.After(a.Now()) {
			return now, currency.Format(p.PriceMinor, *v.Currency) + " from " + a.When(p.From)
		}
		now = currency.Format(p.PriceMinor, *v.Currency)
	}
	return now, ""
}
