package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// life says how long something lasts, of a number of seconds; zero has a word of its own.
func life(seconds int64, zero string) string {
	if seconds == 0 {
		return zero
	}
	return moment.Short(time.Duration(seconds) * time.Second)
}

func (a *app) rentalSettingsColumns() []table.Column[apiclient.RentalsettingsView] {
	type settings = apiclient.RentalsettingsView
	here := func(set bool, value string) string {
		if !set {
			return "not set"
		}
		return value
	}
	lasts := func(seconds *int64, zero string) string {
		if seconds == nil {
			return here(false, "")
		}
		return life(*seconds, zero)
	}
	return []table.Column[settings]{
		{Title: "DEFAULT EXPIRY", Text: func(v settings) string {
			return life(v.InForce.DefaultExpirySeconds, "never") + ", set by the " + string(v.InForce.DefaultExpiryFrom)
		}},
		{Title: "MAX EXPIRY", Text: func(v settings) string {
			return life(v.InForce.MaxExpirySeconds, "no limit") + ", set by the " + string(v.InForce.MaxExpiryFrom)
		}},
		{Title: "ROOT ACCESS", Text: func(v settings) string {
			return yesNo(v.InForce.RootAccess) + ", set by the " + string(v.InForce.RootAccessFrom)
		}},
		{Title: "DEFAULT EXPIRY HERE", Text: func(v settings) string {
			return lasts(v.DefaultExpirySeconds, "never")
		}, Detail: true},
		{Title: "MAX EXPIRY HERE", Text: func(v settings) string { return lasts(v.MaxExpirySeconds, "") }, Detail: true},
		{Title: "ROOT ACCESS HERE", Text: func(v settings) string {
			return here(v.RootAccess != nil, yesNo(v.RootAccess != nil && *v.RootAccess))
		}, Detail: true},
		{Title: "VERSION", Text: func(v settings) string { return strconv.FormatInt(v.Version, 10) }, Detail: true},
	}
}

// rentalSettings are the settings of one owner.
type rentalSettings struct {
	get func() (apiclient.Answer, error)
	put func(version int64, values apiclient.RentalsettingsValuesBody) (apiclient.Answer, error)
}

// ownerSettings finds the settings of the owner that an argument names.
type ownerSettings func(s *session, c scope, name string) (rentalSettings, error)

func tenantSettings(s *session, _ scope, name string) (rentalSettings, error) {
	org, err := s.tenantID(name)
	return rentalSettings{
		get: func() (apiclient.Answer, error) { return s.API.GetTenantRentalSettingsWithResponse(s.Ctx, org) },
		put: func(version int64, values apiclient.RentalsettingsValuesBody) (apiclient.Answer, error) {
			return s.API.PutTenantRentalSettingsWithResponse(s.Ctx, org,
				&apiclient.PutTenantRentalSettingsParams{IfMatch: frame.ETag(version)}, values)
		},
	}, err
}

func projectSettings(s *session, c scope, name string) (rentalSettings, error) {
	project, err := s.projectID(scope{tenant: c.tenant, project: name})
	return rentalSettings{
		get: func() (apiclient.Answer, error) { return s.API.GetProjectRentalSettingsWithResponse(s.Ctx, project) },
		put: func(version int64, values apiclient.RentalsettingsValuesBody) (apiclient.Answer, error) {
			return s.API.PutProjectRentalSettingsWithResponse(s.Ctx, project,
				&apiclient.PutProjectRentalSettingsParams{IfMatch: frame.ETag(version)}, values)
		},
	}, err
}

func (a *app) tenantSettingsCommand() *cobra.Command {
	return a.settingsCommand("tenant", "TENANT", tenantSettings, func(*cobra.Command, *scope) {})
}

func (a *app) projectSettingsCommand() *cobra.Command {
	return a.settingsCommand("project", "PROJECT", projectSettings,
		func(cmd *cobra.Command, c *scope) { c.addTenant(cmd) })
}

