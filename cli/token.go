package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) tokenColumns() []column[apiclient.IdentityTokenView] {
	type token = apiclient.IdentityTokenView
	return []column[token]{
		{title: "NAME", text: func(t token) string { return t.Name }},
		{title: "KIND", text: func(t token) string { return string(t.Kind) }},
		{title: "ID", text: func(t token) string { return t.TokenId.String() }},
		{title: "EXPIRES", text: func(t token) string { return a.when(t.ExpiresAt) }},
		{title: "LAST USED", text: func(t token) string { return a.whenever(t.LastUsedAt) }},
		{title: "SCOPES", text: func(t token) string { return or(strings.Join(t.Scopes, " "), "all") }},
		{title: "MADE WITH", text: func(t token) string {
			if t.MadeFrom == nil {
				return ""
			}
			return t.MadeFrom.String()
		}},
	}
}

func (a *app) tokenCommand() *cobra.Command {
	return a.noun(noun{
		use: "token", short: "Tokens for automation: your own, or those of a service account", group: groupIdentity,
		long: "Without --service-account a command is about your own tokens.",
	},
		a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

// keyring is the tokens of one owner.
type keyring struct {
	list   func(page) (apiclient.Answer, error)
	create func(apiclient.IdentityNewTokenBody) (apiclient.Answer, error)
	revoke func(types.UUID) (apiclient.Answer, error)
}

// owner is whose tokens a command is about.
type owner struct {
	scope
	account string
}

func addOwner(cmd *cobra.Command) *owner {
	o := &owner{}
	cmd.Flags().StringVar(&o.account, "service-account", "", "the service account, by id or by its name in --project")
	o.addProject(cmd)
	return o
}

func (s *session) keyring(o owner) (keyring, error) {
	if o.account == "" {
		if o.project != "" || o.tenant != "" {
			return keyring{}, usage(s.cmd, "--project and --tenant go with --service-account")
		}
		return s.ownKeyring(), nil
	}
	project, account, err := s.account(o.scope, o.account)
	if err != nil {
		return keyring{}, err
	}
	return keyring{
		list: func(p page) (apiclient.Answer, error) {
			return s.api.ListServiceAccountTokensWithResponse(s.ctx, project, account, &apiclient.ListServiceAccountTokensParams{Cursor: p.cursor, PageSize: p.size})
		},
		create: func(b apiclient.IdentityNewTokenBody) (apiclient.Answer, error) {
			return s.api.CreateServiceAccountTokenWithResponse(s.ctx, project, account, &apiclient.CreateServiceAccountTokenParams{}, b)
		},
		revoke: func(id types.UUID) (apiclient.Answer, error) {
			return s.api.RevokeServiceAccountTokenWithResponse(s.ctx, project, account, id, &apiclient.RevokeServiceAccountTokenParams{})
		},
	}, nil
}

func (s *session) ownKeyring() keyring {
	return keyring{
		list: func(p page) (apiclient.Answer, error) {
			return s.api.ListMyTokensWithResponse(s.ctx, &apiclient.ListMyTokensParams{Cursor: p.cursor, PageSize: p.size})
		},
		create: func(b apiclient.IdentityNewTokenBody) (apiclient.Answer, error) {
			return s.api.CreateMyTokenWithResponse(s.ctx, &apiclient.CreateMyTokenParams{}, b)
		},
		revoke: func(id types.UUID) (apiclient.Answer, error) {
			return s.api.RevokeMyTokenWithResponse(s.ctx, id, &apiclient.RevokeMyTokenParams{})
		},
	}
}

func (a *app) tokenCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create NAME", short: "Make a token; it is shown once", args: exactly("NAME"),
		operations: []string{"create-my-token", "create-service-account-token"},
		long: "Makes a token and prints it, alone, on standard output: the only time that it is shown.\n" +
			"It ends with the token or session that you are signed in with, at the latest.\n" +
			"What else there is to know about it goes to standard error.",
		example: "  gpuaas token create nightly --expires-in 12h > nightly.token\n" +
			"  gpuaas token create deploy --service-account ci --project acme/training --scope project:read",
		flags: func(cmd *cobra.Command) action {
			o := addOwner(cmd)
			life := cmd.Flags().String("expires-in", "", "how long it works at most, such as 12h or 30d; 30 days when left out")
			scopes := cmd.Flags().StringSlice("scope", nil, "permission to narrow it to; repeat for more; all that its owner may do when left out")
			return func(s *session, args []string) error {
				body := apiclient.IdentityNewTokenBody{Name: args[0], Scopes: given(s, "scope", scopes)}
				if s.cmd.Flags().Changed("expires-in") {
					d, err := parseLife(*life)
					if err != nil {
						return usage(s.cmd, "--expires-in: %v", err)
					}
					body.ExpiresIn = ptr(int64(d / time.Second))
				}
				k, err := s.keyring(*o)
				if err != nil {
					return err
				}
				return s.showNewToken(k.create(body))
			}
		},
	})
}

func (s *session) showNewToken(resp apiclient.Answer, err error) error {
	raw, err := apiclient.Read(resp, err)
	if err != nil {
		return err
	}
	format, err := s.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printRaw(s.program.Out, format, raw)
	}
	o, err := decode[apiclient.IdentityNewTokenView](raw)
	if err != nil {
		return err
	}
	t := o.value
	if t.MadeFrom != nil {
		s.note("it ends when token %s does, which it was made with", *t.MadeFrom)
	}
	s.note("token %s (%s) expires %s; it is shown this once:", t.Name, t.TokenId, s.when(t.ExpiresAt))
	return write(s.program.Out, harmless(t.Token)+"\n")
}

func (a *app) tokenListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List tokens that still work", aliases: []string{"ls"}, operations: []string{"list-my-tokens", "list-service-account-tokens"},
		flags: func(cmd *cobra.Command) action {
			o := addOwner(cmd)
			f := addListFlags(cmd, 0)
			return func(s *session, _ []string) error {
				k, err := s.keyring(*o)
				if err != nil {
					return err
				}
				return list(s, f, listing[apiclient.IdentityTokenView]{columns: a.tokenColumns(), fetch: k.list})
			}
		},
	})
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return a.verb(verb{
		use: "revoke TOKEN_ID", short: "Revoke a token at once", args: exactly("TOKEN_ID"), operations: []string{"revoke-my-token", "revoke-service-account-token"},
		flags: func(cmd *cobra.Command) action {
			o := addOwner(cmd)
			return func(s *session, args []string) error {
				id, err := s.idOf("a token", args[0])
				if err != nil {
					return err
				}
				k, err := s.keyring(*o)
				if err != nil {
					return err
				}
				return done(s, "token %s is revoked", id)(k.revoke(id))
			}
		},
	})
}

// parseLife is a duration that may be in days.
func parseLife(text string) (time.Duration, error) {
	const longest = 100 * 365
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 31)
		if err != nil || n > longest {
			return 0, fail(exitUsage, "usage", "", "%q is not a number of days", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fail(exitUsage, "usage", "", "%q is not a duration such as 90m, 12h or 30d", text)
	}
	return d, nil
}
