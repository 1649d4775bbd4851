package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

func (a *app) standingColumns() []table.Column[apiclient.BalanceView] {
	type balance = apiclient.BalanceView
	amount := func(of func(balance) int64) func(balance) string {
		return func(v balance) string { return currency.Format(of(v), v.Currency) }
	}
	limit := func(of func(balance) *int64) func(balance) string {
		return func(v balance) string {
			if minor := of(v); minor != nil {
				return currency.Format(*minor, v.Currency)
			}
			return "not limited"
		}
	}
	span := func(of func(balance) int64) func(balance) string {
		return func(v balance) string { return moment.Whole(time.Duration(of(v)) * time.Second) }
	}
	return []table.Column[balance]{
		{Title: "TENANT", Text: func(v balance) string { return v.OrgId.String() }},
		{Title: "STATE", Text: func(v balance) string { return string(v.Status) }},
		{Title: "AVAILABLE", Text: limit(func(v balance) *int64 { return v.AvailableMinor })},
		{Title: "AN HOUR COSTS", Text: amount(func(v balance) int64 { return v.BurnMinorPerHour })},
		{Title: "LASTS", Text: func(v balance) string { return lastsText(v.RunwayHours) }},
		at(a, "UNTIL", func(v balance) *time.Time { return v.DepletesAt }),
		{Title: "BOOKED", Text: amount(func(v balance) int64 { return v.BalanceMinor })},
		{Title: "USED SINCE", Text: amount(func(v balance) int64 { return v.AccruedMinor }), Detail: true},
		{Title: "SET ASIDE", Text: amount(func(v balance) int64 { return v.HeldMinor }), Detail: true},
		{Title: "SINCE", Text: func(v balance) string { return a.When(v.Since) }, Detail: true},
		{Title: "RELEASES", Text: func(v balance) string { return a.Whenever(v.ReleasesAt) }, Detail: true},
		{Title: "PAYS", Text: func(v balance) string { return string(v.Payment) }, Detail: true},
		{Title: "CREDIT LINE", Text: limit(func(v balance) *int64 { return v.CreditLineMinor }), Detail: true},
		{Title: "WARNED BELOW", Text: amount(func(v balance) int64 { return v.LowMinor }), Detail: true},
		{Title: "WARNED FOR", Text: span(func(v balance) int64 { return v.LowSeconds }), Detail: true},
		{Title: "ANNOUNCE RELEASES FOR", Text: span(func(v balance) int64 { return v.ReleaseSeconds }), Detail: true},
		{Title: "GRACE", Text: span(func(v balance) int64 { return v.GraceSeconds }), Detail: true},
		{Title: "WARN AGAIN AT", Detail: true, Text: func(v balance) string {
			return strconv.Itoa(int(v.RearmPercent)) + " %"
		}},
		{Title: "AS OF", Text: func(v balance) string { return a.When(v.MadeAt) }, Detail: true},
	}
}

// lastsText is a runway.
func lastsText(hours *float64) string {
	switch {
	case hours == nil:
		return "for ever"
	case *hours < 1:
		return moment.Whole(time.Duration(*hours * float64(time.Hour)).Round(time.Second))
	case *hours >= 48:
		return fmt.Sprintf("%.1f days", *hours/24)
	}
	return fmt.Sprintf("%.2f hours", *hours)
}

func (a *app) balanceCommand() *cobra.Command {
	return a.verb(verb{
		use: "balance", short: "Show what a tenant has left, and how long it lasts", operations: []string{"get-balance"},
		long: "As it is at this moment: what was booked, less what was used since and what is set aside for the first\n" +
			"window of what was just rented, plus the credit line. -o json shows all of it.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addTenant(cmd)
			return func(s *session, _ []string) error {
				org, err := s.payer(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.standingColumns())(s.API.GetBalanceWithResponse(s.Ctx, org))
			}
		},
	})
}

// limitFlags are how far a tenant may go.
type limitFlags struct {
	scope
	payment, line, low        string
	lowFor, releaseFor, grace string
	rearm                     int32
	unlimited, release        bool
}

