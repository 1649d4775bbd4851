package cli

import (
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

func (a *app) priceColumns() []table.Column[apiclient.PriceView] {
	type price = apiclient.PriceView
	return []table.Column[price]{
		{Title: "SKU", Text: func(v price) string { return v.Sku }},
		{Title: "OF", Text: func(v price) string { return string(v.Meter) }},
		{Title: "UNIT-HOUR", Text: func(v price) string { return currency.Format(v.PriceMinor, v.Currency) }},
		{Title: "STATE", Text: func(v price) string {
			switch {
			case v.InForce:
				return "in force"
			case v.ValidFrom.After(a.Now()):
				return "to come"
			}
			return "past"
		}},
		at(a, "FROM", func(v price) time.Time { return v.ValidFrom }),
		wide(at(a, "UNTIL", func(v price) *time.Time { return v.ValidUntil })),
		{Title: "REASON", Wide: true, Text: func(v price) string { return text(v.Reason) }},
		{Title: "ID", Text: func(v price) string { return v.PriceId.String() }},
		{Title: "SET", Text: func(v price) string { return a.When(v.SetAt) }, Detail: true},
		{Title: "SET BY", Text: func(v price) string { return text(v.SetBy) }, Detail: true},
	}
}

func (a *app) pricesCommand() *cobra.Command {
	return a.noun(noun{
		use: "prices", short: "What SKUs cost",
		long: "A price is of one GPU for one hour, or of a machine without GPUs: of a node that somebody rents, or of\n" +
			"one that is reserved and not used. The next price of the same SKU and currency ends it. A price that has begun is never changed. What is rented keeps the price that\n" +
			"it was rented at, unless its terms follow the list: those must know of a price some time before it begins.",
	}, a.priceListCommand(), a.priceSetCommand(),
		a.verb(verb{
			use: "withdraw PRICE", short: "Withdraw a price that has not begun", args: frame.Exactly("PRICE"),
			operations: []string{"withdraw-price"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a price", args[0])
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "the price is withdrawn")(
					s.API.WithdrawPriceWithResponse(s.Ctx, id, &apiclient.WithdrawPriceParams{}))
			},
		}))
}

func (a *app) priceListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List prices: past, in force and to come", aliases: []string{"ls"},
		operations: []string{"list-prices"},
		flags: func(cmd *cobra.Command) action {
			sku := cmd.Flags().String("sku", "", "only of this SKU")
			code := cmd.Flags().String("currency", "", "only in this currency")
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				return listing.Print(s.Session, f, listing.Listing[apiclient.PriceView]{
					Columns: a.priceColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListPricesWithResponse(s.Ctx, &apiclient.ListPricesParams{
							Cursor: p.Cursor, PageSize: p.Size, Sku: frame.Given(s.Session, "sku", sku),
							Currency: frame.Given(s.Session, "currency", code),
						})
					},
				})
			}
		},
	})
}

func (a *app) priceSetCommand() *cobra.Command {
	return a.verb(verb{
		use: "set SKU", short: "Set a price that begins now or later", args: frame.Exactly("SKU"),
		operations: []string{"create-price"},
		example: "  gpuaas billing prices set h200-sxm-baremetal-8g --price 3.50\n" +
			"  gpuaas billing prices set h200-sxm-baremetal-8g --price 3.20 --currency EUR --from \"2027-01-01 00:00\"",
		flags: func(cmd *cobra.Command) action {
			amount := cmd.Flags().String("price", "", "of one GPU, or of a machine without GPUs, for one hour, such as 3.50")
			meter := cmd.Flags().String("meter", "held", "what it is the price of: held, a node that somebody rents; reserved, one that is\n"+
				"reserved and not used")
			frame.Complete(cmd, "meter", apiclient.Words("PriceView.meter")...)
			code := cmd.Flags().String("currency", "USD", "currency of the price")
			from := cmd.Flags().String("from", "", "when it begins, in UTC unless it names an offset, such as \"2026-03-04 05:06\" or\n"+
				"\"2026-03-04 05:06+02:00\" (default now)")
			reason := cmd.Flags().String("reason", "", "why")
			free := cmd.Flags().Bool("free", false, "confirm a price of zero")
			atOnce := cmd.Flags().Bool("at-once", false,
				"skip the notice to allocations whose price follows the list; needs --reason")
			return func(s *session, args []string) error {
				if err := s.Require("price"); err != nil {
					return err
				}
				minor, err := currency.Parse(*amount, *code)
				if err != nil {
					return failure.Misuse(s.Cmd, "--price: %s", err)
				}
				body := apiclient.PriceNewBody{
					Sku: args[0], Currency: *code, PriceMinor: minor, Reason: frame.Given(s.Session, "reason", reason),
					Free: frame.Given(s.Session, "free", free), AtOnce: frame.Given(s.Session, "at-once", atOnce),
					Meter: frame.GivenAs[apiclient.PriceNewBodyMeter](s.Session, "meter", meter),
				}
				if *from != "" { // prices are the same for everybody: no zone of somebody's machine
					at, err := moment.Parse(*from, s.Now().UTC())
					if err != nil {
						return s.ofFlag("from", err)
					}
					body.ValidFrom = &at
				}
				if err := frame.Show(s.Session, a.priceColumns())(
					s.API.CreatePriceWithResponse(s.Ctx, &apiclient.CreatePriceParams{}, body)); err != nil {
					return err
				}
				if !s.Cmd.Flags().Changed("currency") {
					s.Note("no --currency was given: the price is in %s", *code)
				}
				if body.ValidFrom != nil {
					s.Note("it begins at %s UTC", body.ValidFrom.Format("2006-01-02 15:04:05"))
				}
				return nil
			}
		},
	})
}
