package cli

import (
	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) artifactSourceColumns() []table.Column[apiclient.ArtifactSourceView] {
	type source = apiclient.ArtifactSourceView
	return []table.Column[source]{
		{Title: "NAME", Text: func(v source) string { return v.Name }},
		{Title: "SCOPE", Text: func(v source) string { return string(v.Scope) }},
		{Title: "KIND", Text: func(v source) string { return string(v.Kind) }},
		{Title: "REACHES", Text: func(v source) string { return v.Reach }},
		{Title: "LOGIN", Text: func(v source) string { return text(v.Login) }},
		{Title: "SHARED", Text: func(v source) string { return yesNo(v.Shared) }},
		{Title: "ID", Text: func(v source) string { return v.SourceId.String() }, Detail: true},
		{Title: "REGION", Text: func(v source) string { return text(v.Region) }, Detail: true},
		{Title: "SECRET", Text: func(v source) string { return yesNo(v.HasSecret) }, Detail: true},
		{Title: "CHANGED", Text: func(v source) string { return a.When(v.UpdatedAt) + " by " + v.UpdatedBy }, Detail: true},
	}
}

// sourceLevel is the platform or a tenant, as commands reach it.
type sourceLevel struct {
	add    func(apiclient.ArtifactSourceBody) (apiclient.Answer, error)
	list   func(listing.Page) (apiclient.Answer, error)
	rotate func(types.UUID, apiclient.ArtifactLoginBody) (apiclient.Answer, error)
	delete func(types.UUID) (apiclient.Answer, error)
}

func (k *keyFlags) sources(s *session) (sourceLevel, error) {
	if k.global == (k.tenant != "") {
		return sourceLevel{}, failure.Misuse(s.Cmd, "say whose source it is: either --tenant or --global")
	}
	if k.global {
		return sourceLevel{
			add: func(b apiclient.ArtifactSourceBody) (apiclient.Answer, error) {
				return s.API.AddGlobalArtifactSourceWithResponse(s.Ctx, &apiclient.AddGlobalArtifactSourceParams{}, b)
			},
			list: func(p listing.Page) (apiclient.Answer, error) {
				return s.API.ListGlobalArtifactSourcesWithResponse(s.Ctx,
					&apiclient.ListGlobalArtifactSourcesParams{Cursor: p.Cursor, PageSize: p.Size})
			},
			rotate: func(id types.UUID, b apiclient.ArtifactLoginBody) (apiclient.Answer, error) {
				return s.API.RotateGlobalArtifactSourceWithResponse(s.Ctx, id, &apiclient.RotateGlobalArtifactSourceParams{}, b)
			},
			delete: func(id types.UUID) (apiclient.Answer, error) {
				return s.API.DeleteGlobalArtifactSourceWithResponse(s.Ctx, id, &apiclient.DeleteGlobalArtifactSourceParams{})
			},
		}, nil
	}
	org, err := s.tenantID(k.tenant)
	return sourceLevel{
		add: func(b apiclient.ArtifactSourceBody) (apiclient.Answer, error) {
			return s.API.AddTenantArtifactSourceWithResponse(s.Ctx, org, &apiclient.AddTenantArtifactSourceParams{}, b)
		},
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListTenantArtifactSourcesWithResponse(s.Ctx, org,
				&apiclient.ListTenantArtifactSourcesParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		rotate: func(id types.UUID, b apiclient.ArtifactLoginBody) (apiclient.Answer, error) {
			return s.API.RotateTenantArtifactSourceWithResponse(s.Ctx, org, id, &apiclient.RotateTenantArtifactSourceParams{}, b)
		},
		delete: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.DeleteTenantArtifactSourceWithResponse(s.Ctx, org, id, &apiclient.DeleteTenantArtifactSourceParams{})
		},
	}, err
}

// id finds a source of the level by its name or id.
func (l sourceLevel) id(given string) (types.UUID, error) {
	if id, ok := frame.ParseID(given); ok {
		return id, nil
	}
	var found []apiclient.ArtifactSourceView
	_, _, err := listing.Find(l.list, func(v apiclient.ArtifactSourceView) bool {
		if v.Name == given {
			found = append(found, v)
		}
		return false
	})
	switch {
	case err != nil:
		return types.UUID{}, err
	case len(found) == 0:
		return types.UUID{}, failure.Missing("list them: gpuaas artifact source list", "there is no artifact source %q here",
			given)
	case len(found) > 1:
		return types.UUID{}, failure.Missing("name one by its id: gpuaas artifact source list -o wide",
			"%d artifact sources are called %q", len(found), given)
	}
	return found[0].SourceId, nil
}

