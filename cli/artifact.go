package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) artifactColumns() []table.Column[apiclient.ArtifactView] {
	type artifact = apiclient.ArtifactView
	return []table.Column[artifact]{
		{Title: "NAME", Text: func(v artifact) string { return v.Name }},
		{Title: "SCOPE", Text: func(v artifact) string { return string(v.Scope) }},
		{Title: "STATUS", Text: func(v artifact) string { return string(v.Status) }},
		{Title: "SIGNATURE", Text: func(v artifact) string { return string(v.Signature.State) }},
		{Title: "SIZE", Text: func(v artifact) string { return strconv.FormatInt(v.Size, 10) }},
		{Title: "SOURCE", Long: true, Text: func(v artifact) string { return v.Source }},
		{Title: "ID", Wide: true, Text: func(v artifact) string { return v.ArtifactId.String() }},
		{Title: "DIGEST", Text: func(v artifact) string { return v.Digest }, Detail: true},
		{Title: "KIND", Text: func(v artifact) string { return string(v.Kind) }, Detail: true},
		{Title: "MEDIA TYPE", Text: func(v artifact) string { return v.MediaType }, Detail: true},
		{Title: "TYPE", Text: func(v artifact) string { return text(v.ArtifactType) }, Detail: true},
		{Title: "LAYERS", Text: func(v artifact) string { return strconv.Itoa(int(v.Layers)) }, Detail: true},
		{Title: "PLATFORMS", Text: platformsText, Detail: true},
		{Title: "SIGNED AS", Text: signedAs, Detail: true},
		{Title: "NOT VERIFIED BECAUSE", Text: func(v artifact) string { return text(v.Signature.Reason) }, Detail: true},
		{Title: "CHECKED", Text: func(v artifact) string { return a.When(v.Signature.CheckedAt) }, Detail: true},
		{Title: "LABELS", Text: artifactLabels, Detail: true},
		{Title: "REASON", Text: func(v artifact) string { return text(v.StatusReason) }, Detail: true},
		{Title: "CREATED", Text: func(v artifact) string { return a.When(v.CreatedAt) + " by " + v.CreatedBy }, Detail: true},
	}
}

func platformsText(v apiclient.ArtifactView) string {
	out := make([]string, len(v.Platforms))
	for i, p := range v.Platforms {
		out[i] = p.Platform + " " + p.Digest
	}
	return strings.Join(out, ", ")
}

// signedAs says which format and key was accepted.
func signedAs(v apiclient.ArtifactView) string {
	if v.Signature.KeyId == nil || v.Signature.Format == nil {
		return ""
	}
	return string(*v.Signature.Format) + " by key " + v.Signature.KeyId.String()
}

func artifactLabels(v apiclient.ArtifactView) string {
	var out []string
	for name, value := range v.Labels {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// artifactLevel is one level, as commands reach it.
type artifactLevel struct {
	register func(apiclient.ArtifactNewBody) (apiclient.Answer, error)
	list     func(p listing.Page, name *string) (apiclient.Answer, error)
	get      func(types.UUID) (apiclient.Answer, error)
	verify   func(types.UUID) (apiclient.Answer, error)
	move     func(types.UUID, apiclient.ArtifactMoveBody) (apiclient.Answer, error)
}

// artifacts is the level that flags name.
func (l *levelFlags) artifacts(s *session) (artifactLevel, error) {
	switch {
	case l.global && (l.project != "" || l.tenant != ""):
		return artifactLevel{}, failure.Misuse(s.Cmd, "give either --global, or --tenant or --project")
	case l.global:
		return globalArtifacts(s), nil
	case l.project != "":
		return projectArtifacts(s, l.scope)
	case l.tenant != "":
		return tenantArtifacts(s, l.tenant)
	}
	return artifactLevel{}, failure.Misuse(s.Cmd, "name the owner with --project, --tenant or --global")
}

func globalArtifacts(s *session) artifactLevel {
	return artifactLevel{
		register: func(b apiclient.ArtifactNewBody) (apiclient.Answer, error) {
			return s.API.RegisterGlobalArtifactWithResponse(s.Ctx, &apiclient.RegisterGlobalArtifactParams{}, b)
		},
		list: func(p listing.Page, name *string) (apiclient.Answer, error) {
			return s.API.ListGlobalArtifactsWithResponse(s.Ctx,
				&apiclient.ListGlobalArtifactsParams{Cursor: p.Cursor, PageSize: p.Size, Name: name})
		},
		get: func(id types.UUID) (apiclient.Answer, error) { return s.API.GetGlobalArtifactWithResponse(s.Ctx, id) },
		verify: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.VerifyGlobalArtifactWithResponse(s.Ctx, id, &apiclient.VerifyGlobalArtifactParams{})
		},
		move: func(id types.UUID, b apiclient.ArtifactMoveBody) (apiclient.Answer, error) {
			return s.API.MoveGlobalArtifactWithResponse(s.Ctx, id, &apiclient.MoveGlobalArtifactParams{}, b)
		},
	}
}

func tenantArtifacts(s *session, name string) (artifactLevel, error) {
	org, err := s.tenantID(name)
	return artifactLevel{
		register: func(b apiclient.ArtifactNewBody) (apiclient.Answer, error) {
			return s.API.RegisterTenantArtifactWithResponse(s.Ctx, org, &apiclient.RegisterTenantArtifactParams{}, b)
		},
		list: func(p listing.Page, name *string) (apiclient.Answer, error) {
			return s.API.ListTenantArtifactsWithResponse(s.Ctx, org,
				&apiclient.ListTenantArtifactsParams{Cursor: p.Cursor, PageSize: p.Size, Name: name})
		},
		get: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.GetTenantArtifactWithResponse(s.Ctx, org, id)
		},
		verify: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.VerifyTenantArtifactWithResponse(s.Ctx, org, id, &apiclient.VerifyTenantArtifactParams{})
		},
		move: func(id types.UUID, b apiclient.ArtifactMoveBody) (apiclient.Answer, error) {
			return s.API.MoveTenantArtifactWithResponse(s.Ctx, org, id, &apiclient.MoveTenantArtifactParams{}, b)
		},
	}, err
}

