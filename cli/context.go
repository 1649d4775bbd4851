package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/contexts"
	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// contextView is a context as it is shown: never its token.
type contextView struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	URL     string `json:"url"`
	CAFile  string `json:"ca_file,omitempty"`
	Token   string `json:"token"`
}

func viewOf(name string, c contexts.Context, current bool) contextView {
	v := contextView{Name: name, Current: current, URL: c.URL, CAFile: c.CAFile, Token: "none"}
	switch {
	case c.Token != "" && c.Session:
		v.Token = "session"
	case c.Token != "":
		v.Token = "stored"
	}
	return v
}

func contextColumns() []table.Column[contextView] {
	return []table.Column[contextView]{
		{Title: "NAME", Text: func(v contextView) string { return v.Name }},
		{Title: "CURRENT", Text: func(v contextView) string { return yesNo(v.Current) }},
		{Title: "URL", Text: func(v contextView) string { return v.URL }},
		{Title: "TOKEN", Text: func(v contextView) string { return v.Token }},
		{Title: "CA FILE", Text: func(v contextView) string { return v.CAFile }},
	}
}

func (a *app) contextCommand() *cobra.Command {
	return a.noun(noun{
		use: "context", short: "Choose which control plane to talk to", group: groupSession,
		long: "A context is a control plane and who you are there. Contexts are kept in\n" +
			"gpuaas/config.yaml in your configuration folder, which only you can read.",
	},
		a.contextListCommand(), a.contextShowCommand(), a.contextUseCommand(), a.contextSetCommand(),
		a.contextDeleteCommand())
}

func (a *app) contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List contexts", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.LoadContexts()
			if err != nil {
				return err
			}
			var raws []json.RawMessage
			for _, name := range c.Names() {
				raw, err := json.Marshal(viewOf(name, c.Contexts[name], name == c.Current))
				if err != nil {
					return fmt.Errorf("encode context: %w", err)
				}
				raws = append(raws, raw)
			}
			return frame.PrintList(a.App, contextColumns(), raws)
		},
	}
}

func (a *app) contextShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show [NAME]", Short: "Show a context, the one in use when none is named", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.LoadContexts()
			if err != nil {
				return err
			}
			name := a.ChosenContext(c)
			if len(args) == 1 {
				name = args[0]
			}
			if name == "" {
				return frame.NoContext()
			}
			one, err := c.Named(name)
			if err != nil {
				return err
			}
			raw, err := json.Marshal(viewOf(name, one, name == c.Current))
			if err != nil {
				return fmt.Errorf("encode context: %w", err)
			}
			return frame.PrintOne(a.App, contextColumns(), raw)
		},
	}
}

func (a *app) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			err := a.ChangeContexts(func(c *contexts.File) error {
				_, err := c.Named(args[0])
				c.Current = args[0]
				return err
			})
			if err == nil {
				a.Note("context %s is now the current one", args[0])
			}
			return err
		},
	}
}

func (a *app) contextSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Make or change a context", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeContexts,
		Long: "Makes or changes a context without talking to the control plane. The first context\n" +
			"becomes the current one. The token is read from the file given with --token-file.",
		Example: "  gpuaas context set prod --url https://gpuaas.example.com --token-file prod.token",
	}
	address := cmd.Flags().String("url", "", "URL of the control plane")
	caFile := cmd.Flags().String("ca-file", "", "certificates (PEM) to trust beside those of the system; empty for none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := contexts.CheckName(args[0]); err != nil {
			return err
		}
		token, err := a.GivenToken()
		if err != nil {
			return err
		}
		err = a.ChangeContexts(func(c *contexts.File) error {
			one := c.Contexts[args[0]]
			if cmd.Flags().Changed("url") {
				if one.URL != "" && one.URL != *address {
					one.Token, one.Session = "", false // it belongs to the other control plane
				}
				one.URL = *address
			}
			if cmd.Flags().Changed("ca-file") {
				one.CAFile = *caFile
			}
			if token != "" {
				one.Token, one.Session = token, false
			}
			return a.saveContext(cmd, c, args[0], one)
		})
		if err == nil {
			a.Note("context %s is saved", args[0])
		}
		return err
	}
	return cmd
}

// saveContext checks a context and puts it among the others.
func (a *app) saveContext(cmd *cobra.Command, c *contexts.File, name string, one contexts.Context) error {
	if one.URL == "" {
		return failure.Misuse(cmd, "a new context needs --url")
	}
	if one.CAFile != "" {
		absolute, err := filepath.Abs(one.CAFile)
		if err != nil {
			return fmt.Errorf("find CA file: %w", err)
		}
		one.CAFile = absolute
	}
	if _, err := apiclient.New(apiclient.Config{URL: one.URL, CAFile: one.CAFile}); err != nil {
		return failure.Misuse(cmd, "%v", err)
	}
	if one.Token != "" && inTheClear(one.URL) {
		a.Note("warning: %s is not encrypted; the token can be read on the way", one.URL)
	}
	c.Contexts[name] = one
	if c.Current == "" {
		c.Current = name
	}
	return nil
}

// inTheClear says that a token would leave this machine unencrypted.
func inTheClear(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}

func (a *app) contextDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Forget a context and its token", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeContexts,
		Long:              "Forgets a context and its token. The token goes on working: to end a session, use gpuaas logout.",
		RunE: func(_ *cobra.Command, args []string) error {
			err := a.ChangeContexts(func(c *contexts.File) error {
				_, err := c.Named(args[0])
				delete(c.Contexts, args[0])
				if c.Current == args[0] {
					c.Current = ""
				}
				return err
			})
			if err == nil {
				a.Note("context %s is forgotten", args[0])
			}
			return err
		},
	}
}

func (a *app) completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.LoadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.Names(), cobra.ShellCompDirectiveNoFileComp
}
