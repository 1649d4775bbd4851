package cli

import (
	"cmp"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) tokenColumns() []table.Column[apiclient.IdentityTokenView] {
	type token = apiclient.IdentityTokenView
	return []table.Column[token]{
		{Title: "NAME", Text: func(t token) string { return t.Name }},
		{Title: "KIND", Text: func(t token) string { return string(t.Kind) }},
		{Title: "ID", Text: func(t token) string { return t.TokenId.String() }},
		at(a, "EXPIRES", func(t token) time.Time { return t.ExpiresAt }),
		ago(a, "LAST USED", func(t token) *time.Time { return t.LastUsedAt }),
		{Title: "SCOPES", Text: func(t token) string { return cmp.Or(strings.Join(t.Scopes, " "), "all") }},
		{Title: "MADE WITH", Text: func(t token) string {
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
	list   func(listing.Page) (apiclient.Answer, error)
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
			return keyring{}, failure.Misuse(s.Cmd, "--project and --tenant go with --service-account")
		}
		return s.ownKeyring(), nil
	}
	project, account, err := s.account(o.scope, o.account)
	if err != nil {
		return keyring{}, err
	}
	return keyring{
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListServiceAccountTokensWithResponse(s.Ctx, project, account,
				&apiclient.ListServiceAccountTokensParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		create: func(b apiclient.IdentityNewTokenBody) (apiclient.Answer, error) {
			return s.API.CreateServiceAccountTokenWithResponse(s.Ctx, project, account,
				&apiclient.CreateServiceAccountTokenParams{}, b)
		},
		revoke: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.RevokeServiceAccountTokenWithResponse(s.Ctx, project, account, id,
				&apiclient.RevokeServiceAccountTokenParams{})
		},
	}, nil
}

func (s *session) ownKeyring() keyring {
	return keyring{
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListMyTokensWithResponse(s.Ctx, &apiclient.ListMyTokensParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		create: func(b apiclient.IdentityNewTokenBody) (apiclient.Answer, error) {
			return s.API.CreateMyTokenWithResponse(s.Ctx, &apiclient.CreateMyTokenParams{}, b)
		},
		revoke: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.RevokeMyTokenWithResponse(s.Ctx, id, &apiclient.RevokeMyTokenParams{})
		},
	}
}

func (a *app) tokenCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create NAME", short: "Make a token; it is shown once", args: frame.Exactly("NAME"),
		operations: []string{"create-my-token", "create-service-account-token"},
		long: "Makes a token and prints it, alone, on standard output: the only time that it is shown.\n" +
			"It ends with the token or session that you are signed in with, at the latest.\n" +
			"What else there is to know about it goes to standard error.",
		example: "  gpuaas token create nightly --expires-in 12h > nightly.token\n" +
			"  gpuaas token create deploy --service-account ci --project acme/training --scope project:read",
		flags: func(cmd *cobra.Command) action {
			o := addOwner(cmd)
			life := cmd.Flags().String("expires-in", "", "how long it works at most, such as 12h or 30d; 30 days when left out")
			scopes := cmd.Flags().StringSlice("scope", nil,
				"permission to narrow it to; repeat for more; all that its owner may do when left out")
			return func(s *session, args []string) error {
				body := apiclient.IdentityNewTokenBody{Name: args[0], Scopes: frame.Given(s.Session, "scope", scopes)}
				if s.Cmd.Flags().Changed("expires-in") {
					d, err := moment.ParseLife(*life)
					if err != nil {
						return s.ofFlag("expires-in", err)
					}
					body.ExpiresIn = frame.Ptr(int64(d / time.Second))
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
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	o, err := output.Decode[apiclient.IdentityNewTokenView](raw)
	if err != nil {
		return err
	}
	t := o.Value
	if t.MadeFrom != nil {
		s.Note("it ends when token %s does, which it was made with", *t.MadeFrom)
	}
	s.Note("token %s (%s) expires %s; it is shown this once:", t.Name, t.TokenId, s.When(t.ExpiresAt))
	return output.Write(s.Program.Out, output.Harmless(t.Token)+"\n")
}

func (a *app) tokenListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List tokens that still work", aliases: []string{"ls"},
		operations: []string{"list-my-tokens", "list-service-account-tokens"},
		flags: func(cmd *cobra.Command) action {
			o := addOwner(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				k, err := s.keyring(*o)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.IdentityTokenView]{
					Columns: a.tokenColumns(),
					Fetch:   k.list,
				})
			}
		},
	})
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return a.verb(verb{
		use: "revoke TOKEN_ID", short: "Revoke a token at once", args: frame.Exactly("TOKEN_ID"),
		operations: []string{"revoke-my-token", "revoke-service-account-token"},
		flags: func(cmd *cobra.Command) action {
			o := addOwner(cmd)
			return func(s *session, args []string) error {
				id, err := s.IDOf("a token", args[0])
				if err != nil {
					return err
				}
				k, err := s.keyring(*o)
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "token %s is revoked", id)(k.revoke(id))
			}
		},
	})
}