func projectArtifacts(s *session, c scope) (artifactLevel, error) {
	project, err := s.projectID(c)
	return artifactLevel{
		register: func(b apiclient.ArtifactNewBody) (apiclient.Answer, error) {
			return s.API.RegisterProjectArtifactWithResponse(s.Ctx, project, &apiclient.RegisterProjectArtifactParams{}, b)
		},
		list: func(p listing.Page, name *string) (apiclient.Answer, error) {
			return s.API.ListProjectArtifactsWithResponse(s.Ctx, project,
				&apiclient.ListProjectArtifactsParams{Cursor: p.Cursor, PageSize: p.Size, Name: name})
		},
		get: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.GetProjectArtifactWithResponse(s.Ctx, project, id)
		},
		verify: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.VerifyProjectArtifactWithResponse(s.Ctx, project, id, &apiclient.VerifyProjectArtifactParams{})
		},
		move: func(id types.UUID, b apiclient.ArtifactMoveBody) (apiclient.Answer, error) {
			return s.API.MoveProjectArtifactWithResponse(s.Ctx, project, id, &apiclient.MoveProjectArtifactParams{}, b)
		},
	}, err
}

// artifactID is the id that an argument names: the id itself, or the name of the only
// one that has it and is not retired.
func (l artifactLevel) artifactID(name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	var found []apiclient.ArtifactView
	_, _, err := listing.Find(func(p listing.Page) (apiclient.Answer, error) { return l.list(p, &name) },
		func(v apiclient.ArtifactView) bool {
			if v.Name == name && v.Status != apiclient.ArtifactViewStatusRetired {
				found = append(found, v)
			}
			return false
		})
	switch {
	case err != nil:
		return types.UUID{}, err
	case len(found) == 0:
		return types.UUID{}, failure.Missing("list them: gpuaas artifact list",
			"there is no artifact %q here", name)
	case len(found) > 1:
		return types.UUID{}, failure.Missing("name one by its id: gpuaas artifact list", "%d artifacts are called %q",
			len(found), name)
	}
	return found[0].ArtifactId, nil
}

// artifactOperations are those of a verb that names an artifact.
func artifactOperations(verb string) []string {
	return append(levelOperations("list", "artifacts"), levelOperations(verb, "artifact")...)
}

