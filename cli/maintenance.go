package cli

import (
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) maintenanceColumns() []table.Column[apiclient.MaintenanceView] {
	type maintenance = apiclient.MaintenanceView
	return []table.Column[maintenance]{
		{Title: "ID", Text: func(m maintenance) string { return m.MaintenanceId.String() }},
		{Title: "NODE", Text: func(m maintenance) string { return m.Hostname }},
		{Title: "STATUS", Text: func(m maintenance) string { return string(m.Status) }},
		{Title: "KIND", Text: func(m maintenance) string { return string(m.Kind) }},
		{Title: "CONSENT", Wide: true, Text: func(m maintenance) string {
			if m.ConsentAsked {
				return "asked"
			}
			return "told"
		}},
		wide(at(a, "NOT BEFORE", func(m maintenance) time.Time { return m.NotBefore })),
		at(a, "BY", func(m maintenance) time.Time { return m.DueAt }),
		{Title: "REASON", Long: true, Text: func(m maintenance) string { return m.Reason }},
		{Title: "ANSWERED BY", Wide: true, Text: func(m maintenance) string {
			if m.AnsweredByName != nil {
				return *m.AnsweredByName
			}
			return text(m.AnsweredBy)
		}},
		{Title: "ANSWER", Text: func(m maintenance) string { return text(m.Answer) }, Detail: true},
		{Title: "ANSWERED", Text: func(m maintenance) string { return a.Whenever(m.AnsweredAt) }, Detail: true},
		{Title: "ALLOCATION ID", Text: func(m maintenance) string { return m.AllocationId.String() }, Detail: true},
		{Title: "PROJECT ID", Text: func(m maintenance) string { return m.ProjectId.String() }, Detail: true},
		{Title: "ANNOUNCED BY", Text: func(m maintenance) string { return text(m.AnnouncedBy) }, Detail: true},
		{Title: "ENDED", Text: func(m maintenance) string { return text(m.EndedBecause) }, Detail: true},
	}
}

func (a *app) maintenanceCommand() *cobra.Command {
	return a.noun(noun{
		use: "maintenance", short: "Work on rented nodes that is announced to their tenants", group: groupRent,
		long: "Operators announce it; tenants see it on their allocation, and agree or decline where they are asked.\n" +
			"One of kind release ends the allocation at its deadline, and nobody gets the node until it is finished;\n" +
			"through a reboot or a pause the tenant keeps the node, which is repairing meanwhile.",
	}, a.maintenanceAnnounceCommand(), a.maintenanceListCommand(), a.maintenanceShowCommand(),
		a.maintenanceConsentCommand(), a.maintenanceDeclineCommand(), a.maintenanceBeginCommand(),
		a.maintenanceFinishCommand(), a.maintenanceCancelCommand())
}

// announceFlags say what is announced, and to whom.
type announceFlags struct {
	kind, reason, notBefore, by string
	region, rack, pool, sku     string
	labels                      map[string]string
	ask                         bool
}

func (a *app) maintenanceAnnounceCommand() *cobra.Command {
	return a.verb(verb{
		use: "announce [NODE…]", short: "Announce maintenance of nodes to the tenants on them",
		args: cobra.ArbitraryArgs, operations: []string{"announce-maintenance"},
		long: "Name the nodes, or choose rented ones by --rack, --region, --pool, --sku and --node-label. Nodes without\n" +
			"a tenant are left out. With --ask-consent nothing happens without the tenant's consent; otherwise the\n" +
			"tenant is told.",
		example: "  gpuaas maintenance announce c07u31 --kind reboot --not-before 22:00 --by 23:30 --reason 'new firmware'\n" +
			"  gpuaas maintenance announce --rack c07 --kind release --by '2026-12-01 08:00' --reason 'the rack is moved'",
		flags: func(cmd *cobra.Command) action {
			f := &announceFlags{}
			flags := cmd.Flags()
			flags.StringVar(&f.kind, "kind", "", "what it needs: release, reboot or pause")
			frame.Complete(cmd, "kind", apiclient.Words("MaintenancePlanBody.kind")...)
			flags.StringVar(&f.by, "by", "", "when the window closes; of kind release: when the allocation ends")
			flags.StringVar(&f.notBefore, "not-before", "", "when the window opens (default --by)")
			flags.StringVar(&f.reason, "reason", "", "why, for the tenants")
			flags.BoolVar(&f.ask, "ask-consent", false, "do nothing without the consent of the tenant")
			flags.StringVar(&f.region, "region", "", "rented nodes of this region")
			flags.StringVar(&f.rack, "rack", "", "rented nodes of this rack")
			flags.StringVar(&f.pool, "pool", "", "rented nodes of this pool")
			flags.StringVar(&f.sku, "sku", "", "rented nodes of this SKU")
			flags.StringToStringVar(&f.labels, "node-label", nil, "rented nodes with this label, as `KEY=VALUE`")
			return func(s *session, args []string) error {
				if err := s.Require("kind", "by", "reason"); err != nil {
					return err
				}
				return a.announce(s, f, args)
			}
		},
	})
}