func (a *app) limitCommand() *cobra.Command {
	return a.verb(verb{
		use: "limit", short: "Set the credit limits and warnings of a tenant, for administrators",
		operations: []string{"put-balance-limits", "get-billing-account"},
		long: "By default a tenant is postpaid, without limit. When a tenant reaches its limit, nothing\n" +
			"new is let to it, and after the grace period its allocations are released: the newest first, protected\n" +
			"ones last. What is not given stays as it was. Limits that would release something are refused without --release.",
		example: "  gpuaas billing limit --tenant acme --payment prepaid --low-for 3d --release-for 1d\n" +
			"  gpuaas billing limit --tenant acme --payment postpaid --credit-line 5000.00 --grace 12h",
		flags: func(cmd *cobra.Command) action {
			f := &limitFlags{}
			f.addTenant(cmd)
			flags := cmd.Flags()
			flags.StringVar(&f.payment, "payment", "", "prepaid, or postpaid: it pays afterwards (at first)")
			frame.Complete(cmd, "payment", apiclient.Words("BalanceView.payment")...)
			flags.StringVar(&f.line, "credit-line", "", "how far below zero it may go (default not at all if prepaid, without limit if postpaid)")
			flags.BoolVar(&f.unlimited, "unlimited", false, "take the credit line of a postpaid tenant away")
			flags.StringVar(&f.low, "low-below", "", "warn when no more than this is left, such as 100.00")
			flags.StringVar(&f.lowFor, "low-for", "", "warn when what is left lasts no longer, such as 12h or 3d (default 3d)")
			flags.StringVar(&f.releaseFor, "release-for", "", "announce releases when it lasts less than this (default 1d)")
			flags.StringVar(&f.grace, "grace", "", "how long after the end allocations are released (default at once)")
			flags.Int32Var(&f.rearm, "rearm-percent", 125, "warn again only after this share of a threshold was reached")
			flags.BoolVar(&f.release, "release", false, "accept that allocations of the tenant are released by these limits")
			return func(s *session, _ []string) error { return a.setLimit(s, f) }
		},
	})
}

func (a *app) setLimit(s *session, f *limitFlags) error {
	org, err := s.payer(f.scope)
	if err != nil {
		return err
	}
	body := apiclient.BalanceBody{
		Payment:      frame.Given(s.Session, "payment", frame.Ptr(apiclient.BalanceBodyPayment(f.payment))),
		RearmPercent: frame.Given(s.Session, "rearm-percent", &f.rearm),
		Unlimited:    frame.Given(s.Session, "unlimited", &f.unlimited),
		Release:      frame.Given(s.Session, "release", &f.release),
	}
	if f.line != "" || f.low != "" {
		account, err := frame.Fetch[apiclient.AccountView](s.API.GetBillingAccountWithResponse(s.Ctx, org))
		if err != nil {
			return err
		}
		for _, m := range []struct {
			flag, text string
			to         **int64
		}{{"credit-line", f.line, &body.CreditLineMinor}, {"low-below", f.low, &body.LowMinor}} {
			if m.text == "" {
				continue
			}
			minor, err := currency.Parse(m.text, account.Currency)
			if err != nil {
				return failure.Misuse(s.Cmd, "--%s: %s", m.flag, err)
			}
			*m.to = &minor
		}
	}
	for _, d := range []struct {
		flag, text string
		to         **int64
	}{
		{"low-for", f.lowFor, &body.LowSeconds},
		{"release-for", f.releaseFor, &body.ReleaseSeconds},
		{"grace", f.grace, &body.GraceSeconds},
	} {
		if d.text == "" {
			continue
		}
		span, err := moment.ParseLife(d.text)
		if err != nil {
			return s.ofFlag(d.flag, err)
		}
		*d.to = frame.Ptr(int64(span.Seconds()))
	}
	return frame.Show(s.Session, a.standingColumns())(s.API.PutBalanceLimitsWithResponse(s.Ctx, org,
		&apiclient.PutBalanceLimitsParams{}, body))
}