func (a *app) artifactSourceCommand() *cobra.Command {
	return a.noun(noun{
		use: "source", short: "Where artifacts are that not everybody may read, and with which login",
		long: "A source reads what its owner registered, and, if it is shared, what levels below its owner registered: the\n" +
			"projects of a tenant, or all tenants. Nodes never get its login.",
	}, a.artifactSourceAddCommand(),
		a.verb(verb{
			use: "list", short: "List the sources, without their secrets", aliases: []string{"ls"},
			operations: keyOperations("list", "sources"),
			flags: func(cmd *cobra.Command) action {
				k := addKeyFlags(cmd)
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					level, err := k.sources(s)
					if err != nil {
						return err
					}
					return listing.Print(s.Session, f, listing.Listing[apiclient.ArtifactSourceView]{
						Columns: a.artifactSourceColumns(), Fetch: level.list,
					})
				}
			},
		}), a.artifactSourceRotateCommand(),
		a.verb(verb{
			use: "delete SOURCE", short: "Delete a source with its secret", args: frame.Exactly("SOURCE"),
			operations: append(keyOperations("delete", "source"), keyOperations("list", "sources")...),
			long:       "What is registered there stays, and can be fetched only if everybody may.",
			flags: func(cmd *cobra.Command) action {
				k := addKeyFlags(cmd)
				return func(s *session, args []string) error {
					level, err := k.sources(s)
					if err != nil {
						return err
					}
					id, err := level.id(args[0])
					if err != nil {
						return err
					}
					return frame.Done(s.Session, "artifact source %s is deleted", args[0])(level.delete(id))
				}
			},
		}))
}

// sourceLogin are what a source lets somebody in with.
type sourceLogin struct{ login, file string }

func addSourceLogin(cmd *cobra.Command) *sourceLogin {
	l := &sourceLogin{}
	cmd.Flags().StringVar(&l.login, "login", "", "registry: a user; s3 and gcs: the id of an access key; huggingface: none")
	cmd.Flags().StringVar(&l.file, "secret-file", "", "file with the password, the key or the token, - for standard input")
	_ = cmd.MarkFlagFilename("secret-file") // defined above
	return l
}

func (l *sourceLogin) body(s *session) (apiclient.ArtifactLoginBody, error) {
	secret, err := s.secretLine(l.file)
	return apiclient.ArtifactLoginBody{Login: frame.Given(s.Session, "login", &l.login), Secret: secret}, err
}

func (a *app) artifactSourceAddCommand() *cobra.Command {
	return a.verb(verb{
		use: "add NAME REACH", short: "Add a source with its login", args: frame.Exactly("NAME", "REACH"),
		operations: keyOperations("add", "source"),
		long: "REACH is how repositories or addresses begin that the login is for. The secret is read from a file, - for\n" +
			"standard input, kept in the secrets engine, and never shown. A registry or a hub without a login can be a\n" +
			"source, too: nodes then read what it keeps elsewhere.",
		example: "  gpuaas artifact source add harbor registry.example/acme --tenant acme --login puller --secret-file harbor.txt\n" +
			"  gpuaas artifact source add bucket https://models.s3.eu-central-1.amazonaws.com --kind s3 --region eu-central-1 \\\n" +
			"    --login AKIAEXAMPLE --secret-file key.txt --tenant acme --shared\n" +
			"  gpuaas artifact source add hub https://huggingface.co/acme --kind huggingface --secret-file hf.txt --tenant acme",
		flags: func(cmd *cobra.Command) action {
			k, l := addKeyFlags(cmd), addSourceLogin(cmd)
			kind := cmd.Flags().String("kind", "registry", "registry, s3, gcs or huggingface")
			frame.Complete(cmd, "kind", apiclient.Words("ArtifactSourceBody.kind")...)
			region := cmd.Flags().String("region", "", "s3: the region of the store")
			shared := cmd.Flags().Bool("shared", false, "it also reads what projects, or for --global tenants, registered")
			return func(s *session, args []string) error {
				login, err := l.body(s)
				if err != nil {
					return err
				}
				level, err := k.sources(s)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.artifactSourceColumns())(level.add(apiclient.ArtifactSourceBody{
					Name: args[0], Reach: args[1], Kind: apiclient.ArtifactSourceBodyKind(*kind),
					Region: frame.Given(s.Session, "region", region), Shared: shared, Login: login.Login, Secret: login.Secret,
				}))
			}
		},
	})
}

func (a *app) artifactSourceRotateCommand() *cobra.Command {
	return a.verb(verb{
		use: "rotate SOURCE", short: "Replace the login of a source", args: frame.Exactly("SOURCE"),
		operations: append(keyOperations("rotate", "source"), keyOperations("list", "sources")...),
		long:       "What nodes were given before ends by itself, within an hour.",
		example:    "  gpuaas artifact source rotate harbor --tenant acme --login puller --secret-file harbor.txt",
		flags: func(cmd *cobra.Command) action {
			k, l := addKeyFlags(cmd), addSourceLogin(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("secret-file"); err != nil {
					return err
				}
				login, err := l.body(s)
				if err != nil {
					return err
				}
				level, err := k.sources(s)
				if err != nil {
					return err
				}
				id, err := level.id(args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.artifactSourceColumns())(level.rotate(id, login))
			}
		},
	})
}