func (f *announceFlags) body(s *session, nodes []string) (apiclient.MaintenancePlanBody, error) {
	b := apiclient.MaintenancePlanBody{
		Kind: apiclient.MaintenancePlanBodyKind(f.kind), Reason: f.reason,
		AskConsent: frame.Given(s.Session, "ask-consent", &f.ask),
	}
	var err error
	if b.DueAt, err = s.Moment(f.by); err != nil {
		return b, s.ofFlag("by", err)
	}
	if f.notBefore != "" {
		opens, err := s.Moment(f.notBefore)
		if err != nil {
			return b, s.ofFlag("not-before", err)
		}
		b.NotBefore = &opens
	}
	if len(nodes) > 0 {
		ids := make([]types.UUID, len(nodes))
		for i, name := range nodes {
			if ids[i], err = s.nodeID(name); err != nil {
				return b, err
			}
		}
		b.NodeIds = &ids
	}
	where := apiclient.MaintenanceSelectorBody{
		Region: frame.Given(s.Session, "region", &f.region), Rack: frame.Given(s.Session, "rack", &f.rack),
		Pool: frame.Given(s.Session, "pool", &f.pool), Sku: frame.Given(s.Session, "sku", &f.sku),
		Labels: frame.Given(s.Session, "node-label", &f.labels),
	}
	chosen := where != (apiclient.MaintenanceSelectorBody{})
	if chosen == (len(nodes) > 0) {
		return b, failure.Misuse(s.Cmd, "name nodes, or choose them by --rack, --region, --pool, --sku or --node-label")
	}
	if chosen {
		b.Selector = &where
	}
	return b, nil
}

func (a *app) announce(s *session, f *announceFlags, nodes []string) error {
	body, err := f.body(s, nodes)
	if err != nil {
		return err
	}
	raw, err := apiclient.Read(s.API.AnnounceMaintenanceWithResponse(s.Ctx, &apiclient.AnnounceMaintenanceParams{}, body))
	if err != nil {
		return err
	}
	made, err := output.Decode[apiclient.MaintenanceMadeView](raw)
	if err != nil {
		return err
	}
	for _, l := range made.Value.LeftOut {
		s.Note("left out %s: %s", l.Hostname, l.Reason)
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	return frame.PrintPart(s.Session, a.maintenanceColumns(), made.Value.Maintenances)
}

func (a *app) maintenanceListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List announced maintenance, newest first", aliases: []string{"ls"},
		operations: []string{"list-maintenances", "list-all-maintenances"},
		long:       "With --project that of the project. Without it that of all tenants, for operators.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			statuses := cmd.Flags().StringSlice("status", nil, "only those with this status; may be repeated")
			frame.Complete(cmd, "status", apiclient.Words("list-maintenances.status")...)
			f := listing.AddFlags(cmd, 50)
			return func(s *session, _ []string) error {
				given := frame.Given(s.Session, "status", statuses)
				fetch := func(p listing.Page) (apiclient.Answer, error) {
					return s.API.ListAllMaintenancesWithResponse(s.Ctx, &apiclient.ListAllMaintenancesParams{
						Cursor: p.Cursor, PageSize: p.Size, Status: asStatuses[apiclient.ListAllMaintenancesParamsStatus](given),
					})
				}
				if c.project != "" {
					project, err := s.projectID(*c)
					if err != nil {
						return err
					}
					fetch = func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListMaintenancesWithResponse(s.Ctx, project, &apiclient.ListMaintenancesParams{
							Cursor: p.Cursor, PageSize: p.Size, Status: asStatuses[apiclient.ListMaintenancesParamsStatus](given),
						})
					}
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.MaintenanceView]{
					Columns: a.maintenanceColumns(), Fetch: fetch,
				})
			}
		},
	})
}

func (a *app) maintenanceShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show MAINTENANCE", short: "Show announced maintenance", aliases: []string{"get"},
		args: frame.Exactly("MAINTENANCE"), operations: []string{"get-maintenance"},
		run: func(s *session, args []string) error {
			id, err := s.IDOf("a maintenance", args[0])
			if err != nil {
				return err
			}
			return frame.Show(s.Session, a.maintenanceColumns())(s.API.GetMaintenanceWithResponse(s.Ctx, id))
		},
	})
}

// announced finds the maintenance that is announced for an allocation.
func (s *session) announced(c scope, name string) (apiclient.AllocationView, types.UUID, error) {
	o, err := s.allocation(c, name)
	if err != nil {
		return o.Value, types.UUID{}, err
	}
	if o.Value.Maintenance == nil {
		return o.Value, types.UUID{}, failure.Missing("see it: gpuaas allocation show "+o.Value.AllocationId.String(),
			"no maintenance is announced for %s", name)
	}
	return o.Value, o.Value.Maintenance.MaintenanceId, nil
}

