package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) operationArtifactColumns() []table.Column[apiclient.OperationArtifactView] {
	type artifact = apiclient.OperationArtifactView
	return []table.Column[artifact]{
		{Title: "NODE", Text: func(v artifact) string { return v.Hostname }},
		{Title: "ATTEMPT", Wide: true, Text: func(v artifact) string { return strconv.Itoa(int(v.AttemptNumber)) }},
		{Title: "STEP", Text: func(v artifact) string { return v.StepId }},
		{Title: "KIND", Text: func(v artifact) string { return string(v.Kind) }},
		{Title: "ROLE", Text: func(v artifact) string { return string(v.Role) }},
		{Title: "NAME", Text: func(v artifact) string { return v.Name }},
		{Title: "BEFORE", Text: func(v artifact) string { return shortDigest(text(v.Before)) }},
		{Title: "NOW", Text: func(v artifact) string {
			if after := text(v.After); after != "" {
				return after
			}
			return shortDigest(text(v.Digest))
		}},
	}
}

// shortDigest is the beginning of a digest, for a table; JSON holds all of it.
func shortDigest(s string) string {
	const most = len("sha256:") + 12
	if len(s) > 7 && s[:7] == "sha256:" && len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func (a *app) operationArtifactsCommand() *cobra.Command {
	return a.verb(verb{
		use: "artifacts OPERATION", short: "List what the steps of a run left on nodes, or found there",
		args: frame.Exactly("OPERATION"),
		operations: []string{
			"list-operation-artifacts", "list-fleet-operation-artifacts", "list-operation-targets",
			"list-fleet-operation-targets",
		},
		long: "Files with their digests, copies of what was replaced, and versions of packages, before and after.\n" +
			"A digest is shortened; -o json has all of it.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			target := cmd.Flags().String("target", "", "only of this node, by its hostname or the id of the target")
			kind := cmd.Flags().String("kind", "", "only of this kind")
			frame.Complete(cmd, "kind", apiclient.Words("list-operation-artifacts.kind")...)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, args []string) error {
				project, id, err := s.operation(*c, args[0])
				if err != nil {
					return err
				}
				at, err := s.runTarget(project, id, *target)
				if err != nil {
					return err
				}
				given := frame.Given(s.Session, "kind", kind)
				return listing.Print(s.Session, f, listing.Listing[apiclient.OperationArtifactView]{
					Columns: a.operationArtifactColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						if project != nil {
							return s.API.ListOperationArtifactsWithResponse(s.Ctx, *project, id, &apiclient.ListOperationArtifactsParams{
								Cursor: p.Cursor, PageSize: p.Size, Target: at, Kind: (*apiclient.ListOperationArtifactsParamsKind)(given),
							})
						}
						return s.API.ListFleetOperationArtifactsWithResponse(s.Ctx, id,
							&apiclient.ListFleetOperationArtifactsParams{
								Cursor: p.Cursor, PageSize: p.Size, Target: at,
								Kind: (*apiclient.ListFleetOperationArtifactsParamsKind)(given),
							})
					},
				})
			}
		},
	})
}