func (a *app) settingsCommand(
	kind, argument string, of ownerSettings, scoped func(*cobra.Command, *scope),
) *cobra.Command {
	return a.noun(noun{
		use: "settings", short: "How a " + kind + " rents: how long, and whether with root",
		long: "A tenant's settings bound those of its projects. What nobody has set is as the platform has it:\n" +
			"allocations last until they are released, and root access may be asked for.",
	},
		a.verb(verb{
			use: "show " + argument, short: "Show what is in force, and who settled it", args: frame.Exactly(argument),
			operations: []string{"get-" + kind + "-rental-settings"},
			flags: func(cmd *cobra.Command) action {
				c := &scope{}
				scoped(cmd, c)
				return func(s *session, args []string) error {
					owner, err := of(s, *c, args[0])
					if err != nil {
						return err
					}
					return frame.Show(s.Session, a.rentalSettingsColumns())(owner.get())
				}
			},
		}),
		a.settingsSetCommand(kind, argument, of, scoped),
	)
}

func (a *app) settingsSetCommand(
	kind, argument string, of ownerSettings, scoped func(*cobra.Command, *scope),
) *cobra.Command {
	return a.verb(verb{
		use: "set " + argument, short: "Change how a " + kind + " rents", args: frame.Exactly(argument),
		operations: []string{"get-" + kind + "-rental-settings", "put-" + kind + "-rental-settings"},
		long: "What is not given stays as it is. What is rented already stays as it is too; extending it is held\n" +
			"to the maximum, counted from that moment.",
		example: "  gpuaas " + kind + " settings set " + argument + " --default-expiry 7d --max-expiry 30d\n" +
			"  gpuaas " + kind + " settings set " + argument + " --root-access=false\n" +
			"  gpuaas " + kind + " settings set " + argument + " --clear max-expiry",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			scoped(cmd, c)
			v := addSettingsFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Anything("default-expiry", "max-expiry", "root-access", "clear"); err != nil {
					return err
				}
				owner, err := of(s, *c, args[0])
				if err != nil {
					return err
				}
				now, err := frame.Fetch[apiclient.RentalsettingsView](owner.get())
				if err != nil {
					return err
				}
				values, err := v.applied(s, now)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.rentalSettingsColumns())(owner.put(now.Version, values))
			}
		},
	})
}

// settingsFlags are the flags that change settings.
type settingsFlags struct {
	standard, most string
	root           bool
	clear          []string
}

func addSettingsFlags(cmd *cobra.Command) *settingsFlags {
	v := &settingsFlags{}
	f := cmd.Flags()
	f.StringVar(&v.standard, "default-expiry", "",
		"how long an allocation lasts whose request does not say, such as 12h or 30d, or never")
	f.StringVar(&v.most, "max-expiry", "", "how long an allocation may last at most, such as 12h or 30d")
	f.BoolVar(&v.root, "root-access", false, "whether root access may be asked for")
	f.StringSliceVar(&v.clear, "clear", nil, "do not settle this here any more: default-expiry, max-expiry or root-access")
	frame.Complete(cmd, "clear", "default-expiry", "max-expiry", "root-access")
	return v
}

// applied are the settings of before with what was given.
func (v *settingsFlags) applied(s *session, now apiclient.RentalsettingsView) (apiclient.RentalsettingsValuesBody,
	error,
) {
	out := apiclient.RentalsettingsValuesBody{
		DefaultExpirySeconds: now.DefaultExpirySeconds, MaxExpirySeconds: now.MaxExpirySeconds, RootAccess: now.RootAccess,
	}
	for _, name := range v.clear {
		if s.Cmd.Flags().Changed(name) {
			return out, failure.Misuse(s.Cmd, "give either --%s or --clear %s", name, name)
		}
		switch name {
		case "default-expiry":
			out.DefaultExpirySeconds = nil
		case "max-expiry":
			out.MaxExpirySeconds = nil
		default:
			out.RootAccess = nil
		}
	}
	for _, f := range []struct {
		flag, text string
		to         **int64
	}{
		{"default-expiry", v.standard, &out.DefaultExpirySeconds}, {"max-expiry", v.most, &out.MaxExpirySeconds},
	} {
		if f.text == "" {
			continue
		}
		seconds, err := expirySeconds(f.text)
		if err != nil {
			return out, s.ofFlag(f.flag, err)
		}
		if seconds == 0 && f.to == &out.MaxExpirySeconds {
			return out, failure.Misuse(s.Cmd, "to have no maximum here, use --clear max-expiry")
		}
		*f.to = &seconds
	}
	if root := frame.Given(s.Session, "root-access", &v.root); root != nil {
		out.RootAccess = root
	}
	return out, nil
}

// expirySeconds reads how long something lasts; never is zero.
func expirySeconds(text string) (int64, error) {
	if text == "never" {
		return 0, nil
	}
	d, err := moment.ParseLife(text)
	return int64(d.Seconds()), err
}
