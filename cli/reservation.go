package cli

import (
	"fmt"
	"strconv"
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

func (a *app) reservationColumns() []table.Column[apiclient.ReservationView] {
	type reservation = apiclient.ReservationView
	number := func(of func(reservation) int32) func(reservation) string {
		return func(v reservation) string { return strconv.Itoa(int(of(v))) }
	}
	return []table.Column[reservation]{
		{Title: "ID", Text: func(v reservation) string { return v.ReservationId.String() }},
		{Title: "STATE", Text: func(v reservation) string { return string(v.State) }},
		{Title: "FOR", Long: true, Text: func(v reservation) string {
			if v.ProjectId != nil {
				return "project " + v.ProjectId.String()
			}
			return "tenant " + v.OrgId.String()
		}},
		{Title: "SKU", Text: func(v reservation) string { return v.Sku }},
		{Title: "NODES", Wide: true, Text: number(func(v reservation) int32 { return v.Nodes })},
		{
			Title: "USED", Text: number(func(v reservation) int32 { return v.Used }),
			Brief: func(v reservation) string { return fmt.Sprintf("%d of %d", v.Used, v.Nodes) },
		},
		{Title: "HELD FREE", Wide: true, Text: number(func(v reservation) int32 { return v.Held })},
		{Title: "SHORT BY", Text: number(func(v reservation) int32 { return v.ShortBy })},
		wide(at(a, "FROM", func(v reservation) time.Time { return v.StartsAt })),
		ago(a, "UNTIL", func(v reservation) time.Time { return v.EndsAt }),
		{Title: "REGION", Text: func(v reservation) string { return text(v.Region) }, Detail: true},
		{Title: "RACK", Text: func(v reservation) string { return text(v.Rack) }, Detail: true},
		{Title: "POOL", Text: func(v reservation) string { return text(v.Pool) }, Detail: true},
		{Title: "NODE LABELS", Text: func(v reservation) string {
			if v.NodeLabels == nil {
				return ""
			}
			return compact(v.NodeLabels)
		}, Detail: true},
		{Title: "REASON", Text: func(v reservation) string { return text(v.Reason) }, Detail: true},
		{Title: "FORCED", Text: func(v reservation) string { return yesNo(v.Forced != nil && *v.Forced) }, Detail: true},
		{Title: "CHARGED", Text: chargeText, Detail: true},
		{Title: "MADE", Text: func(v reservation) string { return a.When(v.CreatedAt) }, Detail: true},
		{Title: "MADE BY", Text: func(v reservation) string { return text(v.CreatedByName) }, Detail: true},
		{Title: "CANCELLED", Text: func(v reservation) string {
			if v.CancelledAt == nil {
				return ""
			}
			return a.When(*v.CancelledAt) + ": " + text(v.CancelReason)
		}, Detail: true},
	}
}

// chargeText is what nodes of a reservation cost that are not used.
func chargeText(v apiclient.ReservationView) string {
	if v.Charge == nil {
		return "no: it costs nothing"
	}
	c := *v.Charge
	of := func(minor int64) string { return currency.Format(minor, c.Currency) }
	text := fmt.Sprintf("%s an hour now, for %d nodes that are not used", of(c.BurnMinorPerHour), c.UnusedNodes)
	return text + fmt.Sprintf(" (%s a unit, %d units a node, discount %s); %s until now", of(c.PriceMinor), c.Units,
		discountText(c.PaidShare), of(c.CostMinor))
}

func (a *app) reservationCommand() *cobra.Command {
	return a.noun(noun{
		use: "reservation", short: "Nodes kept for a tenant or a project in a time window", group: groupRent,
		long: "A reservation keeps a number of nodes, not certain ones. What its owner rents counts as used; free\n" +
			"nodes are held for the rest, and what is missing is short.",
	}, a.reservationListCommand(), a.reservationCreateCommand(),
		a.verb(verb{
			use: "show RESERVATION", short: "Show a reservation, and how it is used", args: frame.Exactly("RESERVATION"),
			operations: []string{"get-reservation"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a reservation", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.reservationColumns())(s.API.GetReservationWithResponse(s.Ctx, id))
			},
		}),
		a.verb(verb{
			use: "cancel RESERVATION", short: "End a reservation before its time, for operators",
			args: frame.Exactly("RESERVATION"), operations: []string{"cancel-reservation"},
			long: "What is rented stays rented.",
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "why; the owner reads it")
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					id, err := s.IDOf("a reservation", args[0])
					if err != nil {
						return err
					}
					return frame.Show(s.Session, a.reservationColumns())(s.API.CancelReservationWithResponse(s.Ctx, id,
						&apiclient.CancelReservationParams{}, apiclient.ReservationEndBody{Reason: *reason}))
				}
			},
		}),
	)
}

