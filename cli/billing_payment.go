package cli

import (
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

func (a *app) paymentColumns() []table.Column[apiclient.PaymentBookingView] {
	type payment = apiclient.PaymentBookingView
	return []table.Column[payment]{
		at(a, "RECEIVED", func(v payment) time.Time { return v.ReceivedAt }),
		{Title: "KIND", Text: func(v payment) string { return string(v.Kind) }},
		{Title: "AMOUNT", Text: func(v payment) string { return currency.Format(v.AmountMinor, v.Currency) }},
		{Title: "PROVIDER", Text: func(v payment) string { return string(v.Provider) }},
		{Title: "ID THERE", Text: func(v payment) string { return v.ObjectId }},
		{Title: "PAYMENT", Text: func(v payment) string { return v.PaymentId }, Detail: true},
		{Title: "ENTRY", Text: func(v payment) string { return v.EntryId.String() }, Detail: true},
	}
}

func (a *app) paymentCommand() *cobra.Command {
	return a.noun(noun{use: "payment", short: "Money that comes through payment providers"},
		a.paymentListCommand(), a.paymentSecretCommand())
}

func (a *app) paymentListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List what came through payment providers, and went back, the newest first",
		operations: []string{"list-payments"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.PaymentBookingView]{
					Columns: a.paymentColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListPaymentsWithResponse(s.Ctx, org,
							&apiclient.ListPaymentsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			}
		},
	})
}

func (a *app) paymentSecretCommand() *cobra.Command {
	return a.verb(verb{
		use: "secret", short: "Set the secret that a payment provider signs with, for administrators",
		operations: []string{"put-payment-secret"},
		long: "The secret is read from a file, - for standard input, kept in the secrets engine, and never shown. The one\n" +
			"before is accepted, too, until it is set again: so it is changed without losing what is told meanwhile.",
		example: "  gpuaas billing payment secret --provider stripe --secret-file whsec.txt",
		flags: func(cmd *cobra.Command) action {
			provider := cmd.Flags().String("provider", "stripe", "the payment provider")
			frame.Complete(cmd, "provider", apiclient.Words("PaymentBookingView.provider")...)
			file := cmd.Flags().String("secret-file", "", "file with the signing secret, - for standard input")
			_ = cmd.MarkFlagFilename("secret-file") // defined above
			return func(s *session, _ []string) error {
				if err := s.Require("secret-file"); err != nil {
					return err
				}
				secret, err := s.secretLine(*file)
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "the secret is set")(s.API.PutPaymentSecretWithResponse(s.Ctx,
					apiclient.PutPaymentSecretParamsProvider(*provider), &apiclient.PutPaymentSecretParams{},
					apiclient.PaymentSecretBody{Secret: *secret}))
			}
		},
	})
}