func (a *app) artifactCommand() *cobra.Command {
	return a.noun(noun{
		use: "artifact", short: "What nodes may fetch: models and runtimes by their digest, and who signed them",
		long: "An artifact belongs to a project, a tenant or the platform; who sees it can have it fetched by an operation.\n" +
			"It is named by its id, or by its name where only one has it. Bytes are pushed to a registry with a usual\n" +
			"client; here it is said what they are.",
		group: groupMachines,
	}, a.artifactPushCommand(), a.artifactRegisterCommand(), a.artifactListCommand(),
		a.onArtifact("show ARTIFACT", "Show an artifact, and what is known of its signature", "get", []string{"get"},
			func(l artifactLevel, id types.UUID) (apiclient.Answer, error) { return l.get(id) }),
		a.onArtifact("verify ARTIFACT", "Look for a signature again", "verify", nil,
			func(l artifactLevel, id types.UUID) (apiclient.Answer, error) { return l.verify(id) }),
		a.artifactMoveCommand("deprecate", "Say that another should be used"),
		a.artifactMoveCommand("revoke", "Let no run fetch its digest any more, for ever"),
		a.artifactMoveCommand("retire", "Keep it for the record only"),
		a.artifactKeyCommand(), a.artifactSourceCommand())
}

func (a *app) onArtifact(use, short, does string, aliases []string,
	do func(artifactLevel, types.UUID) (apiclient.Answer, error),
) *cobra.Command {
	return a.verb(verb{
		use: use, short: short, aliases: aliases, args: frame.Exactly("ARTIFACT"), operations: artifactOperations(does),
		flags: func(cmd *cobra.Command) action {
			l := addLevelFlags(cmd)
			return func(s *session, args []string) error {
				level, err := l.artifacts(s)
				if err != nil {
					return err
				}
				id, err := level.artifactID(args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.artifactColumns())(do(level, id))
			}
		},
	})
}

func (a *app) artifactMoveCommand(event, short string) *cobra.Command {
	return a.verb(verb{
		use: event + " ARTIFACT", short: short, args: frame.Exactly("ARTIFACT"), operations: artifactOperations("move"),
		example: "  gpuaas artifact " + event + " llm --project acme/training --reason 'see the notice of May'",
		flags: func(cmd *cobra.Command) action {
			l := addLevelFlags(cmd)
			reason := cmd.Flags().String("reason", "", "why; whoever is refused reads it")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				level, err := l.artifacts(s)
				if err != nil {
					return err
				}
				id, err := level.artifactID(args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.artifactColumns())(level.move(id, apiclient.ArtifactMoveBody{
					Event: apiclient.ArtifactMoveBodyEvent(event), Reason: *reason,
				}))
			}
		},
	})
}

func (a *app) artifactListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List what can be fetched from here", aliases: []string{"ls"},
		operations: levelOperations("list", "artifacts"),
		flags: func(cmd *cobra.Command) action {
			l := addLevelFlags(cmd)
			f := listing.AddFlags(cmd, 0)
			name := cmd.Flags().String("name", "", "only those of this name")
			return func(s *session, _ []string) error {
				level, err := l.artifacts(s)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.ArtifactView]{
					Columns: a.artifactColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return level.list(p, frame.Given(s.Session, "name", name))
					},
				})
			}
		},
	})
}

func (a *app) artifactRegisterCommand() *cobra.Command {
	return a.verb(verb{
		use: "register NAME SOURCE", short: "Say what nodes may fetch", args: frame.Exactly("NAME", "SOURCE"),
		operations: levelOperations("register", "artifact"),
		long: "Of an artifact in a registry, the manifest is read by its digest and a signature is looked for. A file at an\n" +
			"address is registered with its digest and size.",
		example: "  gpuaas artifact register llm registry.example/team/llm@sha256:… --project acme/training\n" +
			"  gpuaas artifact register weights https://models.example/w.bin --digest sha256:… --size 5368709120 --tenant acme",
		flags: func(cmd *cobra.Command) action {
			l := addLevelFlags(cmd)
			digest := cmd.Flags().String("digest", "", "of a file: sha256:…")
			size := cmd.Flags().Int64("size", 0, "of a file: its bytes")
			labels := cmd.Flags().StringToString("label", nil, "NAME=VALUE; may be repeated")
			return func(s *session, args []string) error {
				level, err := l.artifacts(s)
				if err != nil {
					return err
				}
				kind := apiclient.ArtifactNewBodyKindOci
				if strings.Contains(args[1], "://") {
					kind = apiclient.ArtifactNewBodyKindHttpsSigned
				}
				return frame.Show(s.Session, a.artifactColumns())(level.register(apiclient.ArtifactNewBody{
					Name: args[0], Kind: kind, Source: args[1], Digest: frame.Given(s.Session, "digest", digest),
					Size: frame.Given(s.Session, "size", size), Labels: frame.Given(s.Session, "label", labels),
				}))
			}
		},
	})
}
