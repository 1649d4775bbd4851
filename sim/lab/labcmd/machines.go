package labcmd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/sim/lab"
	"gpuaas/sim/lab/happening"
)

// MachinesCommand returns `machines`, to be mounted below the command for
// simulators.
func MachinesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "machines", Short: "Look at the machines of the lab of gpuaas up, and let things happen to them",
		Long: `What happens here happens past the API of MAAS, as when somebody else works in
the same data centre: a control plane has to notice. Machines are named by system
id, host name or BMC address.`,
	}
	state := addState(c)
	c.AddCommand(listCommand(state), failCommand(state), healCommand(state))
	for _, h := range happening.AtOnce() {
		c.AddCommand(&cobra.Command{
			Use: h.What + " MACHINE", Short: h.Label, Long: h.Explanation, Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				return happen(c, *state, args[0], h.Befalls, h.Said)
			},
		})
	}
	return c
}

// happen makes something happen to a machine and prints the new state.
func happen(c *cobra.Command, state, machine, happening, done string) error {
	r, err := record(state)
	if err != nil {
		return err
	}
	if err := control(c.Context(), r, http.MethodPost, "/machines/"+url.PathEscape(machine)+"/"+happening, nil,
		nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), done+"\n", machine)
	return err
}

func listCommand(state *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the machines", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := record(*state)
			if err != nil {
				return err
			}
			all, err := machines(c.Context(), r)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "HOSTNAME\tSYSTEM ID\tSTATUS\tPOWER\tBMC\tADDRESS\tOWNER\tLAST SYNC")
			for _, m := range all {
				heard := "-"
				if m.LastSync != nil {
					heard = m.LastSync.Local().Format(time.TimeOnly)
				}
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Hostname, m.SystemID, m.Status, m.Power,
					cmp.Or(m.BMC, "-"),
					cmp.Or(strings.Join(m.Addresses, " "), "-"), cmp.Or(m.Owner, "-"), heard)
			}
			return w.Flush()
		},
	}
}

func failCommand(state *string) *cobra.Command {
	var count int
	words := happening.Failing()
	c := &cobra.Command{
		Use: "fail MACHINE WHAT", Short: "Let something of a machine fail from now on: " + strings.Join(words, ", "),
		Args: cobra.ExactArgs(2), ValidArgs: words,
		Long: `Let something of a machine fail. Most fail when MAAS next tries them. Two happen
at once: hardware is a test that somebody ran on the machine and that failed, and
broken is somebody who marked it so, upon which MAAS releases it.`,
		RunE: func(c *cobra.Command, args []string) error {
			fails, possible := happening.Failure(args[1])
			switch {
			case !possible:
				return fmt.Errorf("%q cannot fail: use one of %s", args[1], strings.Join(words, ", "))
			case !fails.Lasts:
				return happen(c, *state, args[0], fails.Befalls, fails.Said+"; heal it with: gpuaas sim machines heal %[1]s")
			}
			r, err := record(*state)
			if err != nil {
				return err
			}
			if err := known(c.Context(), r, args[0]); err != nil {
				return err
			}
			rule := fails.Rule
			rule.Machine, rule.Count = args[0], count
			var added struct{ ID int }
			if err := control(c.Context(), r, http.MethodPost, "/faults", rule, &added); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s of %s fails from now on; mend everything with: gpuaas sim machines heal\n",
				args[1], args[0])
			return err
		},
	}
	c.Flags().IntVar(&count, "count", 0, "so many times; always when 0")
	return c
}

// known says whether the lab has a machine, or machines that * and ? match.
func known(ctx context.Context, r lab.Record, machine string) error {
	all, err := machines(ctx, r)
	if err != nil {
		return err
	}
	for _, m := range all {
		for _, name := range []string{m.SystemID, m.Hostname, m.BMC} {
			matched, err := path.Match(machine, name)
			if err != nil {
				return fmt.Errorf("understand the name %q: %w", machine, err)
			}
			if matched {
				return nil
			}
		}
	}
	return fmt.Errorf("no machine is called %q: see gpuaas sim machines list", machine)
}

func healCommand(state *string) *cobra.Command {
	return &cobra.Command{
		Use: "heal [MACHINE]", Short: "Let nothing fail any more, of all machines or of one", Args: cobra.MaximumNArgs(1),
		Long: `Without a machine, nothing fails any more. With one, nothing of it does, and MAAS
takes it back: a machine whose tests failed is what it was before, and a broken one
is fixed. One that was deployed when it broke is then called Deployed with nothing
installed, as in MAAS.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return happen(c, *state, args[0], "heal", "%s is well again")
			}
			r, err := record(*state)
			if err != nil {
				return err
			}
			if err := control(c.Context(), r, http.MethodDelete, "/faults", nil, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "nothing fails any more")
			return err
		},
	}
}
