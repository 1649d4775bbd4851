package cli

import (
	"strconv"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) overrideColumns() []table.Column[apiclient.SitePowerOverrideView] {
	type override = apiclient.SitePowerOverrideView
	return []table.Column[override]{
		{Title: "SELECTOR", Text: func(v override) string { return string(v.SelectorType) }},
		{Title: "VALUE", Text: func(v override) string { return v.SelectorValue }},
		{Title: "STATUS", Text: func(v override) string { return string(v.Status) }},
		{Title: "CREDENTIALS", Text: func(v override) string { return a.credential(v.Credentials) }},
		{Title: "ID", Text: func(v override) string { return v.PowerOverrideId.String() }},
		{Title: "CREATED", Text: func(v override) string { return a.When(v.CreatedAt) }, Detail: true},
		{Title: "UPDATED", Text: func(v override) string { return a.When(v.UpdatedAt) }, Detail: true},
		{Title: "VERSION", Text: func(v override) string { return strconv.FormatInt(v.Version, 10) }, Detail: true},
	}
}

func choiceColumns() []table.Column[apiclient.SitePowerChoiceView] {
	type choice = apiclient.SitePowerChoiceView
	return []table.Column[choice]{
		{Title: "SOURCE", Text: func(v choice) string { return string(v.Source) }},
		{Title: "REASON", Text: func(v choice) string { return v.Reason }},
		{Title: "FINGERPRINT", Text: func(v choice) string { return v.Fingerprint }},
		{Title: "OVERRIDE", Text: func(v choice) string {
			if v.PowerOverrideId == nil {
				return ""
			}
			return v.PowerOverrideId.String()
		}},
	}
}

func (a *app) siteOverrideCommand() *cobra.Command {
	return a.noun(noun{
		use: "power-override", short: "BMC credentials of single machines",
		long: "A machine gets the credentials of the active override by its PXE MAC, else by its BMC address, else by\n" +
			"its host name, else the default of the site.",
	},
		a.verb(verb{
			use: "list SITE", short: "List the overrides of a site", aliases: []string{"ls"}, args: frame.Exactly("SITE"),
			operations: []string{"list-power-overrides"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 0)
				return siteVerb(func(s *session, site types.UUID) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.SitePowerOverrideView]{
						Columns: a.overrideColumns(),
						Fetch:   s.overridesOf(site),
					})
				})
			},
		}),
		a.verb(verb{
			use: "get SITE ID", short: "Show an override", args: frame.Exactly("SITE", "ID"),
			operations: []string{"get-power-override"},
			run: overrideVerb(func(s *session, site, id types.UUID) error {
				return frame.Show(s.Session, a.overrideColumns())(s.API.GetPowerOverrideWithResponse(s.Ctx, site, id))
			}),
		}),
		a.overrideSetCommand(),
		a.verb(verb{
			use: "delete SITE ID", short: "Remove an override and its credentials", aliases: []string{"rm"},
			args: frame.Exactly("SITE", "ID"), operations: []string{"delete-power-override"},
			run: overrideVerb(func(s *session, site, id types.UUID) error {
				return frame.Done(s.Session, "override %s is deleted", id)(
					s.API.DeletePowerOverrideWithResponse(s.Ctx, site, id, &apiclient.DeletePowerOverrideParams{}))
			}),
		}),
		a.verb(verb{
			use: "resolve SITE", short: "Tell whose BMC credentials a machine gets, and why", args: frame.Exactly("SITE"),
			operations: []string{"get-power-choice"},
			flags: func(cmd *cobra.Command) action {
				m := addMachineFlags(cmd)
				return siteVerb(func(s *session, site types.UUID) error {
					if err := s.Anything("hostname", "ipmi-ip", "pxe-mac"); err != nil {
						return err
					}
					return frame.Show(s.Session, choiceColumns())(
						s.API.GetPowerChoiceWithResponse(s.Ctx, site, &apiclient.GetPowerChoiceParams{
							Hostname: frame.Given(s.Session, "hostname", &m.hostname), IpmiIp: frame.Given(s.Session, "ipmi-ip", &m.ipmiIP),
							PxeMac: frame.Given(s.Session, "pxe-mac", &m.pxeMAC),
						}))
				})
			},
		}),
	)
}

