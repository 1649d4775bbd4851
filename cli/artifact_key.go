package cli

import (
	"os"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) artifactKeyColumns() []table.Column[apiclient.ArtifactKeyView] {
	type key = apiclient.ArtifactKeyView
	return []table.Column[key]{
		{Title: "NAME", Text: func(v key) string { return v.Name }},
		{Title: "SCOPE", Text: func(v key) string { return string(v.Scope) }},
		{Title: "ALGORITHM", Wide: true, Text: func(v key) string { return v.Algorithm }},
		{Title: "SIGNS FOR", Long: true, Text: func(v key) string { return strings.Join(v.Repositories, " ") }},
		wide(at(a, "FROM", func(v key) time.Time { return v.NotBefore })),
		at(a, "UNTIL", func(v key) time.Time { return v.NotAfter }),
		ago(a, "WITHDRAWN", func(v key) *time.Time { return v.WithdrawnAt }),
		{Title: "ID", Text: func(v key) string { return v.KeyId.String() }},
		{Title: "FINGERPRINT", Text: func(v key) string { return v.Fingerprint }, Detail: true},
		{Title: "WITHDRAWN BECAUSE", Text: func(v key) string { return text(v.WithdrawnBecause) }, Detail: true},
	}
}

// keyLevel is the platform or a tenant, as commands reach it.
type keyLevel struct {
	trust    func(apiclient.ArtifactKeyBody) (apiclient.Answer, error)
	list     func(listing.Page) (apiclient.Answer, error)
	withdraw func(types.UUID, apiclient.ArtifactWithdrawBody) (apiclient.Answer, error)
}

// keyFlags name whose keys are meant.
type keyFlags struct {
	scope
	global bool
}

func addKeyFlags(cmd *cobra.Command) *keyFlags {
	k := &keyFlags{}
	k.addTenant(cmd)
	cmd.Flags().BoolVar(&k.global, "global", false, "the platform itself, for those with a role there")
	return k
}

func (k *keyFlags) level(s *session) (keyLevel, error) {
	if k.global == (k.tenant != "") {
		return keyLevel{}, failure.Misuse(s.Cmd, "say who trusts the key: either --tenant or --global")
	}
	if k.global {
		return keyLevel{
			trust: func(b apiclient.ArtifactKeyBody) (apiclient.Answer, error) {
				return s.API.TrustGlobalArtifactKeyWithResponse(s.Ctx, &apiclient.TrustGlobalArtifactKeyParams{}, b)
			},
			list: func(p listing.Page) (apiclient.Answer, error) {
				return s.API.ListGlobalArtifactKeysWithResponse(s.Ctx,
					&apiclient.ListGlobalArtifactKeysParams{Cursor: p.Cursor, PageSize: p.Size})
			},
			withdraw: func(id types.UUID, b apiclient.ArtifactWithdrawBody) (apiclient.Answer, error) {
				return s.API.WithdrawGlobalArtifactKeyWithResponse(s.Ctx, id, &apiclient.WithdrawGlobalArtifactKeyParams{}, b)
			},
		}, nil
	}
	org, err := s.tenantID(k.tenant)
	return keyLevel{
		trust: func(b apiclient.ArtifactKeyBody) (apiclient.Answer, error) {
			return s.API.TrustTenantArtifactKeyWithResponse(s.Ctx, org, &apiclient.TrustTenantArtifactKeyParams{}, b)
		},
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListTenantArtifactKeysWithResponse(s.Ctx, org,
				&apiclient.ListTenantArtifactKeysParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		withdraw: func(id types.UUID, b apiclient.ArtifactWithdrawBody) (apiclient.Answer, error) {
			return s.API.WithdrawTenantArtifactKeyWithResponse(s.Ctx, org, id, &apiclient.WithdrawTenantArtifactKeyParams{}, b)
		},
	}, err
}

func keyOperations(verb, noun string) []string {
	return []string{verb + "-global-artifact-" + noun, verb + "-tenant-artifact-" + noun}
}

func (a *app) artifactKeyCommand() *cobra.Command {
	return a.noun(noun{
		use: "key", short: "Whose signatures of artifacts count",
		long: "A key of the platform counts for all; one of a tenant for the artifacts of the tenant and its projects.",
	}, a.artifactKeyAddCommand(),
		a.verb(verb{
			use: "list", short: "List the keys that are or were trusted", aliases: []string{"ls"},
			operations: keyOperations("list", "keys"),
			flags: func(cmd *cobra.Command) action {
				k := addKeyFlags(cmd)
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					level, err := k.level(s)
					if err != nil {
						return err
					}
					return listing.Print(s.Session, f, listing.Listing[apiclient.ArtifactKeyView]{
						Columns: a.artifactKeyColumns(), Fetch: level.list,
					})
				}
			},
		}),
		a.verb(verb{
			use: "withdraw ID", short: "End the trust in a key for good", args: frame.Exactly("ID"),
			operations: keyOperations("withdraw", "key"),
			long:       "What was verified by it does not count as signed any more, at once.",
			flags: func(cmd *cobra.Command) action {
				k := addKeyFlags(cmd)
				reason := cmd.Flags().String("reason", "", "why; the audit log keeps it")
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					id, err := s.IDOf("a key", args[0])
					if err != nil {
						return err
					}
					level, err := k.level(s)
					if err != nil {
						return err
					}
					return frame.Show(s.Session, a.artifactKeyColumns())(level.withdraw(id,
						apiclient.ArtifactWithdrawBody{Reason: *reason}))
				}
			},
		}))
}

func (a *app) artifactKeyAddCommand() *cobra.Command {
	return a.verb(verb{
		use: "add NAME FILE", short: "Trust a key", args: frame.Exactly("NAME", "FILE"),
		operations: keyOperations("trust", "key"),
		long: "The file holds a public key in PEM, such as cosign.pub. Artifacts are looked at again when somebody asks:\n" +
			"gpuaas artifact verify.",
		example: "  gpuaas artifact key add release cosign.pub --tenant acme --repository registry.example/acme --until 2027-06-30T00:00:00Z",
		flags: func(cmd *cobra.Command) action {
			k := addKeyFlags(cmd)
			repositories := cmd.Flags().StringSlice("repository", nil, "beginning of repositories that it may sign for; may be repeated")
			from := cmd.Flags().String("from", "", "since when it counts, as RFC 3339; not given: now")
			until := cmd.Flags().String("until", "", "until when it counts, as RFC 3339; ten years at most")
			return func(s *session, args []string) error {
				if err := s.Require("repository", "until"); err != nil {
					return err
				}
				body := apiclient.ArtifactKeyBody{Name: args[0], Repositories: *repositories}
				raw, err := os.ReadFile(args[1])
				if err != nil {
					return failure.Misuse(s.Cmd, "the key cannot be read: %v", err)
				}
				body.Pem = string(raw)
				if body.NotAfter, err = time.Parse(time.RFC3339, *until); err != nil {
					return failure.Misuse(s.Cmd, "--until must be a time such as 2027-06-30T00:00:00Z")
				}
				if *from != "" {
					since, err := time.Parse(time.RFC3339, *from)
					if err != nil {
						return failure.Misuse(s.Cmd, "--from must be a time such as 2026-06-30T00:00:00Z")
					}
					body.NotBefore = &since
				}
				level, err := k.level(s)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.artifactKeyColumns())(level.trust(body))
			}
		},
	})
}