func (a *app) reservationListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List reservations that you may see", aliases: []string{"ls"},
		operations: []string{"list-reservations"},
		long:       "With --project those that the project may use: its own, and those for all of its tenant.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			sku := cmd.Flags().String("sku", "", "only of this SKU")
			states := cmd.Flags().StringSlice("state", []string{"upcoming", "active"},
				"only in these states: upcoming, active, ended or cancelled")
			frame.Complete(cmd, "state", apiclient.Words("ReservationView.state")...)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				p := apiclient.ListReservationsParams{
					Sku: frame.Given(s.Session, "sku", sku), State: &[]apiclient.ListReservationsParamsState{},
				}
				for _, state := range *states {
					*p.State = append(*p.State, apiclient.ListReservationsParamsState(state))
				}
				if c.project != "" {
					id, err := s.projectID(*c)
					if err != nil {
						return err
					}
					p.ProjectId = &id
				} else if c.tenant != "" {
					id, err := s.tenantID(c.tenant)
					if err != nil {
						return err
					}
					p.OrgId = &id
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.ReservationView]{
					Columns: a.reservationColumns(),
					Fetch: func(page listing.Page) (apiclient.Answer, error) {
						p.Cursor, p.PageSize = page.Cursor, page.Size
						return s.API.ListReservationsWithResponse(s.Ctx, &p)
					},
				})
			}
		},
	})
}

// reservationFlags say what is to be reserved.
type reservationFlags struct {
	scope
	sku, region, rack, pool, from, until, lasts, reason string
	nodes                                               int32
	labels                                              map[string]string
	force, charge                                       bool
}

func (a *app) reservationCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create", short: "Keep nodes for a tenant or a project, for operators",
		operations: []string{"create-reservation", "get-project"},
		long: "Nothing that is rented is taken away: nodes are kept as they become free. With --project only that\n" +
			"project may use them, with --tenant all projects of the tenant. It costs nothing, unless an administrator\n" +
			"has it charged: then its owner pays for what it does not use, at the price of now.",
		example: "  gpuaas reservation create --tenant acme --sku h200-sxm-baremetal-8g --nodes 4 --for 30d\n" +
			"  gpuaas reservation create --project acme/training --sku h200-sxm-baremetal-8g --nodes 2 \\\n" +
			"    --from 2026-03-04 --until 2026-04-01 --reason \"contract 17\"",
		flags: func(cmd *cobra.Command) action {
			f := &reservationFlags{}
			f.addProject(cmd)
			flags := cmd.Flags()
			flags.StringVar(&f.sku, "sku", "", "what to reserve: gpuaas sku list")
			flags.Int32Var(&f.nodes, "nodes", 0, "how many nodes")
			flags.StringVar(&f.from, "from", "", "when it begins, such as \"2026-03-04 05:06\" (default now)")
			flags.StringVar(&f.until, "until", "", "when it ends, such as \"2026-04-01 05:06\"")
			flags.StringVar(&f.lasts, "for", "", "how long it lasts instead, such as 12h or 30d")
			flags.StringVar(&f.region, "region", "", "only nodes of this region")
			flags.StringVar(&f.rack, "rack", "", "only nodes of this rack")
			flags.StringVar(&f.pool, "pool", "", "nodes of this pool (default the general one)")
			flags.StringToStringVar(&f.labels, "node-label", nil, "a label that nodes must have, as `KEY=VALUE`")
			flags.StringVar(&f.reason, "reason", "", "why; the owner reads it")
			flags.BoolVar(&f.charge, "charge", false, "the owner pays for nodes of it that it does not use (default: it costs nothing)")
			flags.BoolVar(&f.force, "force", false, "also if the fleet has too few nodes for all that is reserved")
			return func(s *session, _ []string) error {
				body, err := f.body(s)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.reservationColumns())(
					s.API.CreateReservationWithResponse(s.Ctx, &apiclient.CreateReservationParams{}, body))
			}
		},
	})
}

func (f *reservationFlags) body(s *session) (apiclient.ReservationWishBody, error) {
	b := apiclient.ReservationWishBody{
		Sku: f.sku, Nodes: f.nodes, Region: frame.Given(s.Session, "region", &f.region),
		Rack: frame.Given(s.Session, "rack", &f.rack), Pool: frame.Given(s.Session, "pool", &f.pool),
		NodeLabels: frame.Given(s.Session, "node-label", &f.labels), Reason: frame.Given(s.Session, "reason", &f.reason),
		Force: frame.Given(s.Session, "force", &f.force), Charge: frame.Given(s.Session, "charge", &f.charge),
	}
	if err := s.Require("sku", "nodes"); err != nil {
		return b, err
	}
	if (f.until == "") == (f.lasts == "") {
		return b, failure.Misuse(s.Cmd, "give either --until or --for")
	}
	begin := s.Now()
	if f.from != "" {
		at, err := s.Moment(f.from)
		if err != nil {
			return b, s.ofFlag("from", err)
		}
		begin, b.StartsAt = at, &at
	}
	var err error
	if f.until != "" {
		b.EndsAt, err = s.Moment(f.until)
		err = s.ofFlag("until", err)
	} else {
		var life time.Duration
		life, err = moment.ParseLife(f.lasts)
		b.EndsAt, err = begin.Add(life).UTC(), s.ofFlag("for", err)
	}
	if err != nil {
		return b, err
	}
	return b, f.owner(s, &b)
}

// owner says whom it is for.
func (f *reservationFlags) owner(s *session, b *apiclient.ReservationWishBody) error {
	if f.project == "" {
		if f.tenant == "" {
			return failure.Misuse(s.Cmd, "name the owner with --tenant or --project")
		}
		org, err := s.tenantID(f.tenant)
		b.OrgId = org
		return err
	}
	id, err := s.projectID(f.scope)
	if err != nil {
		return err
	}
	project, err := frame.Fetch[apiclient.IdentityProjectView](s.API.GetProjectWithResponse(s.Ctx, id))
	b.OrgId, b.ProjectId = project.OrgId, &id
	return err
}