func overrideVerb(do func(s *session, site, override types.UUID) error) action {
	return func(s *session, args []string) error {
		override, err := s.IDOf("an override", args[1])
		if err != nil {
			return err
		}
		return siteVerb(func(s *session, site types.UUID) error { return do(s, site, override) })(s, args)
	}
}

func (s *session) overridesOf(site types.UUID) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListPowerOverridesWithResponse(s.Ctx, site,
			&apiclient.ListPowerOverridesParams{Cursor: p.Cursor, PageSize: p.Size})
	}
}

// machineFlags name a machine.
type machineFlags struct{ hostname, ipmiIP, pxeMAC string }

func addMachineFlags(cmd *cobra.Command) *machineFlags {
	m := &machineFlags{}
	cmd.Flags().StringVar(&m.hostname, "hostname", "", "the host name of the machine")
	cmd.Flags().StringVar(&m.ipmiIP, "ipmi-ip", "", "the address of its BMC")
	cmd.Flags().StringVar(&m.pxeMAC, "pxe-mac", "", "the MAC address of its PXE interface")
	return m
}

// selector is the one way in which a machine was named.
func (m machineFlags) selector(s *session) (kind, value string, err error) {
	for _, c := range [][2]string{{"hostname", m.hostname}, {"ipmi_ip", m.ipmiIP}, {"pxe_mac", m.pxeMAC}} {
		if c[1] == "" {
			continue
		}
		if kind != "" {
			return "", "", failure.Misuse(s.Cmd, "an override is by one of --hostname, --ipmi-ip and --pxe-mac")
		}
		kind, value = c[0], c[1]
	}
	if kind == "" {
		return "", "", failure.Misuse(s.Cmd, "name the machine by --hostname, --ipmi-ip or --pxe-mac")
	}
	return kind, value, nil
}

func (a *app) overrideSetCommand() *cobra.Command {
	return a.verb(verb{
		use: "set SITE", short: "Give one machine BMC credentials of its own, or change them", args: frame.Exactly("SITE"),
		operations: []string{"create-power-override", "update-power-override"},
		long:       "The file holds one line: USER:PASSWORD. Write the selector as \"list\" shows it to change an override.",
		example:    "  gpuaas site power-override set dc1 --hostname c07u31 --power-file bmc.txt",
		flags: func(cmd *cobra.Command) action {
			m := addMachineFlags(cmd)
			power := addPowerFlags(cmd, "file with the BMC credentials, - for standard input")
			cmd.Flags().Bool("disable", false, "pass the override over until it is enabled again")
			cmd.Flags().Bool("enable", false, "use the override again")
			return func(s *session, args []string) error { return a.setOverride(s, args[0], *m, power) }
		},
	})
}

func (a *app) setOverride(s *session, siteName string, m machineFlags, given *powerFlags) error {
	kind, value, err := m.selector(s)
	if err != nil {
		return err
	}
	if err := s.Anything("power-file", "disable", "enable"); err != nil {
		return err
	}
	off, err := s.Switched("disable", "enable")
	if err != nil {
		return err
	}
	power, err := s.power(given)
	if err != nil {
		return err
	}
	site, err := s.siteID(siteName)
	if err != nil {
		return err
	}
	now, exists, err := listing.Find(s.overridesOf(site), func(v apiclient.SitePowerOverrideView) bool {
		return string(v.SelectorType) == kind && v.SelectorValue == value
	})
	if err != nil {
		return err
	}
	if !exists {
		if power == nil || off != nil {
			return failure.Misuse(s.Cmd, "there is no override by %s %s; to create one give --power-file alone", kind, value)
		}
		return frame.Show(s.Session, a.overrideColumns())(
			s.API.CreatePowerOverrideWithResponse(s.Ctx, site, &apiclient.CreatePowerOverrideParams{},
				newOverride(kind, value, *power)))
	}
	body := apiclient.SitePowerOverrideChangeBody{Credentials: power}
	if off != nil {
		body.Status = frame.Ptr(apiclient.SitePowerOverrideChangeBodyStatusActive)
		if *off {
			body.Status = frame.Ptr(apiclient.SitePowerOverrideChangeBodyStatusDisabled)
		}
	}
	return frame.Show(s.Session, a.overrideColumns())(
		s.API.UpdatePowerOverrideWithResponse(s.Ctx, site, now.PowerOverrideId,
			&apiclient.UpdatePowerOverrideParams{IfMatch: frame.ETag(now.Version)}, body))
}