func (a *app) maintenanceConsentCommand() *cobra.Command {
	return a.verb(verb{
		use: "consent ALLOCATION", short: "Agree to the maintenance that is announced for an allocation",
		args:       frame.Exactly("ALLOCATION"),
		operations: []string{"get-allocation-flat", "consent-to-maintenance"},
		long: "With --now it may begin at once, whatever the window: of kind release that ENDS the allocation, and\n" +
			"everything of yours on the node is destroyed.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			now := cmd.Flags().Bool("now", false, "at once, whatever the window")
			note := cmd.Flags().String("note", "", "what operators should mind")
			yes := frame.AddYesFlag(cmd)
			return func(s *session, args []string) error {
				v, id, err := s.announced(*c, args[0])
				if err != nil {
					return err
				}
				if *now && v.Maintenance.Kind == apiclient.AllocationAnnouncedViewKindRelease {
					if err := s.Confirm(*yes, "Everything of yours on %s is destroyed: %s is released now.", v.Hostname,
						args[0]); err != nil {
						return err
					}
				}
				return frame.Show(s.Session, a.maintenanceColumns())(s.API.ConsentToMaintenanceWithResponse(s.Ctx, v.ProjectId, id,
					&apiclient.ConsentToMaintenanceParams{}, apiclient.MaintenanceConsentBody{
						Now: frame.Given(s.Session, "now", now), Note: frame.Given(s.Session, "note", note),
					}))
			}
		},
	})
}

func (a *app) maintenanceDeclineCommand() *cobra.Command {
	return a.verb(verb{
		use: "decline ALLOCATION", short: "Decline the maintenance that is announced for an allocation",
		args:       frame.Exactly("ALLOCATION"),
		operations: []string{"get-allocation-flat", "decline-maintenance"},
		long:       "Only where you are asked for consent. You can agree later.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			reason := cmd.Flags().String("reason", "", "why, for the operators")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				v, id, err := s.announced(*c, args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.maintenanceColumns())(s.API.DeclineMaintenanceWithResponse(s.Ctx, v.ProjectId, id,
					&apiclient.DeclineMaintenanceParams{}, apiclient.MaintenanceDeclineBody{Reason: *reason}))
			}
		},
	})
}

func (a *app) maintenanceBeginCommand() *cobra.Command {
	return a.verb(verb{
		use: "begin MAINTENANCE", short: "Begin a reboot or pause that was announced", args: frame.Exactly("MAINTENANCE"),
		operations: []string{"begin-maintenance"},
		long:       "Refused before its time, and without consent where that was asked for. The allocation is repairing meanwhile.",
		run: func(s *session, args []string) error {
			id, err := s.IDOf("a maintenance", args[0])
			if err != nil {
				return err
			}
			return frame.Show(s.Session, a.maintenanceColumns())(s.API.BeginMaintenanceWithResponse(s.Ctx, id,
				&apiclient.BeginMaintenanceParams{}))
		},
	})
}

// maintenanceReasonCommand is a step of operators that needs words for the tenant.
func (a *app) maintenanceReasonCommand(word, short, operation, flag string,
	call func(s *session, id types.UUID, b apiclient.MaintenanceReasonBody) (apiclient.Answer, error),
) *cobra.Command {
	return a.verb(verb{
		use: word + " MAINTENANCE", short: short, args: frame.Exactly("MAINTENANCE"), operations: []string{operation},
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", flag)
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := s.IDOf("a maintenance", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.maintenanceColumns())(call(s, id, apiclient.MaintenanceReasonBody{Reason: *reason}))
			}
		},
	})
}

func (a *app) maintenanceFinishCommand() *cobra.Command {
	return a.maintenanceReasonCommand("finish", "End maintenance that is under way: the node can be used again",
		"finish-maintenance", "what was done, for the tenant",
		func(s *session, id types.UUID, b apiclient.MaintenanceReasonBody) (apiclient.Answer, error) {
			return s.API.FinishMaintenanceWithResponse(s.Ctx, id, &apiclient.FinishMaintenanceParams{}, b)
		})
}

func (a *app) maintenanceCancelCommand() *cobra.Command {
	return a.maintenanceReasonCommand("cancel", "Take back announced maintenance that has not begun",
		"cancel-maintenance", "why, for the tenant",
		func(s *session, id types.UUID, b apiclient.MaintenanceReasonBody) (apiclient.Answer, error) {
			return s.API.CancelMaintenanceWithResponse(s.Ctx, id, &apiclient.CancelMaintenanceParams{}, b)
		})
}

// repairing says since when the node of an allocation is repaired, and why.
func (a *app) repairing(v apiclient.AllocationView) string {
	if v.Repairing == nil {
		return ""
	}
	return "since " + a.When(v.Repairing.Since) + ": " + v.Repairing.Reason
}

// announcement says what is announced for an allocation.
func (a *app) announcement(v apiclient.AllocationView) string {
	m := v.Maintenance
	if m == nil {
		return ""
	}
	window := a.When(m.DueAt)
	if m.NotBefore.Before(m.DueAt.Add(-time.Minute)) {
		window = a.When(m.NotBefore) + " to " + window
	}
	said := string(m.Kind) + ", " + string(m.Status) + ", " + window + ": " + m.Reason
	if m.ConsentAsked && m.Status == apiclient.AllocationAnnouncedViewStatusAnnounced {
		said += " (answer it: gpuaas maintenance consent|decline " + v.AllocationId.String() + ")"
	}
	return said
}
